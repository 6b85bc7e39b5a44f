/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * TCP-LP as its paper prints it. cc_lp.h has the model and the diagram, and the rules that keep it from indicating
 * noise; here they are left out.
 *
 *   (1) sd <- (1 - gamma) sd + gamma d                        each one-way delay d
 *   (2) early indication when sd > d_min + delta (d_max - d_min),  d_min and d_max of the connection's life
 *
 * Walk: learn takes the one-way delay of an ACK into (1) and judges (2). decide halves the window at the first
 * indication and begins the inference phase of itt round trips, in which nothing grows. Another indication in it takes
 * the window to one packet, which leaves alone. After the phase the window grows by one each round trip. There is one
 * reaction in a round trip, losses counted. Slow start goes on to the first loss or the greatest window.
 *
 * Reference: [LP §III-A, §III-B, §III-D, fig. 3].
 *
 * Differences from the paper
 *  1. Without the peer's timestamps, or where they tick like no known clock, d is the round trip time.
 *  2. The range begins anew where the peer's clock turns out to tick otherwise (delay.h): delays before and after it
 *     cannot be compared.
 *  3. An indication within itt starts the phase anew: [LP fig. 3] does not say.
 */
#ifndef IMTCP_CC_PAPER_LP_H
#define IMTCP_CC_PAPER_LP_H

#include "flow.h"

struct imtcp_paper_lp {
	struct imtcp_owd owd;
	imtcp_u64 smoothed_us;	/* sd of (1); 0: no sample */
	imtcp_u64 inference_us; /* the inference phase ends then */
	imtcp_u64 reacted_us;	/* the last reaction, to delay or to loss; 0: none */
	imtcp_u32 least_us;	/* d_min */
	imtcp_u32 most_us;	/* d_max */
	imtcp_u32 epoch;	/* clock of these delays */
	imtcp_u32 early;	/* (2) held at the newest ACK */
	imtcp_u32 started;	/* the first slow start is over: d_max is known */
	imtcp_u32 _pad;
};

/* (1) and (2): a delay. Returns 1 where it is an early indication. */
IMTCP_INLINE int imtcp_paper_lp_on_delay(struct imtcp_paper_lp *lp, imtcp_u32 delay_us,
					 imtcp_u32 delta_pct)
{
	int first = !lp->smoothed_us;

	lp->smoothed_us = imtcp_ewma(lp->smoothed_us, delay_us);
	if (first || delay_us < lp->least_us)
		lp->least_us = delay_us;
	if (first || delay_us > lp->most_us)
		lp->most_us = delay_us;
	return lp->smoothed_us >
	       lp->least_us + imtcp_scale(lp->most_us - lp->least_us, delta_pct, 100);
}

IMTCP_INLINE int imtcp_paper_lp_in_inference(const struct imtcp_paper_lp *lp, imtcp_u64 now_us)
{
	return now_us < lp->inference_us;
}

/* ---- the control's row ---- */

#define imtcp_paper_lp_target imtcp_halve

IMTCP_INLINE void imtcp_paper_lp_start(const struct imtcp_flow *c, struct imtcp_paper_lp *lp,
				       const struct imtcp_window *w)
{
	(void)c;
	lp->started = !imtcp_in_slow_start(w);
}

IMTCP_INLINE void imtcp_paper_lp_learn(const struct imtcp_flow *c, struct imtcp_paper_lp *lp,
				       const struct imtcp_sample *s)
{
	imtcp_u32 delay_us = s->rtt_us > 0 ? (imtcp_u32)s->rtt_us : 0;

	if (!delay_us)
		return;
	if (s->stamped && imtcp_owd_on_ack(&lp->owd, s->now_us, s->now_us - delay_us, s->stamp))
		delay_us = lp->owd.delay_us;
	if (lp->epoch != lp->owd.epoch)
		lp->smoothed_us = 0;
	lp->epoch = lp->owd.epoch;
	lp->early = (imtcp_u32)imtcp_paper_lp_on_delay(lp, delay_us, c->params.lp_delta_pct);
}

IMTCP_INLINE void imtcp_paper_lp_decide(struct imtcp_flow *c, struct imtcp_paper_lp *lp,
					const struct imtcp_sample *s, struct imtcp_decision *d)
{
	int inference = imtcp_paper_lp_in_inference(lp, s->now_us);

	d->least_segs = 1;
	lp->started |= d->w.cwnd_segs >= s->limit_segs;
	if (lp->early && lp->started &&
	    (!lp->reacted_us || s->now_us - lp->reacted_us >= s->srtt_us)) {
		d->w.cwnd_segs = inference ? 1 : (imtcp_u32)imtcp_max(d->w.cwnd_segs / 2, 1);
		d->w.ssthresh_segs = (imtcp_u32)imtcp_max(d->w.cwnd_segs, IMTCP_RENO_LEAST_SEGS);
		d->w.credit_segs = 0;
		lp->reacted_us = s->now_us;
		lp->inference_us = s->now_us + (imtcp_u64)c->params.lp_itt_rtts * s->srtt_us;
		c->facts.reductions_rtt++;
	} else if (s->full && !inference) {
		imtcp_reno_grow(&d->w, s->acked_segs, s->limit_segs);
	}
	c->facts.yields = (imtcp_u32)imtcp_paper_lp_in_inference(lp, s->now_us);
}

/* No packet is paced. */
IMTCP_INLINE void imtcp_paper_lp_space(struct imtcp_flow *c, const struct imtcp_paper_lp *lp,
				       struct imtcp_departure *dep, struct imtcp_decision *d)
{
	imtcp_space(c, lp, dep, d);
	d->unpaced = 1;
}

IMTCP_INLINE void imtcp_paper_lp_reduced(struct imtcp_flow *c, struct imtcp_paper_lp *lp,
					 const struct imtcp_sample *s)
{
	(void)c;
	lp->started = 1;
	lp->reacted_us = s->now_us;
}

#endif
