/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Reno with inline measurement: Reno sets the window, and packets leave in streams (meas.h) [IM §3,
 * §4.5].
 *
 *   learn ──▶ the measurement          decide ──▶ Reno grows
 *   space ──▶ the Control unit         a loss ──▶ half of the window, and a whole pause
 */
#ifndef IMTCP_CC_MEASURE_H
#define IMTCP_CC_MEASURE_H

#include "flow.h"

/* Pauses keep their length here, so that it competes evenly with Reno: it must measure little after
 * a loss [IM §4.5]. The background control shortens its pauses instead, because it needs a result
 * soon. */
IMTCP_INLINE void imtcp_measure_start(struct imtcp_flow *c, const void *own,
				      const struct imtcp_window *w)
{
	(void)own, (void)w;
	c->meas.whole_pause = 1;
}

IMTCP_INLINE void imtcp_measure_learn(struct imtcp_flow *c, const void *own,
				      const struct imtcp_sample *s)
{
	(void)own;
	if (!s->acked_bytes)
		return;
	imtcp_meas_on_ack(&c->meas, &c->facts.round, s);
	if (imtcp_estimate_news(&c->meas))
		imtcp_estimate_on_result(&c->meas, &c->params, &c->meas.result, 0);
}

IMTCP_INLINE void imtcp_measure_decide(struct imtcp_flow *c, const void *own,
				       const struct imtcp_sample *s, struct imtcp_decision *d)
{
	(void)c, (void)own;
	d->least_segs = IMTCP_MEASURING_LEAST_SEGS;
	if (s->full)
		imtcp_reno_grow(&d->w, s->acked_segs, s->limit_segs);
}

IMTCP_INLINE void imtcp_measure_reduced(struct imtcp_flow *c, const void *own,
					const struct imtcp_sample *s)
{
	(void)own;
	imtcp_meas_on_loss(&c->meas, s->now_us, s->snd_nxt, s->srtt_us);
}

#define imtcp_measure_space imtcp_space_streams
#define imtcp_measure_target imtcp_halve

#endif
