/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What else ImTCP does with the available bandwidth A: full speed.
 *
 * Model
 *   full speed [IM §5.2], in congestion avoidance, per round trip
 *      (1) cwnd <- cwnd + max(1, h (1 - cwnd/V)),  V = A·RTT
 *      h >= 1; h = 1 is Reno. Far below V the window grows by h segments, near V by one.
 *
 * Reference: [IM §5.2].
 *
 * Differences from the paper
 *  1. (1) is spread over the ACKs of the round trip, not added at its end in one burst.
 *  2. A step of (1) does not go beyond V: with h above V it would.
 *  3. Slow start and what a loss costs are Reno's, as the paper's simulations have them.
 */
#ifndef IMTCP_CC_FS_H
#define IMTCP_CC_FS_H

#include "cc_reno.h"

/* Segments of pkt_bytes on the wire in flight at bps over rtt_us: V of (1). */
IMTCP_GLOBAL imtcp_u32 imtcp_fs_v_segs(imtcp_u64 avail_bps, imtcp_u32 rtt_us, imtcp_u32 pkt_bytes)
{
	return imtcp_to_u32(imtcp_div(imtcp_bytes_in(avail_bps, rtt_us), pkt_bytes));
}

/* What (1) adds in one round trip; 1 where V is not known (0) or reached. h is a parameter
 * (params.h). */
IMTCP_GLOBAL imtcp_u32 imtcp_fs_step_segs(imtcp_u32 cwnd_segs, imtcp_u32 v_segs, imtcp_u32 h)
{
	imtcp_u64 room = imtcp_sub(v_segs, cwnd_segs);
	imtcp_u64 step = imtcp_min(imtcp_scale(room, h, v_segs), room);

	return (imtcp_u32)imtcp_max(step, 1);
}

/* acked_segs were acknowledged while the window was full; step_segs is (1) of this round. */
IMTCP_INLINE void imtcp_fs_grow(struct imtcp_window *w, imtcp_u32 acked_segs, imtcp_u32 step_segs,
				imtcp_u32 limit_segs)
{
	imtcp_u64 credit;

	if (imtcp_in_slow_start(w)) {
		imtcp_reno_grow(w, acked_segs, limit_segs);
		return;
	}
	/* a stretch ACK of many windows still adds one step */
	credit = w->credit_segs +
		 (imtcp_u64)(imtcp_u32)imtcp_min(acked_segs, w->cwnd_segs) * step_segs;
	w->credit_segs = (imtcp_u32)(credit % imtcp_max(w->cwnd_segs, 1));
	w->cwnd_segs = imtcp_to_u32(w->cwnd_segs +
				    imtcp_min(imtcp_div(credit, w->cwnd_segs), step_segs));
	if (w->cwnd_segs > limit_segs)
		w->cwnd_segs = limit_segs;
}

#endif
