/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The Measurement unit (meas.h): it reads ACKs [IM §3.2.3-3.2.6]. Trains give the capacity and the
 * first range. Streams give verdicts, and verdicts give a result and the next range.
 */
#ifndef IMTCP_MEAS_ACK_H
#define IMTCP_MEAS_ACK_H

#include "meas_state.h"

/* Did the acknowledged data meet a queue? Its RTT and the least RTT of its round are late. At the
 * start of a round the previous round counts. */
IMTCP_INLINE int imtcp_meas_meets_queue(const struct imtcp_round *r, const struct imtcp_sample *ev)
{
	int begun = r->samples >= IMTCP_QUEUED_SAMPLES;
	imtcp_u32 least_us = begun ? r->least_rtt_us : r->last_least_rtt_us;

	return (begun || r->last_samples >= IMTCP_QUEUED_SAMPLES) &&
	       imtcp_over_least((imtcp_u32)ev->rtt_us, ev->min_rtt_us, IMTCP_QUEUED_DIV) &&
	       imtcp_over_least(least_us, ev->min_rtt_us, IMTCP_QUEUED_DIV);
}

/*
 * A train is complete: updates the capacity.
 *
 * Only a train that met a queue shows the sustained capacity. Behind a token bucket other trains
 * fit into its burst, and show the link in front of it. So while a queue was met lately, other
 * trains do not count. The first train that meets a queue replaces a higher capacity. The capacity
 * is at least the delivery rate meanwhile.
 */
IMTCP_INLINE void imtcp_meas_dispersion(struct imtcp_meas *m, imtcp_u64 now_us, imtcp_u64 rate_bps)
{
	int queued = imtcp_meas_queued(m, now_us);
	imtcp_u64 excess_bps;

	if (m->train_queued) {
		m->queued_at_us = now_us;
		rate_bps = imtcp_max(rate_bps, m->twice_bps);
		if (!queued && rate_bps < m->capacity_bps)
			m->capacity_bps = rate_bps;
	} else if (queued) {
		return;
	}
	excess_bps = imtcp_min(imtcp_sub(rate_bps, m->capacity_bps), m->capacity_bps);
	if (m->capacity_bps)
		m->excess_q16 = m->excess_q16 - m->excess_q16 / IMTCP_EXCESS_DIV +
				(imtcp_u32)imtcp_scale(excess_bps, 65536, m->capacity_bps) /
					IMTCP_EXCESS_DIV;
	m->capacity_bps = imtcp_capacity_update(m->capacity_bps, rate_bps);
	if (m->train_queued)
		m->queued_bps = m->capacity_bps;
}

/*
 * Collects the ACKs of packets that left back to back. Each complete train gives its dispersion
 * over its whole length, to limit noise. The first train gives the first range [IM §3.2.1].
 */
IMTCP_INLINE void imtcp_meas_train(struct imtcp_meas *m, const struct imtcp_round *r,
				   const struct imtcp_sample *ev)
{
	imtcp_u64 sent_us = ev->now_us - (imtcp_u32)ev->rtt_us;
	int same = m->train_last_una && sent_us - m->train_sent_us < IMTCP_BURST_GAP_US;
	imtcp_u64 bytes, rate;

	if (!same) {
		bytes = (imtcp_u32)(m->train_last_una - m->train_first_una);
		rate = imtcp_rate_bps(bytes * ev->wire_q8 / 256,
				      m->train_last_us - m->train_first_us);
		/* Skip trains below one segment: they measure clock noise. Skip trains that left
		 * more than a quarter as far apart as they arrived: they measure our own pace. */
		if (bytes >= ev->mss_bytes && rate && !m->bunching &&
		    m->train_span_us * 4 <= m->train_last_us - m->train_first_us)
			imtcp_meas_dispersion(m, ev->now_us, rate);
		m->train_queued = imtcp_meas_meets_queue(r, ev);
		m->train_sent_us = sent_us;
		m->train_first_us = ev->now_us;
		m->train_first_una = ev->snd_una;
	}
	m->train_span_us = (imtcp_u32)(sent_us - m->train_sent_us);
	m->train_last_us = ev->now_us;
	m->train_last_una = ev->snd_una;
	bytes = (imtcp_u32)(ev->snd_una - m->train_first_una);
	rate = imtcp_rate_bps(bytes * ev->wire_q8 / 256, ev->now_us - m->train_first_us);
	if (!m->high_bps && bytes >= (imtcp_u64)IMTCP_TRAIN_SEGS * ev->mss_bytes && rate) {
		m->capacity_bps = imtcp_max(m->capacity_bps, rate);
		imtcp_meas_set_range(m, rate / 2, rate);
	}
}

/*
 * Detects bunched ACKs. A pair is squeezed if its packets left apart and its ACKs came together.
 * With a third of the pairs squeezed in a round trip, neither streams nor trains are valid.
 */
IMTCP_INLINE void imtcp_meas_squeeze(struct imtcp_meas *m, const struct imtcp_sample *ev)
{
	imtcp_u64 sent_us = ev->now_us - (imtcp_u32)ev->rtt_us;
	imtcp_u64 apart_us = imtcp_sub(sent_us, m->prev_sent_us);

	if (m->prev_sent_us && apart_us >= IMTCP_SQUEEZE_APART_US) {
		m->pairs++;
		m->squeezed += (ev->now_us - m->prev_acked_us) * 8 < apart_us;
	}
	m->prev_sent_us = sent_us;
	m->prev_acked_us = ev->now_us;
}

/* A round trip ended: updates delivery rates, bunching and the pause. */
IMTCP_INLINE void imtcp_meas_round(struct imtcp_meas *m, const struct imtcp_round *r,
				   const struct imtcp_sample *ev)
{
	/* One round may use a burst, two do not. */
	m->twice_bps = imtcp_min(r->delivery_bps, m->delivery_bps);
	m->delivery_bps = r->delivery_bps;
	if (imtcp_meas_queued(m, ev->now_us))
		m->capacity_bps = imtcp_max(m->capacity_bps, m->twice_bps);
	if (m->pairs >= IMTCP_SQUEEZE_PAIRS)
		m->bunching = m->squeezed * IMTCP_BUNCHED_DIV > m->pairs;
	m->pairs = 0;
	m->squeezed = 0;
	/* No train came in IMTCP_TRAIN_ROUNDS. ACKs are thinned, or the application sends
	 * little. */
	if (!m->high_bps && r->count >= IMTCP_TRAIN_ROUNDS && m->delivery_bps)
		imtcp_meas_set_range(m, m->delivery_bps / 2, 2 * m->delivery_bps);
	/* The first train was wrong, because a token bucket let a burst pass. Slow start would wait
	 * for that range, for ever if the sender's own queue limits it. */
	if (!m->planned && m->low_bps > imtcp_meas_top_bps(m))
		imtcp_meas_set_range(m, m->capacity_bps / 2, m->capacity_bps);
	if (imtcp_over_least(r->last_least_rtt_us, ev->min_rtt_us, IMTCP_STANDING_DIV)) {
		m->standing_rounds++;
		if (m->standing_rounds >= IMTCP_CONGESTED_ROUNDS)
			m->pause_rtts = IMTCP_PAUSE_RTTS;
	} else {
		m->standing_rounds = 0;
		/* A free path: halve the pause, which is 0 after five rounds, and the rest of the
		 * present one. */
		m->pause_rtts /= 2;
		if (!m->whole_pause)
			m->resume_us = ev->now_us + imtcp_sub(m->resume_us, ev->now_us) / 2;
	}
}

/* a of [IM §3.2.4]: 0 above the range, 1...k a sub-range, k + 1 below it. */
IMTCP_GLOBAL imtcp_u32 imtcp_meas_choose(const struct imtcp_meas *m)
{
	imtcp_u32 a, i, best = 0;
	/* The sum for a = 0 is -T(1) - ... . An offset of k keeps it unsigned. */
	imtcp_u32 sum = IMTCP_SUB_RANGES, best_sum;

	if (!m)
		return 0;
	for (i = 0; i < IMTCP_SUB_RANGES; i++) {
		imtcp_u32 t = i < m->judged ? m->verdict[i].trend : (imtcp_u32)IMTCP_TREND_FLAT;

		sum += t == IMTCP_TREND_FLAT;
		sum -= t == IMTCP_TREND_UP;
	}
	best_sum = sum;
	for (a = 1; a <= IMTCP_SUB_RANGES; a++) {
		imtcp_u32 t = a <= m->judged ? m->verdict[a - 1].trend
					     : (imtcp_u32)IMTCP_TREND_FLAT;

		/* Moving T(a) from the second sum to the first adds 2 T(a). */
		sum += 2 * (t == IMTCP_TREND_UP);
		sum -= 2 * (t == IMTCP_TREND_FLAT);
		/* A tie gives the highest sub-range and not "above". */
		if (sum > best_sum || (sum == best_sum && !best)) {
			best_sum = sum;
			best = a;
		}
	}
	if (best == IMTCP_SUB_RANGES && m->verdict[IMTCP_SUB_RANGES - 1].all_strained)
		best = IMTCP_SUB_RANGES + 1;
	return best;
}

/* The outcome of a measurement, by the faults of its streams. The first that applies counts. */
IMTCP_INLINE imtcp_u32 imtcp_meas_outcome(const struct imtcp_meas *m, imtcp_u64 now_us)
{
	imtcp_u32 a = m->result.sub_range;

	if (m->bunching || m->tally.bunched * 2 > m->judged)
		return IMTCP_BUNCHED;
	if (m->tally.late * 2 >= m->judged)
		return IMTCP_NOT_FILLED;
	if (m->tally.few * 2 > m->judged || m->tally.thinned)
		return IMTCP_FEW_ACKS;
	if (m->tally.unknown * 2 > m->judged || m->result.validity_pct < IMTCP_VALID_LEAST_PCT)
		return IMTCP_POOR_FIT;
	if (m->standing_rounds >= 2 && m->delivery_bps &&
	    m->result.avail_bps > m->delivery_bps / IMTCP_SUSTAINED_DEN * IMTCP_SUSTAINED_NUM)
		return IMTCP_NO_STRAIN;
	if (imtcp_meas_queued(m, now_us) && m->result.avail_bps > imtcp_meas_top_bps(m))
		return IMTCP_NO_STRAIN;
	if (a == 0 || a > IMTCP_SUB_RANGES)
		return IMTCP_OUT_OF_RANGE;
	return IMTCP_OK;
}

/* Sets the next search range after a result [IM §3.2.6]. */
IMTCP_INLINE void imtcp_meas_next_range(struct imtcp_meas *m, imtcp_u64 now_us, imtcp_u32 outcome)
{
	int queued = imtcp_meas_queued(m, now_us);
	imtcp_u64 width = imtcp_sub(m->high_bps, m->low_bps);
	imtcp_u64 least = imtcp_max(width / 2, 1), avail = m->result.avail_bps, half;
	imtcp_u32 a = m->result.sub_range;

	if (outcome == IMTCP_OK) {
		imtcp_store_add(&m->store, avail);
		half = imtcp_max(imtcp_meas_interval_bps(m),
				 imtcp_max(avail / IMTCP_WIDTH_DIV,
					   m->capacity_bps / IMTCP_WIDTH_CAPACITY_DIV) /
					 2);
		/* With nothing stored before, the range keeps its width. */
		if (m->store.count == 1)
			half = imtcp_max(half, width / 2);
		if (m->joined) {
			imtcp_u64 missing = imtcp_sub(m->capacity_bps, avail);

			half = imtcp_max(half, missing / IMTCP_GAP_WIDTH_DIV);
			avail += missing / 4 * IMTCP_GAP_ABOVE_QUARTERS;
		}
		imtcp_meas_set_range(m, imtcp_sub(avail, half), avail + half);
	} else if (outcome == IMTCP_BUNCHED) {
		/* The dispersion of bunched ACKs shows no capacity either. */
		m->queued_at_us = 0;
		if (m->delivery_bps)
			m->capacity_bps = imtcp_min(
				m->capacity_bps, imtcp_mul(m->delivery_bps, IMTCP_BUNCHED_TRUST));
		if (m->capacity_bps)
			imtcp_meas_set_range(m, m->capacity_bps / 2, m->capacity_bps);
	} else if (outcome == IMTCP_NOT_FILLED) {
		/* The window cannot carry such fast streams. First try streams around A, if these
		 * were not; then the delivery rate that the window will need next. */
		if (m->joined && m->avail_bps)
			imtcp_meas_set_range(m, m->avail_bps - m->avail_bps / IMTCP_WIDTH_DIV,
					     m->avail_bps + m->avail_bps / IMTCP_WIDTH_DIV);
		else if (m->delivery_bps && m->high_bps / 2 > m->delivery_bps)
			imtcp_meas_set_range(m, m->delivery_bps, 2 * m->delivery_bps);
	} else if (outcome == IMTCP_NO_STRAIN) {
		imtcp_meas_set_range(m, m->low_bps, m->high_bps);
	} else if (outcome == IMTCP_OUT_OF_RANGE) {
		imtcp_store_clear(&m->store);
		/* A stream without strain is within the capacity. If it exceeds the capacity, the
		 * trains were wrong, unless a queue confirmed them. */
		if (a == 0) {
			if (m->capacity_bps && m->high_bps > m->capacity_bps && !queued)
				m->capacity_bps = m->high_bps + (m->joined ? 0 : least);
			/* There is neither a queue at this rate nor strain above it: the capacity
			 * from the queue was too low. */
			if (queued && now_us - m->queued_at_us > IMTCP_QUEUED_DOUBT_US)
				m->capacity_bps = imtcp_max(
					m->capacity_bps,
					imtcp_min(m->capacity_bps +
							  m->capacity_bps / IMTCP_QUEUED_DOUBT_DIV,
						  m->queued_bps +
							  m->queued_bps /
								  IMTCP_ABOVE_CAPACITY_DIV));
			imtcp_meas_set_range(m, m->low_bps, m->high_bps + least);
			/* At the old width below this end, streams would be slow. */
			if (queued)
				imtcp_meas_set_range(m, imtcp_max(m->low_bps, m->high_bps / 2),
						     m->high_bps);
		} else {
			imtcp_meas_set_range(m, imtcp_sub(m->low_bps, least), m->high_bps);
		}
	}
	/* The delivery rate without a queue is available, and with a queue A is not far above it. A
	 * range from a delayed first train would else climb by half widths. */
	if (m->delivery_bps > m->high_bps + m->high_bps / 4) {
		if (!m->standing_rounds && !queued)
			m->capacity_bps = imtcp_max(m->capacity_bps, m->delivery_bps);
		imtcp_store_clear(&m->store);
		imtcp_meas_set_range(m, m->delivery_bps / 2, 2 * m->delivery_bps);
	}
}

/* A by trends and lines [IM §3.2.4, §3.2.5]: sets the result. */
IMTCP_INLINE void imtcp_meas_by_lines(struct imtcp_meas *m)
{
	imtcp_u64 avail;
	imtcp_u32 a = imtcp_meas_choose(m);

	m->result.sub_range = a;
	m->result.validity_pct = 100;
	avail = m->high_bps;
	if (a > IMTCP_SUB_RANGES) {
		avail = m->low_bps;
	} else if (a) {
		const struct imtcp_verdict *v = &m->verdict[(a - 1) & IMTCP_SUB_RANGE_MASK];

		/* All intervals are strained: A lies in the next lower sub-range. */
		if (v->all_strained && a < m->judged)
			v = &m->verdict[a & IMTCP_SUB_RANGE_MASK];
		avail = v->avail_bps;
		m->result.validity_pct = v->validity_pct;
	}
	m->result.avail_bps = avail;
}

/* A by the strains of all streams (gap.h): sets the result. */
IMTCP_INLINE void imtcp_meas_by_gaps(struct imtcp_meas *m)
{
	imtcp_u64 width = imtcp_sub(m->high_bps, m->low_bps), avail;
	imtcp_u32 i;

	m->gap.n = 0;
	for (i = 0; i < IMTCP_SUB_RANGES; i++) {
		if (i >= m->judged)
			break;
		imtcp_gap_add(&m->gap, &m->verdict[i], m->high_bps);
	}
	imtcp_gap_join(&m->gap);
	avail = imtcp_scale(m->high_bps, m->gap.avail, IMTCP_FIT_ONE);
	m->result.validity_pct = m->gap.validity_pct;
	m->result.sub_range = 0;
	m->result.avail_bps = m->high_bps;
	if (!m->gap.strained || avail >= m->high_bps)
		return;
	m->result.avail_bps = avail;
	/* A result below the range counts as in its lowest part. */
	m->result.sub_range = (imtcp_u32)imtcp_min(
		1 + imtcp_div((m->high_bps - avail) * IMTCP_SUB_RANGES, width), IMTCP_SUB_RANGES);
}

/* All streams are judged: sets the result and the next range [IM §3.2.5, §3.2.6]. */
IMTCP_GLOBAL int imtcp_meas_conclude(struct imtcp_meas *m, const struct imtcp_sample *ev)
{
	imtcp_u32 outcome;

	if (!m || !ev)
		return 0;
	if (m->joined)
		imtcp_meas_by_gaps(m);
	else
		imtcp_meas_by_lines(m);

	outcome = imtcp_meas_outcome(m, ev->now_us);
	if (outcome == IMTCP_NOT_FILLED) {
		imtcp_meas_store_more(m);
		m->spare += m->spare < IMTCP_SPARE_MOST;
	}

	/* A <= C, if a queue showed C. */
	if (imtcp_meas_queued(m, ev->now_us))
		m->result.avail_bps = imtcp_min(m->result.avail_bps, m->capacity_bps);

	imtcp_meas_end(m, ev->now_us, ev->srtt_us, outcome);
	imtcp_meas_next_range(m, ev->now_us, outcome);
	return 0;
}

/* Stream i has all its ACKs: judges it, and counts its faults. */
IMTCP_INLINE void imtcp_meas_judge(struct imtcp_meas *m, imtcp_u32 i)
{
	struct imtcp_verdict *v = &m->verdict[i & IMTCP_SUB_RANGE_MASK];

	imtcp_stream_judge(&m->stream[i & IMTCP_SUB_RANGE_MASK], m->capacity_bps, m->wire_q8,
			   &m->judging, v);
	/* A strain counts, whichever interval it came in. */
	if (m->joined && v->rate_bps)
		v->trend = v->free_bps < v->rate_bps ? IMTCP_TREND_UP : IMTCP_TREND_FLAT;
	m->judged = i + 1;
	m->tally.unknown += v->trend == IMTCP_TREND_UNKNOWN;
	m->tally.few += v->intervals < IMTCP_STREAM_LEAST_INTERVALS;
	m->tally.bunched += v->bunched * IMTCP_BUNCHED_DIV > v->intervals;
	m->tally.late += v->slow || v->late * 2 > v->intervals;
	m->tally.thinned += m->stream[i & IMTCP_SUB_RANGE_MASK].thinned;
}

/*
 * Gives an ACK to the streams under way, and judges those that are complete. payload_bps is the
 * capacity in payload, or 0 (imtcp_stream_on_ack). Returns 1 if the last stream of the measurement
 * is judged.
 */
IMTCP_INLINE int imtcp_meas_streams_on_ack(struct imtcp_meas *m, const struct imtcp_sample *ev,
					   imtcp_u64 payload_bps)
{
	imtcp_u32 i;

	for (i = 0; i < IMTCP_SUB_RANGES; i++) {
		struct imtcp_stream *s = &m->stream[i];

		if (i < m->judged)
			continue;
		if (i > m->sending || !s->sent || (i == m->sending && m->unit != IMTCP_SEND))
			break;
		if (!imtcp_seq_before(s->first_seq, ev->snd_una))
			break;
		imtcp_stream_on_ack(s, ev->snd_una, (imtcp_u32)(ev->now_us - (imtcp_u32)ev->rtt_us),
				    (imtcp_u32)ev->now_us, payload_bps);
		if (!imtcp_stream_done(s))
			break;
		imtcp_meas_judge(m, i);
	}
	/* After two streams in a row without a trend, lower ones have none either [IM §3.2.3]. */
	i = m->judged;
	if (i >= 2 && i <= IMTCP_SUB_RANGES && i < m->planned &&
	    m->verdict[(i - 1) & IMTCP_SUB_RANGE_MASK].trend == IMTCP_TREND_FLAT &&
	    m->verdict[(i - 2) & IMTCP_SUB_RANGE_MASK].trend == IMTCP_TREND_FLAT)
		m->planned = i;
	return m->planned && m->judged >= m->planned;
}

/*
 * An ACK moved snd_una. r is the round trip of the connection, which this ACK may have ended.
 * Returns 1 if a measurement ended (m->result).
 */
IMTCP_GLOBAL int imtcp_meas_on_ack(struct imtcp_meas *m, const struct imtcp_round *r,
				   const struct imtcp_sample *ev)
{
	imtcp_u64 ended;

	if (!m || !r || !ev)
		return 0;
	ended = m->ends;
	imtcp_meas_note_ack(m, ev);
	if (ev->round_over)
		imtcp_meas_round(m, r, ev);
	if (m->blocked && !imtcp_seq_before(ev->snd_una, m->blocked_seq))
		m->blocked = 0;
	if (ev->rtt_us <= 0)
		return 0;
	imtcp_meas_train(m, r, ev);
	imtcp_meas_squeeze(m, ev);
	if (m->planned &&
	    imtcp_meas_streams_on_ack(m, ev, imtcp_scale(m->capacity_bps, 256, ev->wire_q8)))
		imtcp_meas_conclude(m, ev);
	return m->ends != ended;
}

#endif
