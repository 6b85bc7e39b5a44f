/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The estimate of available bandwidth that a control steers by. It averages the results of the
 * measurement [BG §3.2]. A control calls imtcp_estimate_now and does not see streams.
 *
 *   ── Model ─────────────────────────────────────────────────────────────────────────────
 *   (1) A_s <- (1 - gamma) A_s + gamma A          each result (meas.h)          [BG eq. 1]
 *
 *   trust:  NONE ── first search range ──▶ RANGE ── first result that counts ──▶ RESULTS
 *             ▲                              │                                     │
 *             └──────── old, or unclear (imtcp_estimate_age) ──────────────────────┘
 *
 * - NONE: nothing is known, or the estimate is no longer trusted.
 * - RANGE: the estimate is the middle of the search range.
 * - RESULTS: the estimate is A_s.
 *
 * An estimate is old ten seconds after the last result that counted. The next such result renews
 * it.
 *
 * An estimate is unclear if the ACKs spoiled more than an eighth of the newest measurements: they
 * were bunched or too few. Then the other results are not trustworthy either. The estimate is
 * trusted again when fewer are spoiled.
 *
 * [IM §3.2.5] gives results outside of the search range. The differences from the paper are 6 and 9
 * of cc_bg.h.
 */
#ifndef IMTCP_ESTIMATE_H
#define IMTCP_ESTIMATE_H

#include "meas.h"

/* A result this far from A_s, a quarter, may begin a step. ours: Beside steady cross traffic, valid
 * results are much nearer. */
#define IMTCP_STEP_DIV 4U
/* Two results make a step down if they differ by at most this, an eighth of the first. ours: Two
 * that agree follow a step sooner than four (lab/notes/0013-a-step-down.md). */
#define IMTCP_STEP_AGREE_DIV 8U

/* An estimate is trusted for ten seconds after the last result that counted. ours: It covers a
 * pause of 20 long round trips and a measurement. A longer time would keep a program that writes
 * little at an outdated rate (lab/notes/0022-what-is-old-steers-nothing.md). */
#define IMTCP_ESTIMATE_AGE_US (10 * IMTCP_USEC_PER_SEC)
/* Weight of a result in the share of unclear ones, 1/16, and the largest share that is trusted,
 * 1/8. ours: Hardly any result is unclear where ACKs come one by one, and a quarter or more where
 * they jitter (lab/notes/0023-what-steers-where-acks-say-little.md). */
#define IMTCP_UNCLEAR_SHIFT 4
#define IMTCP_UNCLEAR_MOST_Q8 32U

/* How far available_bps can be trusted. */
enum imtcp_trust {
	IMTCP_TRUST_NONE = 0,	 /* nothing is known, or no longer trusted */
	IMTCP_TRUST_RANGE = 1,	 /* the middle of the search range; no result yet */
	IMTCP_TRUST_RESULTS = 2, /* A_s */
};

struct imtcp_estimate {
	imtcp_u64 available_bps; /* 0: unknown */
	imtcp_u64 deviation_bps; /* mean distance between a result and the A_s before it */
	imtcp_u64 capacity_bps;	 /* 0: unknown */
	imtcp_u32 trust;	 /* enum imtcp_trust */
	imtcp_u32 _pad;
};

/* Is there a result that the control has not seen? A send or a loss may end a measurement. The
 * control sees its result at the next ACK, because it decides only there. */
IMTCP_INLINE int imtcp_estimate_news(struct imtcp_meas *m)
{
	int news = m->ends != m->heard;

	m->heard = m->ends;
	return news;
}

/* A measurement ended: updates the share of unclear results, and the time of the last that
 * counted. */
IMTCP_INLINE void imtcp_estimate_note(struct imtcp_meas *m, const struct imtcp_result *r)
{
	if (r->outcome == IMTCP_BUNCHED || r->outcome == IMTCP_FEW_ACKS) {
		m->unclear_q8 += (256 - m->unclear_q8) >> IMTCP_UNCLEAR_SHIFT;
	} else if (r->outcome == IMTCP_OK || r->outcome == IMTCP_OUT_OF_RANGE) {
		m->unclear_q8 -= (m->unclear_q8 + (1U << IMTCP_UNCLEAR_SHIFT) - 1) >>
				 IMTCP_UNCLEAR_SHIFT;
		m->counted_at_us = r->at_us;
		m->doubted = 0;
	}
}

/* Drops the estimate when it is old or unclear. */
IMTCP_INLINE void imtcp_estimate_age(struct imtcp_meas *m, imtcp_u64 now_us)
{
	if (!m->high_bps)
		return;
	if (!m->counted_at_us)
		m->counted_at_us = now_us;
	if (now_us - m->counted_at_us <= IMTCP_ESTIMATE_AGE_US &&
	    m->unclear_q8 <= IMTCP_UNCLEAR_MOST_Q8)
		return;
	m->doubted = 1;
	m->smoothed_bps = 0;
	m->deviation_bps = 0;
	m->far_bps = 0;
}

/* The estimate at now_us. */
IMTCP_INLINE struct imtcp_estimate imtcp_estimate_now(struct imtcp_meas *m, imtcp_u64 now_us)
{
	struct imtcp_estimate e = {0, 0, m->capacity_bps, IMTCP_TRUST_NONE, 0};

	imtcp_estimate_age(m, now_us);
	if (m->doubted)
		return e;
	e.available_bps = m->smoothed_bps;
	e.deviation_bps = m->deviation_bps;
	e.trust = IMTCP_TRUST_RESULTS;
	if (!e.available_bps) {
		e.available_bps = (m->low_bps + m->high_bps) / 2;
		e.trust = e.available_bps ? IMTCP_TRUST_RANGE : IMTCP_TRUST_NONE;
	}
	return e;
}

/*
 * Does a result count in (1)? "Above the range" shows only that A is at least the range's end, so
 * it may raise A_s but not lower it.
 *
 * If the window cannot carry streams, ranges lie around the delivery rate. This happens with g < 1
 * by design, and after a silence. A_s would follow the ends of such ranges down, and the window
 * would follow A_s.
 */
IMTCP_INLINE int imtcp_estimate_counts(const struct imtcp_meas *m, const struct imtcp_result *r)
{
	if (imtcp_above_range(r))
		return r->avail_bps > m->smoothed_bps;
	return r->outcome == IMTCP_OK || r->outcome == IMTCP_OUT_OF_RANGE;
}

/*
 * A_s after a step to avail_bps; 0: no step. A step takes two results in a row.
 *
 * - A step up needs a caller that knows of no queue (calm).
 * - A step down needs two results that agree. Two low results are common beside bursts, but they
 *   differ, because each met another part of a burst.
 */
IMTCP_INLINE imtcp_u64 imtcp_estimate_step(struct imtcp_meas *m, imtcp_u64 avail_bps, int calm)
{
	imtcp_u64 near = m->smoothed_bps / IMTCP_STEP_DIV, before = m->far_bps;
	imtcp_u64 high = m->smoothed_bps + near, low = m->smoothed_bps - near;

	m->far_bps = avail_bps > high || avail_bps < low ? avail_bps : 0;
	if (avail_bps > high && before > high && calm)
		return imtcp_min(avail_bps, before);
	if (avail_bps < low && before < low &&
	    imtcp_apart(before, avail_bps) <= before / IMTCP_STEP_AGREE_DIV)
		return imtcp_max(avail_bps, before);
	return 0;
}

/* (1): takes the result of a measurement. Returns 1 if A_s stepped up. */
IMTCP_INLINE int imtcp_estimate_on_result(struct imtcp_meas *m, const struct imtcp_params *p,
					  const struct imtcp_result *r, int calm)
{
	imtcp_u64 off_bps = imtcp_apart(m->smoothed_bps, r->avail_bps), stepped_bps;
	int up;

	imtcp_estimate_note(m, r);
	if (!imtcp_estimate_counts(m, r))
		return 0;
	stepped_bps = imtcp_estimate_step(m, r->avail_bps, calm);
	up = stepped_bps > m->smoothed_bps;
	if (m->smoothed_bps)
		m->deviation_bps += imtcp_weighted(off_bps, p->gamma_q16) -
				    imtcp_weighted(m->deviation_bps, p->gamma_q16);
	m->smoothed_bps = stepped_bps ? stepped_bps
				      : imtcp_ewma_by(m->smoothed_bps, r->avail_bps, p->gamma_q16);
	return up;
}

#endif
