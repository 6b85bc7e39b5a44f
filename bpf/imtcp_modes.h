/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The skeleton of the controls that measure nothing: read the socket, ask the control, write the
 * socket. A control is a core header (core/include/imtcp/cc_<name>.h), an adapter
 * (imtcp_mode_<name>.h: the functions below) and a row of the table in imtcp_modes.bpf.c, whose
 * programs imtcp_mode_ops.h makes;
 * docs/adding-a-congestion-control.md goes through it.
 *
 *   kernel calls                   the adapter's function         written back
 *   ─────────────                  ──────────────────────         ─────────────────────
 *   init                       ──▶ <name>_begin
 *   pkts_acked   (each ACK)    ──▶ <name>_delay
 *   cong_avoid   (may grow)    ──▶ <name>_window                  snd_cwnd, snd_ssthresh
 *   ssthresh     (loss, mark)  ──▶ <name>_ssthresh                snd_ssthresh
 *   set_state    (the same)    ──▶ <name>_reduced
 *   min_tso_segs (may send)    ──▶ <name>_rtts_per_segment        sk_pacing_rate
 *
 * What the kernel does by itself (PRR, undo, the retransmission timer) stays its own; floor and
 * ceiling of a run hold as for the controls that measure (imtcp_policy.h).
 *
 * Windows below two segments: TCP's own pacing timer makes the rate that of the small window, and
 * two segments leave at a time, so that a receiver that acknowledges every second one answers at
 * once. The kernel puts no more than half of its window into one buffer (tcp_cwnd_test), so its
 * window is four meanwhile, and never full.
 */
#ifndef IMTCP_MODES_H
#define IMTCP_MODES_H

#include "imtcp_adapter.h"
#include "imtcp_life.h"

/* What leaves at a time while the control's window is smaller, and the kernel's window then. */
#define IMTCP_TRICKLE_SEGS 2U
#define IMTCP_TRICKLE_CWND_SEGS 4U

/* An ACK, as an adapter sees it. */
struct imtcp_mode_ack {
	__u64 now_us;
	__u32 rtt_us; /* 0: not known here */
	__u32 srtt_us;
	__u32 acked_segs;
	__u32 flight_segs; /* before it */
	__u32 limit_segs;
	__u32 full; /* the window limited what was sent */
	__u32 round_over;
	__u32 round_full;     /* with round_over: it was full at some time in that round trip */
	__u32 round_rtt_us;   /* with round_over: the least RTT of that round trip; 0: none */
	__u32 stamp;	      /* the peer's timestamp, */
	__u32 stamped;	      /* where there is one */
	__u32 ecn;	      /* both ends agreed on ECN */
	__u32 receiver_bytes; /* the window that the receiver offers */
	__u32 mss_bytes;
	__u32 timed_out; /* the retransmission timer's recovery goes on */
};

static __always_inline void imtcp_mode_read(struct sock *sk, struct imtcp_mode_ack *ack)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct tcp_options_received *options = &tp->rx_opt;

	ack->now_us = tp->tcp_mstamp;
	ack->srtt_us = tp->srtt_us >> 3;
	ack->flight_segs = imtcp_flight_segs(tp);
	ack->limit_segs = tp->snd_cwnd_clamp;
	ack->full = (__u32)imtcp_window_full(tp);
	ack->stamp = options->rcv_tsval;
	ack->stamped = BPF_CORE_READ_BITFIELD(options, saw_tstamp);
	ack->ecn = tp->ecn_flags & TCP_ECN_OK;
	ack->receiver_bytes = tp->snd_wnd;
	ack->mss_bytes = tp->mss_cache;
	ack->timed_out = imtcp_ca_state(sk) == TCP_CA_Loss;
}

/*
 * pkts_acked: what the ACK tells, for the record and for the adapter (ack is filled). Returns 1
 * where there is a round trip time in it.
 */
static __always_inline int imtcp_mode_acked(struct sock *sk, struct imtcp_conn *conn,
					    const struct ack_sample *sample,
					    struct imtcp_mode_ack *ack)
{
	struct tcp_sock *tp = tcp_sk(sk);
	__u32 una = tp->snd_una, bytes = una - conn->last_una, wire_q8;
	__s32 rtt_us = tp->sacked_out ? -1 : sample->rtt_us; /* see imtcp_on_ack */

	imtcp_mode_read(sk, ack);
	/* more than was ever acknowledged: an initial sequence number, not data */
	if (bytes > tp->bytes_acked)
		bytes = 0;
	if (!imtcp_rtt_counts(conn, bytes, sample->pkts_acked, tp->mss_cache, rtt_us))
		rtt_us = -1;
	ack->rtt_us = rtt_us > 0 ? (__u32)rtt_us : 0;
	ack->acked_segs = sample->pkts_acked;
	imtcp_minrtt_on_sample(&conn->bg.minrtt, ack->now_us, rtt_us);
	conn->last_una = una;
	if (!bytes)
		return ack->rtt_us != 0;
	wire_q8 = (__u32)imtcp_div((__u64)imtcp_pkt_bytes(conn, tp) * 256, tp->mss_cache);
	imtcp_policy_on_ack(conn, ack->now_us, bytes);
	imtcp_busy(conn, ack->now_us, conn->bg.yields != 0);
	if (imtcp_round_on_ack(&conn->meas.round, ack->now_us, una, tp->snd_nxt, rtt_us, wire_q8))
		conn->round_over = 1;
	return ack->rtt_us != 0;
}

/* cong_avoid, before the adapter: the window, and what the round trip was. */
static __always_inline void imtcp_mode_window(struct sock *sk, struct imtcp_conn *conn, __u32 acked,
					      __u32 rtts_per_segment, struct imtcp_mode_ack *ack,
					      struct imtcp_window *w)
{
	struct tcp_sock *tp = tcp_sk(sk);

	imtcp_mode_read(sk, ack);
	if (rtts_per_segment)
		ack->full = 1; /* our own pacing is what limits */
	ack->acked_segs = acked;
	ack->flight_segs += acked;
	conn->full |= ack->full;
	if (conn->round_over) {
		ack->round_over = 1;
		ack->round_full = conn->full;
		ack->round_rtt_us = conn->meas.round.last_least_rtt_us;
		conn->round_over = 0;
		conn->full = 0;
		conn->bg.yields = 0;
	}
	w->cwnd_segs = tp->snd_cwnd;
	w->ssthresh_segs = tp->snd_ssthresh;
	w->credit_segs = tp->snd_cwnd_cnt;
}

/* cong_avoid, after the adapter. */
static __always_inline void imtcp_mode_write(struct sock *sk, struct imtcp_conn *conn,
					     const struct imtcp_window *w, __u32 rtts_per_segment)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct imtcp_policy *policy = imtcp_policy_of(conn);
	__u32 floor_segs = imtcp_floor_segs(conn, tp, policy);
	__u32 ceiling_segs = imtcp_window_for(conn, tp, imtcp_policy_ceiling_bps(policy));
	__u32 cwnd = w->cwnd_segs;

	if (imtcp_ca_state(sk) != TCP_CA_Loss) /* see imtcp_window */
		cwnd = imtcp_max(cwnd, floor_segs);
	if (ceiling_segs)
		cwnd = imtcp_min(cwnd, imtcp_max(ceiling_segs, IMTCP_TRICKLE_SEGS));
	if (rtts_per_segment)
		cwnd = imtcp_max(cwnd, IMTCP_TRICKLE_CWND_SEGS);
	tp->snd_cwnd = imtcp_max(imtcp_min(cwnd, tp->snd_cwnd_clamp), 1);
	tp->snd_ssthresh = imtcp_max(w->ssthresh_segs, IMTCP_RENO_LEAST_SEGS);
	tp->snd_cwnd_cnt = w->credit_segs;
}

/* min_tso_segs: the rate of the gap after what leaves next, and how many segments that has. */
static __always_inline __u32 imtcp_mode_send(struct sock *sk, struct imtcp_conn *conn,
					     __u32 rtts_per_segment)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct imtcp_policy *policy = imtcp_policy_of(conn);
	__u64 base_bps = imtcp_base_bps(conn, tp);
	__u32 pkt_bytes = imtcp_pkt_bytes(conn, tp), segs;
	__u64 payload_bps;

	if (base_bps == IMTCP_U64_MAX)
		return 2; /* no RTT yet: as the kernel does it */
	segs = imtcp_chunk_segs(conn, tp, base_bps);
	if (rtts_per_segment) {
		base_bps = imtcp_rate_bps(pkt_bytes, (__u64)rtts_per_segment * (tp->srtt_us >> 3));
		base_bps = imtcp_max(base_bps, imtcp_policy_floor_bps(policy));
		segs = IMTCP_TRICKLE_SEGS;
	}
	if (policy && policy->max_bps)
		base_bps = imtcp_policy_pace(policy, conn, tp->tcp_mstamp, tp->snd_nxt, base_bps,
					     (__u64)segs * pkt_bytes);
	/* wire rate to payload rate, bits to bytes: what the kernel's pacing counts */
	payload_bps = imtcp_scale(base_bps, tp->mss_cache, pkt_bytes);
	sk->sk_pacing_rate = imtcp_max(payload_bps / IMTCP_BITS_PER_BYTE, 1);
	sk->sk_pacing_status = SK_PACING_NEEDED;
	return segs;
}

/* ---- adapters' functions for a control that needs nothing special there ---- */

static __always_inline void imtcp_no_begin(struct imtcp_conn *conn, const struct imtcp_window *w)
{
}

static __always_inline __u32 imtcp_halve(const struct imtcp_conn *conn,
					 const struct imtcp_mode_ack *ack, __u32 cwnd, int lost)
{
	return imtcp_reno_ssthresh(cwnd);
}

static __always_inline void imtcp_no_reduced(struct imtcp_conn *conn,
					     const struct imtcp_mode_ack *ack, __u32 cwnd, int lost)
{
}

static __always_inline __u32 imtcp_no_trickle(const struct imtcp_conn *conn)
{
	return 0;
}

#endif
