/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * ImTCP as its paper prints it: Reno with inline measurement [IM §3].
 *
 *   learn ──▶ the Measurement unit (paper_meas.h)   decide ──▶ Reno grows
 *   space ──▶ the Control unit (paper_unit.h)       a loss ──▶ half of the window; the hold ends
 *
 * learn gives an ACK to the Measurement unit, which may end a measurement. decide lets Reno grow if
 * the window limits sending. Before each departure the Control unit holds packets or lets them go.
 * Other packets leave at once, because no paper's control paces them.
 *
 * The other controls of the paper share these functions. cc_paper_bg.h, cc_paper_cap.h and
 * cc_paper_fs.h differ in their use of a result.
 */
#ifndef IMTCP_CC_PAPER_H
#define IMTCP_CC_PAPER_H

#include "paper_meas.h"

IMTCP_INLINE void imtcp_paper_start(struct imtcp_flow *c, struct imtcp_paper *p,
				    const struct imtcp_window *w)
{
	(void)p, (void)w;
	imtcp_paper_begin(&c->meas, &c->params);
}

IMTCP_INLINE void imtcp_paper_learn(struct imtcp_flow *c, struct imtcp_paper *p,
				    const struct imtcp_sample *s)
{
	if (s->acked_bytes && imtcp_paper_on_ack(&c->meas, p, s))
		c->meas.smoothed_bps = imtcp_ewma_by(c->meas.smoothed_bps, c->meas.result.avail_bps,
						     c->params.gamma_q16);
}

IMTCP_INLINE void imtcp_paper_decide(struct imtcp_flow *c, struct imtcp_paper *p,
				     const struct imtcp_sample *s, struct imtcp_decision *d)
{
	(void)c;
	if (s->full && p->limited)
		imtcp_reno_grow(&d->w, s->acked_segs, s->limit_segs);
}

IMTCP_INLINE void imtcp_paper_space(struct imtcp_flow *c, struct imtcp_paper *p,
				    struct imtcp_departure *dep, struct imtcp_decision *d)
{
	dep->base_bps = imtcp_base_bps(&c->facts, dep);
	if (dep->base_bps == IMTCP_U64_MAX)
		return;
	dep->chunk_segs = imtcp_chunk_segs(c->meas.ack_ratio_q8, dep, dep->base_bps);
	imtcp_paper_adapt_n(&c->meas, &c->params, dep->chunk_segs);
	d->pace_bps = dep->base_bps;
	d->segs = dep->chunk_segs;
	d->unpaced = 1;
	imtcp_paper_unit(&c->meas, p, dep, d);
}

IMTCP_INLINE void imtcp_paper_reduced(struct imtcp_flow *c, struct imtcp_paper *p,
				      const struct imtcp_sample *s)
{
	imtcp_paper_on_loss(&c->meas, p, s);
}

#define imtcp_paper_target imtcp_halve

#endif
