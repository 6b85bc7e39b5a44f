/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * LEDBAT: keeps a queue of TARGET of its own at the bottleneck, and yields to who makes it
 * longer.
 *
 * Model (RFC 6817 §2.4.2), each ACK:
 *
 *   (1) queuing_delay = min(last delays) - min(base delays)          delay.h
 *   (2) off_target = (TARGET - queuing_delay) / TARGET
 *   (3) cwnd += GAIN · off_target · acked / cwnd                     in segments
 *   (4) MIN_CWND <= cwnd <= flight_size + ALLOWED_INCREASE
 *
 *                     queuing_delay
 *      cwnd grows  ───────────────────▶  cwnd shrinks
 *            0 ········ TARGET ········
 *
 *   A loss halves the window, once in a round trip (the stack does that).
 *
 * Walk: learn keeps the least delays of ten minutes and of the last four packets (imtcp_ledbat_on_delay). Slow start
 * goes on until the queue reaches TARGET. From then on each ACK moves the window (imtcp_ledbat_on_ack): up while the
 * queue is shorter than TARGET and the window is full, down while it is longer.
 *
 * Reference: RFC 6817 §2.4, §2.5, §3.
 *
 * Differences from the RFC
 *  1. The one-way delay is that of TCP timestamps (delay.h); where there are none, or they tick
 *     like no known clock, the RTT takes its place.
 *  2. Slow start (RFC 6817 leaves the start to the sender) ends when the queue reaches TARGET.
 *  3. (3) takes at most half of the window for one window of ACKs: a host that slept makes one
 *     wild delay.
 *
 * Known of it, and why LEDBAT++ exists (cc_ledbatpp.h): who comes late takes the queue of those
 * before him for the path, and pushes them out.
 */
#ifndef IMTCP_CC_LEDBAT_H
#define IMTCP_CC_LEDBAT_H

#include "flow.h"

/* TARGET and GAIN are parameters (params.h). */
/* ALLOWED_INCREASE, segments: 1 (RFC 6817 §2.5). */
#define IMTCP_LEDBAT_ALLOWED_SEGS 1U
/* MIN_CWND, segments: 2 (RFC 6817 §2.5). */
#define IMTCP_LEDBAT_LEAST_SEGS 2U

/* One segment, in the unit of a window's fraction. */
#define IMTCP_LEDBAT_SEG_Q16 65536U

struct imtcp_ledbat {
	struct imtcp_owd owd;
	struct imtcp_delays delays;
	imtcp_u32 epoch;	/* clock of the newest one-way delay */
	imtcp_u32 one_way;	/* delays are of the way forward, not round trips */
	imtcp_u32 fraction_q16; /* of a segment, beyond cwnd_segs */
	imtcp_u32 target_us;	/* TARGET */
	imtcp_u32 gain_q8;	/* GAIN */
	imtcp_u32 _pad;
};

/* ---- windows with a fraction ---- */

/* The window less or more by a part of a segment; not below MIN_CWND. */
IMTCP_INLINE void imtcp_ledbat_add(struct imtcp_window *w, imtcp_u32 *fraction_q16,
				   imtcp_u64 more_q16, imtcp_u64 less_q16)
{
	imtcp_u64 least = (imtcp_u64)IMTCP_LEDBAT_LEAST_SEGS * IMTCP_LEDBAT_SEG_Q16;
	imtcp_u64 window = (imtcp_u64)w->cwnd_segs * IMTCP_LEDBAT_SEG_Q16 + *fraction_q16;

	window = imtcp_max(imtcp_sub(window + more_q16, less_q16), least);
	w->cwnd_segs = imtcp_to_u32(window / IMTCP_LEDBAT_SEG_Q16);
	*fraction_q16 = (imtcp_u32)(window % IMTCP_LEDBAT_SEG_Q16);
}

/* acked segments as a share of the window, at most 1. */
IMTCP_INLINE imtcp_u64 imtcp_ledbat_share_q16(imtcp_u32 acked_segs, imtcp_u32 cwnd_segs)
{
	imtcp_u64 share = imtcp_div((imtcp_u64)acked_segs * IMTCP_LEDBAT_SEG_Q16, cwnd_segs);

	return imtcp_min(share, IMTCP_LEDBAT_SEG_Q16);
}

/* Growth stops at what is in flight and ALLOWED_INCREASE (4); a window that is above is left. */
IMTCP_INLINE imtcp_u32 imtcp_ledbat_most_segs(const struct imtcp_window *w, imtcp_u32 flight_segs,
					      imtcp_u32 limit_segs)
{
	imtcp_u64 most = imtcp_max((imtcp_u64)flight_segs + IMTCP_LEDBAT_ALLOWED_SEGS,
				   w->cwnd_segs);

	return imtcp_to_u32(imtcp_min(most, limit_segs));
}

/* From here on the window is above or at ssthresh. */
IMTCP_INLINE void imtcp_ledbat_end_slow_start(struct imtcp_window *w)
{
	w->ssthresh_segs = (imtcp_u32)imtcp_max(w->cwnd_segs, IMTCP_RENO_LEAST_SEGS);
}

/* ---- LEDBAT ---- */

/* A connection begins, or is switched to LEDBAT. */
IMTCP_INLINE void imtcp_ledbat_begin(struct imtcp_ledbat *l, const struct imtcp_params *p)
{
	l->target_us = p->ledbat_target_us;
	l->gain_q8 = p->ledbat_gain_q8;
}

/* (1): an ACK of a packet that left rtt_us ago; stamped: with the peer's timestamp, value. Returns
 * the queuing delay. */
IMTCP_GLOBAL imtcp_u32 imtcp_ledbat_on_delay(struct imtcp_ledbat *l, imtcp_u64 now_us,
					     imtcp_u32 rtt_us, imtcp_u32 value, int stamped)
{
	imtcp_u32 one_way;

	if (!l)
		return 0;
	one_way = stamped && imtcp_owd_on_ack(&l->owd, now_us, now_us - rtt_us, value);
	if (one_way != l->one_way || l->epoch != l->owd.epoch)
		imtcp_delays_clear(&l->delays);
	l->one_way = one_way;
	l->epoch = l->owd.epoch;
	imtcp_delays_on_sample(&l->delays, now_us, one_way ? l->owd.delay_us : rtt_us);
	return imtcp_delays_queue_us(&l->delays);
}

/* Change by (3) for this share of the window, off_us away from TARGET. */
IMTCP_INLINE imtcp_u64 imtcp_ledbat_step_q16(const struct imtcp_ledbat *l, imtcp_u64 share_q16,
					     imtcp_u32 off_us)
{
	return imtcp_scale(share_q16, (imtcp_u64)l->gain_q8 * off_us, 256ULL * l->target_us);
}

/*
 * (2), (3), (4): acked_segs were acknowledged, flight_segs were in flight before. full: the
 * window limited what was sent.
 */
IMTCP_INLINE void imtcp_ledbat_on_ack(struct imtcp_ledbat *l, struct imtcp_window *w,
				      imtcp_u32 acked_segs, imtcp_u32 flight_segs, int full,
				      imtcp_u32 limit_segs)
{
	imtcp_u32 queue = imtcp_delays_queue_us(&l->delays), most;
	imtcp_u64 share_q16 = imtcp_ledbat_share_q16(acked_segs, w->cwnd_segs), step_q16;

	if (imtcp_in_slow_start(w)) {
		if (queue < l->target_us) {
			if (full)
				imtcp_reno_grow(w, acked_segs, limit_segs);
			return;
		}
		imtcp_ledbat_end_slow_start(w);
	}
	if (queue < l->target_us) {
		if (!full)
			return;
		most = imtcp_ledbat_most_segs(w, flight_segs, limit_segs);
		step_q16 = imtcp_ledbat_step_q16(l, share_q16, l->target_us - queue);
		imtcp_ledbat_add(w, &l->fraction_q16, step_q16, 0);
		if (w->cwnd_segs >= most) {
			w->cwnd_segs = (imtcp_u32)imtcp_max(most, IMTCP_LEDBAT_LEAST_SEGS);
			l->fraction_q16 = 0;
		}
	} else {
		step_q16 = imtcp_ledbat_step_q16(l, share_q16, queue - l->target_us);
		step_q16 = imtcp_min(step_q16, share_q16 * w->cwnd_segs / 2);
		imtcp_ledbat_add(w, &l->fraction_q16, 0, step_q16);
		imtcp_ledbat_end_slow_start(w);
	}
}

/* ---- the control's row ---- */

#define imtcp_ledbat_space imtcp_space
#define imtcp_ledbat_target imtcp_halve
#define imtcp_ledbat_reduced imtcp_no_reduced

IMTCP_INLINE void imtcp_ledbat_start(const struct imtcp_flow *c, struct imtcp_ledbat *l,
				     const struct imtcp_window *w)
{
	(void)w;
	imtcp_ledbat_begin(l, &c->params);
}

IMTCP_INLINE void imtcp_ledbat_learn(const struct imtcp_flow *c, struct imtcp_ledbat *l,
				     const struct imtcp_sample *s)
{
	(void)c;
	if (s->delay_us)
		imtcp_ledbat_on_delay(l, s->now_us, s->delay_us, s->stamp, (int)s->stamped);
}

IMTCP_INLINE void imtcp_ledbat_decide(struct imtcp_flow *c, struct imtcp_ledbat *l,
				      const struct imtcp_sample *s, struct imtcp_decision *d)
{
	imtcp_ledbat_on_ack(l, &d->w, s->acked_segs, s->flight_segs, (int)s->full, s->limit_segs);
	c->facts.yields = imtcp_delays_queue_us(&l->delays) >= l->target_us;
}

#endif
