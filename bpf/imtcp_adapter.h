/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Between the kernel's TCP and the core: read the socket, call the core, write the socket.
 *
 *   kernel calls                  core                        written back
 *   ─────────────                 ────────────────────        ─────────────────────
 *   pkts_acked   (each ACK)   ──▶ imtcp_meas_on_ack           (records, events)
 *   cong_avoid   (may grow)   ──▶ imtcp_reno_grow, imtcp_bg   snd_cwnd, snd_ssthresh
 *   ssthresh, set_state (loss)──▶ imtcp_meas_on_loss          snd_ssthresh
 *   min_tso_segs (may send)   ──▶ imtcp_meas_on_send          sk_pacing_rate
 *
 * Facts of the kernel that shape it
 *  - min_tso_segs runs once per tcp_write_xmit, before the pacing check and often without a
 *    departure; the rate set there is the one that spaces the buffer that leaves next, and
 *    decides how many segments it has (about 1 ms of data). With SK_PACING_NEEDED one buffer
 *    leaves per call, then TCP's own high-resolution timer calls again: it is the hold's timer.
 *  - tcp_update_pacing_rate overwrites the rate after each ACK, so it is set where it is used.
 *  - The first ten segments of a connection are never paced: the opening train is free.
 *  - cong_avoid, pkts_acked and min_tso_segs have the same signatures on 6.1 and 6.12, while
 *    cong_control has not; and with cong_avoid the kernel keeps PRR, undo and recovery.
 */
#ifndef IMTCP_ADAPTER_H
#define IMTCP_ADAPTER_H

#include "imtcp_conn.h"
#include "imtcp_policy.h"
#include <imtcp/cc_fs.h>

/* Ordinary pacing against cwnd/srtt, scale 256: 2 in slow start and 1.2 after it, as the
 * kernel's tcp_pacing_ss_ratio and tcp_pacing_ca_ratio. */
#define IMTCP_PACE_SLOW_START_Q8 512U
#define IMTCP_PACE_Q8 307U
/* The same under the cap of imtcp_bg: 1.05. ours: smooth, yet able to fill the window. */
#define IMTCP_PACE_CAPPED_Q8 269U
/* tcp_tso_autosize puts 2^-10 s of data into one buffer (sk_pacing_shift). */
#define IMTCP_AUTOSIZE_SHIFT 10
/* Most segments of one buffer: 64 KB of 1448 bytes. */
#define IMTCP_CHUNK_MAX_SEGS 45U
/* Busy time counts gaps between ACKs up to this: longer ones are idle or stalled. */
#define IMTCP_BUSY_GAP_US (1000U * 1000U)
#define IMTCP_IPV4_HEADER_BYTES 20U
#define IMTCP_IPV6_HEADER_BYTES 40U

static __always_inline struct imtcp_conn *imtcp_conn_of(struct sock *sk)
{
	return bpf_sk_storage_get(&imtcp_conns, sk, 0, 0);
}

static __always_inline __u32 imtcp_flight_segs(const struct tcp_sock *tp)
{
	return tp->packets_out - (tp->sacked_out + tp->lost_out) + tp->retrans_out;
}

/* The window will still double, or nearly: as tcp_update_pacing_rate sees slow start. */
static __always_inline int imtcp_in_early_slow_start(const struct tcp_sock *tp)
{
	return tp->snd_cwnd < tp->snd_ssthresh / 2;
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

/* A measurement ended: to the ring buffer, or to the count of those it had no room for. */
static __always_inline void imtcp_publish(struct sock *sk, struct imtcp_conn *conn)
{
	struct imtcp_meas *m = &conn->meas;
	struct tcp_sock *tp = tcp_sk(sk);
	struct imtcp_totals *totals = imtcp_totals_of();
	struct imtcp_event *e;

	if (m->result.outcome == IMTCP_OK)
		imtcp_policy_on_result(conn, m->result.avail_bps, m->result.at_us);
	e = bpf_ringbuf_reserve(&imtcp_events, sizeof(*e), 0);
	if (!e) {
		if (totals)
			imtcp_count(&totals->events_dropped);
		return;
	}
	e->at_ns = m->result.at_us * 1000;
	/* Congestion controls may not ask for a cookie; sockops and the iterator have it made. */
	conn->cookie = (__u64)sk->__sk_common.skc_cookie.counter;
	e->cookie = conn->cookie;
	e->policy = conn->policy;
	e->avail_bps = m->result.outcome == IMTCP_OK ? m->result.avail_bps : 0;
	e->smoothed_bps = conn->bg.smoothed_bps;
	e->range_low_bps = m->result.low_bps;
	e->range_high_bps = m->result.high_bps;
	e->capacity_bps = m->capacity_bps;
	e->delivery_bps = m->round.delivery_bps;
	e->validity_pct = m->result.validity_pct;
	e->srtt_us = tp->srtt_us >> 3;
	e->min_rtt_us = conn->bg.minrtt.base_us;
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

/* Full speed is for paths that lose without congestion: it measures without pauses [IM §4.5], also
 * while its window is small, since only a result lets it grow. */
static __always_inline void imtcp_full_speed_again(struct imtcp_conn *conn, __u64 now_us)
{
	if (conn->mode != IMTCP_MODE_FS)
		return;
	conn->meas.pause_rtts = 0;
	conn->meas.unfilled = 0;
	conn->meas.resume_us = now_us;
}

/* A measurement ended. */
static __always_inline void imtcp_on_result(struct sock *sk, struct imtcp_conn *conn)
{
	imtcp_bg_on_result(&conn->bg, &conn->params, &conn->meas.result);
	if (conn->mode == IMTCP_MODE_BG)
		imtcp_bg_lapse(&conn->bg, &conn->params, &conn->meas.result);
	if (conn->mode == IMTCP_MODE_FS && !imtcp_as_in_paper(&conn->params))
		conn->bg.smoothed_bps = imtcp_fs_smoothed_bps(conn->bg.smoothed_bps,
							      &conn->meas.result);
	imtcp_full_speed_again(conn, conn->meas.result.at_us);
	imtcp_publish(sk, conn);
}

/* The round trip time to send by. In slow start the newest one where it is shorter: srtt may be that of a
 * queue which drained in a silence, and paced by it a window would not fill in its round trip. */
static __always_inline __u32 imtcp_rtt_us(const struct tcp_sock *tp)
{
	__u32 srtt_us = tp->srtt_us >> 3, newest_us = tp->rack.rtt_us;

	return newest_us && imtcp_in_early_slow_start(tp) ? imtcp_min(srtt_us, newest_us) : srtt_us;
}

/* A full segment on the wire. TCP's header is known only after the handshake. */
static __always_inline __u32 imtcp_pkt_bytes(const struct imtcp_conn *conn,
					     const struct tcp_sock *tp)
{
	return tp->mss_cache + tp->tcp_header_len + conn->ip_header_bytes;
}

/*
 * Ordinary pacing rate, on the wire: cwnd/RTT times a gain; U64_MAX before the first RTT. In slow
 * start after a silence cwnd/RTTmin: no newer one is known yet. While a loss is
 * repaired the window is about what is left in flight (PRR), and pacing by that would
 * hold retransmissions back: as tcp_update_pacing_rate, packets_out where it is more.
 */
static __always_inline __u64 imtcp_base_bps(const struct imtcp_conn *conn,
					    const struct tcp_sock *tp)
{
	__u64 srtt_us = imtcp_rtt_us(tp);
	__u64 bytes = imtcp_max(tp->snd_cwnd, tp->packets_out) * imtcp_pkt_bytes(conn, tp);
	__u32 gain_q8 = IMTCP_PACE_Q8;

	if (!srtt_us)
		return IMTCP_U64_MAX;
	if (imtcp_in_early_slow_start(tp)) {
		gain_q8 = IMTCP_PACE_SLOW_START_Q8;
		if (conn->bg.minrtt.base_us && tp->tcp_mstamp - conn->acked_at_us > srtt_us)
			srtt_us = imtcp_min(srtt_us, conn->bg.minrtt.base_us);
	} else if (conn->mode == IMTCP_MODE_BG && conn->bg.cap_segs) {
		gain_q8 = IMTCP_PACE_CAPPED_Q8;
	}
	return imtcp_rate_bps(bytes * gain_q8 / 256, srtt_us);
}

/*
 * Segments that TCP puts into one buffer at this rate, made even where the receiver acknowledges
 * every second segment, so that each buffer's end has an ACK of its own.
 */
static __always_inline __u32 imtcp_chunk_segs(const struct imtcp_conn *conn,
					      const struct tcp_sock *tp, __u64 base_bps)
{
	__u64 bytes = (base_bps / IMTCP_BITS_PER_BYTE) >> IMTCP_AUTOSIZE_SHIFT;
	__u32 segs = (__u32)imtcp_clamp(imtcp_div(bytes, tp->mss_cache), 1, IMTCP_CHUNK_MAX_SEGS);

	if ((segs & 1) && segs > 1 && conn->meas.ack_ratio_q8 > 384)
		segs++;
	return segs;
}

/* ---- before a departure ---- */

/* The rate for a gap that is to last whatever TCP credits, for how late the buffer before left. */
static __always_inline __u64 imtcp_rate_of_gap(const struct imtcp_send_event *ev,
					       const struct tcp_sock *tp, __u64 bytes_per_sec)
{
	__u64 room = imtcp_sub(ev->cwnd_segs, ev->flight_segs);
	__u64 segs = imtcp_max(imtcp_min(ev->chunk_segs, room), 1);
	__u64 bytes = imtcp_min(segs * ev->mss_bytes, ev->unsent_bytes);

	return imtcp_uncredited(bytes_per_sec, bytes,
				imtcp_sub(tp->tcp_clock_cache, tp->tcp_wstamp_ns));
}

/* The gap after the packet before is not over (tcp_pacing_check): nothing will leave. */
static __always_inline int imtcp_gap_goes_on(const struct tcp_sock *tp)
{
	return tp->tcp_wstamp_ns > tp->tcp_clock_cache;
}

/*
 * Are departures spaced? Not in a round trip that is shorter than what TCP puts into one buffer: ACKs are the clock
 * there, as they are Reno's, and a timer for each buffer, on whichever processor, lets packets overtake each
 * other, which looks like loss (docs/lab-notes/0012-round-trips-of-a-lan.md).
 */
static __always_inline int imtcp_paces(const struct imtcp_send_event *ev,
				       const struct imtcp_policy *policy)
{
	return !imtcp_too_short(ev->srtt_us) || (policy && policy->max_bps);
}

static __always_inline __u32 imtcp_before_send(struct sock *sk, struct imtcp_conn *conn)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct imtcp_meas *m = &conn->meas;
	struct imtcp_send_event ev = {};
	struct imtcp_policy *policy = imtcp_policy_of(conn);
	__u64 base_bps, paced_bps, payload_bps, bytes_per_sec;

	/* most attempts, one per ACK, end at the gap: what left is noted, the rest would be in vain */
	if (m->last_nxt == tp->snd_nxt && imtcp_gap_goes_on(tp))
		return 2;
	base_bps = imtcp_base_bps(conn, tp);
	if (base_bps == IMTCP_U64_MAX)
		return 2; /* no RTT yet: as the kernel does it */
	base_bps = imtcp_min(base_bps, imtcp_policy_ceiling_bps(policy));
	/* Slow start paces at twice its window: streams of buffers for that rate were hundreds of segments,
	 * and many round trips, long (docs/lab-notes/0004-random-loss.md). */
	ev.chunk_segs = imtcp_chunk_segs(conn, tp,
					 m->high_bps && imtcp_in_early_slow_start(tp)
						 ? imtcp_min(base_bps, m->high_bps)
						 : base_bps);
	imtcp_meas_adapt_n(m, &conn->params, ev.chunk_segs);
	ev.now_us = tp->tcp_mstamp;
	ev.base_bps = base_bps;
	ev.snd_nxt = tp->snd_nxt;
	ev.cwnd_segs = tp->snd_cwnd;
	ev.flight_segs = imtcp_flight_segs(tp);
	ev.most_flight_segs = tp->max_packets_out;
	ev.unsent_bytes = tp->write_seq - tp->snd_nxt;
	ev.mss_bytes = tp->mss_cache;
	ev.rtt_dev_us = tp->mdev_us >> 2;
	ev.srtt_us = imtcp_rtt_us(tp);
	ev.recovering = imtcp_ca_state(sk) >= TCP_CA_CWR || conn->bg.draining;
	/* the window will double if it was full, or if what waits will fill it */
	ev.slow_start = imtcp_in_early_slow_start(tp) &&
			(BPF_CORE_READ_BITFIELD(tp, is_cwnd_limited) ||
			 ev.unsent_bytes >= imtcp_sub(ev.cwnd_segs, ev.flight_segs) * ev.mss_bytes);
	if (imtcp_meas_on_send(m, &ev))
		imtcp_on_result(sk, conn);
	if (policy && policy->max_bps) {
		paced_bps = imtcp_policy_pace(policy, conn, ev.now_us, tp->snd_nxt, m->next_bps,
					      (__u64)ev.chunk_segs * imtcp_pkt_bytes(conn, tp));
		/* A stream is faster than the ceiling for its few milliseconds, or nothing could be
		 * measured below one: what follows it pays. */
		if (m->plan != IMTCP_PLAN_STREAM)
			m->next_bps = paced_bps;
	}
	/* wire rate to payload rate, bits to bytes: what the kernel's pacing counts */
	payload_bps = imtcp_scale(m->next_bps, tp->mss_cache, imtcp_pkt_bytes(conn, tp));
	bytes_per_sec = imtcp_max(payload_bps / IMTCP_BITS_PER_BYTE, 1);
	if (m->plan == IMTCP_PLAN_HOLD || m->plan == IMTCP_PLAN_STREAM)
		bytes_per_sec = imtcp_max(imtcp_rate_of_gap(&ev, tp, bytes_per_sec), 1);
	sk->sk_pacing_rate = bytes_per_sec;
	sk->sk_pacing_status = imtcp_paces(&ev, policy) ? SK_PACING_NEEDED : SK_PACING_NONE;
	return m->burst_segs ? m->burst_segs : ev.chunk_segs;
}

/* ---- an ACK ---- */

/* Time with data under way since the ACK before, and of it the time held back by the control. */
static __always_inline void imtcp_busy(struct imtcp_conn *conn, __u64 now_us, int yields)
{
	__u64 gap_us = now_us - conn->acked_at_us;

	if (gap_us > IMTCP_BUSY_GAP_US)
		gap_us = 0;
	conn->acked_at_us = now_us;
	conn->busy_us += gap_us;
	if (yields)
		conn->yielding_us += gap_us;
}

static __always_inline void imtcp_on_ack(struct sock *sk, struct imtcp_conn *conn,
					 const struct ack_sample *sample)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct imtcp_ack_event ev = {};
	__u32 bytes;
	int what;

	ev.now_us = tp->tcp_mstamp;
	ev.snd_una = tp->snd_una;
	ev.prior_una = conn->last_una;
	ev.snd_nxt = tp->snd_nxt;
	/* While some segments are only SACKed, the sample may be of one that overtook the others:
	 * no round trip of the path that the window fills. */
	ev.rtt_us = tp->sacked_out ? -1 : sample->rtt_us;
	ev.mss_bytes = tp->mss_cache;
	ev.wire_q8 = (__u32)imtcp_div((__u64)imtcp_pkt_bytes(conn, tp) * 256, tp->mss_cache);
	ev.srtt_us = tp->srtt_us >> 3;
	bytes = ev.snd_una - ev.prior_una;
	/* A control chosen before the handshake began saw no initial sequence number: more than
	 * was ever acknowledged is that number, not data. */
	if (bytes > tp->bytes_acked)
		bytes = 0;
	if (imtcp_rtt_counts(conn, bytes, sample->pkts_acked, tp->mss_cache, ev.rtt_us))
		imtcp_minrtt_on_sample(&conn->bg.minrtt, ev.now_us, ev.rtt_us);
	conn->last_una = ev.snd_una;
	if (!bytes)
		return;
	ev.min_rtt_us = conn->bg.minrtt.base_us;

	imtcp_busy(conn, ev.now_us,
		   conn->mode == IMTCP_MODE_BG &&
			   (conn->bg.yields ||
			    (conn->bg.cap_segs && tp->snd_cwnd >= conn->bg.cap_segs)));
	if (conn->mode == IMTCP_MODE_BG)
		imtcp_bg_on_rtt(&conn->bg, ev.now_us, ev.rtt_us);
	imtcp_policy_on_ack(conn, ev.now_us, bytes);

	what = imtcp_meas_on_ack(&conn->meas, &ev);
	if (what & 1)
		imtcp_on_result(sk, conn);
	if (what & 2)
		conn->round_over = 1;
}

/* ---- the window ---- */

/* The window limited what was sent, or it may double in slow start. */
static __always_inline int imtcp_window_full(const struct tcp_sock *tp)
{
	if (tp->snd_cwnd < tp->snd_ssthresh)
		return tp->snd_cwnd < 2 * tp->max_packets_out;
	return BPF_CORE_READ_BITFIELD(tp, is_cwnd_limited);
}

/* Window that carries bps at the present round trip, one segment or more; 0 without bps. */
static __always_inline __u32 imtcp_window_for(const struct imtcp_conn *conn,
					      const struct tcp_sock *tp, __u64 bps)
{
	if (!bps || bps == IMTCP_U64_MAX)
		return 0;
	return imtcp_max(imtcp_bg_window_segs(bps, tp->srtt_us >> 3, imtcp_pkt_bytes(conn, tp)), 1);
}

/* Window of the connection's share of the floor at the present round trip; 0 without a floor. */
static __always_inline __u32 imtcp_floor_segs(const struct imtcp_conn *conn,
					      const struct tcp_sock *tp,
					      const struct imtcp_policy *policy)
{
	__u64 bps = imtcp_policy_floor_bps(policy);

	/* what holds keep back is caught up, as under the cap */
	return imtcp_window_for(conn, tp, bps + bps / IMTCP_BG_SLACK_DIV);
}

/* Growth by what was acknowledged: Reno's, or towards the available bandwidth. */
static __always_inline void imtcp_grow(const struct imtcp_conn *conn, const struct tcp_sock *tp,
				       struct imtcp_window *w, __u32 acked)
{
	__u64 avail_bps = conn->bg.smoothed_bps;
	__u32 v_segs;

	if (conn->mode != IMTCP_MODE_FS) {
		imtcp_reno_grow(w, acked, tp->snd_cwnd_clamp);
		return;
	}
	if (!avail_bps && !imtcp_as_in_paper(&conn->params))
		avail_bps = (conn->meas.low_bps + conn->meas.high_bps) / 2;
	v_segs = imtcp_fs_v_segs(avail_bps, tp->srtt_us >> 3, imtcp_pkt_bytes(conn, tp));
	imtcp_fs_grow(w, acked, imtcp_fs_step_segs(w->cwnd_segs, v_segs, conn->params.h_segs),
		      tp->snd_cwnd_clamp);
}

/* Window after a loss: Reno's half, or at full speed what the path carried a round trip ago. */
static __always_inline __u32 imtcp_ssthresh_segs(const struct imtcp_conn *conn,
						 const struct tcp_sock *tp)
{
	__u32 carried_segs = 0;

	if (conn->mode != IMTCP_MODE_FS || imtcp_as_in_paper(&conn->params))
		return imtcp_reno_ssthresh(tp->snd_cwnd);
	if (tp->tcp_mstamp - tp->delivered_mstamp <= tp->srtt_us >> 3)
		carried_segs = imtcp_fs_carried_segs(tp->rate_delivered, tp->rate_interval_us,
						     conn->bg.minrtt.base_us);
	return imtcp_fs_ssthresh(tp->snd_cwnd, carried_segs);
}

static __always_inline void imtcp_window(struct sock *sk, struct imtcp_conn *conn, __u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct imtcp_policy *policy = imtcp_policy_of(conn);
	__u32 floor_segs = imtcp_floor_segs(conn, tp, policy);
	__u32 ceiling_segs = imtcp_window_for(conn, tp, imtcp_policy_ceiling_bps(policy));
	struct imtcp_window w = {
		.cwnd_segs = tp->snd_cwnd,
		.ssthresh_segs = tp->snd_ssthresh,
		.credit_segs = tp->snd_cwnd_cnt,
	};
	int full = imtcp_window_full(tp);
	/* after a timeout the floor waits: what is in flight is unknown (RFC 5681 §3.1) */
	int lost = imtcp_ca_state(sk) == TCP_CA_Loss;

	conn->full |= full;
	if (conn->mode == IMTCP_MODE_BG) {
		imtcp_bg_set_cap(&conn->bg, &conn->params, &conn->meas, imtcp_pkt_bytes(conn, tp),
				 conn->meas.n + 2);
		if (conn->round_over) {
			struct imtcp_bg_round_end end = {
				.now_us = conn->acked_at_us,
				.floor_segs = floor_segs,
				.busy = conn->full,
			};

			imtcp_bg_on_round(&conn->bg, &conn->params, &conn->meas.round, &w, &end);
		}
	}
	if (conn->round_over) {
		conn->round_over = 0;
		conn->full = 0;
	}
	if (lost)
		floor_segs = 0;
	if (full && !conn->bg.draining)
		imtcp_grow(conn, tp, &w, acked);
	if (conn->mode == IMTCP_MODE_BG)
		imtcp_bg_apply_cap(&conn->bg, &w, floor_segs);
	if (floor_segs && w.cwnd_segs < floor_segs && !conn->bg.draining)
		w.cwnd_segs = floor_segs;
	if (ceiling_segs)
		w.cwnd_segs = imtcp_min(w.cwnd_segs,
					imtcp_max(ceiling_segs, IMTCP_BG_FIRST_LEAST_SEGS));
	tp->snd_cwnd = imtcp_max(imtcp_min(w.cwnd_segs, tp->snd_cwnd_clamp), 1);
	tp->snd_ssthresh = imtcp_max(w.ssthresh_segs, IMTCP_RENO_LEAST_SEGS);
	tp->snd_cwnd_cnt = w.credit_segs;
}

#endif
