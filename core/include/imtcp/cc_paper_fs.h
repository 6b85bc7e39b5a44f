/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The full-speed mode of the ImTCP paper [IM §5.2].
 *
 *   ── Model ──────────────────────────────────────────────────────────────────────────────────
 *   in congestion avoidance, per round trip:  cwnd <- cwnd + max(1, h (1 - cwnd/V)),  V = A RTT
 *
 * It is ImTCP (cc_paper.h), and decide adds the step at the end of a round trip. The step needs a
 * round trip in which the window limited sending, and not the hold alone. Slow start and a loss are
 * Reno's. Before the first result V is unknown, and the step is 1.
 */
#ifndef IMTCP_CC_PAPER_FS_H
#define IMTCP_CC_PAPER_FS_H

#include "cc_paper.h"

/* The step: max(1, h (1 - cwnd/V)). */
IMTCP_INLINE imtcp_u32 imtcp_paper_fs_step_segs(imtcp_u32 cwnd_segs, imtcp_u32 v_segs,
						imtcp_u32 h_segs)
{
	return imtcp_to_u32(
		imtcp_max(imtcp_scale(imtcp_sub(v_segs, cwnd_segs), h_segs, v_segs), 1));
}

IMTCP_INLINE void imtcp_paper_fs_decide(struct imtcp_flow *c, struct imtcp_paper *p,
					const struct imtcp_sample *s, struct imtcp_decision *d)
{
	imtcp_u64 cwnd_segs;
	int limited;

	p->round_limited |= s->full && p->limited;
	if (imtcp_in_slow_start(&d->w)) {
		imtcp_paper_decide(c, p, s, d);
		return;
	}
	if (!s->round_over)
		return;
	limited = (int)p->round_limited;
	p->round_limited = 0;
	if (!limited)
		return;
	cwnd_segs = (imtcp_u64)d->w.cwnd_segs +
		    imtcp_paper_fs_step_segs(
			    d->w.cwnd_segs,
			    imtcp_window_segs(c->meas.avail_bps, s->srtt_us, s->pkt_bytes),
			    c->params.h_segs);
	d->w.cwnd_segs = (imtcp_u32)imtcp_min(cwnd_segs, s->limit_segs);
}

#define imtcp_paper_fs_start imtcp_paper_start
#define imtcp_paper_fs_learn imtcp_paper_learn
#define imtcp_paper_fs_space imtcp_paper_space
#define imtcp_paper_fs_target imtcp_halve
#define imtcp_paper_fs_reduced imtcp_paper_reduced

#endif
