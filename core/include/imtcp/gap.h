/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Available bandwidth from all streams of one measurement together: from how much each stream
 * became longer on its way.
 *
 * Model. A stream of rate x reaches a busy FIFO bottleneck of capacity C in the time S, together
 * with cross traffic of rate c. Both leave in the time R:
 *
 *   C R = (x + c) S,  so  A = C - c = x - C (R/S - 1)
 *
 * C (R/S - 1) is the strain of a stream. A stream above A has the strain x - A, whichever of its
 * intervals met the cross traffic. A stream below A has no strain, and shows only that A is above
 * x. So the expected strain of stream j is max(0, x_j - A): lines (i) and (ii) of [IM fig. 3] for
 * whole streams. The result is the A with the least squared error.
 *
 * Differences from the paper
 *  1. [IM §3.2.4, §3.2.5] look for a rise of delay in each stream, and split the intervals of one
 *     stream. If cross traffic is bursty, most intervals meet none of it and look undisturbed. The
 *     results are then near the capacity (lab/notes/0008-bursts.md). The paper's lines apply if no
 *     capacity is known, or if trains disagree on it (imtcp_meas_asks_gaps).
 *  2. A result below the range is reported as it is. The strains of all streams give it, so no
 *     further search is needed.
 *
 * Spruce uses the growth of a gap in the same way, for pairs of packets at capacity: J. Strauss, D.
 * Katabi, F. Kaashoek, "A measurement study of available bandwidth estimation tools", IMC 2003.
 */
#ifndef IMTCP_GAP_H
#define IMTCP_GAP_H

#include "stream.h"

/* Streams of one measurement, those of the fastest sub-ranges. A power of two, because it is a
 * mask. ours: The strain needs no search for a sub-range, and two streams give results almost twice
 * as often as four (lab/notes/0009-a-cap-for-results-that-are-right.md). */
#define IMTCP_GAP_STREAMS 2U

/* One stream: its rate x, and x less its strain, in units of 1/4096 of the highest rate. */
struct imtcp_gap_stream {
	imtcp_u32 x;
	imtcp_u32 left;
};

struct imtcp_gap {
	imtcp_u32 avail;    /* A, in the same units */
	imtcp_u32 strained; /* how many of the fastest streams are above A; 0: none */
	/* 100 less the RMS error of the strains, in percent of the highest rate */
	imtcp_u32 validity_pct;
	imtcp_u32 n;
	struct imtcp_gap_stream of[IMTCP_GAP_STREAMS];
};

/* Adds a stream, the fastest first. A stream of too few intervals is ignored. */
IMTCP_INLINE void imtcp_gap_add(struct imtcp_gap *g, const struct imtcp_verdict *v,
				imtcp_u64 top_bps)
{
	imtcp_u32 n = g->n & (IMTCP_GAP_STREAMS - 1U);

	if (!v->rate_bps || g->n >= IMTCP_GAP_STREAMS)
		return;
	/* Bounded, so that squares of four fit into 32 bits. */
	g->of[n].x = (imtcp_u32)imtcp_min(imtcp_scale(v->rate_bps, IMTCP_FIT_ONE, top_bps),
					  IMTCP_FIT_MAX);
	g->of[n].left = (imtcp_u32)imtcp_min(imtcp_scale(v->free_bps, IMTCP_FIT_ONE, top_bps),
					     IMTCP_FIT_MAX);
	g->n++;
}

/*
 * Sum of squared errors if the k fastest streams are above A and the others below; U64_MAX if there
 * are fewer than k streams. It is a global function, because the verifier of 6.1 would else follow
 * all paths for each k.
 */
IMTCP_GLOBAL imtcp_u64 imtcp_gap_cost(const struct imtcp_gap *g, imtcp_u32 k, imtcp_u32 avail)
{
	imtcp_u64 cost = 0;
	imtcp_u32 j;

	if (!g || k > g->n)
		return IMTCP_U64_MAX;
	for (j = 0; j < IMTCP_GAP_STREAMS; j++) {
		imtcp_u32 left = g->of[j].left, expected = j < k ? avail : g->of[j].x;
		imtcp_u64 far = imtcp_sub(expected, left);

		if (j >= g->n)
			break;
		/* A stream below A may meet an older queue that drains. That is no strain, and none
		 * was expected. */
		if (j < k)
			far += imtcp_sub(left, expected);
		cost += far * far;
	}
	return cost;
}

/*
 * Joins the streams. For each number k of strained streams, A is the mean of their x less strain.
 * The k with the least error is taken, the smallest if errors are equal.
 */
IMTCP_GLOBAL int imtcp_gap_join(struct imtcp_gap *g)
{
	imtcp_u64 best_cost = IMTCP_U64_MAX;
	imtcp_u32 k, rms, sum = 0;

	if (!g)
		return 0;
	g->avail = 0;
	g->strained = 0;
	g->validity_pct = 0;
	if (!g->n)
		return 0;
	for (k = 0; k <= IMTCP_GAP_STREAMS; k++) {
		imtcp_u64 cost;
		imtcp_u32 avail;

		if (k)
			sum += g->of[(k - 1) & (IMTCP_GAP_STREAMS - 1U)].left;
		avail = (imtcp_u32)imtcp_div(sum, k);
		cost = imtcp_gap_cost(g, k, avail);
		if (cost < best_cost) {
			best_cost = cost;
			g->strained = k;
			g->avail = avail;
		}
	}
	rms = imtcp_isqrt(imtcp_div(best_cost, g->n)) * 100 / IMTCP_FIT_ONE;
	g->validity_pct = rms >= 100 ? 0 : 100 - rms;
	return 0;
}

#endif
