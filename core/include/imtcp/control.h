/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What a congestion control is told and what it answers: a sample for each ACK, a departure for each
 * send, and its decision on either. bpf/imtcp_adapter.h fills and writes them for the kernel,
 * core/tests/path_sim.h for the simulator.
 *
 *   told                            the control                  its decision
 *   ──────────────────────────      ──────────────────────       ─────────────────────────
 *   sample: an ACK came         ──▶ learn   (its model)
 *   sample: the window may grow ──▶ decide  (its window)    ──▶  w, floor_segs, least_segs
 *   departure: TCP may send     ──▶ space   (the next gap)  ──▶  pace_bps, segs, plan, hold_segs
 *   sample: a loss or a mark    ──▶ ssthresh, reduced
 */
#ifndef IMTCP_CONTROL_H
#define IMTCP_CONTROL_H

#include "cc_reno.h"

/* An ACK. Fields that an event cannot know are 0. */
struct imtcp_sample {
	imtcp_u64 now_us;
	/* sequence numbers, for learn alone */
	imtcp_u32 snd_una;
	imtcp_u32 prior_una;
	imtcp_u32 snd_nxt;
	imtcp_s32 rtt_us; /* RTT of the newest acknowledged segment; <= 0: none (retransmitted) */
	imtcp_u32
		delay_us; /* the same where it can be compared (imtcp_delay_counts); 0: it cannot */
	imtcp_u32
		acked_bytes; /* 0: nothing new, or an initial sequence number that was not known */
	imtcp_u32 stamp;     /* the peer's timestamp, */
	imtcp_u32 stamped;   /* where there is one */
	imtcp_u32 ecn;	     /* both ends agreed on ECN */
	/* of the connection */
	imtcp_u32 mss_bytes;
	imtcp_u32 pkt_bytes; /* a full segment on the wire */
	imtcp_u32 wire_q8;   /* wire bytes per payload byte, scale 256 */
	imtcp_u32 srtt_us;
	imtcp_u32 min_rtt_us; /* RTTmin; learn alone, others read facts */
	imtcp_u32 acked_segs;
	/* the window, for all but learn */
	imtcp_u32 cwnd_segs;
	imtcp_u32 flight_segs;	/* before this ACK */
	imtcp_u32 limit_segs;	/* the window is never more */
	imtcp_u32 floor_segs;	/* the window that the user asked for at least; 0: none */
	imtcp_u32 full;		/* the window limited what was sent */
	imtcp_u32 round_over;	/* learn, too */
	imtcp_u32 round_full;	/* with round_over: it was full at some time in that round trip */
	imtcp_u32 round_rtt_us; /* with round_over: the least RTT of that round trip; 0: none */
	imtcp_u32 lost;		/* a segment was lost, or the retransmission timer fired: no mark */
	imtcp_u32 timed_out;	/* the retransmission timer's recovery goes on */
	imtcp_u32 lost_segs;	/* lost so far; a retransmission that is lost counts again */
	imtcp_u32 receiver_bytes;  /* the window that the receiver offers */
	imtcp_u32 delivered_segs;  /* in the newest round trip; 0: unknown, */
	imtcp_u32 delivered_in_us; /* and in what time */
};

/* Modes of ECN in Linux's tcp_sock.ecn_flags: RFC 3168, and AccECN (RFC 9768) from Linux 6.18 on. Kernels before it
 * leave that bit 0. */
#define IMTCP_ECN_CLASSIC 0x01U
#define IMTCP_ECN_ACCURATE 0x10U

/* Both ends agreed on ECN, of either mode: marks come back as window reductions. */
IMTCP_INLINE imtcp_u32 imtcp_ecn_is_agreed(imtcp_u32 ecn_flags)
{
	return (ecn_flags & (IMTCP_ECN_CLASSIC | IMTCP_ECN_ACCURATE)) != 0;
}

/* Before a departure. */
struct imtcp_departure {
	imtcp_u64 now_us;
	imtcp_u64 base_bps;    /* ordinary pacing rate, on the wire; set by space */
	imtcp_u64 ceiling_bps; /* ceiling of all connections of the run; U64_MAX: no ceiling */
	imtcp_u64 floor_bps;   /* this connection's share of the floor; 0: none */
	imtcp_u64 late_ns;     /* the buffer before left so much later than it might have */
	imtcp_u32 snd_nxt;
	imtcp_u32 cwnd_segs;
	imtcp_u32 ssthresh_segs;
	imtcp_u32 out_segs; /* sent and not acknowledged, lost ones, too */
	imtcp_u32 flight_segs;
	imtcp_u32 most_flight_segs; /* at once in the newest round trip; 0: unknown */
	imtcp_u32 unsent_bytes;	    /* written by the application, not yet sent */
	imtcp_u32 receiver_bytes;   /* that the receiver's window still takes */
	imtcp_u32 mss_bytes;
	imtcp_u32 pkt_bytes;	     /* a full segment on the wire */
	imtcp_u32 chunk_segs;	     /* segments that the stack sends at one instant at base_bps */
	imtcp_u32 chunk_most_segs;   /* and at any rate: what the device takes */
	imtcp_u32 chunk_most_bytes;  /* and what the socket takes */
	imtcp_u32 pacing_shift;	     /* a buffer has what base_bps carries in 2^-pacing_shift s */
	imtcp_u32 chunk_extra_bytes; /* and what TCP adds on a short path */
	imtcp_u32 rtt_dev_us;	     /* D_RTT */
	imtcp_u32 srtt_us;	     /* imtcp_space_streams makes it the round trip to send by */
	imtcp_u32 newest_rtt_us;
	imtcp_u32 recovering; /* loss recovery goes on */
	imtcp_u32 limited;    /* the window limited what was sent */
	imtcp_u32 slow_start; /* early and growing; base_bps is twice the window's rate then */
};

/* The kind of packet that leaves next. */
enum imtcp_plan {
	IMTCP_PLAN_PLAIN = 0,
	IMTCP_PLAN_TRAIN = 1,	 /* a Cprobe train, one large burst */
	IMTCP_PLAN_HOLD = 2,	 /* the last before a hold */
	IMTCP_PLAN_STREAM = 3,	 /* a packet of a stream */
	IMTCP_PLAN_UNFILLED = 4, /* the hold is over and m were not collected */
};

struct imtcp_decision {
	struct imtcp_window w;
	imtcp_u32
		floor_segs; /* the window is raised to this; a control that empties the path sets 0 */
	imtcp_u32 least_segs; /* no ceiling takes the window below this */
	imtcp_u64
		pace_bps; /* on the wire, of the gap after the packet that leaves next; 0: none yet */
	imtcp_u32 segs;	  /* that may leave at once */
	imtcp_u32 plan;	  /* enum imtcp_plan: the gap of a hold or a stream is exact */
	imtcp_u32 unpaced;   /* without a ceiling ACKs are the clock */
	imtcp_u32 hold_segs; /* may be in flight until the control is asked again; 0: the window */
};

/* Segments of pkt_bytes (on the wire) in flight at bps over rtt_us. */
IMTCP_INLINE imtcp_u32 imtcp_window_segs(imtcp_u64 bps, imtcp_u32 rtt_us, imtcp_u32 pkt_bytes)
{
	return imtcp_to_u32(imtcp_div(imtcp_bytes_in(bps, rtt_us) + pkt_bytes / 2, pkt_bytes));
}

/* Segments that the path carries in a base RTT: delivered_segs in interval_us, times min_rtt_us. 0 if one
 * of them is unknown. */
IMTCP_INLINE imtcp_u32 imtcp_carried_segs(imtcp_u32 delivered_segs, imtcp_u32 interval_us,
					  imtcp_u32 min_rtt_us)
{
	return imtcp_to_u32(imtcp_scale(delivered_segs, min_rtt_us, interval_us));
}

#endif
