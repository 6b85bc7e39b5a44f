/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The adapter between the kernel's TCP and a control: it reads the socket, asks the control, and
 * writes the socket. It is the same for every control (core/include/imtcp/flow.h). imtcp_mode_ops.h
 * makes programs from it.
 *
 *   kernel calls                  filled here        control      written back
 *   ─────────────                 ───────────        ───────      ─────────────────────────
 *   pkts_acked   (each ACK)   ──▶ sample         ──▶ learn
 *   cong_avoid   (may grow)   ──▶ sample         ──▶ decide   ──▶ snd_cwnd, snd_ssthresh
 *   ssthresh     (loss, mark) ──▶ sample         ──▶ target   ──▶ snd_ssthresh
 *   set_state    (the same)   ──▶ sample         ──▶ reduced
 *   min_tso_segs (may send)   ──▶ departure      ──▶ space    ──▶ sk_pacing_rate; held snd_cwnd
 *
 * Floor and ceiling of a run apply to every control (imtcp_policy.h). The kernel keeps PRR, undo
 * and the retransmission timer.
 *
 * Facts of the kernel that shape the adapter
 *  - min_tso_segs runs once per tcp_write_xmit, before the pacing check and often without a
 *    departure. The rate set there spaces the next buffer, and decides how many segments it has
 *    (about 1 ms of data).
 *  - With SK_PACING_NEEDED one buffer leaves per call. Then TCP's high-resolution timer calls
 *    again, so it is the timer of a hold.
 *  - tcp_update_pacing_rate overwrites the rate after each ACK. So the adapter sets it where TCP
 *    uses it.
 *  - The kernel never paces the first ten segments of a connection, so the opening train is free.
 *  - cong_avoid, pkts_acked and min_tso_segs have the same signatures on 6.1 and 6.12, and
 *    cong_control has not. With cong_avoid the kernel keeps PRR, undo and recovery.
 */
#ifndef IMTCP_ADAPTER_H
#define IMTCP_ADAPTER_H

#include "imtcp_conn.h"
#include "imtcp_neighbours.h"
#include "imtcp_policy.h"

/* Segments that the kernel sends at a time if the control sets none: TCP's default. */
#define IMTCP_USUAL_SEGS 2U
/* The window for the floor is a 20th larger, to catch up on what holds keep back. imtcp_bg's cap
 * does the same. */
#define IMTCP_FLOOR_SLACK_DIV 20U

static __always_inline struct imtcp_conn *imtcp_conn_of(struct sock *sk)
{
	return bpf_sk_storage_get(&imtcp_conns, sk, 0, 0);
}

static __always_inline __u32 imtcp_flight_segs(const struct tcp_sock *tp)
{
	return tp->packets_out - (tp->sacked_out + tp->lost_out) + tp->retrans_out;
}

static __always_inline __u32 imtcp_ca_state(struct sock *sk)
{
	struct inet_connection_sock *icsk = (struct inet_connection_sock *)sk;

	return BPF_CORE_READ_BITFIELD(icsk, icsk_ca_state);
}

static __always_inline void imtcp_count(__u64 *counter)
{
	__sync_fetch_and_add(counter, 1);
}

static __always_inline struct imtcp_totals *imtcp_totals_of(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&imtcp_totals, &zero);
}

/* A full segment on the wire. The size of TCP's header is known only after the handshake. */
static __always_inline __u32 imtcp_pkt_bytes(const struct imtcp_conn *conn,
					     const struct tcp_sock *tp)
{
	return tp->mss_cache + tp->tcp_header_len + conn->ip_header_bytes;
}

/* Did the window limit sending, or may it double in slow start? */
static __always_inline int imtcp_window_full(const struct tcp_sock *tp, __u32 cwnd_segs)
{
	if (cwnd_segs < tp->snd_ssthresh)
		return cwnd_segs < 2 * tp->max_packets_out;
	return BPF_CORE_READ_BITFIELD(tp, is_cwnd_limited);
}

static __always_inline struct imtcp_window imtcp_read_window(const struct tcp_sock *tp,
							     __u32 cwnd_segs)
{
	struct imtcp_window w = {
		.cwnd_segs = cwnd_segs,
		.ssthresh_segs = tp->snd_ssthresh,
		.credit_segs = tp->snd_cwnd_cnt,
	};

	return w;
}

/* ---- results of the measurement ---- */

/* Writes a measurement that ended into the ring buffer. Counts it if the buffer has no room. */
static __always_inline void imtcp_publish(struct sock *sk, struct imtcp_conn *conn)
{
	struct imtcp_meas *m = &conn->flow.meas;
	struct tcp_sock *tp = tcp_sk(sk);
	struct imtcp_totals *totals;
	struct imtcp_event *e;

	if (m->ends == conn->published)
		return;
	conn->published = m->ends;
	totals = imtcp_totals_of();
	if (m->result.outcome == IMTCP_OK)
		imtcp_policy_on_result(conn, m->result.avail_bps, m->result.at_us);
	e = NULL;
	if (conn->policy ||
	    bpf_ringbuf_query(&imtcp_events, BPF_RB_AVAIL_DATA) < IMTCP_EVENTS_STRANGERS_BYTES)
		e = bpf_ringbuf_reserve(&imtcp_events, sizeof(*e), 0);
	if (!e) {
		if (totals)
			imtcp_count(&totals->events_dropped);
		return;
	}
	e->at_ns = m->result.at_us * 1000;
	/* A congestion control cannot make the cookie. sockops and the iterator make it. */
	conn->cookie = (__u64)sk->__sk_common.skc_cookie.counter;
	e->cookie = conn->cookie;
	e->policy = conn->policy;
	e->avail_bps = m->result.outcome == IMTCP_OK ? m->result.avail_bps : 0;
	e->smoothed_bps = m->smoothed_bps;
	e->range_low_bps = m->result.low_bps;
	e->range_high_bps = m->result.high_bps;
	e->capacity_bps = m->capacity_bps;
	e->delivery_bps = conn->flow.facts.round.delivery_bps;
	e->validity_pct = m->result.validity_pct;
	e->srtt_us = tp->srtt_us >> 3;
	e->min_rtt_us = conn->flow.facts.minrtt.base_us;
	e->outcome = (__u8)m->result.outcome;
	e->mode = (__u8)conn->mode;
	e->streams = (__u8)m->result.streams;
	e->sub_range = (__u8)m->result.sub_range;
	e->hold_us = m->hold_us;
	e->_pad0 = 0;
	bpf_ringbuf_submit(e, 0);
	if (totals)
		imtcp_count(&totals->events_sent);
}

static __always_inline void imtcp_measures_nothing(struct sock *sk, struct imtcp_conn *conn)
{
}

/* ---- pkts_acked ---- */

/* Fills the sample for learn from an ACK. */
static __always_inline void imtcp_read_ack(struct sock *sk, struct imtcp_conn *conn,
					   const struct ack_sample *told, struct imtcp_sample *s)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct tcp_options_received *options = &tp->rx_opt;

	s->now_us = tp->tcp_mstamp;
	s->snd_una = tp->snd_una;
	s->snd_nxt = tp->snd_nxt;
	/* If segments are SACKed, the RTT may be that of one that overtook the others. It is then
	 * not the RTT of the path. */
	s->rtt_us = tp->sacked_out ? -1 : told->rtt_us;
	s->acked_segs = told->pkts_acked;
	s->stamp = options->rcv_tsval;
	s->stamped = BPF_CORE_READ_BITFIELD(options, saw_tstamp);
	s->ecn = imtcp_ecn_is_agreed(tp->ecn_flags);
	s->mss_bytes = tp->mss_cache;
	s->pkt_bytes = imtcp_pkt_bytes(conn, tp);
	s->wire_q8 = (__u32)imtcp_div((__u64)s->pkt_bytes * 256, s->mss_bytes);
	s->srtt_us = tp->srtt_us >> 3;
	s->cwnd_segs = imtcp_whole_segs(&conn->flow, tp->snd_cwnd);
	imtcp_facts_on_ack(&conn->flow.facts, s, tp->bytes_acked);
	if (s->acked_bytes)
		imtcp_policy_on_ack(conn, s->now_us, s->acked_bytes);
}

/* ---- cong_avoid, ssthresh and set_state ---- */

/* Window that carries bps at this RTT, at least one segment; 0 without bps. It is a global
 * function, or the verifier would follow every path of the control again for each path here. */
IMTCP_GLOBAL __u32 imtcp_window_for(__u64 bps, __u32 rtt_us, __u32 pkt_bytes)
{
	if (!bps || bps == IMTCP_U64_MAX)
		return 0;
	return imtcp_max(imtcp_window_segs(bps, rtt_us, pkt_bytes), 1);
}

/* Fills the window of a sample, for all functions but learn. */
static __always_inline void imtcp_read_sample(struct sock *sk, struct imtcp_conn *conn,
					      struct imtcp_sample *s)
{
	struct tcp_sock *tp = tcp_sk(sk);
	__u64 floor_bps = imtcp_policy_floor_bps(imtcp_policy_of(conn));

	s->now_us = tp->tcp_mstamp;
	s->snd_nxt = tp->snd_nxt;
	s->mss_bytes = tp->mss_cache;
	s->pkt_bytes = imtcp_pkt_bytes(conn, tp);
	s->srtt_us = tp->srtt_us >> 3;
	s->cwnd_segs = imtcp_whole_segs(&conn->flow, tp->snd_cwnd);
	s->flight_segs = imtcp_flight_segs(tp);
	s->limit_segs = tp->snd_cwnd_clamp;
	s->floor_segs = imtcp_window_for(floor_bps + floor_bps / IMTCP_FLOOR_SLACK_DIV, s->srtt_us,
					 s->pkt_bytes);
	s->full = (__u32)imtcp_window_full(tp, s->cwnd_segs);
	s->lost = tp->lost_out != 0;
	s->lost_segs = tp->lost;
	s->timed_out = imtcp_ca_state(sk) == TCP_CA_Loss;
	s->receiver_bytes = tp->snd_wnd;
	if (s->now_us - tp->delivered_mstamp <= s->srtt_us) {
		s->delivered_segs = tp->rate_delivered;
		s->delivered_in_us = tp->rate_interval_us;
	}
}

/* This host's own foreground in flight, segments: this connection's share. */
static __always_inline __u32 imtcp_front_segs(struct sock *sk, struct imtcp_conn *conn,
					      const struct imtcp_sample *s)
{
	struct imtcp_facts *f = &conn->flow.facts;
	struct imtcp_way way;
	__u64 *sent_bytes, flight_bytes;

	if (!imtcp_way_of(tcp_sk(sk), &way))
		return 0;
	sent_bytes = bpf_map_lookup_elem(&imtcp_fronts, &way);
	if (!sent_bytes)
		return 0;
	flight_bytes = imtcp_front_flight_bytes(&conn->front, s->now_us, f->minrtt.base_us,
						*sent_bytes);
	return imtcp_to_u32(
		imtcp_div(flight_bytes, (__u64)s->pkt_bytes * imtcp_max(f->neighbours, 1)));
}

/* Before decide: acked_segs were acknowledged. */
static __always_inline void imtcp_before_decision(struct sock *sk, struct imtcp_conn *conn,
						  __u32 acked_segs, struct imtcp_sample *s,
						  struct imtcp_decision *d)
{
	struct imtcp_window w;

	imtcp_read_sample(sk, conn, s);
	s->acked_segs = acked_segs;
	s->flight_segs += acked_segs;
	s->front_segs = imtcp_front_segs(sk, conn, s);
	w = imtcp_read_window(tcp_sk(sk), s->cwnd_segs);
	imtcp_decision_begin(&conn->flow, s, d, &w);
}

/* After decide: writes the window. */
static __always_inline void imtcp_write_window(struct sock *sk, struct imtcp_conn *conn,
					       const struct imtcp_sample *s,
					       struct imtcp_decision *d)
{
	__u64 ceiling_bps = imtcp_policy_ceiling_bps(imtcp_policy_of(conn));
	struct tcp_sock *tp = tcp_sk(sk);

	imtcp_decision_bound(&conn->flow, s, d,
			     imtcp_window_for(ceiling_bps, s->srtt_us, s->pkt_bytes));
	tp->snd_cwnd = d->w.cwnd_segs;
	tp->snd_ssthresh = d->w.ssthresh_segs;
	tp->snd_cwnd_cnt = d->w.credit_segs;
	/* This comes last, or the verifier would follow every path of the control again for each
	 * path here. */
	imtcp_note_neighbours(sk, conn, s->now_us);
}

/* The window before the newest loss or mark. TCP's prior_cwnd may be that of a hold. A connection
 * that changed to its control later has only prior_cwnd. */
static __always_inline __u32 imtcp_undone_segs(const struct imtcp_conn *conn,
					       const struct tcp_sock *tp)
{
	return conn->flow.hold.loss_segs ? conn->flow.hold.loss_segs : tp->prior_cwnd;
}

/* Before target. If the retransmission timer expired, nothing is in flight, and TCP sets its state
 * later. */
static __always_inline void imtcp_read_loss(struct sock *sk, struct imtcp_conn *conn,
					    struct imtcp_sample *s)
{
	imtcp_read_sample(sk, conn, s);
	s->timed_out |= s->lost && !s->flight_segs;
}

/* Before reduced: the window before the reduction, the state that TCP enters, and whether CWR was a
 * mark. */
static __always_inline void imtcp_read_reduction(struct sock *sk, struct imtcp_conn *conn,
						 __u8 new_state, struct imtcp_sample *s)
{
	imtcp_read_sample(sk, conn, s);
	s->cwnd_segs = imtcp_undone_segs(conn, tcp_sk(sk));
	s->lost = new_state != TCP_CA_CWR;
	s->timed_out = new_state == TCP_CA_Loss;
	if (new_state == TCP_CA_Loss)
		conn->flow.facts.reductions_rto++;
	else
		conn->flow.facts.reductions_loss++;
}

/* ---- min_tso_segs ---- */

/* Fills the departure for space. Returns 0 if nothing will leave: most attempts, one per ACK, end
 * in the gap after the previous packet (tcp_pacing_check). A packet that left since is always
 * processed first. */
static __always_inline int imtcp_read_departure(struct sock *sk, struct imtcp_conn *conn,
						struct imtcp_policy *policy,
						struct imtcp_departure *dep)
{
	struct tcp_sock *tp = tcp_sk(sk);

	if (conn->spaced_nxt == tp->snd_nxt && tp->tcp_wstamp_ns > tp->tcp_clock_cache)
		return 0;
	dep->pkt_bytes = imtcp_pkt_bytes(conn, tp);
	imtcp_policy_charge(policy, conn, tp, dep->pkt_bytes);
	if (imtcp_is_unpaced(tp) && !conn->flow.hold.held_segs &&
	    imtcp_policy_is_ahead(policy, tp->tcp_mstamp))
		tp->snd_cwnd = 1;
	dep->now_us = tp->tcp_mstamp;
	dep->ceiling_bps = imtcp_policy_ceiling_bps(policy);
	dep->floor_bps = imtcp_policy_floor_bps(policy);
	dep->snd_nxt = tp->snd_nxt;
	dep->cwnd_segs = imtcp_whole_segs(&conn->flow, tp->snd_cwnd);
	dep->ssthresh_segs = tp->snd_ssthresh;
	dep->out_segs = tp->packets_out;
	dep->flight_segs = imtcp_flight_segs(tp);
	dep->most_flight_segs = tp->max_packets_out;
	dep->unsent_bytes = tp->write_seq - tp->snd_nxt;
	dep->receiver_bytes = imtcp_seq_before(tp->snd_nxt, tp->snd_una + tp->snd_wnd)
				      ? tp->snd_una + tp->snd_wnd - tp->snd_nxt
				      : 0;
	dep->mss_bytes = tp->mss_cache;
	dep->chunk_most_segs = sk->sk_gso_max_segs;
	dep->chunk_most_bytes = sk->sk_gso_max_size;
	dep->pacing_shift = sk->sk_pacing_shift;
	dep->chunk_extra_bytes = imtcp_extra_bytes(
		sk->sk_gso_max_size, tp->rtt_min.s[0].v,
		sk->__sk_common.skc_net.net->ipv4.sysctl_tcp_tso_rtt_log);
	dep->late_ns = imtcp_sub(tp->tcp_clock_cache, tp->tcp_wstamp_ns);
	dep->rtt_dev_us = tp->mdev_us >> 2;
	dep->srtt_us = tp->srtt_us >> 3;
	dep->newest_rtt_us = tp->rack.rtt_us;
	dep->recovering = imtcp_ca_state(sk) >= TCP_CA_CWR;
	dep->limited = BPF_CORE_READ_BITFIELD(tp, is_cwnd_limited);
	return 1;
}

/* The rate that the program set, bytes per second; ~0: none. TCP treats a rate of 0 as none. */
static __always_inline unsigned long imtcp_max_pacing(const struct sock *sk)
{
	return sk->sk_max_pacing_rate ? sk->sk_max_pacing_rate : ~0UL;
}

/* The pacing of this connection without us: by TCP if its program requested that at any time, by fq
 * if it leaves through one. */
static __always_inline __u32 imtcp_pacing_without_us(const struct sock *sk,
						     const struct imtcp_conn *conn)
{
	return conn->pacing == SK_PACING_NONE && imtcp_max_pacing(sk) != ~0UL ? SK_PACING_NEEDED
									      : conn->pacing;
}

/*
 * Sets the pacing rate. TCP's own timer ends our gaps, also with fq: TCP would give several buffers
 * to fq for one question to us. Each packet then reaches fq at its departure time, so fq does not
 * delay it again. fq sets the pacing status of a socket once per flow, so we remember it.
 */
static __always_inline void imtcp_write_pacing(struct sock *sk, struct imtcp_conn *conn,
					       __u64 bytes_per_sec, int unpaced)
{
	if (sk->sk_pacing_status == SK_PACING_FQ)
		conn->pacing = SK_PACING_FQ;
	sk->sk_pacing_rate = imtcp_min(bytes_per_sec, imtcp_max_pacing(sk));
	sk->sk_pacing_status = unpaced ? imtcp_pacing_without_us(sk, conn) : SK_PACING_NEEDED;
}

/* After space: writes the pace of the gap, within the ceiling. Returns the segments that may leave
 * at once. */
static __always_inline __u32 imtcp_write_pace(struct sock *sk, struct imtcp_conn *conn,
					      struct imtcp_policy *policy,
					      const struct imtcp_departure *dep,
					      const struct imtcp_decision *d)
{
	int ceiling = policy && policy->max_bps;
	__u64 bps = d->pace_bps;

	if (!bps)
		return IMTCP_USUAL_SEGS; /* no RTT yet: the kernel's default */
	conn->spaced_nxt = dep->snd_nxt;
	if (d->hold_segs | conn->flow.hold.held_segs)
		tcp_sk(sk)->snd_cwnd = imtcp_held_segs(&conn->flow, d, dep->cwnd_segs);
	if (ceiling) {
		__u64 paced_bps = imtcp_policy_pace(policy, dep->now_us, bps,
						    (__u64)dep->chunk_segs * dep->pkt_bytes);

		/* A stream may exceed the ceiling for a few milliseconds, or nothing could be
		 * measured below one. Later packets compensate. */
		if (d->plan != IMTCP_PLAN_STREAM)
			bps = paced_bps;
	}
	imtcp_write_pacing(sk, conn, imtcp_pace_bytes_per_sec(dep, d, bps), d->unpaced && !ceiling);
	return d->segs;
}

#endif
