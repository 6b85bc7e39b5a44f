/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The Control unit as the ImTCP paper prints it: it holds packets below TCP and lets them go in streams.
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
 * Walk: TCP asks before each departure (imtcp_paper_unit). The ImTCP buffer is what the window admits and has not left.
 * STORE lets no packet go: it answers with a window of what is in flight. When m packets wait, SEND lets one go at a
 * time. The gap after each is that of the stream's rate. After the stream EMPTY lets all of the buffer go at once. After
 * the last stream PASS does the same, until the Measurement unit (paper_meas.h) has its ACKs.
 *
 * References: [IM §3.3] for the states, [IM §3.4] for m and T, [IM §3.5.3] for a loss.
 *
 * Differences from the paper
 *  1. No timer: a hold ends where TCP asks, at an ACK or a write. So T is over at the first of them after T.
 *     With nothing in flight no ACK would come, and the hold ends.
 *  2. The packet after a stream waits for one more gap of the stream's highest rate. TCP asks again when its pacing
 *     timer fires, and that gap sets the timer.
 *  3. A packet is what TCP puts into one buffer (control.h: chunk_segs). With gso_max_segs 1 on the device it is one
 *     segment.
 *  4. No interval of a stream is longer than IMTCP_T_MAX_US. B_l may reach 0, and a stream would last for ever.
 *  5. Nothing is held while TCP repairs a loss or answers a mark: the window is the kernel's then (PRR). The paper holds
 *     from the first new ACK on.
 *  6. A stream that was not filled is tried again after EMPTY. The paper says "create the stream again" and no more.
 */
#ifndef IMTCP_PAPER_UNIT_H
#define IMTCP_PAPER_UNIT_H

#include "flow.h"

/* Least intervals of a verdict: as few as there are, where N = 3 leaves two [IM fig. 8]. */
#define IMTCP_PAPER_LEAST_INTERVALS 1U

/* The unit's own state. The streams, N, m and the range are in struct imtcp_meas. */
struct imtcp_paper {
	imtcp_u64 stored_us; /* since when packets are held; 0: none is */
	imtcp_u64 asked_us;  /* when TCP asked before: packets that left since left then */
	imtcp_u32 empty_seq; /* EMPTY lets all go that is before this */
	/* the Cprobe train, the first stream of all [IM §3.2.1] */
	imtcp_u32 train_seq;	   /* its first byte */
	imtcp_u32 train_end_seq;   /* the first after it; equal: there is none */
	imtcp_u32 train_first_una; /* what its first ACK acknowledged */
	imtcp_u64 train_first_us;  /* when; 0: it has not come */
	imtcp_u32 limited;	   /* the window limits what is sent, and not the hold alone */
	imtcp_u32 round_limited;   /* for full speed: it did in this round trip */
	/* of the background modes */
	imtcp_u32 min_rtt_us;	 /* RTTmin, of the connection's life; 0: none */
	imtcp_u32 newest_rtt_us; /* RTT_cur */
};

/* A packet on the wire. */
IMTCP_INLINE imtcp_u64 imtcp_paper_packet_bytes(const struct imtcp_departure *dep)
{
	return (imtcp_u64)dep->chunk_segs * dep->pkt_bytes;
}

/* Segments that the window admits and that have not left: the ImTCP buffer. One that is not full is none: it would be
 * sooner across each link, and a stream of such packets seems to meet an ever shorter queue. */
IMTCP_INLINE imtcp_u32 imtcp_paper_waiting_segs(const struct imtcp_departure *dep)
{
	imtcp_u64 bytes = imtcp_min(dep->unsent_bytes, dep->receiver_bytes);
	imtcp_u64 unsent = imtcp_div(bytes, dep->mss_bytes);

	return imtcp_to_u32(imtcp_min(unsent, imtcp_sub(dep->cwnd_segs, dep->flight_segs)));
}

/* T = M (N - 1) / A + 4 D_RTT [IM §3.4.2], or the T that was chosen; microseconds. Before the first result A is the
 * middle of the search range. */
IMTCP_INLINE imtcp_u64 imtcp_paper_hold_limit_us(const struct imtcp_meas *m,
						 const struct imtcp_departure *dep)
{
	imtcp_u64 bytes = (m->n - 1) * imtcp_paper_packet_bytes(dep);
	imtcp_u64 a_bps = m->avail_bps ? m->avail_bps : (m->low_bps + m->high_bps) / 2;

	if (m->t_us)
		return m->t_us;
	return imtcp_time_us(bytes, a_bps) + (imtcp_u64)IMTCP_T_DEVIATIONS * dep->rtt_dev_us;
}

/* The rate of the interval that ends with packet j, on the wire (difference 4). */
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

/* Lets go all that is held: waiting_segs. */
IMTCP_INLINE void imtcp_paper_empty(struct imtcp_meas *m, struct imtcp_paper *p,
				    const struct imtcp_departure *dep, imtcp_u32 waiting_segs)
{
	m->unit = IMTCP_EMPTY;
	p->stored_us = 0;
	p->empty_seq = dep->snd_nxt + (imtcp_u32)imtcp_min((imtcp_u64)waiting_segs * dep->mss_bytes,
							   dep->unsent_bytes);
}

/* Something left since the question before. */
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

/* Was the stream not filled in time? Its next packet is late by more than half of the planned interval (stream.h has
 * the same bound: the pacing timer is late, too). */
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

/* STORE: may packets be held at all? [IM §3.3, §3.5.3] */
IMTCP_INLINE int imtcp_paper_may_store(const struct imtcp_meas *m,
				       const struct imtcp_departure *dep)
{
	return !m->blocked && !dep->recovering && dep->cwnd_segs >= m->n * dep->chunk_segs &&
	       (m->planned || dep->now_us >= m->resume_us);
}

/* A hold goes on, or a stream begins, or T is over. */
IMTCP_INLINE void imtcp_paper_store(struct imtcp_meas *m, struct imtcp_paper *p,
				    const struct imtcp_departure *dep, imtcp_u32 waiting_segs,
				    struct imtcp_decision *d)
{
	if (!waiting_segs || !imtcp_paper_may_store(m, dep)) {
		p->stored_us = 0;
		return;
	}
	/* the train is of N packets, and no rate is asked of it */
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
 * Before a departure. Sets hold_segs of the decision if not all of the window may go, and the pace of a stream's packet.
 * All other packets leave at once. TCP may ask any number of times.
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

/* A loss: all that is held goes, and nothing is measured before a new ACK [IM §3.5.3]. */
IMTCP_INLINE void imtcp_paper_unit_on_loss(struct imtcp_meas *m, struct imtcp_paper *p)
{
	m->blocked = 1;
	p->stored_us = 0;
	p->train_end_seq = p->train_seq;
	m->unit = IMTCP_STORE;
}

#endif
