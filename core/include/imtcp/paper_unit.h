/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The Control unit as the ImTCP paper prints it: it holds packets below TCP and sends them in
 * streams [IM §3.3].
 *
 *                 m packets held                    last stream of a measurement
 *       ┌─────────┐ ──────────────▶ ┌────────┐ ──────────────────────────▶ ┌────────┐
 *       │  STORE  │                 │  SEND  │                             │  PASS  │
 *       └─────────┘                 └────────┘                             └────────┘
 *        ▲  ▲   │ T is over,             │ another stream follows,              │
 *        │  │   │ window < N             ▼ or this one was not filled           │
 *        │  │   │                   ┌─────────┐                                 │
 *        │  │   └─────────────────▶ │  EMPTY  │                                 │
 *        │  └────────────────────── └─────────┘                                 │
 *        │      nothing is held                                                 │
 *        └──────────────────────────────────────────────────────────────────────┘
 *                             every ACK of the streams has come
 *
 * States. The ImTCP buffer is the data that the window admits and that has not left.
 * - STORE lets no packet go: it limits the window to the amount in flight.
 * - SEND lets one packet go at a time. The gap after each is that of the stream's rate.
 * - EMPTY lets the whole buffer go at once.
 * - PASS does the same after the last stream, until the Measurement unit has its ACKs
 *   (paper_meas.h).
 *
 * TCP calls imtcp_paper_unit before each departure.
 *
 * References: [IM §3.3] for the states, [IM §3.4] for m and T, [IM §3.5.3] for a loss.
 *
 * Differences from the paper
 *  1. There is no timer. A hold ends when TCP asks, which is at an ACK or a write. So T ends at the
 *     first of them after T. With nothing in flight no ACK would come, so the hold ends at once.
 *  2. The packet after a stream waits for one more gap at the stream's highest rate. That gap sets
 *     TCP's pacing timer, and TCP asks again when it fires.
 *  3. A packet is one buffer of TCP (control.h: chunk_segs). With gso_max_segs 1 on the device it
 *     is one segment.
 *  4. No interval of a stream exceeds IMTCP_T_MAX_US. B_l may reach 0, and such a stream would
 *     never end.
 *  5. Nothing is held in loss recovery or while TCP answers a mark, because the kernel then sets
 *     the window (PRR). The paper holds from the first new ACK on.
 *  6. A stream that was not filled is tried again after EMPTY. The paper only says "create the
 *     stream again".
 */
#ifndef IMTCP_PAPER_UNIT_H
#define IMTCP_PAPER_UNIT_H

#include "flow.h"

/* Least intervals of a verdict. With N = 3 a stream may have only two [IM fig. 8]. */
#define IMTCP_PAPER_LEAST_INTERVALS 1U

/* The unit's own state. struct imtcp_meas has the streams, N, m and the range. */
struct imtcp_paper {
	imtcp_u64 stored_us; /* start of the hold; 0: nothing is held */
	imtcp_u64 asked_us;  /* when TCP asked last: packets sent since then left at that time */
	imtcp_u32 empty_seq; /* EMPTY lets all data before this go */
	/* the Cprobe train, the first stream [IM §3.2.1] */
	imtcp_u32 train_seq;	   /* its first byte */
	imtcp_u32 train_end_seq;   /* end of the train; equal to train_seq: no train */
	imtcp_u32 train_first_una; /* snd_una of its first ACK */
	imtcp_u64 train_first_us;  /* time of its first ACK; 0: not yet */
	imtcp_u32 limited;	   /* the window limits sending, and not the hold alone */
	imtcp_u32 round_limited;   /* for full speed: limited at some time in this round trip */
	/* for the background modes */
	imtcp_u32 min_rtt_us;	 /* RTTmin of the connection's life; 0: none */
	imtcp_u32 newest_rtt_us; /* RTT_cur */
};

/* Bytes of a packet on the wire. */
IMTCP_INLINE imtcp_u64 imtcp_paper_packet_bytes(const struct imtcp_departure *dep)
{
	return (imtcp_u64)dep->chunk_segs * dep->pkt_bytes;
}

/* The ImTCP buffer: full segments that the window admits and that have not left. A small segment is
 * not part of it. It crosses each link sooner, so a stream of such packets would seem to meet a
 * draining queue. */
IMTCP_INLINE imtcp_u32 imtcp_paper_waiting_segs(const struct imtcp_departure *dep)
{
	imtcp_u64 bytes = imtcp_min(dep->unsent_bytes, dep->receiver_bytes);
	imtcp_u64 unsent = imtcp_div(bytes, dep->mss_bytes);

	return imtcp_to_u32(imtcp_min(unsent, imtcp_sub(dep->cwnd_segs, dep->flight_segs)));
}

/* T = M (N - 1) / A + 4 D_RTT [IM §3.4.2], or the chosen T; microseconds. Before the first result A
 * is the middle of the search range. */
IMTCP_INLINE imtcp_u64 imtcp_paper_hold_limit_us(const struct imtcp_meas *m,
						 const struct imtcp_departure *dep)
{
	imtcp_u64 bytes = (m->n - 1) * imtcp_paper_packet_bytes(dep);
	imtcp_u64 a_bps = m->avail_bps ? m->avail_bps : (m->low_bps + m->high_bps) / 2;

	if (m->t_us)
		return m->t_us;
	return imtcp_time_us(bytes, a_bps) + (imtcp_u64)IMTCP_T_DEVIATIONS * dep->rtt_dev_us;
}

/* Rate of the interval that ends with packet j, on the wire (difference 4). */
IMTCP_INLINE imtcp_u64 imtcp_paper_rate_bps(const struct imtcp_stream *s, imtcp_u32 j,
					    const struct imtcp_departure *dep)
{
	return imtcp_max(imtcp_stream_rate_bps(s, j),
			 imtcp_rate_bps(imtcp_paper_packet_bytes(dep), IMTCP_T_MAX_US));
}

IMTCP_INLINE struct imtcp_stream *imtcp_paper_stream(struct imtcp_meas *m)
{
	return &m->stream[m->sending & IMTCP_SUB_RANGE_MASK];
}

/* Lets the whole buffer of waiting_segs go. */
IMTCP_INLINE void imtcp_paper_empty(struct imtcp_meas *m, struct imtcp_paper *p,
				    const struct imtcp_departure *dep, imtcp_u32 waiting_segs)
{
	m->unit = IMTCP_EMPTY;
	p->stored_us = 0;
	p->empty_seq = dep->snd_nxt + (imtcp_u32)imtcp_min((imtcp_u64)waiting_segs * dep->mss_bytes,
							   dep->unsent_bytes);
}

/* Accounts for a packet that left since TCP asked last. */
IMTCP_INLINE void imtcp_paper_commit(struct imtcp_meas *m, struct imtcp_paper *p,
				     const struct imtcp_departure *dep, imtcp_u32 waiting_segs)
{
	struct imtcp_stream *s = imtcp_paper_stream(m);

	if (m->unit == IMTCP_SEND && !m->high_bps) {
		p->train_seq = m->last_nxt;
		p->train_end_seq = dep->snd_nxt;
		p->train_first_us = 0;
		m->unit = IMTCP_PASS;
	} else if (m->unit == IMTCP_SEND) {
		if (!m->planned) {
			m->planned = IMTCP_SUB_RANGES;
			m->started++;
		}
		if (!s->sent)
			s->first_seq = s->next_seq = m->last_nxt;
		imtcp_stream_on_sent(s, dep->snd_nxt);
		m->sent_us = p->asked_us;
		if (s->sent >= s->planned) {
			m->sending++;
			imtcp_paper_empty(m, p, dep, waiting_segs);
			if (m->sending >= m->planned)
				m->unit = IMTCP_PASS;
		}
	}
	m->last_nxt = dep->snd_nxt;
}

/* Was the stream not filled in time? Its next packet is late by more than half of the planned
 * interval. stream.h has the same bound, because the pacing timer is late, too. */
IMTCP_INLINE int imtcp_paper_unfilled(const struct imtcp_meas *m, const struct imtcp_stream *s,
				      const struct imtcp_departure *dep)
{
	imtcp_u64 planned_us;

	if (!s->sent)
		return 0;
	planned_us = imtcp_time_us(imtcp_paper_packet_bytes(dep),
				   imtcp_paper_rate_bps(s, s->sent, dep));
	return dep->now_us - m->sent_us > planned_us + planned_us / 2 + IMTCP_LATE_US;
}

/* STORE: may packets be held? [IM §3.3, §3.5.3] */
IMTCP_INLINE int imtcp_paper_may_store(const struct imtcp_meas *m,
				       const struct imtcp_departure *dep)
{
	return !m->blocked && !dep->recovering && dep->cwnd_segs >= m->n * dep->chunk_segs &&
	       (m->planned || dep->now_us >= m->resume_us);
}

/* STORE: continues the hold, begins a stream, or ends the hold after T. */
IMTCP_INLINE void imtcp_paper_store(struct imtcp_meas *m, struct imtcp_paper *p,
				    const struct imtcp_departure *dep, imtcp_u32 waiting_segs,
				    struct imtcp_decision *d)
{
	if (!waiting_segs || !imtcp_paper_may_store(m, dep)) {
		p->stored_us = 0;
		return;
	}
	/* The train has N packets, and no rate. */
	if (waiting_segs >= (m->high_bps ? m->m : m->n) * dep->chunk_segs) {
		m->unit = IMTCP_SEND;
		m->hold_us = p->stored_us ? imtcp_to_u32(dep->now_us - p->stored_us) : 0;
		imtcp_stream_start(imtcp_paper_stream(m), imtcp_meas_edge_bps(m, m->sending + 1),
				   imtcp_meas_edge_bps(m, m->sending), m->n, dep->snd_nxt);
		imtcp_paper_stream(m)->least_intervals = IMTCP_PAPER_LEAST_INTERVALS;
		p->stored_us = 0;
		return;
	}
	if (!p->stored_us)
		p->stored_us = dep->now_us;
	if (!dep->flight_segs || dep->now_us - p->stored_us >= imtcp_paper_hold_limit_us(m, dep))
		imtcp_paper_empty(m, p, dep, waiting_segs);
	else
		d->hold_segs = dep->flight_segs;
}

/*
 * Called before a departure, any number of times. Sets hold_segs of the decision if part of the
 * window must wait, and the pace of a stream's packet. All other packets leave at once.
 */
IMTCP_GLOBAL int imtcp_paper_unit(struct imtcp_meas *m, struct imtcp_paper *p,
				  const struct imtcp_departure *dep, struct imtcp_decision *d)
{
	struct imtcp_stream *s;
	imtcp_u32 waiting_segs;

	if (!m || !p || !dep || !d)
		return 0;
	waiting_segs = imtcp_paper_waiting_segs(dep);
	if (dep->snd_nxt != m->last_nxt)
		imtcp_paper_commit(m, p, dep, waiting_segs);
	p->asked_us = dep->now_us;
	p->limited = dep->flight_segs + waiting_segs >= dep->cwnd_segs;
	s = imtcp_paper_stream(m);
	if (m->unit == IMTCP_SEND && imtcp_paper_unfilled(m, s, dep)) {
		imtcp_meas_store_more(m);
		m->good_runs = 0;
		m->invalid[IMTCP_NOT_FILLED]++;
		imtcp_paper_empty(m, p, dep, waiting_segs);
	}
	if (m->unit == IMTCP_EMPTY && !imtcp_seq_before(dep->snd_nxt, p->empty_seq))
		m->unit = IMTCP_STORE;
	if (m->unit == IMTCP_STORE)
		imtcp_paper_store(m, p, dep, waiting_segs, d);
	if (m->unit != IMTCP_SEND)
		return 0;
	d->hold_segs = dep->flight_segs + dep->chunk_segs;
	if (!m->high_bps) { /* back to back [IM §3.2.1] */
		d->hold_segs = dep->flight_segs + m->n * dep->chunk_segs;
		return 0;
	}
	d->plan = IMTCP_PLAN_STREAM;
	d->unpaced = 0;
	d->pace_bps = imtcp_paper_rate_bps(
		s, (imtcp_u32)imtcp_min(s->sent + 1, imtcp_sub(s->planned, 1)), dep);
	return 0;
}

/* A loss ends the hold. Nothing is measured before a new ACK [IM §3.5.3]. */
IMTCP_INLINE void imtcp_paper_unit_on_loss(struct imtcp_meas *m, struct imtcp_paper *p)
{
	m->blocked = 1;
	p->stored_us = 0;
	p->train_end_seq = p->train_seq;
	m->unit = IMTCP_STORE;
}

#endif
