/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Full speed: the window follows the available bandwidth A.
 *
 * Model
 *   full speed [IM §5.2], in congestion avoidance, per round trip
 *      (1) cwnd <- cwnd + max(1, h (1 - cwnd/V)),  V = A·RTT
 *      h >= 1; h = 1 is Reno. Far below V the window grows by h segments, near V by one.
 *   a loss
 *      (2) ssthresh <- max(cwnd/2, min(cwnd, D·RTTmin)),  D the rate that was delivered before it
 *
 * Walk: learn takes each result into A and measures on without a pause. decide grows the window of a full round trip by
 * (1), Reno's slow start before it. target answers a loss with (2).
 *
 * References: [IM §5.2] for (1); TCP Westwood (Mascolo et al., MobiCom 2001) for D·RTTmin.
 *
 * Differences from the paper
 *  1. (1) is spread over the ACKs of the round trip, not added at its end in one burst.
 *  2. A step of (1) does not go beyond V: with h above V it would.
 *  3. The paper leaves what a loss costs to Reno. But the path carried what it carried, and losses
 *     by chance hinder growing back to it. D·RTTmin gives up the queue and nothing else. D and not A:
 *     where losses are frequent results are rare, and D is never older than a round trip. After a
 *     timeout D is old, and the loss costs half.
 *  4. A in (1) is the average A_s of estimate.h. A result "above the range" raises it to the range's end
 *     at once: it is a bound without noise. Before the first result A is the middle of the search
 *     range, as in cc_bg.h: losses may put the first result off for long.
 *  5. Slow start is Reno's.
 */
#ifndef IMTCP_CC_FS_H
#define IMTCP_CC_FS_H

#include "flow.h"

/* Segments of pkt_bytes on the wire in flight at bps over rtt_us: V of (1). */
IMTCP_GLOBAL imtcp_u32 imtcp_fs_v_segs(imtcp_u64 avail_bps, imtcp_u32 rtt_us, imtcp_u32 pkt_bytes)
{
	return imtcp_to_u32(imtcp_div(imtcp_bytes_in(avail_bps, rtt_us), pkt_bytes));
}

/* Growth by (1) in one round trip, segments; 1 if V is unknown (0) or reached. h is a parameter (params.h). */
IMTCP_GLOBAL imtcp_u32 imtcp_fs_step_segs(imtcp_u32 cwnd_segs, imtcp_u32 v_segs, imtcp_u32 h)
{
	imtcp_u64 room = imtcp_sub(v_segs, cwnd_segs);
	imtcp_u64 step = imtcp_min(imtcp_scale(room, h, v_segs), room);

	return (imtcp_u32)imtcp_max(step, 1);
}

/* A_s after result r. */
IMTCP_INLINE imtcp_u64 imtcp_fs_smoothed_bps(imtcp_u64 smoothed_bps, const struct imtcp_result *r)
{
	return imtcp_above_range(r) ? imtcp_max(smoothed_bps, r->avail_bps) : smoothed_bps;
}

/* (2). */
IMTCP_INLINE imtcp_u32 imtcp_fs_after_loss(imtcp_u32 cwnd_segs, imtcp_u32 carried_segs)
{
	return (imtcp_u32)imtcp_max(imtcp_reno_ssthresh(cwnd_segs),
				    imtcp_min(cwnd_segs, carried_segs));
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

/* ---- the control's row ---- */

#define imtcp_fs_start imtcp_no_start
#define imtcp_fs_space imtcp_space_streams

IMTCP_INLINE void imtcp_fs_learn(struct imtcp_flow *c, const void *own,
				 const struct imtcp_sample *s)
{
	struct imtcp_meas *m = &c->meas;

	(void)own;
	if (!s->acked_bytes)
		return;
	imtcp_meas_on_ack(m, &c->facts.round, s);
	if (!imtcp_estimate_news(m))
		return;
	imtcp_estimate_on_result(m, &c->params, &m->result, 0);
	m->smoothed_bps = imtcp_fs_smoothed_bps(m->smoothed_bps, &m->result);
	imtcp_meas_again(m, m->result.at_us);
}

IMTCP_INLINE void imtcp_fs_decide(struct imtcp_flow *c, const void *own,
				  const struct imtcp_sample *s, struct imtcp_decision *d)
{
	struct imtcp_estimate e;
	imtcp_u32 v_segs;

	(void)own;
	d->least_segs = IMTCP_MEASURING_LEAST_SEGS;
	if (!s->full)
		return;
	e = imtcp_estimate_now(&c->meas, s->now_us);
	v_segs = imtcp_fs_v_segs(e.available_bps, s->srtt_us, s->pkt_bytes);
	imtcp_fs_grow(&d->w, s->acked_segs,
		      imtcp_fs_step_segs(d->w.cwnd_segs, v_segs, c->params.h_segs), s->limit_segs);
}

IMTCP_INLINE imtcp_u32 imtcp_fs_target(const struct imtcp_flow *c, const void *own,
				       const struct imtcp_sample *s)
{
	(void)own;
	return imtcp_fs_after_loss(
		s->cwnd_segs,
		imtcp_carried_segs(s->delivered_segs, s->delivered_in_us, c->facts.minrtt.base_us));
}

IMTCP_INLINE void imtcp_fs_reduced(struct imtcp_flow *c, const void *own,
				   const struct imtcp_sample *s)
{
	(void)own;
	imtcp_meas_on_loss(&c->meas, s->now_us, s->snd_nxt, s->srtt_us);
	imtcp_meas_again(&c->meas, s->now_us);
}

#endif
