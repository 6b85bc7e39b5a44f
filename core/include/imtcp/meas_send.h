/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The Control unit of the inline measurement (meas.h): when packets leave [IM §3.3, §3.4].
 */
#ifndef IMTCP_MEAS_SEND_H
#define IMTCP_MEAS_SEND_H

#include "meas_state.h"

/*
 * The stream was not filled in time: everything held goes, and the next try waits for one packet
 * more [IM §3.4.1]. After IMTCP_TRIES_MOST failures the measurement is given up.
 */
IMTCP_INLINE void imtcp_meas_not_filled(struct imtcp_meas *m, imtcp_u64 now_us, imtcp_u32 srtt_us)
{
	imtcp_meas_store_more(m);
	m->good_runs = 0;
	m->held = 0;
	m->backlog = 1;
	m->emptied_segs = 0;
	m->unit = IMTCP_EMPTY;
	if (++m->failures >= IMTCP_TRIES_MOST)
		imtcp_meas_abandon(m, now_us, srtt_us, IMTCP_NOT_FILLED);
}

/* The first stream of a measurement is tried. */
IMTCP_INLINE void imtcp_meas_begin(struct imtcp_meas *m)
{
	if (m->planned)
		return;
	m->joined = (imtcp_u32)imtcp_meas_asks_gaps(m);
	m->planned = m->joined ? IMTCP_GAP_STREAMS : IMTCP_SUB_RANGES;
	m->started++;
}

/* Rate at which ACKs bring room where segs are in flight: they arrive within a round trip. */
IMTCP_INLINE imtcp_u64 imtcp_meas_flight_bps(const struct imtcp_meas *m,
					     const struct imtcp_departure *ev, imtcp_u64 segs)
{
	imtcp_u64 wire = (imtcp_u64)ev->mss_bytes * m->wire_q8 / 256;

	return imtcp_rate_bps(segs * wire, ev->srtt_us);
}

/*
 * Streams slower than what is in flight anyway show nothing new and only slow the connection down:
 * in slow start after a silence, when the range is older than it. Above the range the next one is
 * around that rate; above twice the range a measurement that goes on is given up for it. In slow start the flight of
 * the last round trip counts, since little is in flight after a hold. A range from before a silence, as when the
 * receiver's window closed, would keep the window from doubling.
 */
IMTCP_INLINE void imtcp_meas_keep_up(struct imtcp_meas *m, const struct imtcp_departure *ev)
{
	imtcp_u64 segs = ev->slow_start ? imtcp_max(ev->flight_segs, ev->most_flight_segs)
					: ev->flight_segs;
	imtcp_u64 rate = imtcp_meas_flight_bps(m, ev, segs);

	if (!m->high_bps || rate <= (m->planned ? 2 * m->high_bps : m->high_bps))
		return;
	if (m->planned) {
		m->result.avail_bps = m->high_bps; /* above the range [IM §3.2.5] */
		m->result.validity_pct = 0;
		m->result.sub_range = 0;
		imtcp_meas_end(m, ev->now_us, ev->srtt_us, IMTCP_OUT_OF_RANGE);
	}
	imtcp_store_clear(&m->store);
	imtcp_meas_set_range(m, rate / 2, 2 * rate);
}

/*
 * Segments of room that the next stream uses up, m packets at most. Its N packets leave at x while
 * ACKs bring room at r. So N (1 - r/x) packets have to be there, the first, and what one ACK brings
 * at a time. Holding more would leave the path idle. Each failure adds one packet (spare), and F
 * good measurements take it back. Where m was chosen it is what is held.
 */
IMTCP_INLINE imtcp_u32 imtcp_meas_need_segs(const struct imtcp_meas *m,
					    const struct imtcp_departure *ev)
{
	imtcp_u64 r_bps = imtcp_meas_flight_bps(m, ev, ev->flight_segs);
	imtcp_u64 x_bps = imtcp_meas_edge_bps(m, m->sending);
	imtcp_u64 all = (imtcp_u64)m->n * ev->chunk_segs;
	imtcp_u64 need = imtcp_scale(all, imtcp_sub(x_bps, r_bps), x_bps);

	if (m->store_packets)
		return imtcp_to_u32((imtcp_u64)m->m * ev->chunk_segs);
	need += (1 + m->spare) * (imtcp_u64)ev->chunk_segs;
	if (m->ack_ratio_q8 / 256 > ev->chunk_segs)
		need += m->ack_ratio_q8 / 256;
	need = imtcp_max(need, IMTCP_STORE_PACKETS_LEAST * (imtcp_u64)ev->chunk_segs);
	/* near the capacity fewer would not do, however often a few were enough for slower streams */
	if (imtcp_meas_asks_gaps(m))
		return (imtcp_u32)imtcp_min(need, all);
	return (imtcp_u32)imtcp_min(need, (imtcp_u64)m->m * ev->chunk_segs);
}

/* Segments of room that start a stream which needs need_segs. At most half of the window: a longer
 * hold makes a silence of ACKs in which the stream starves. */
IMTCP_INLINE imtcp_u32 imtcp_meas_want_segs(const struct imtcp_departure *ev, imtcp_u32 need_segs)
{
	return (imtcp_u32)imtcp_min(need_segs, ev->cwnd_segs / 2);
}

/* A packet has really left: [last_nxt, snd_nxt), as it was planned. */
IMTCP_INLINE void imtcp_meas_commit(struct imtcp_meas *m, const struct imtcp_departure *ev)
{
	struct imtcp_stream *s = &m->stream[m->sending & IMTCP_SUB_RANGE_MASK];

	switch (m->plan) {
	case IMTCP_PLAN_HOLD:
		m->held = 1;
		break;
	case IMTCP_PLAN_UNFILLED:
		imtcp_meas_begin(m);
		imtcp_meas_not_filled(m, ev->now_us, ev->srtt_us);
		break;
	case IMTCP_PLAN_STREAM:
		if (m->unit != IMTCP_SEND) {
			imtcp_meas_begin(m);
			imtcp_stream_start(s, imtcp_meas_edge_bps(m, m->sending + 1),
					   imtcp_meas_edge_bps(m, m->sending), m->n, m->last_nxt);
			m->unit = IMTCP_SEND;
			m->held = 0;
		}
		imtcp_stream_on_sent(s, ev->snd_nxt);
		m->sent_us = ev->now_us;
		if (s->sent >= s->planned) {
			m->backlog = 1;
			m->sending++;
			m->emptied_segs = 0;
			m->unit = m->sending < m->planned ? IMTCP_EMPTY : IMTCP_PASS;
			/* the packets of the next stream are still held */
			if (m->unit == IMTCP_EMPTY &&
			    ev->cwnd_segs >=
				    ev->flight_segs +
					    imtcp_meas_want_segs(ev, imtcp_meas_need_segs(m, ev)))
				m->unit = IMTCP_STORE;
		}
		break;
	default:
		if (m->unit == IMTCP_EMPTY)
			m->emptied_segs += imtcp_div(ev->snd_nxt - m->last_nxt, ev->mss_bytes);
		break;
	}
	m->plan = IMTCP_PLAN_PLAIN;
	m->last_nxt = ev->snd_nxt;
}

/* T, the longest time that a packet may be held, microseconds [IM §3.4.2], whatever D_RTT says at most
 * IMTCP_T_MAX_US; or the one that was chosen [IM §4.1.3]. */
IMTCP_INLINE imtcp_u32 imtcp_meas_hold_limit_us(const struct imtcp_meas *m,
						const struct imtcp_departure *ev,
						imtcp_u64 rate_bps)
{
	imtcp_u64 bytes = (imtcp_u64)(m->n - 1) * ev->chunk_segs * ev->mss_bytes * m->wire_q8 / 256;
	imtcp_u64 t = imtcp_time_us(bytes, rate_bps) +
		      (imtcp_u64)IMTCP_T_DEVIATIONS * ev->rtt_dev_us;

	if (m->t_us)
		return m->t_us;
	return imtcp_to_u32(imtcp_min(t, IMTCP_T_MAX_US));
}

/*
 * TCP shortens the gap after a buffer that leaves late, by as much as it is late, at most by half
 * (tcp_update_skb_after_send). That is good for a rate, and fatal for a hold or a stream's intervals. So where the gap
 * after `bytes` counts, ask for gap + min(gap, lateness). The answer is between half of bytes_per_sec and all of it. It
 * is so without bytes, too: the rate stays in the socket, and a retransmission may leave by it.
 */
IMTCP_INLINE imtcp_u64 imtcp_uncredited(imtcp_u64 bytes_per_sec, imtcp_u64 bytes, imtcp_u64 late_ns)
{
	imtcp_u64 gap_ns = imtcp_max(imtcp_div(imtcp_mul(bytes, IMTCP_NSEC_PER_SEC), bytes_per_sec),
				     1);

	return imtcp_scale(bytes_per_sec, gap_ns, gap_ns + imtcp_min(gap_ns, late_ns));
}

/* May a measurement begin or go on? */
IMTCP_INLINE int imtcp_meas_may_store(const struct imtcp_meas *m, const struct imtcp_departure *ev)
{
	if (!m->high_bps || ev->recovering || m->blocked || imtcp_too_short(ev->srtt_us))
		return 0;
	/* The window must carry a stream [IM §3.3]. Where a round trip is shorter than a stream it
	 * must carry what is in flight at once, at least two packets. Without two more segments
	 * nothing would be left to ACK. */
	if (ev->cwnd_segs < imtcp_min(m->n, 2) * ev->chunk_segs + 2)
		return 0;
	if (!m->planned && ev->now_us < m->resume_us)
		return 0;
	/* slow start below the range: a stream would use up what is held faster than it comes, and
	 * the hold costs growth; a few round trips later it costs nothing */
	if (!m->planned && ev->slow_start && ev->base_bps < 2 * m->low_bps)
		return 0;
	return ev->unsent_bytes >=
	       imtcp_meas_want_segs(ev, imtcp_meas_need_segs(m, ev)) * ev->mss_bytes;
}

/* STORE: what the packet that leaves next is, and the rate of the gap after it. */
IMTCP_INLINE void imtcp_meas_store(struct imtcp_meas *m, const struct imtcp_departure *ev)
{
	imtcp_u32 room = (imtcp_u32)imtcp_sub(ev->cwnd_segs, ev->flight_segs);
	imtcp_u32 need = imtcp_meas_need_segs(m, ev);
	imtcp_u32 want = imtcp_meas_want_segs(ev, need);
	imtcp_u64 low = imtcp_meas_edge_bps(m, m->sending + 1);
	imtcp_u64 high = imtcp_meas_edge_bps(m, m->sending);

	m->tight = need > want;
	/* The hold is over: two will do where m did not come together. The others come while these leave.
	 * The packets that really leave show whether the writes came in time. */
	if (m->held)
		want = (imtcp_u32)imtcp_min(want, IMTCP_STORE_PACKETS_LEAST * ev->chunk_segs);
	if (room >= want) {
		m->plan = IMTCP_PLAN_STREAM;
		if (!m->held)
			m->hold_us = 0;
		m->next_bps = low + imtcp_div(imtcp_sub(high, low), m->n - 1);
	} else if (!m->held) {
		imtcp_u64 wire = (imtcp_u64)ev->mss_bytes * m->wire_q8 / 256;
		imtcp_u64 rate = imtcp_meas_flight_bps(m, ev, ev->flight_segs);
		/* one packet more: the one that leaves now */
		imtcp_u64 bytes = (want - room + ev->chunk_segs) * wire;
		imtcp_u64 us = imtcp_min(imtcp_time_us(bytes, rate),
					 imtcp_meas_hold_limit_us(m, ev, rate));

		m->plan = IMTCP_PLAN_HOLD;
		m->hold_us = imtcp_to_u32(us);
		bytes = imtcp_max(imtcp_min(room, ev->chunk_segs), 1) * wire;
		/* no time at all is no rate: one microsecond, or the gap would have no end */
		m->next_bps = imtcp_min(imtcp_max(imtcp_rate_bps(bytes, imtcp_max(us, 1)), 1),
					ev->base_bps);
	} else {
		m->plan = IMTCP_PLAN_UNFILLED;
	}
}

/*
 * The rate at which the window fills again after a hold: IMTCP_EMPTY_GAIN_Q8 times the ordinary one, but above
 * that no faster than the bottleneck delivers. Faster packets wait in the bottleneck's buffer, and a short buffer drops
 * them (IM-F15: lab/measurements.md).
 */
IMTCP_INLINE imtcp_u64 imtcp_meas_refill_bps(const struct imtcp_meas *m, imtcp_u64 base_bps)
{
	imtcp_u64 refill_bps = imtcp_scale(base_bps, IMTCP_EMPTY_GAIN_Q8, 256);

	if (!m->capacity_bps)
		return refill_bps;
	return imtcp_min(refill_bps, imtcp_max(base_bps, m->capacity_bps));
}

/*
 * Before a departure. Sets m->next_bps, the pacing rate on the wire for the gap after the packet
 * that leaves next, and m->burst_segs. Returns 1 if a measurement ended (m->result).
 */
IMTCP_GLOBAL int imtcp_meas_on_send(struct imtcp_meas *m, const struct imtcp_departure *ev)
{
	imtcp_u64 ended;
	imtcp_u32 j;

	if (!m || !ev)
		return 0;
	ended = m->ends;
	m->chunk_segs = ev->chunk_segs;
	if (ev->snd_nxt != m->last_nxt)
		imtcp_meas_commit(m, ev);
	m->next_bps = ev->base_bps;
	m->burst_segs = 0;
	m->plan = IMTCP_PLAN_PLAIN;
	/* the refill goes on until the window is full once */
	if (ev->flight_segs + ev->chunk_segs >= ev->cwnd_segs)
		m->backlog = 0;
	if (m->backlog)
		m->next_bps = imtcp_meas_refill_bps(m, ev->base_bps);

	if (m->unit == IMTCP_SEND) {
		struct imtcp_stream *s = &m->stream[m->sending & IMTCP_SUB_RANGE_MASK];

		j = s->sent;
		imtcp_u64 bytes = (imtcp_u64)ev->chunk_segs * ev->mss_bytes * m->wire_q8 / 256;

		if (ev->now_us - m->sent_us >
		    IMTCP_T_MAX_US + 2 * imtcp_time_us(bytes, s->low_bps)) {
			/* the application or the receiver's window stopped it */
			imtcp_meas_not_filled(m, ev->now_us, ev->srtt_us);
		} else {
			m->plan = IMTCP_PLAN_STREAM;
			if (j + 1 < s->planned)
				m->next_bps = imtcp_stream_rate_bps(s, j + 1);
		}
	} else if (m->unit == IMTCP_PASS) {
		if (ev->now_us - m->sent_us >
		    (imtcp_u64)IMTCP_PASS_TIMEOUT_SRTTS * ev->srtt_us + IMTCP_T_MAX_US)
			imtcp_meas_abandon(m, ev->now_us, ev->srtt_us, IMTCP_TIMED_OUT);
	} else {
		if (m->unit == IMTCP_EMPTY) {
			if (!m->backlog || m->emptied_segs >= m->n * ev->chunk_segs)
				m->unit = IMTCP_STORE;
		}
		if (m->unit != IMTCP_EMPTY) {
			imtcp_meas_keep_up(m, ev);
			if (imtcp_meas_may_store(m, ev)) {
				m->unit = IMTCP_STORE;
				imtcp_meas_store(m, ev);
			} else if (m->planned) {
				/* the application is slow, or the window fell */
				if (ev->now_us - m->sent_us > 2ULL * ev->srtt_us + IMTCP_T_MAX_US)
					imtcp_meas_not_filled(m, ev->now_us, ev->srtt_us);
			} else if (!m->high_bps) {
				m->unit = IMTCP_OFF;
				/* no train at the start: make one when there is room */
				if (ev->unsent_bytes >= 2 * IMTCP_TRAIN_SEGS * ev->mss_bytes &&
				    ev->cwnd_segs >= ev->flight_segs + 2 * IMTCP_TRAIN_SEGS) {
					m->plan = IMTCP_PLAN_TRAIN;
					m->burst_segs = 2 * IMTCP_TRAIN_SEGS;
				}
			}
		}
	}
	return m->ends != ended;
}

/* N and the segments of one packet for the ACKs that this receiver sends [IM §3.5.1]. Between
 * measurements only: a stream keeps its N. */
IMTCP_INLINE void imtcp_meas_adapt_n(struct imtcp_meas *m, const struct imtcp_params *p,
				     imtcp_u32 chunk_segs)
{
	imtcp_u32 n = imtcp_meas_n_for(m, p->stream_packets, chunk_segs);

	if (m->planned || m->n == n)
		return;
	imtcp_meas_set_n(m, n);
}

#endif
