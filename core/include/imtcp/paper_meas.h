/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The Measurement unit as the ImTCP paper prints it: what the ACKs of streams say of the available bandwidth A.
 *
 *   (1) A_c = (n - 1) M / (R(n) - R(1)); the first range is (A_c/2, A_c)             [IM §3.2.1]
 *   (2) k sub-ranges, a stream for each; trends T(i) by Pathload's two tests         [IM §3.2.2, §3.2.3]
 *   (3) a maximises sum(T(j), j <= a) - sum(T(j), j > a)                             [IM §3.2.4]
 *   (4) A is the greatest x on line (i) of stream a; B_u for a = 0, B_l for k + 1    [IM §3.2.5]
 *   (5) found: A +- max(1.96 S/sqrt(q), B_m/2); else the range grows by half its width on one side [IM §3.2.6]
 *
 * Walk: the ACKs of the train make the first range (imtcp_paper_train). stream.h judges each stream when its ACKs are
 * all in. If two streams in a row show no trend, the unit sends no others. imtcp_paper_conclude does (3) to (5). It
 * rejects no result. The next measurement begins at the next question, or after the pause that somebody chose.
 *
 * References: [IM §3.2, §3.4.1, §3.5].
 *
 * Differences from the paper
 *  1. The paper prints B_l and B_u of (4) the other way round, and S as "the variance". (5) shows that these are misprints.
 *  2. (3) has the same sum for a = k and a = k + 1. Then a = k + 1 if each interval of stream k is strained.
 *  3. With delayed ACKs only each second packet has an ACK of its own, so intervals are of two packets. Then N is half
 *     as large again: [IM §3.5.1] says "increased appropriately".
 *  4. k = 4, B_m = A/5 and the thresholds of the trends are in no paper (meas_state.h, stream.h).
 *  5. A stream without two packets that are acknowledged apart has no trend, and A is the low end of its sub-range.
 *  6. The range ends at IMTCP_PAPER_MOST_BPS. Where ACKs come in bunches no stream shows a trend. So the range climbs for
 *     as long as it may, as on a free path. Nothing in the paper tells the two apart.
 *  7. stream.h judges streams, with its differences. Line (i) is y = x, and a rise within the clocks' grain is none.
 *  8. q and S of (5) forget: beyond 32 results the older ones lose half of their weight (filter.h).
 *  9. A tie of (3) between a = 0 and a = 1 is a = 1.
 */
#ifndef IMTCP_PAPER_MEAS_H
#define IMTCP_PAPER_MEAS_H

#include "meas_ack.h"
#include "paper_unit.h"

/* The most that is searched, 100 Gbit/s. ours: more than the fastest link that one connection fills. */
#define IMTCP_PAPER_MOST_BPS (100000ULL * 1000 * 1000)

/* A connection begins. It stores from its first packet on, and pauses only if somebody chose a pause [IM §4.5]. */
IMTCP_INLINE void imtcp_paper_begin(struct imtcp_meas *m, const struct imtcp_params *params)
{
	imtcp_meas_set_n(m, params->paper_stream_packets);
	m->pause_plus1 = (imtcp_u32)imtcp_max(m->pause_plus1, IMTCP_PAUSE_LEAST_PLUS1);
	m->unit = IMTCP_STORE;
}

/* N where an ACK answers several packets, between measurements (difference 3). */
IMTCP_INLINE void imtcp_paper_adapt_n(struct imtcp_meas *m, const struct imtcp_params *params,
				      imtcp_u32 chunk_segs)
{
	imtcp_u32 n = imtcp_meas_n_for(m, params->paper_stream_packets, chunk_segs);

	m->chunk_segs = chunk_segs;
	if (m->n != n && !m->planned && m->unit != IMTCP_SEND)
		imtcp_meas_set_n(m, n);
}

/* B_l >= 0, B_u at most the fastest link (difference 6). */
IMTCP_INLINE void imtcp_paper_set_range(struct imtcp_meas *m, imtcp_u64 low_bps, imtcp_u64 high_bps)
{
	high_bps = imtcp_min(high_bps, IMTCP_PAPER_MOST_BPS);
	m->high_bps = imtcp_max(high_bps, 1);
	m->low_bps = imtcp_min(low_bps, m->high_bps);
}

/* (1): an ACK, perhaps of the train. */
IMTCP_INLINE void imtcp_paper_train(struct imtcp_meas *m, struct imtcp_paper *p,
				    const struct imtcp_sample *s)
{
	imtcp_u64 rate_bps;

	if (p->train_end_seq == p->train_seq || !imtcp_seq_before(p->train_seq, s->snd_una))
		return;
	if (!p->train_first_us) {
		p->train_first_us = s->now_us;
		p->train_first_una = s->snd_una;
	}
	if (imtcp_seq_before(s->snd_una, p->train_end_seq))
		return;
	rate_bps = imtcp_rate_bps((imtcp_u64)(imtcp_u32)(s->snd_una - p->train_first_una) *
					  s->wire_q8 / 256,
				  s->now_us - p->train_first_us);
	/* all in one ACK: another train */
	if (rate_bps) {
		m->capacity_bps = rate_bps;
		imtcp_paper_set_range(m, rate_bps / 2, rate_bps);
	}
	p->train_end_seq = p->train_seq;
	m->unit = IMTCP_STORE;
}

/* (5), where A was found in a sub-range. */
IMTCP_INLINE void imtcp_paper_range_around(struct imtcp_meas *m, imtcp_u64 a_bps)
{
	imtcp_u64 half = a_bps / IMTCP_WIDTH_DIV / 2;

	/* with nothing stored, the last width again */
	if (!m->store.count)
		half = imtcp_max(half, imtcp_sub(m->high_bps, m->low_bps) / 2);
	imtcp_store_add(&m->store, a_bps);
	half = imtcp_max(half, imtcp_meas_interval_bps(m));
	imtcp_paper_set_range(m, imtcp_sub(a_bps, half), a_bps + half);
}

/* (5), where it lies above the range or below. */
IMTCP_INLINE void imtcp_paper_widen(struct imtcp_meas *m, int above)
{
	imtcp_u64 half = imtcp_max(imtcp_sub(m->high_bps, m->low_bps) / 2, 1);

	imtcp_store_clear(&m->store);
	if (above)
		imtcp_paper_set_range(m, m->low_bps, m->high_bps + half);
	else
		imtcp_paper_set_range(m, imtcp_sub(m->low_bps, half), m->high_bps);
}

/* (3), (4): all streams are judged. */
IMTCP_GLOBAL int imtcp_paper_conclude(struct imtcp_meas *m, const struct imtcp_sample *s)
{
	const struct imtcp_verdict *v;
	imtcp_u64 a_bps;
	imtcp_u32 a;
	int found;

	if (!m || !s)
		return 0;
	a = imtcp_meas_choose(m);
	found = a && a <= IMTCP_SUB_RANGES;
	v = &m->verdict[(a - 1) & IMTCP_SUB_RANGE_MASK];
	a_bps = a ? m->low_bps : m->high_bps;
	if (found)
		a_bps = imtcp_max(v->avail_bps, imtcp_meas_edge_bps(m, a));
	m->result.sub_range = a;
	m->result.avail_bps = a_bps;
	m->result.validity_pct = found ? v->validity_pct : 100;
	imtcp_meas_end(m, s->now_us, s->srtt_us, found ? IMTCP_OK : IMTCP_OUT_OF_RANGE);
	/* the newest one is also the temporary value of [IM §3.2.5] */
	m->avail_bps = a_bps;
	m->avail_at_us = s->now_us;
	if (found)
		imtcp_paper_range_around(m, a_bps);
	else
		imtcp_paper_widen(m, !a);
	return 0;
}

/* An ACK that moved snd_una. Returns 1 if a measurement ended (m->result). */
IMTCP_GLOBAL int imtcp_paper_on_ack(struct imtcp_meas *m, struct imtcp_paper *p,
				    const struct imtcp_sample *s)
{
	imtcp_u64 ended;

	if (!m || !p || !s)
		return 0;
	ended = m->ends;
	imtcp_meas_note_ack(m, s);
	m->blocked = 0;
	if (s->rtt_us <= 0)
		return 0;
	imtcp_paper_train(m, p, s);
	if (m->planned && imtcp_meas_streams_on_ack(m, s, 0)) {
		imtcp_paper_conclude(m, s);
		/* two streams may say enough while the third is held: EMPTY lets it go at the next question */
		p->empty_seq = s->snd_nxt + 1;
		p->stored_us = 0;
	}
	return m->ends != ended;
}

/* A loss ends a measurement [IM §3.5.3]. */
IMTCP_INLINE void imtcp_paper_on_loss(struct imtcp_meas *m, struct imtcp_paper *p,
				      const struct imtcp_sample *s)
{
	imtcp_meas_abandon(m, s->now_us, s->srtt_us, IMTCP_RETRANSMITTED);
	imtcp_paper_unit_on_loss(m, p);
}

#endif
