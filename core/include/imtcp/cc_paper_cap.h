/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The background mode of the ImTCP paper: an upper bound of the window, and no rule on the RTT [IM
 * §5.1].
 *
 *   MaxCwnd = g RTT A if that exceeds m N segments, else no bound      0 < g <= 1
 *
 * It is ImTCP (cc_paper.h), and decide cuts the window to MaxCwnd. A is the newest result, and RTT
 * the smoothed RTT.
 */
#ifndef IMTCP_CC_PAPER_CAP_H
#define IMTCP_CC_PAPER_CAP_H

#include "cc_paper_bg.h"

/* MaxCwnd, segments; 0: none. m and N count packets of chunk_segs segments. */
IMTCP_INLINE imtcp_u32 imtcp_paper_cap_segs(const struct imtcp_meas *m, imtcp_u32 g_q8,
					    imtcp_u32 rtt_us, imtcp_u32 pkt_bytes)
{
	imtcp_u32 segs = imtcp_window_segs(imtcp_scale(m->avail_bps, g_q8, 256), rtt_us, pkt_bytes);

	return segs > (imtcp_u64)m->m * m->n * imtcp_max(m->chunk_segs, 1) ? segs : 0;
}

IMTCP_INLINE void imtcp_paper_cap_decide(struct imtcp_flow *c, struct imtcp_paper *p,
					 const struct imtcp_sample *s, struct imtcp_decision *d)
{
	imtcp_paper_decide(c, p, s, d);
	imtcp_paper_bound(&c->facts, &d->w,
			  imtcp_paper_cap_segs(&c->meas, c->params.g_q8, s->srtt_us, s->pkt_bytes));
}

#define imtcp_paper_cap_start imtcp_paper_start
#define imtcp_paper_cap_learn imtcp_paper_learn
#define imtcp_paper_cap_space imtcp_paper_space
#define imtcp_paper_cap_target imtcp_halve
#define imtcp_paper_cap_reduced imtcp_paper_reduced

#endif
