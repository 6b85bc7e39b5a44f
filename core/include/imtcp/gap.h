/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Judges the streams of one measurement together, by how much each became longer on its way.
 *
 * A stream of rate x comes to a busy FIFO bottleneck of capacity C in the time S, and cross traffic of
 * rate c comes with it. Both leave in the time R:
 *
 *      C R = (x + c) S,  so  A = C - c = x - C (R/S - 1)
 *
 * So A is a stream's rate less its strain, whichever of its intervals the cross traffic came in. A
 * stream below A empties the queue and is not strained: it says only that A is above x. So the strain of
 * stream j is max(0, x_j - A), which is lines (i) and (ii) of [IM fig. 3] for whole streams. A is where
 * the squared differences from that are least.
 *
 * Differences from the paper
 *  1. [IM §3.2.4, §3.2.5] ask of each stream whether delay rises from interval to interval, and split
 *     the intervals of one stream. Where cross traffic comes in bursts most intervals meet none, and
 *     look undisturbed whatever its rate. The results are near the capacity then
 *     (core/tests/test_meas.c; lab/notes/0008-bursts.md). The paper's lines remain where no capacity is
 *     known, or trains do not agree on it (imtcp_meas_asks_gaps).
 *  2. A result below the range is kept as it is: the strain of all streams is known, so no search is needed.
 *
 * The idea that a gap's growth tells the cross traffic is that of J. Strauss, D. Katabi, F. Kaashoek, "A
 * measurement study of available bandwidth estimation tools", IMC 2003 (Spruce), of pairs at capacity;
 * here of streams.
 */
#ifndef IMTCP_GAP_H
#define IMTCP_GAP_H

#include "stream.h"

/* Streams of one measurement that are judged together: those of the fastest sub-ranges. A power of
 * two: a mask. ours: the strain needs no sub-range to be found. Two streams give a result nearly twice
 * as often as four (lab/notes/0009-a-cap-for-results-that-are-right.md). */
#define IMTCP_GAP_STREAMS 2U

/* One stream: its rate x, and what it left to think free, in units of 1/4096 of the highest rate. */
struct imtcp_gap_stream {
	imtcp_u32 x;
	imtcp_u32 left;
};

struct imtcp_gap {
	imtcp_u32 avail;    /* A, in the same units */
	imtcp_u32 strained; /* so many of the fastest streams are above A; 0: A is above all */
	/* 100 less the RMS distance of the strains from max(0, x - A), in percent of the highest rate */
	imtcp_u32 validity_pct;
	imtcp_u32 n;
	struct imtcp_gap_stream of[IMTCP_GAP_STREAMS];
};

/* Adds a stream, the fastest first; one of too few intervals is none. */
IMTCP_INLINE void imtcp_gap_add(struct imtcp_gap *g, const struct imtcp_verdict *v,
				imtcp_u64 top_bps)
{
	imtcp_u32 n = g->n & (IMTCP_GAP_STREAMS - 1U);

	if (!v->rate_bps || g->n >= IMTCP_GAP_STREAMS)
		return;
	/* bounded: squares of four fit into 32 bits */
	g->of[n].x = (imtcp_u32)imtcp_min(imtcp_scale(v->rate_bps, IMTCP_FIT_ONE, top_bps),
					  IMTCP_FIT_MAX);
	g->of[n].left = (imtcp_u32)imtcp_min(imtcp_scale(v->free_bps, IMTCP_FIT_ONE, top_bps),
					     IMTCP_FIT_MAX);
	g->n++;
}

/*
 * Sum of squared distances, if the k fastest streams are above A and the others below; the greatest number
 * where there are fewer. A function of its own, which decides how many there are: 6.1's verifier would
 * else follow every way through all k.
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
		/* below A a queue of before may drain: no strain, and none was expected */
		if (j < k)
			far += imtcp_sub(left, expected);
		cost += far * far;
	}
	return cost;
}

/*
 * Joins the streams. With each number of strained ones A is the mean of what these left; the best
 * number counts, of equal ones the smallest.
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
