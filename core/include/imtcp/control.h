/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The interface of a congestion control: it gets a sample for each ACK and a departure for each
 * send, and answers with a decision.
 *
 * bpf/imtcp_adapter.h fills and applies them for the kernel, core/tests/path_sim.h for the
 * simulator.
 *
 *   input                           the control                  its decision
 *   ──────────────────────────      ──────────────────────       ─────────────────────────
 *   sample: an ACK came         ──▶ learn   (its model)
 *   sample: the window may grow ──▶ decide  (its window)    ──▶  w, floor_segs, least_segs
 *   departure: TCP may send     ──▶ space   (the next gap)  ──▶  pace_bps, segs, plan, hold_segs
 *   sample: a loss or a mark    ──▶ target, reduced
 */
#ifndef IMTCP_CONTROL_H
#define IMTCP_CONTROL_H

#include "cc_reno.h"

/* An ACK. A field is 0 if the event does not provide it. */
struct imtcp_sample {
	imtcp_u64 now_us;
	/* sequence space; only for learn */
	imtcp_u32 snd_una;
	imtcp_u32 prior_una;
	imtcp_u32 snd_nxt;
	imtcp_s32 rtt_us;   /* RTT of the newest segment acknowledged; <= 0: none (retransmitted) */
	imtcp_u32 delay_us; /* rtt_us if it is comparable (imtcp_delay_counts); else 0 */
	imtcp_u32 acked_bytes; /* 0: nothing new, or the initial sequence number was unknown */
	imtcp_u32 stamp;       /* the peer's timestamp */
	imtcp_u32 stamped;     /* stamp is present */
	imtcp_u32 ecn;	       /* both ends agreed on ECN */
	/* the connection */
	imtcp_u32 mss_bytes;
	imtcp_u32 pkt_bytes; /* a full segment on the wire */
	imtcp_u32 wire_q8;   /* wire bytes per payload byte, scale 256 */
	imtcp_u32 srtt_us;
	imtcp_u32 min_rtt_us; /* RTTmin; for learn. Others read imtcp_facts */
	imtcp_u32 acked_segs;
	/* the window; not for learn */
	imtcp_u32 cwnd_segs;
	imtcp_u32 flight_segs; /* before this ACK */
	imtcp_u32 limit_segs;  /* upper limit of the window */
	imtcp_u32
		front_segs; /* this host's own foreground in flight: this connection's share (front.h) */
	imtcp_u32 floor_segs;	/* the user's least window; 0: none */
	imtcp_u32 full;		/* the window limited sending */
	imtcp_u32 round_over;	/* also for learn */
	imtcp_u32 round_full;	/* with round_over: the window was full in that round trip */
	imtcp_u32 round_rtt_us; /* with round_over: least RTT of that round trip; 0: none */
	imtcp_u32 lost;	     /* a segment was lost or the retransmission timer fired; not a mark */
	imtcp_u32 timed_out; /* recovery from a retransmission timeout goes on */
	imtcp_u32 lost_segs; /* lost segments so far; a repeated loss counts again */
	imtcp_u32 receiver_bytes;  /* the receiver's window */
	imtcp_u32 delivered_segs;  /* in the newest round trip; 0: unknown */
	imtcp_u32 delivered_in_us; /* the time of delivered_segs */
};

/* ECN modes in Linux's tcp_sock.ecn_flags: RFC 3168, and AccECN (RFC 9768) since Linux 6.18.
 * Earlier kernels leave the second bit 0. */
#define IMTCP_ECN_CLASSIC 0x01U
#define IMTCP_ECN_ACCURATE 0x10U

/* Did both ends agree on ECN, of either mode? Then marks arrive as window reductions. */
IMTCP_INLINE imtcp_u32 imtcp_ecn_is_agreed(imtcp_u32 ecn_flags)
{
	return (ecn_flags & (IMTCP_ECN_CLASSIC | IMTCP_ECN_ACCURATE)) != 0;
}

/* The state before a departure. */
struct imtcp_departure {
	imtcp_u64 now_us;
	imtcp_u64 base_bps;    /* ordinary pacing rate on the wire; space sets it */
	imtcp_u64 ceiling_bps; /* limit for all connections of the run together; U64_MAX: none */
	imtcp_u64 floor_bps;   /* this connection's share of the floor; 0: none */
	imtcp_u64 late_ns;     /* how much later than planned the previous buffer left */
	imtcp_u32 snd_nxt;
	imtcp_u32 cwnd_segs;
	imtcp_u32 ssthresh_segs;
	imtcp_u32 out_segs; /* sent and not acknowledged, lost ones included */
	imtcp_u32 flight_segs;
	imtcp_u32
		most_flight_segs; /* most in flight at once in the newest round trip; 0: unknown */
	imtcp_u32 unsent_bytes;	  /* written by the application, not yet sent */
	imtcp_u32 receiver_bytes; /* room in the receiver's window */
	imtcp_u32 mss_bytes;
	imtcp_u32 pkt_bytes;	     /* a full segment on the wire */
	imtcp_u32 chunk_segs;	     /* segments that the stack sends at one instant at base_bps */
	imtcp_u32 chunk_most_segs;   /* limit of the device for one buffer */
	imtcp_u32 chunk_most_bytes;  /* limit of the socket for one buffer */
	imtcp_u32 pacing_shift;	     /* a buffer contains base_bps for 2^-pacing_shift s */
	imtcp_u32 chunk_extra_bytes; /* TCP adds this to a buffer on a short path */
	imtcp_u32 rtt_dev_us;	     /* D_RTT */
	imtcp_u32 srtt_us;	     /* imtcp_space_streams sets it to the RTT to pace by */
	imtcp_u32 newest_rtt_us;
	imtcp_u32 recovering; /* loss recovery goes on */
	imtcp_u32 limited;    /* the window limited sending */
	imtcp_u32 slow_start; /* early, growing slow start; base_bps is twice the window's rate */
};

/* The role of the next packet. */
enum imtcp_plan {
	IMTCP_PLAN_PLAIN = 0,
	IMTCP_PLAN_TRAIN = 1,	 /* a Cprobe train: one large burst */
	IMTCP_PLAN_HOLD = 2,	 /* the last packet before a hold */
	IMTCP_PLAN_STREAM = 3,	 /* a packet of a stream */
	IMTCP_PLAN_UNFILLED = 4, /* the hold is over, and m packets did not come together */
};

struct imtcp_decision {
	struct imtcp_window w;
	imtcp_u32 floor_segs; /* lower limit of the window; a control that drains the path sets 0 */
	imtcp_u32 least_segs; /* a ceiling leaves at least this window */
	imtcp_u64 pace_bps;   /* on the wire, for the gap after the next packet; 0: none yet */
	imtcp_u32 segs;	      /* segments that may leave at once */
	imtcp_u32 plan;	      /* enum imtcp_plan; the gap of a hold or a stream is exact */
	imtcp_u32 unpaced;    /* do not pace, unless there is a ceiling: ACKs are the clock */
	imtcp_u32 hold_segs;  /* limit in flight until the next call of space; 0: the window */
};

/* Segments of pkt_bytes (on the wire) in flight at bps over rtt_us. */
IMTCP_INLINE imtcp_u32 imtcp_window_segs(imtcp_u64 bps, imtcp_u32 rtt_us, imtcp_u32 pkt_bytes)
{
	return imtcp_to_u32(imtcp_div(imtcp_bytes_in(bps, rtt_us) + pkt_bytes / 2, pkt_bytes));
}

/* Segments that the path carried per min_rtt_us, from delivered_segs in interval_us; 0 if one is
 * unknown. */
IMTCP_INLINE imtcp_u32 imtcp_carried_segs(imtcp_u32 delivered_segs, imtcp_u32 interval_us,
					  imtcp_u32 min_rtt_us)
{
	return imtcp_to_u32(imtcp_scale(delivered_segs, min_rtt_us, interval_us));
}

#endif
