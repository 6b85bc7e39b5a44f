/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * TCP Nice as its paper prints it [NICE §3]. cc_nice.h has the diagram, and additional rules
 * against noise that are absent here.
 *
 *   ── Model ──────────────────────────────────────────────────────────────────────
 *   (1) a packet is late when its RTT > minRTT + t (maxRTT - minRTT)
 *   (2) congestion when more than f cwnd packets of a round trip are late:
 *           cwnd <- cwnd/2, down to 1/48
 *   (3) else Vegas: diff = cwnd (RTT - minRTT) / RTT, RTT the mean of the round trip
 *           diff < alpha: +1     alpha...beta: unchanged     diff > beta: -1
 *           in slow start: doubled each second round trip, until diff > gamma
 *
 * learn counts the late packets of a round trip, and sums its RTTs. At its end decide applies
 * Nice's rules (imtcp_nice_react) with the mean RTT, and with f as a share of the window. A window
 * below one is a number of round trips for one packet, which leaves alone.
 *
 * References: [NICE §3], [VEGAS §III].
 *
 * Difference from the papers: RTT is the mean of the ACKs of a round trip. Vegas timed one packet
 * of it.
 *
 * With delayed ACKs each single packet is late, and the window stays at 1/48. The papers' receivers
 * do not delay ACKs.
 */
#ifndef IMTCP_CC_PAPER_NICE_H
#define IMTCP_CC_PAPER_NICE_H

#include "cc_nice.h"

struct imtcp_paper_nice {
	struct imtcp_nice nice;
	imtcp_u64 rtt_sum_us; /* sum over the ACKs of this round */
	imtcp_u32 acks;
	imtcp_u32 rounds; /* rounds so far; slow start doubles in every second one */
};

/* (1): an ACK with this RTT acknowledged segs segments. */
IMTCP_INLINE void imtcp_paper_nice_on_ack(struct imtcp_paper_nice *p, imtcp_u32 rtt_us,
					  imtcp_u32 segs)
{
	struct imtcp_nice *n = &p->nice;

	if (!n->min_rtt_us || rtt_us < n->min_rtt_us)
		n->min_rtt_us = rtt_us;
	if (rtt_us > n->max_rtt_us)
		n->max_rtt_us = rtt_us;
	if (rtt_us > n->min_rtt_us + imtcp_scale(n->max_rtt_us - n->min_rtt_us, n->t_pct, 100))
		n->late_segs += segs;
	p->rtt_sum_us += rtt_us;
	p->acks++;
}

/* A round trip ended. Returns 1 if it halved the window. */
IMTCP_INLINE int imtcp_paper_nice_on_round(struct imtcp_paper_nice *p, struct imtcp_window *w,
					   int full, imtcp_u32 limit_segs)
{
	imtcp_u32 rtt_us = imtcp_to_u32(imtcp_div(p->rtt_sum_us, p->acks));
	/* Below one packet, any late packet exceeds the share f of the window. */
	imtcp_u32 window_segs = p->nice.rtts ? 0 : w->cwnd_segs;

	p->rtt_sum_us = 0;
	p->acks = 0;
	p->rounds++;
	return imtcp_nice_react(&p->nice, w, rtt_us, window_segs, full, limit_segs);
}

/* ---- the control's row ---- */

#define imtcp_paper_nice_target imtcp_halve
#define imtcp_paper_nice_reduced imtcp_no_reduced

IMTCP_INLINE void imtcp_paper_nice_start(const struct imtcp_flow *c, struct imtcp_paper_nice *p,
					 const struct imtcp_window *w)
{
	(void)w;
	imtcp_nice_begin(&p->nice, &c->params);
}

IMTCP_INLINE void imtcp_paper_nice_learn(const struct imtcp_flow *c, struct imtcp_paper_nice *p,
					 const struct imtcp_sample *s)
{
	(void)c;
	if (s->rtt_us > 0)
		imtcp_paper_nice_on_ack(p, (imtcp_u32)s->rtt_us, s->acked_segs);
}

IMTCP_INLINE void imtcp_paper_nice_decide(struct imtcp_flow *c, struct imtcp_paper_nice *p,
					  const struct imtcp_sample *s, struct imtcp_decision *d)
{
	if (s->round_over &&
	    imtcp_paper_nice_on_round(p, &d->w, (int)s->round_full, s->limit_segs)) {
		c->facts.reductions_rtt++;
		c->facts.yields = 1;
	} else if (s->full && (p->rounds & 1)) {
		imtcp_nice_grow(&p->nice, &d->w, s->acked_segs, s->limit_segs);
	}
	c->facts.trickle_q16 = imtcp_trickle_q16(imtcp_nice_rtts_per_segment(&p->nice));
}

/* Unpaced, unless the window is below one packet. Then one packet leaves at a time. */
IMTCP_INLINE void imtcp_paper_nice_space(struct imtcp_flow *c, const struct imtcp_paper_nice *p,
					 struct imtcp_departure *dep, struct imtcp_decision *d)
{
	imtcp_space(c, p, dep, d);
	d->unpaced = !c->facts.trickle_q16;
	if (d->pace_bps && c->facts.trickle_q16)
		d->segs = dep->chunk_segs = 1;
}

#endif
