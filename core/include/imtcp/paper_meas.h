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
 * Walk: the ACKs of the train make the first range (imtcp_paper_train). A stream whose ACKs are all in is judged
 * (stream.h). When two in a row show no trend, the others are not sent. imtcp_paper_conclude takes (3) to (5), and the
 * next measurement begins with the next question: no result is rejected, and no pause is made that nobody chose.
 *
 * References: [IM §3.2, §3.4.1, §3.5].
 *
 * Differences from the paper
 *  1. (4): the paper prints B_l and B_u the other way round, and S as "the variance": misprints, as (5) shows.
 *  2. (3) has the same sum for a = k and a = k + 1: k + 1 if each interval of stream k is strained.
 *  3. With delayed ACKs each second packet has an ACK of its own, and an interval is of two packets by itself. N is half
 *     as large again [IM §3.5.1: "increased appropriately"].
 *  4. k = 4, B_m = A/5 and the thresholds of the trends are in no paper (meas_state.h, stream.h).
 *  5. A stream without two packets that are acknowledged apart has no trend, and A is the low end of its sub-range.
 */
#ifndef IMTCP_PAPER_MEAS_H
#define IMTCP_PAPER_MEAS_H

#include "meas_ack.h"
#include "paper_unit.h"

/* A connection begins: its packets are held from the first on, and no pause is made that nobody chose [IM §4.5]. */
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
	imtcp_u32 n = params->paper_stream_packets;

	m->chunk_segs = chunk_segs;
	if ((m->ack_ratio_q8 + 64) / 256 > chunk_segs)
		n += n / 2;
	if (m->n != n && !m->planned && m->unit != IMTCP_SEND)
		imtcp_meas_set_n(m, n);
}

/* B_l >= 0, B_u at most the sender's link where it is known. */
IMTCP_INLINE void imtcp_paper_set_range(struct imtcp_meas *m, imtcp_u64 low_bps, imtcp_u64 high_bps)
{
	if (m->link_bps)
		high_bps = imtcp_min(high_bps, m->link_bps);
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

/* (5), after a result. */
IMTCP_INLINE void imtcp_paper_next_range(struct imtcp_meas *m, imtcp_u64 a_bps, imtcp_u32 a)
{
	imtcp_u64 width = imtcp_sub(m->high_bps, m->low_bps), half;

	if (a && a <= IMTCP_SUB_RANGES) {
		half = a_bps / IMTCP_WIDTH_DIV / 2;
		/* with nothing stored, the last width again */
		if (!m->store.count)
			half = imtcp_max(half, width / 2);
		imtcp_store_add(&m->store, a_bps);
		half = imtcp_max(half, imtcp_div(imtcp_scale(imtcp_store_deviation_bps(&m->store),
							     IMTCP_Z95_Q100, 100) *
							 16,
						 imtcp_isqrt(m->store.count * 256ULL)));
		imtcp_paper_set_range(m, imtcp_sub(a_bps, half), a_bps + half);
		return;
	}
	imtcp_store_clear(&m->store);
	half = imtcp_max(width / 2, 1);
	if (!a)
		imtcp_paper_set_range(m, m->low_bps, m->high_bps + half);
	else
		imtcp_paper_set_range(m, imtcp_sub(m->low_bps, half), m->high_bps);
}

/* (3), (4): all streams are judged. */
IMTCP_GLOBAL int imtcp_paper_conclude(struct imtcp_meas *m, const struct imtcp_sample *s)
{
	imtcp_u64 a_bps;
	imtcp_u32 a, outcome;

	if (!m || !s)
		return 0;
	a = imtcp_meas_choose(m);
	a_bps = a ? m->low_bps : m->high_bps;
	m->result.validity_pct = 100;
	if (a && a <= IMTCP_SUB_RANGES) {
		const struct imtcp_verdict *v = &m->verdict[(a - 1) & IMTCP_SUB_RANGE_MASK];

		a_bps = imtcp_max(v->avail_bps, imtcp_meas_edge_bps(m, a));
		m->result.validity_pct = v->validity_pct;
	}
	outcome = a && a <= IMTCP_SUB_RANGES ? IMTCP_OK : IMTCP_OUT_OF_RANGE;
	m->result.sub_range = a;
	m->result.avail_bps = a_bps;
	imtcp_meas_end(m, s->now_us, s->srtt_us, outcome);
	/* what [IM §3.2.5] calls the temporary value is the newest, too */
	m->avail_bps = a_bps;
	m->avail_at_us = s->now_us;
	imtcp_paper_next_range(m, a_bps, a);
	return 0;
}

/* An ACK that moved snd_una. Returns 1 if a measurement ended (m->result). */
IMTCP_GLOBAL int imtcp_paper_on_ack(struct imtcp_meas *m, struct imtcp_paper *p,
				    const struct imtcp_sample *s)
{
	imtcp_u64 ended;
	imtcp_u32 segs;

	if (!m || !p || !s)
		return 0;
	ended = m->ends;
	m->wire_q8 = s->wire_q8;
	segs = (imtcp_u32)imtcp_min(imtcp_div(s->snd_una - s->prior_una, s->mss_bytes), 64);
	if (segs)
		m->ack_ratio_q8 = (imtcp_u32)imtcp_ewma(m->ack_ratio_q8, segs * 256);
	m->blocked = 0;
	if (s->rtt_us <= 0)
		return 0;
	imtcp_paper_train(m, p, s);
	if (m->planned && imtcp_meas_streams_on_ack(m, s, 0))
		imtcp_paper_conclude(m, s);
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
