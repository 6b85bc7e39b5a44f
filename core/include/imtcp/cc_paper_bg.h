/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * ImTCP-bg as its thesis prints it [BG §3.2].
 *
 *   ── Model ───────────────────────────────────────────────────────────────────
 *   (1) A_s <- (1 - gamma) A_s + gamma A          each result
 *   (2) maxcwnd = A_s RTTmin                      cwnd falls to it at once
 *   (3) congestion when RTT / RTTmin > delta
 *   (4) cwnd <- cwnd RTTmin / RTT                 at once
 *
 *      ┌──────┐   (3) holds, or cwnd > maxcwnd    ┌─────┐
 *      │ grow │ ────────────────────────────────▶ │ cut │ (4), (2)
 *      └──────┘ ◀──────────────────────────────── └─────┘
 *        Reno        the next ACK
 *
 * learn takes a result into (1). decide cuts by (4) if (3) holds, lets Reno grow, and cuts to (2).
 * All else is Reno's.
 *
 * Three texts differ in RTT, and in when (3) applies. The parameter `rtt` has all three:
 *   ── rtt ──── RTT of (3) and (4) ──── (3) applies ────────── text ──────
 *   srtt       the smoothed RTT        once per round trip    [BG §3.2.2]
 *   srtt-ack   the smoothed RTT        at each ACK            [BG §5.1.2]
 *   newest     the newest RTT          once per round trip    [SL]
 *
 * References: [BG §3.2, §5.1.2], [SL].
 *
 * Differences from the paper
 *  1. "Once per round trip" is ours, and in no text. At each ACK, (4) takes the window to one
 *     segment before the first cut can show in the RTT. srtt-ack does that.
 *  2. The window is at least one segment.
 *  3. ssthresh follows the window down to two, because growth is additive [BG §4.1.1]. No text
 *     gives the effect of (4) and (2) on ssthresh. With an older ssthresh, slow start would take
 *     each cut back in the next round trip, and delta would have no effect (BG-F6 in the
 *     laboratory).
 */
#ifndef IMTCP_CC_PAPER_BG_H
#define IMTCP_CC_PAPER_BG_H

#include "cc_paper.h"

IMTCP_INLINE void imtcp_paper_bg_learn(struct imtcp_flow *c, struct imtcp_paper *p,
				       const struct imtcp_sample *s)
{
	imtcp_paper_learn(c, p, s);
	if (s->rtt_us <= 0)
		return;
	p->newest_rtt_us = (imtcp_u32)s->rtt_us;
	if (!p->min_rtt_us || p->newest_rtt_us < p->min_rtt_us)
		p->min_rtt_us = p->newest_rtt_us;
}

/* (3), (4): returns the window. */
IMTCP_INLINE imtcp_u32 imtcp_paper_bg_by_rtt(imtcp_u32 cwnd_segs, imtcp_u32 rtt_us,
					     imtcp_u32 min_rtt_us, imtcp_u32 delta_q8)
{
	if ((imtcp_u64)rtt_us * 256 <= (imtcp_u64)min_rtt_us * delta_q8)
		return cwnd_segs;
	return (imtcp_u32)imtcp_max(imtcp_scale(cwnd_segs, min_rtt_us, rtt_us), 1);
}

/* Cuts the window to maxcwnd of (2); 0: no bound. */
IMTCP_INLINE void imtcp_paper_bound(struct imtcp_facts *f, struct imtcp_window *w,
				    imtcp_u32 max_segs)
{
	f->cap_segs = max_segs;
	if (!max_segs || w->cwnd_segs <= max_segs)
		return;
	w->cwnd_segs = max_segs;
	w->credit_segs = 0;
	f->reductions_cap++;
	f->yields = 1;
}

IMTCP_INLINE void imtcp_paper_bg_decide(struct imtcp_flow *c, struct imtcp_paper *p,
					const struct imtcp_sample *s, struct imtcp_decision *d)
{
	imtcp_u32 kind = c->params.paper_rtt, max_segs = 0;
	imtcp_u32 rtt_us = kind == IMTCP_PAPER_RTT_NEWEST ? p->newest_rtt_us : s->srtt_us;

	if (s->round_over || kind == IMTCP_PAPER_RTT_SRTT_ACK) {
		imtcp_u32 segs = imtcp_paper_bg_by_rtt(d->w.cwnd_segs, rtt_us, p->min_rtt_us,
						       c->params.delta_q8);

		if (segs < d->w.cwnd_segs) {
			d->w.cwnd_segs = segs;
			d->w.ssthresh_segs = (imtcp_u32)imtcp_max(segs, IMTCP_RENO_LEAST_SEGS);
			d->w.credit_segs = 0;
			c->facts.reductions_rtt++;
			c->facts.yields = 1;
		}
	}
	imtcp_paper_decide(c, p, s, d);
	if (c->meas.smoothed_bps)
		max_segs = (imtcp_u32)imtcp_max(
			imtcp_window_segs(c->meas.smoothed_bps, p->min_rtt_us, s->pkt_bytes), 1);
	/* A cut window must not slow-start: growth is additive [BG §4.1.1]. */
	if (max_segs && d->w.cwnd_segs > max_segs)
		d->w.ssthresh_segs = (imtcp_u32)imtcp_max(max_segs, IMTCP_RENO_LEAST_SEGS);
	imtcp_paper_bound(&c->facts, &d->w, max_segs);
}

#define imtcp_paper_bg_start imtcp_paper_start
#define imtcp_paper_bg_space imtcp_paper_space
#define imtcp_paper_bg_target imtcp_halve
#define imtcp_paper_bg_reduced imtcp_paper_reduced

#endif
