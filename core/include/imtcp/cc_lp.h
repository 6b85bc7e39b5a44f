/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * TCP-LP: low priority without help from the network. It yields when one-way delays show another
 * flow, before that flow loses packets [LP §III].
 *
 *   ── Model ──────────────────────────────────────────────────────────────
 *   (1) sd <- (1 - gamma) sd + gamma d                   each one-way delay d
 *   (2) early indication when sd > d_min + delta (d_max - d_min)
 *
 *            the first one (2)              another one (2) within itt
 *      ┌──────────┐   cwnd <- cwnd/2   ┌───────────┐  cwnd <- 1
 *      │ increase │ ─────────────────▶ │ inference │ ───────────┐
 *      │ +1 / RTT │ ◀───────────────── │ no growth │ ◀──────────┘ itt anew
 *      └──────────┘    itt is over     └───────────┘
 *        ▲
 *        └── slow start, to the first loss or the greatest window: it shows d_max
 *
 * States
 * - Slow start ignores (2) until d_max is known. A loss or the greatest window ends that.
 * - Increase: the window grows as Reno's. An early indication halves it and begins the inference
 *   phase.
 * - Inference: the window does not grow for itt round trips. Another indication takes it to one
 *   packet and begins the phase anew.
 * - A loss is Reno's. There is at most one reaction per round trip, and a loss counts as one.
 *
 * learn smooths the delay and evaluates (2) (imtcp_lp_on_delay). decide reacts (imtcp_lp_on_early)
 * or grows (imtcp_lp_grow).
 *
 * TCP-LP/ECN [LP §IV-A] is the same machine. A mark of the router replaces (2) (imtcp_lp_on_mark).
 *
 * Without usable timestamps. The one-way delay needs timestamps of the peer with ticks below delta
 * (d_max - d_min). If there are none, or their tick is unknown or too coarse, the RTT replaces d;
 * `signal` has the reason. The RTT includes the way back, so a queue of ACKs may cause needless
 * yielding, and never the opposite. (2) depends only on the position of sd between d_min and d_max,
 * so half of the RTT would give the same answers.
 *
 * Reference: [LP §III-A, §III-B, §III-D, §IV-A].
 *
 * Differences from the paper
 *  1. d_min and d_max are those of the last one to two minutes. The paper resets them. After a
 *     reset (2) would be blind until it saw a full queue again.
 *  2. A range of delays that may be noise gives no indication.
 *  3. A window of one packet leaves as two packets in two round trips. A receiver with delayed ACKs
 *     would add 40 ms or more to the delay of a single packet, and (2) would hold for ever
 *     (imtcp_lp_rtts_per_segment).
 *  4. Slow start "encounters the first loss or maximum window size" [LP §II]. The maximum is a
 *     window that did not grow for some round trips, for whatever reason: a buffer, a ceiling or
 *     the application. If it grows again, slow start goes on. With losses alone a connection whose
 *     buffer is too small to fill the queue would never yield
 *     (lab/notes/0019-a-slow-start-without-a-loss.md).
 *  5. An indication within itt starts the timer anew. [LP fig. 3] leaves that open, but "persistent
 *     congestion" has to hold the window at one packet.
 */
#ifndef IMTCP_CC_LP_H
#define IMTCP_CC_LP_H

#include "flow.h"

/* delta and itt are parameters (params.h). gamma is 1/8 (IMTCP_EWMA_SHIFT) [LP §III-D]. */
/* Half of the time for which d_min and d_max hold, microseconds. The paper says "minutes". */
#define IMTCP_LP_WINDOW_US (60 * IMTCP_USEC_PER_SEC)

/* A window is the greatest after so many round trips without growth. ours: A receiver that adapts
 * its buffer lags behind slow start by one or two. */
#define IMTCP_LP_STALLED_RTTS 4U
/* The initial window (RFC 6928). Below it only round trips with a full window count, so a handshake
 * does not. */
#define IMTCP_LP_FIRST_SEGS 10U

/* The source of d. */
enum imtcp_lp_signal {
	IMTCP_LP_NO_SIGNAL = 0,
	IMTCP_LP_ONE_WAY = 1,	    /* timestamps, as in the paper */
	IMTCP_LP_RTT_NO_STAMPS = 2, /* the RTT: there are no timestamps */
	IMTCP_LP_RTT_UNKNOWN = 3,   /* the RTT: timestamps fit no known tick */
	IMTCP_LP_RTT_COARSE = 4,    /* the RTT: the tick is too coarse for this path */
};

/* Smoothed delay, and its range over the last one to two windows. */
struct imtcp_lp_delay {
	imtcp_u64 turned_us;   /* start of the present window */
	imtcp_u64 smoothed_us; /* sd of (1); 0: no sample */
	imtcp_u32 least_us[2]; /* d_min of the present window and of the previous one */
	imtcp_u32 most_us[2];  /* d_max */
};

struct imtcp_lp {
	struct imtcp_owd owd;
	struct imtcp_lp_delay one_way, rtt;
	imtcp_u64 inference_us;	 /* end of the inference phase */
	imtcp_u64 reacted_us;	 /* the last reaction to delay or loss; 0: none */
	imtcp_u32 one_way_epoch; /* epoch of owd to which one_way belongs */
	imtcp_u32 signal;	 /* enum imtcp_lp_signal of the newest decision */
	imtcp_u32 early;	 /* (2) held at the newest ACK */
	imtcp_u16 lost;		 /* the first slow start is over: d_max is known */
	imtcp_u16 single;	 /* the window is one packet, whatever the stack's window is */
	imtcp_u32 delta_pct;	 /* delta of (2) */
	imtcp_u32 itt_rtts;
	imtcp_u32 most_segs;	/* the greatest window at the end of a round trip */
	imtcp_u32 stalled_rtts; /* full round trips without a greater one */
	imtcp_u64 halvings;	/* first indications */
	imtcp_u64 retreats;	/* second indications: to one packet */
	imtcp_u32 by_marks;	/* the router's marks replace (2) */
	imtcp_u32 _pad;
};

/* A connection begins with TCP-LP, or changes to it. */
IMTCP_INLINE void imtcp_lp_begin(struct imtcp_lp *lp, const struct imtcp_params *p,
				 const struct imtcp_window *w)
{
	lp->delta_pct = p->lp_delta_pct;
	lp->itt_rtts = p->lp_itt_rtts;
	lp->lost = !imtcp_in_slow_start(w);
}

/* ---- delays ---- */

IMTCP_INLINE void imtcp_lp_delay_on_sample(struct imtcp_lp_delay *f, imtcp_u64 now_us,
					   imtcp_u32 delay_us)
{
	int first = !f->smoothed_us;

	f->smoothed_us = imtcp_ewma(f->smoothed_us, delay_us);
	if (first || now_us - f->turned_us >= IMTCP_LP_WINDOW_US) {
		f->least_us[1] = first ? delay_us : f->least_us[0];
		f->most_us[1] = first ? delay_us : f->most_us[0];
		f->least_us[0] = f->most_us[0] = delay_us;
		f->turned_us = now_us;
	}
	if (delay_us < f->least_us[0])
		f->least_us[0] = delay_us;
	if (delay_us > f->most_us[0])
		f->most_us[0] = delay_us;
}

IMTCP_INLINE imtcp_u32 imtcp_lp_least_us(const struct imtcp_lp_delay *f)
{
	return f->least_us[0] < f->least_us[1] ? f->least_us[0] : f->least_us[1];
}

/* delta (d_max - d_min) of (2). */
IMTCP_INLINE imtcp_u32 imtcp_lp_margin_us(const struct imtcp_lp_delay *f, imtcp_u32 delta_pct)
{
	imtcp_u32 most = f->most_us[0] > f->most_us[1] ? f->most_us[0] : f->most_us[1];

	return (imtcp_u32)imtcp_scale(most - imtcp_lp_least_us(f), delta_pct, 100);
}

/* (2), if the margin is at least resolution_us. */
IMTCP_INLINE int imtcp_lp_early(const struct imtcp_lp_delay *f, imtcp_u32 delta_pct,
				imtcp_u32 resolution_us)
{
	imtcp_u32 margin = imtcp_lp_margin_us(f, delta_pct);

	return margin >= resolution_us && f->smoothed_us > (imtcp_u64)imtcp_lp_least_us(f) + margin;
}

/*
 * Takes an ACK of a packet that left rtt_us ago. stamped: value is the peer's timestamp. Updates
 * (1), evaluates (2) and returns it, also in `early`.
 */
IMTCP_GLOBAL int imtcp_lp_on_delay(struct imtcp_lp *lp, imtcp_u64 now_us, imtcp_u32 rtt_us,
				   imtcp_u32 value, int stamped)
{
	if (!lp)
		return 0;
	imtcp_lp_delay_on_sample(&lp->rtt, now_us, rtt_us);
	lp->signal = IMTCP_LP_RTT_NO_STAMPS;
	if (stamped) {
		int known = imtcp_owd_on_ack(&lp->owd, now_us, now_us - rtt_us, value);

		if (lp->one_way_epoch != lp->owd.epoch) {
			lp->one_way.smoothed_us = 0;
			lp->one_way_epoch = lp->owd.epoch;
		}
		if (known)
			imtcp_lp_delay_on_sample(&lp->one_way, now_us, lp->owd.delay_us);
		lp->signal = IMTCP_LP_RTT_UNKNOWN;
		if (known)
			lp->signal = imtcp_lp_margin_us(&lp->one_way, lp->delta_pct) >=
						     lp->owd.tick_us
					     ? IMTCP_LP_ONE_WAY
					     : IMTCP_LP_RTT_COARSE;
	}
	lp->early =
		(imtcp_u32)(lp->signal == IMTCP_LP_ONE_WAY
				    ? imtcp_lp_early(&lp->one_way, lp->delta_pct, lp->owd.tick_us)
				    : imtcp_lp_early(&lp->rtt, lp->delta_pct, IMTCP_HOST_NOISE_US));
	return (int)lp->early;
}

/* ---- reactions ---- */

IMTCP_INLINE int imtcp_lp_in_inference(const struct imtcp_lp *lp, imtcp_u64 now_us)
{
	return now_us < lp->inference_us;
}

/* The window after an indication at now_us: half, or one packet within itt. */
IMTCP_INLINE imtcp_u32 imtcp_lp_reduced_segs(const struct imtcp_lp *lp, imtcp_u32 cwnd_segs,
					     imtcp_u64 now_us)
{
	if (lp->single || imtcp_lp_in_inference(lp, now_us))
		return 1;
	return (imtcp_u32)imtcp_max(cwnd_segs / 2, 1);
}

/* A router's mark. The stack itself reduces the window to imtcp_lp_reduced_segs. */
IMTCP_INLINE void imtcp_lp_on_mark(struct imtcp_lp *lp, imtcp_u32 cwnd_segs, imtcp_u64 now_us,
				   imtcp_u32 srtt_us)
{
	if (imtcp_lp_in_inference(lp, now_us))
		lp->retreats++;
	else
		lp->halvings++;
	lp->single = imtcp_lp_reduced_segs(lp, cwnd_segs, now_us) == 1;
	lp->lost = 1; /* as a loss, it ends the first slow start */
	lp->reacted_us = now_us;
	lp->inference_us = now_us + (imtcp_u64)lp->itt_rtts * srtt_us;
}

/* A round trip ended. full: the window was full at some time in it. */
IMTCP_INLINE void imtcp_lp_on_round(struct imtcp_lp *lp, const struct imtcp_window *w, int full)
{
	if (w->cwnd_segs > lp->most_segs) {
		lp->most_segs = w->cwnd_segs;
		lp->stalled_rtts = 0;
	} else if (full || w->cwnd_segs > IMTCP_LP_FIRST_SEGS) {
		lp->stalled_rtts += lp->stalled_rtts < IMTCP_LP_STALLED_RTTS;
	}
}

/* Is the first slow start still under way? Then d_max is unknown. */
IMTCP_INLINE int imtcp_lp_starts(const struct imtcp_lp *lp)
{
	return !lp->lost && lp->stalled_rtts < IMTCP_LP_STALLED_RTTS;
}

/* Reacts to (2). Returns 1 if it reduced the window. */
IMTCP_INLINE int imtcp_lp_on_early(struct imtcp_lp *lp, struct imtcp_window *w, imtcp_u64 now_us,
				   imtcp_u32 srtt_us)
{
	imtcp_u32 reduced_segs = imtcp_lp_reduced_segs(lp, w->cwnd_segs, now_us);

	/* d_max is unknown, or the last reaction cannot show in the delay yet. */
	if (imtcp_lp_starts(lp) || (lp->reacted_us && now_us - lp->reacted_us < srtt_us))
		return 0;
	imtcp_lp_on_mark(lp, w->cwnd_segs, now_us, srtt_us);
	w->cwnd_segs = reduced_segs;
	/* Additive increase follows, from any window. */
	w->ssthresh_segs = (imtcp_u32)imtcp_max(reduced_segs, IMTCP_RENO_LEAST_SEGS);
	w->credit_segs = 0;
	return 1;
}

/* A loss. Reno handles it, but it counts as the reaction of this round trip. */
IMTCP_INLINE void imtcp_lp_on_loss(struct imtcp_lp *lp, imtcp_u64 now_us)
{
	lp->lost = 1;
	lp->reacted_us = now_us;
}

/* acked_segs were acknowledged while the window was full. */
IMTCP_INLINE void imtcp_lp_grow(struct imtcp_lp *lp, struct imtcp_window *w, imtcp_u64 now_us,
				imtcp_u32 acked_segs, imtcp_u32 limit_segs)
{
	if (imtcp_lp_in_inference(lp, now_us) || !acked_segs)
		return;
	if (!lp->single) {
		imtcp_reno_grow(w, acked_segs, limit_segs);
		return;
	}
	lp->single = 0;
	w->cwnd_segs = (imtcp_u32)imtcp_min(2, limit_segs);
}

/* Round trips per segment if the window is below two segments; else 0. */
IMTCP_INLINE imtcp_u32 imtcp_lp_rtts_per_segment(const struct imtcp_lp *lp)
{
	return lp->single;
}

/* ---- the control's two rows: by delays, and by marks ---- */

IMTCP_INLINE void imtcp_lp_start(const struct imtcp_flow *c, struct imtcp_lp *lp,
				 const struct imtcp_window *w)
{
	imtcp_lp_begin(lp, &c->params, w);
}

IMTCP_INLINE void imtcp_lpecn_start(const struct imtcp_flow *c, struct imtcp_lp *lp,
				    const struct imtcp_window *w)
{
	imtcp_lp_begin(lp, &c->params, w);
	lp->by_marks = 1;
}

/*
 * Without ECN on the connection, TCP-LP/ECN would be Reno, so it then uses delays. It requests ECN
 * as any connection does (net.ipv4.tcp_ecn = 1). TCP_CONG_NEEDS_ECN would set ECT on the SYN, which
 * ordinary receivers refuse, and on connections without ECN.
 */
IMTCP_INLINE void imtcp_lp_learn(const struct imtcp_flow *c, struct imtcp_lp *lp,
				 const struct imtcp_sample *s)
{
	(void)c;
	if (!s->ecn)
		lp->by_marks = 0;
	if (s->delay_us)
		imtcp_lp_on_delay(lp, s->now_us, s->delay_us, s->stamp, (int)s->stamped);
}

IMTCP_INLINE void imtcp_lp_decide(struct imtcp_flow *c, struct imtcp_lp *lp,
				  const struct imtcp_sample *s, struct imtcp_decision *d)
{
	if (s->round_over)
		imtcp_lp_on_round(lp, &d->w, (int)s->round_full);
	if (!lp->by_marks && lp->early && imtcp_lp_on_early(lp, &d->w, s->now_us, s->srtt_us))
		c->facts.reductions_rtt++;
	else if (s->full)
		imtcp_lp_grow(lp, &d->w, s->now_us, s->acked_segs, s->limit_segs);
	c->facts.yields = (imtcp_u32)imtcp_lp_in_inference(lp, s->now_us);
	c->facts.trickle_q16 = imtcp_trickle_q16(imtcp_lp_rtts_per_segment(lp));
}

IMTCP_INLINE imtcp_u32 imtcp_lp_target(const struct imtcp_flow *c, const struct imtcp_lp *lp,
				       const struct imtcp_sample *s)
{
	(void)c;
	if (lp->by_marks && !s->lost)
		return imtcp_lp_reduced_segs(lp, s->cwnd_segs, s->now_us);
	return imtcp_reno_ssthresh(s->cwnd_segs);
}

IMTCP_INLINE void imtcp_lp_reduced(struct imtcp_flow *c, struct imtcp_lp *lp,
				   const struct imtcp_sample *s)
{
	if (lp->by_marks && !s->lost)
		imtcp_lp_on_mark(lp, s->cwnd_segs, s->now_us, s->srtt_us);
	else
		imtcp_lp_on_loss(lp, s->now_us);
	c->facts.trickle_q16 = imtcp_trickle_q16(imtcp_lp_rtts_per_segment(lp));
}

#define imtcp_lp_space imtcp_space
#define imtcp_lpecn_learn imtcp_lp_learn
#define imtcp_lpecn_decide imtcp_lp_decide
#define imtcp_lpecn_space imtcp_space
#define imtcp_lpecn_target imtcp_lp_target
#define imtcp_lpecn_reduced imtcp_lp_reduced

#endif
