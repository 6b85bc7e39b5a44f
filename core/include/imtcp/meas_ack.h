/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The Measurement unit (meas.h): what ACKs say. Trains give capacity and the first range, streams
 * their verdicts, verdicts a result and the next range [IM §3.2.3-3.2.6].
 */
#ifndef IMTCP_MEAS_ACK_H
#define IMTCP_MEAS_ACK_H

#include "meas_state.h"

/* Does what is acknowledged now come through a queue? It is late, and so are the others of its round,
 * or, at a round's begin, of the one before. */
IMTCP_INLINE int imtcp_meas_meets_queue(const struct imtcp_round *r, const struct imtcp_sample *ev)
{
	int begun = r->samples >= IMTCP_QUEUED_SAMPLES;
	imtcp_u32 least_us = begun ? r->least_rtt_us : r->last_least_rtt_us;

	return (begun || r->last_samples >= IMTCP_QUEUED_SAMPLES) &&
	       imtcp_over_least((imtcp_u32)ev->rtt_us, ev->min_rtt_us, IMTCP_QUEUED_DIV) &&
	       imtcp_over_least(least_us, ev->min_rtt_us, IMTCP_QUEUED_DIV);
}

/*
 * A train is over. Only a train that met a queue shows the capacity that lasts. Behind a token bucket the
 * others leave in its burst, as fast as the link in front of it. So once a queue was met the others do not
 * count. The first train that meets one starts anew. The capacity is at least what was delivered meanwhile.
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
 * Packets that left back to back. The dispersion of each train that is over gives the capacity, over its
 * whole length against noise. That of the first gives the first range [IM §3.2.1].
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
		/* less than a segment measures the clock; what left a quarter as far apart as it came, its pace */
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
 * Are ACKs bunched on this path? Two whose packets left apart, but which came together, are
 * squeezed; a third of them in one round trip, and neither streams nor trains can be believed.
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

/* Once per round trip: how congested the path is, hence the pause. */
IMTCP_INLINE void imtcp_meas_round(struct imtcp_meas *m, const struct imtcp_round *r,
				   const struct imtcp_sample *ev)
{
	/* one round may live on a burst, two do not */
	m->twice_bps = imtcp_min(r->delivery_bps, m->delivery_bps);
	m->delivery_bps = r->delivery_bps;
	if (imtcp_meas_queued(m, ev->now_us))
		m->capacity_bps = imtcp_max(m->capacity_bps, m->twice_bps);
	if (m->pairs >= IMTCP_SQUEEZE_PAIRS)
		m->bunching = m->squeezed * IMTCP_BUNCHED_DIV > m->pairs;
	m->pairs = 0;
	m->squeezed = 0;
	/* no train came in IMTCP_TRAIN_ROUNDS: thinned ACKs, or an application that sends little */
	if (!m->high_bps && r->count >= IMTCP_TRAIN_ROUNDS && m->delivery_bps)
		imtcp_meas_set_range(m, m->delivery_bps / 2, 2 * m->delivery_bps);
	/* the first train was wrong (a burst that a token bucket let by): slow start would wait for
	 * that range, and where the sender's own queue limits it, for ever */
	if (!m->planned && m->low_bps > imtcp_meas_top_bps(m))
		imtcp_meas_set_range(m, m->capacity_bps / 2, m->capacity_bps);
	if (imtcp_over_least(r->last_least_rtt_us, ev->min_rtt_us, IMTCP_STANDING_DIV)) {
		m->standing_rounds++;
		if (m->standing_rounds >= IMTCP_CONGESTED_ROUNDS)
			m->pause_rtts = IMTCP_PAUSE_RTTS;
	} else {
		m->standing_rounds = 0;
		/* a free path: halve the pause, 0 after five rounds; and what is left of the one that goes on */
		m->pause_rtts /= 2;
		if (!m->whole_pause)
			m->resume_us = ev->now_us + imtcp_sub(m->resume_us, ev->now_us) / 2;
	}
}

/* a of [IM §3.2.4]: 0 above the range, 1...k a sub-range, k + 1 below. */
IMTCP_GLOBAL imtcp_u32 imtcp_meas_choose(const struct imtcp_meas *m)
{
	imtcp_u32 a, i, best = 0;
	/* the sum for a = 0 is -T(1) - ... ; offset by k to stay unsigned */
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

		/* moving T(a) from the second sum to the first changes it by 2 T(a) */
		sum += 2 * (t == IMTCP_TREND_UP);
		sum -= 2 * (t == IMTCP_TREND_FLAT);
		/* ties: the highest sub-range rather than "above", which must be earned */
		if (sum > best_sum || (sum == best_sum && !best)) {
			best_sum = sum;
			best = a;
		}
	}
	if (best == IMTCP_SUB_RANGES && m->verdict[IMTCP_SUB_RANGES - 1].all_strained)
		best = IMTCP_SUB_RANGES + 1;
	return best;
}

/* The verdict on a result, by what its streams showed. The first that applies counts. */
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

/* The next search range, after a result with this outcome [IM §3.2.6]. */
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
		/* with nothing stored before, the last width again */
		if (m->store.count == 1)
			half = imtcp_max(half, width / 2);
		if (m->joined) {
			imtcp_u64 missing = imtcp_sub(m->capacity_bps, avail);

			half = imtcp_max(half, missing / IMTCP_GAP_WIDTH_DIV);
			avail += missing / 4 * IMTCP_GAP_ABOVE_QUARTERS;
		}
		imtcp_meas_set_range(m, imtcp_sub(avail, half), avail + half);
	} else if (outcome == IMTCP_BUNCHED) {
		/* the dispersion of bunched ACKs shows no capacity either */
		m->queued_at_us = 0;
		if (m->delivery_bps)
			m->capacity_bps = imtcp_min(
				m->capacity_bps, imtcp_mul(m->delivery_bps, IMTCP_BUNCHED_TRUST));
		if (m->capacity_bps)
			imtcp_meas_set_range(m, m->capacity_bps / 2, m->capacity_bps);
	} else if (outcome == IMTCP_NOT_FILLED) {
		/* the window cannot carry streams so fast: first those around A, if it was not these; then what
		 * it will need next */
		if (m->joined && m->avail_bps)
			imtcp_meas_set_range(m, m->avail_bps - m->avail_bps / IMTCP_WIDTH_DIV,
					     m->avail_bps + m->avail_bps / IMTCP_WIDTH_DIV);
		else if (m->delivery_bps && m->high_bps / 2 > m->delivery_bps)
			imtcp_meas_set_range(m, m->delivery_bps, 2 * m->delivery_bps);
	} else if (outcome == IMTCP_NO_STRAIN) {
		imtcp_meas_set_range(m, m->low_bps, m->high_bps);
	} else if (outcome == IMTCP_OUT_OF_RANGE) {
		imtcp_store_clear(&m->store);
		/* a stream without strain is within the capacity, so trains that say less were wrong,
		 * unless a queue proved them */
		if (a == 0) {
			if (m->capacity_bps && m->high_bps > m->capacity_bps && !queued)
				m->capacity_bps = m->high_bps + (m->joined ? 0 : least);
			/* no queue at its rate, no strain above it: what the queue showed was too low */
			if (queued && now_us - m->queued_at_us > IMTCP_QUEUED_DOUBT_US)
				m->capacity_bps = imtcp_max(
					m->capacity_bps,
					imtcp_min(m->capacity_bps +
							  m->capacity_bps / IMTCP_QUEUED_DOUBT_DIV,
						  m->queued_bps +
							  m->queued_bps /
								  IMTCP_ABOVE_CAPACITY_DIV));
			imtcp_meas_set_range(m, m->low_bps, m->high_bps + least);
			/* as wide as before below what ends there, streams would be slow */
			if (queued)
				imtcp_meas_set_range(m, imtcp_max(m->low_bps, m->high_bps / 2),
						     m->high_bps);
		} else {
			imtcp_meas_set_range(m, imtcp_sub(m->low_bps, least), m->high_bps);
		}
	}
	/* A rate that was delivered without a queue is available. With a queue it is not far above that.
	 * Else the range of a first train that was held up somewhere would climb by half widths. */
	if (m->delivery_bps > m->high_bps + m->high_bps / 4) {
		if (!m->standing_rounds && !queued)
			m->capacity_bps = imtcp_max(m->capacity_bps, m->delivery_bps);
		imtcp_store_clear(&m->store);
		imtcp_meas_set_range(m, m->delivery_bps / 2, 2 * m->delivery_bps);
	}
}

/* A by trends and lines [IM §3.2.4, §3.2.5]: into the result. */
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

		/* strained from its first interval on: A lies in the next lower sub-range */
		if (v->all_strained && a < m->judged)
			v = &m->verdict[a & IMTCP_SUB_RANGE_MASK];
		avail = v->avail_bps;
		m->result.validity_pct = v->validity_pct;
	}
	m->result.avail_bps = avail;
}

/* A by the strains of all streams (gap.h): into the result. */
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
	/* a result below the range counts as in its lowest part */
	m->result.sub_range = (imtcp_u32)imtcp_min(
		1 + imtcp_div((m->high_bps - avail) * IMTCP_SUB_RANGES, width), IMTCP_SUB_RANGES);
}

/* All streams are judged: the result and the next range [IM §3.2.5, §3.2.6]. */
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

	/* A <= C, where a queue showed it */
	if (imtcp_meas_queued(m, ev->now_us))
		m->result.avail_bps = imtcp_min(m->result.avail_bps, m->capacity_bps);

	imtcp_meas_end(m, ev->now_us, ev->srtt_us, outcome);
	imtcp_meas_next_range(m, ev->now_us, outcome);
	return 0;
}

/* Stream i has all its ACKs: its verdict, and its faults in the tally. */
IMTCP_INLINE void imtcp_meas_judge(struct imtcp_meas *m, imtcp_u32 i)
{
	struct imtcp_verdict *v = &m->verdict[i & IMTCP_SUB_RANGE_MASK];

	imtcp_stream_judge(&m->stream[i & IMTCP_SUB_RANGE_MASK], m->capacity_bps, m->wire_q8,
			   &m->judging, v);
	/* a strain is one in whichever interval it came */
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
 * An ACK for the streams under way. Streams that have all their ACKs are judged. payload_bps is the capacity in
 * payload, or 0 (imtcp_stream_on_ack). Returns 1 where the last stream of the measurement is judged.
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
	/* two streams in a row that show nothing: the lower ones will not either [IM §3.2.3] */
	i = m->judged;
	if (i >= 2 && i <= IMTCP_SUB_RANGES && i < m->planned &&
	    m->verdict[(i - 1) & IMTCP_SUB_RANGE_MASK].trend == IMTCP_TREND_FLAT &&
	    m->verdict[(i - 2) & IMTCP_SUB_RANGE_MASK].trend == IMTCP_TREND_FLAT)
		m->planned = i;
	return m->planned && m->judged >= m->planned;
}

/*
 * An ACK that moved snd_una. r is the round trip of the connection, which this ACK may have ended.
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
