/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * LEDBAT++: LEDBAT without one-way clocks, and without the latecomer's advantage. It uses RTTs,
 * multiplicative decrease, and slowdowns in which all flows see the empty path
 * (draft-irtf-iccrg-ledbat-plus-plus).
 *
 *   ── Model (§4) ─────────────────────────────────────────────────────────────────────────
 *   (1) queuing_delay = min(last RTTs) - min(base RTTs)                        delay.h
 *   (2) GAIN = 1 / min(16, ceil(2·TARGET / base))
 *   (3) queuing_delay < TARGET:  W += GAIN                                   per round trip
 *   (4) else:  W += max(GAIN - W (queuing_delay/TARGET - 1), -W/2)           per round trip
 *   (5) slow start: W += GAIN · acked
 *
 *      ┌────────────┐ queue > 3/4 TARGET   ┌─────────────┐  2 RTT after the first slow start,
 *      │ SLOW START │ ───────────────────▶ │ STEADY (3,4)│  later 9 times the slowdown's length
 *      └────────────┘                      └─────────────┘ ───┐
 *                                            ▲      ssthresh <- W, W <- 2
 *                            W = ssthresh    │                ▼
 *                          ┌────────┐ (5)    │          ┌────────┐
 *                          │  RAMP  │ ───────┘ ◀─────── │ FROZEN │ 2 RTT
 *                          └────────┘                   └────────┘
 *
 * States
 * - Slow start grows by (5) until the queueing delay exceeds three quarters of TARGET.
 * - Steady follows (3) and (4). When the next slowdown is due, the window falls to two segments.
 * - Frozen keeps that window for two round trips. The queue drains, and the base RTT shows.
 * - Ramp grows by (5) to the window before the slowdown.
 *
 * learn keeps the least RTTs (imtcp_ledbatpp_on_delay). At each ACK decide changes the phase if it
 * is over (imtcp_ledbatpp_turn), and then moves the window (imtcp_ledbatpp_on_ack).
 *
 * Reference: draft-irtf-iccrg-ledbat-plus-plus-06, §4.1 (slow start), §4.2 (GAIN), §4.3
 * (decrease), §4.4 (slowdowns), §4.5 (TARGET).
 *
 * Differences from the draft
 *  1. §4.4 ramps the window up "by the slow start algorithm". This one takes slow start of §4.1,
 *     with GAIN.
 *  2. A loss in RAMP ends it, because ssthresh is then the stack's.
 */
#ifndef IMTCP_CC_LEDBATPP_H
#define IMTCP_CC_LEDBATPP_H

#include "cc_ledbat.h"

/* TARGET is a parameter (params.h). */
/* The least GAIN is 1/16 (§4.2). */
#define IMTCP_LEDBATPP_MOST_DIVISOR 16U
/* The window in a slowdown, segments (§4.4). */
#define IMTCP_LEDBATPP_SLOW_SEGS 2U
/* Length of the frozen phase, and time from slow start to the first slowdown, round trips
 * (§4.4). */
#define IMTCP_LEDBATPP_SLOW_RTTS 2U
/* Time from one slowdown to the next, in lengths of a slowdown: slowdowns take a tenth of the time
 * (§4.4). */
#define IMTCP_LEDBATPP_INTERVAL 9U

enum imtcp_ledbatpp_phase {
	IMTCP_LEDBATPP_START = 0,
	IMTCP_LEDBATPP_STEADY = 1,
	IMTCP_LEDBATPP_FROZEN = 2,
	IMTCP_LEDBATPP_RAMP = 3,
};

struct imtcp_ledbatpp {
	struct imtcp_delays delays; /* of RTTs */
	imtcp_u64 slowed_us;	    /* start of the present or last slowdown */
	imtcp_u64 due_us;	    /* STEADY: the next slowdown; FROZEN: its end */
	imtcp_u32 phase;	    /* enum imtcp_ledbatpp_phase */
	imtcp_u32 fraction_q16;	    /* part of a segment beyond cwnd_segs */
	imtcp_u32 target_us;	    /* TARGET */
	imtcp_u32 _pad;
	imtcp_u64 slowdowns;
};

/* A connection begins with LEDBAT++, or changes to it. */
IMTCP_INLINE void imtcp_ledbatpp_begin(struct imtcp_ledbatpp *l, const struct imtcp_params *p)
{
	l->target_us = p->ledbatpp_target_us;
}

/* (1): an ACK of a packet that left rtt_us ago. Returns the queueing delay. */
IMTCP_GLOBAL imtcp_u32 imtcp_ledbatpp_on_delay(struct imtcp_ledbatpp *l, imtcp_u64 now_us,
					       imtcp_u32 rtt_us)
{
	if (!l)
		return 0;
	imtcp_delays_on_sample(&l->delays, now_us, rtt_us);
	return imtcp_delays_queue_us(&l->delays);
}

/* 1/GAIN of (2). */
IMTCP_INLINE imtcp_u32 imtcp_ledbatpp_divisor(imtcp_u32 target_us, imtcp_u32 base_us)
{
	if (!base_us)
		return IMTCP_LEDBATPP_MOST_DIVISOR;
	return (imtcp_u32)imtcp_clamp(imtcp_div(2ULL * target_us + base_us - 1, base_us), 1,
				      IMTCP_LEDBATPP_MOST_DIVISOR);
}

/* Enters STEADY after the first slow start or a ramp. */
IMTCP_INLINE void imtcp_ledbatpp_steady(struct imtcp_ledbatpp *l, imtcp_u64 now_us,
					imtcp_u32 srtt_us)
{
	l->due_us = now_us + (l->phase == IMTCP_LEDBATPP_RAMP
				      ? IMTCP_LEDBATPP_INTERVAL * (now_us - l->slowed_us)
				      : (imtcp_u64)IMTCP_LEDBATPP_SLOW_RTTS * srtt_us);
	l->phase = IMTCP_LEDBATPP_STEADY;
}

/* Changes the phase, by time and window. */
IMTCP_INLINE void imtcp_ledbatpp_turn(struct imtcp_ledbatpp *l, struct imtcp_window *w,
				      imtcp_u64 now_us, imtcp_u32 srtt_us)
{
	imtcp_u32 queue = imtcp_delays_queue_us(&l->delays);

	switch (l->phase) {
	case IMTCP_LEDBATPP_START:
		if (imtcp_in_slow_start(w)) {
			if (queue <= l->target_us / 4 * 3)
				break;
			w->ssthresh_segs = (imtcp_u32)imtcp_max(w->cwnd_segs,
								IMTCP_RENO_LEAST_SEGS);
		}
		imtcp_ledbatpp_steady(l, now_us, srtt_us);
		break;
	case IMTCP_LEDBATPP_STEADY:
		if (now_us < l->due_us)
			break;
		w->ssthresh_segs = (imtcp_u32)imtcp_max(w->cwnd_segs, IMTCP_RENO_LEAST_SEGS);
		w->cwnd_segs = (imtcp_u32)imtcp_min(w->cwnd_segs, IMTCP_LEDBATPP_SLOW_SEGS);
		l->fraction_q16 = 0;
		l->slowed_us = now_us;
		l->due_us = now_us + (imtcp_u64)IMTCP_LEDBATPP_SLOW_RTTS * srtt_us;
		l->phase = IMTCP_LEDBATPP_FROZEN;
		l->slowdowns++;
		break;
	case IMTCP_LEDBATPP_FROZEN:
		if (now_us >= l->due_us)
			l->phase = IMTCP_LEDBATPP_RAMP;
		break;
	default:
		if (!imtcp_in_slow_start(w))
			imtcp_ledbatpp_steady(l, now_us, srtt_us);
		break;
	}
}

/* (3), (4), (5): acked_segs were acknowledged. full: the window limited sending. */
IMTCP_INLINE void imtcp_ledbatpp_on_ack(struct imtcp_ledbatpp *l, struct imtcp_window *w,
					imtcp_u64 now_us, imtcp_u32 srtt_us, imtcp_u32 acked_segs,
					int full, imtcp_u32 limit_segs)
{
	imtcp_u32 base_us = imtcp_delays_base_us(&l->delays), queue;
	imtcp_u32 divisor = imtcp_ledbatpp_divisor(l->target_us, base_us);
	imtcp_u64 share_q16, more_q16, less_q16;

	imtcp_ledbatpp_turn(l, w, now_us, srtt_us);
	if (l->phase == IMTCP_LEDBATPP_FROZEN)
		return;
	queue = imtcp_delays_queue_us(&l->delays);
	share_q16 = imtcp_ledbat_share_q16(acked_segs, w->cwnd_segs);
	/* Slow start is the first one, a ramp, or that after a timeout. */
	if (imtcp_in_slow_start(w))
		more_q16 = (imtcp_u64)imtcp_min(acked_segs, w->cwnd_segs) * IMTCP_LEDBAT_SEG_Q16 /
			   divisor;
	else
		more_q16 = share_q16 / divisor;
	if (l->phase == IMTCP_LEDBATPP_STEADY && queue > l->target_us) {
		less_q16 = imtcp_scale(imtcp_mul(share_q16, w->cwnd_segs), queue - l->target_us,
				       l->target_us);
		less_q16 = imtcp_min(less_q16, more_q16 + share_q16 * w->cwnd_segs / 2);
		imtcp_ledbat_add(w, &l->fraction_q16, more_q16, less_q16);
		imtcp_ledbat_end_slow_start(w);
	} else if (full) {
		imtcp_ledbat_add(w, &l->fraction_q16, more_q16, 0);
		if (l->phase == IMTCP_LEDBATPP_RAMP && w->cwnd_segs > w->ssthresh_segs)
			w->cwnd_segs = w->ssthresh_segs;
	}
	if (w->cwnd_segs > limit_segs)
		w->cwnd_segs = limit_segs;
}

/* ---- the control's row ---- */

#define imtcp_ledbatpp_space imtcp_space
#define imtcp_ledbatpp_target imtcp_halve
#define imtcp_ledbatpp_reduced imtcp_no_reduced

IMTCP_INLINE void imtcp_ledbatpp_start(const struct imtcp_flow *c, struct imtcp_ledbatpp *l,
				       const struct imtcp_window *w)
{
	(void)w;
	imtcp_ledbatpp_begin(l, &c->params);
}

IMTCP_INLINE void imtcp_ledbatpp_learn(const struct imtcp_flow *c, struct imtcp_ledbatpp *l,
				       const struct imtcp_sample *s)
{
	(void)c;
	if (s->delay_us)
		imtcp_ledbatpp_on_delay(l, s->now_us, s->delay_us);
}

IMTCP_INLINE void imtcp_ledbatpp_decide(struct imtcp_flow *c, struct imtcp_ledbatpp *l,
					const struct imtcp_sample *s, struct imtcp_decision *d)
{
	imtcp_ledbatpp_on_ack(l, &d->w, s->now_us, s->srtt_us, s->acked_segs, (int)s->full,
			      s->limit_segs);
	c->facts.yields = l->phase == IMTCP_LEDBATPP_FROZEN || l->phase == IMTCP_LEDBATPP_RAMP;
}

#endif
