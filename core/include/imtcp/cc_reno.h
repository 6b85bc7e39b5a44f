/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Reno: slow start and congestion avoidance, in segments (RFC 5681 §3.1).
 *
 *   ── Model ───────────────────────────────────────────────────────────
 *   cwnd < ssthresh:  +1 segment per segment acknowledged
 *   else:             +1 segment per window acknowledged
 *   loss:             ssthresh = max(cwnd/2, 2 segments)
 *
 * The kernel does loss recovery itself (SACK, RACK, PRR). This file gives the growth of the window,
 * and its reduction after a loss.
 *
 * Difference: a loss halves cwnd and not flight_size, as in Linux's Reno. flight_size may be small
 * because of the application.
 */
#ifndef IMTCP_CC_RENO_H
#define IMTCP_CC_RENO_H

#include "fixed.h"

/* Least window after a loss, segments (RFC 5681 eq. 4). */
#define IMTCP_RENO_LEAST_SEGS 2U

struct imtcp_window {
	imtcp_u32 cwnd_segs;
	imtcp_u32 ssthresh_segs;
	imtcp_u32 credit_segs; /* segments acknowledged towards the next +1 */
	imtcp_u32 _pad;
};

IMTCP_INLINE imtcp_u32 imtcp_reno_ssthresh(imtcp_u32 cwnd_segs)
{
	return (imtcp_u32)imtcp_max(cwnd_segs / 2, IMTCP_RENO_LEAST_SEGS);
}

IMTCP_INLINE int imtcp_in_slow_start(const struct imtcp_window *w)
{
	return w->cwnd_segs < w->ssthresh_segs;
}

/* acked_segs were acknowledged while the window was full. limit_segs bounds the window. */
IMTCP_INLINE void imtcp_reno_grow(struct imtcp_window *w, imtcp_u32 acked_segs,
				  imtcp_u32 limit_segs)
{
	if (imtcp_in_slow_start(w)) {
		imtcp_u32 room = w->ssthresh_segs - w->cwnd_segs;
		imtcp_u32 step = acked_segs < room ? acked_segs : room;

		w->cwnd_segs += step;
		acked_segs -= step;
	}
	if (acked_segs) {
		w->credit_segs += acked_segs;
		if (w->credit_segs >= w->cwnd_segs) {
			w->credit_segs = (imtcp_u32)imtcp_sub(w->credit_segs, w->cwnd_segs);
			/* A stretch ACK of many windows adds only one. */
			if (w->credit_segs > w->cwnd_segs)
				w->credit_segs = 0;
			w->cwnd_segs++;
		}
	}
	if (w->cwnd_segs > limit_segs)
		w->cwnd_segs = limit_segs;
}

#endif
