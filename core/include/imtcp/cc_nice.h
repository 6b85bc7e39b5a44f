/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * TCP Nice: Vegas that halves its window when a queue begins, down to one packet in 48 round trips
 * [NICE §3].
 *
 *   ── Model: once per round trip, over the packets whose ACKs came in it ─────────────────────
 *   (1) a packet is late when its RTT > minRTT + t (maxRTT - minRTT)
 *   (2) congestion when more than the share f of them is late: cwnd <- cwnd/2
 *   (3) else Vegas: diff = cwnd (RTT - minRTT) / RTT, in packets
 *           diff < alpha: +1     alpha...beta: unchanged     diff > beta: -1
 *
 *                  (2)               (2) at one packet
 *      ┌───────┐ cwnd/2  ┌───────┐ ──────────────────▶ ┌─────────────────┐
 *      │ Vegas │ ◀─────▶ │ halve │                     │ one packet in k │ k <- 2k <= 48
 *      └───────┘   (3)   └───────┘ ◀────────────────── │ round trips     │
 *                                      a calm round    └─────────────────┘
 *
 * States
 * - Slow start doubles the window per round trip. It ends when diff exceeds gamma.
 * - Vegas moves the window by one per round trip.
 * - Too many late packets halve the window instead.
 * - Below two packets the window is a number of round trips per packet. Each halving doubles that
 *   number. A calm round takes it back to one packet per round trip, and the next to two.
 *
 * learn counts the packets of a round, and the late ones (imtcp_nice_on_ack). decide applies (2)
 * and (3) when the round ends (imtcp_nice_on_round). Between rounds only slow start moves the
 * window (imtcp_nice_grow).
 *
 * References:
 *   [NICE]   A. Venkataramani, R. Kokku, M. Dahlin, TCP Nice: A Mechanism for Background
 *            Transfers, OSDI 2002, §3
 *   [VEGAS]  L. Brakmo, L. Peterson, TCP Vegas: End to End Congestion Avoidance on a Global
 *            Internet, IEEE JSAC 13(8), 1995, §III
 *
 * Differences from the papers
 *  1. f is a share of the packets acknowledged in the round, and not of cwnd: a window that is not
 *     full sends fewer.
 *  2. RTT in (3) is the least of the round, because delayed ACKs do not lengthen that.
 *  3. A window below two leaves as two packets in twice as many round trips. A receiver with
 *     delayed ACKs would make each single packet late.
 *  4. Slow start doubles each round trip and not every second one. It ends when diff > gamma.
 *  5. No packet is late while the margin of (1) is within the noise of the hosts. On an idle path
 *     that noise is the whole range, and most packets would be "late".
 *  6. In minRTT and maxRTT an RTT of whole milliseconds counts as one more (imtcp_rtt_at_most_us).
 *     A minRTT that is half a millisecond short would make one packet of 66 seem to wait in (3).
 */
#ifndef IMTCP_CC_NICE_H
#define IMTCP_CC_NICE_H

#include "flow.h"

/* t and f are parameters (params.h). */
/* The least window is one packet in 48 round trips [NICE §4]. */
#define IMTCP_NICE_MOST_RTTS 48U
/* alpha, beta and gamma, packets: 1, 3, 1 [VEGAS §III]. */
#define IMTCP_NICE_ALPHA_SEGS 1U
#define IMTCP_NICE_BETA_SEGS 3U
#define IMTCP_NICE_GAMMA_SEGS 1U

struct imtcp_nice {
	imtcp_u32 min_rtt_us; /* 0: no sample yet */
	imtcp_u32 max_rtt_us;
	imtcp_u32 round_segs; /* acknowledged with an RTT in this round trip */
	imtcp_u32 late_segs;  /* the late ones of these (1) */
	imtcp_u32 rtts;	 /* round trips per packet; 0: the window is cwnd_segs per round trip */
	imtcp_u32 t_pct; /* t of (1) */
	imtcp_u32 f_pct; /* f of (2) */
	imtcp_u32 _pad;
	imtcp_u64 halvings;
};

/* A connection begins with Nice, or changes to it. */
IMTCP_INLINE void imtcp_nice_begin(struct imtcp_nice *n, const struct imtcp_params *p)
{
	n->t_pct = p->nice_t_pct;
	n->f_pct = p->nice_f_pct;
}

/* (1): an ACK with this RTT acknowledged segs segments. */
IMTCP_INLINE void imtcp_nice_on_ack(struct imtcp_nice *n, imtcp_u32 rtt_us, imtcp_u32 segs)
{
	imtcp_u32 at_most_us = imtcp_rtt_at_most_us(rtt_us), margin_us;

	if (!rtt_us)
		return;
	if (!n->min_rtt_us || at_most_us < n->min_rtt_us)
		n->min_rtt_us = at_most_us;
	if (at_most_us > n->max_rtt_us)
		n->max_rtt_us = at_most_us;
	margin_us = (imtcp_u32)imtcp_scale(n->max_rtt_us - n->min_rtt_us, n->t_pct, 100);
	n->round_segs += segs;
	if (margin_us >= IMTCP_HOST_NOISE_US && rtt_us > n->min_rtt_us + margin_us)
		n->late_segs += segs;
}

/* diff of (3): packets of the window that wait in the queue, scale 256. */
IMTCP_INLINE imtcp_u64 imtcp_nice_queued_q8(imtcp_u32 cwnd_segs, imtcp_u32 min_rtt_us,
					    imtcp_u32 rtt_us)
{
	return imtcp_scale((imtcp_u64)cwnd_segs << 8, imtcp_sub(rtt_us, min_rtt_us), rtt_us);
}

IMTCP_INLINE void imtcp_nice_halve(struct imtcp_nice *n, struct imtcp_window *w)
{
	n->halvings++;
	if (n->rtts)
		n->rtts = (imtcp_u32)imtcp_min(2ULL * n->rtts, IMTCP_NICE_MOST_RTTS);
	else
		n->rtts = w->cwnd_segs < 4;
	w->cwnd_segs = n->rtts ? 1 : w->cwnd_segs / 2;
	w->ssthresh_segs = (imtcp_u32)imtcp_max(w->cwnd_segs, IMTCP_RENO_LEAST_SEGS);
}

/*
 * A round trip ended: applies (2) and (3). Returns 1 if it halved the window.
 *
 * RTT of (3) is rtt_us, or 0 if none was measured. The share f of (2) refers to round_segs packets.
 * busy: the window was full, so it may grow.
 */
IMTCP_INLINE int imtcp_nice_react(struct imtcp_nice *n, struct imtcp_window *w, imtcp_u32 rtt_us,
				  imtcp_u32 round_segs, int busy, imtcp_u32 limit_segs)
{
	int congested = 100ULL * n->late_segs > (imtcp_u64)n->f_pct * round_segs;
	imtcp_u64 queued_q8;

	n->late_segs = 0;
	w->credit_segs = 0;
	if (congested) {
		imtcp_nice_halve(n, w);
		return 1;
	}
	if (!rtt_us)
		return 0;
	if (n->rtts) {
		/* +1: from a fraction of a packet to one, or from one to two. */
		w->cwnd_segs = n->rtts > 1 ? 1 : (imtcp_u32)imtcp_min(2, limit_segs);
		n->rtts = n->rtts > 1;
		return 0;
	}
	queued_q8 = imtcp_nice_queued_q8(w->cwnd_segs, n->min_rtt_us, rtt_us);
	if (imtcp_in_slow_start(w)) {
		if (queued_q8 > IMTCP_NICE_GAMMA_SEGS << 8)
			w->ssthresh_segs = (imtcp_u32)imtcp_max(w->cwnd_segs,
								IMTCP_RENO_LEAST_SEGS);
	} else if (queued_q8 < IMTCP_NICE_ALPHA_SEGS << 8 && busy && w->cwnd_segs < limit_segs) {
		w->cwnd_segs++;
	} else if (queued_q8 > IMTCP_NICE_BETA_SEGS << 8 && w->cwnd_segs > 2) {
		w->cwnd_segs--;
		/* Else the next ACK would restore it by slow start. */
		w->ssthresh_segs = (imtcp_u32)imtcp_max(w->cwnd_segs, IMTCP_RENO_LEAST_SEGS);
	}
	return 0;
}

/* The same for the packets acknowledged in the round. rtt_us is its least RTT. */
IMTCP_INLINE int imtcp_nice_on_round(struct imtcp_nice *n, struct imtcp_window *w, imtcp_u32 rtt_us,
				     int busy, imtcp_u32 limit_segs)
{
	imtcp_u32 round_segs = n->round_segs;

	n->round_segs = 0;
	return imtcp_nice_react(n, w, rtt_us, round_segs, busy, limit_segs);
}

/* Between rounds only slow start moves the window, and not below two packets. */
IMTCP_INLINE void imtcp_nice_grow(const struct imtcp_nice *n, struct imtcp_window *w,
				  imtcp_u32 acked_segs, imtcp_u32 limit_segs)
{
	if (!n->rtts && imtcp_in_slow_start(w))
		imtcp_reno_grow(w,
				(imtcp_u32)imtcp_min(acked_segs, w->ssthresh_segs - w->cwnd_segs),
				limit_segs);
}

/* Round trips per segment if the window is below two segments; else 0. */
IMTCP_INLINE imtcp_u32 imtcp_nice_rtts_per_segment(const struct imtcp_nice *n)
{
	return n->rtts;
}

/* ---- the control's row ---- */

#define imtcp_nice_space imtcp_space
#define imtcp_nice_target imtcp_halve
#define imtcp_nice_reduced imtcp_no_reduced

IMTCP_INLINE void imtcp_nice_start(const struct imtcp_flow *c, struct imtcp_nice *n,
				   const struct imtcp_window *w)
{
	(void)w;
	imtcp_nice_begin(n, &c->params);
}

IMTCP_INLINE void imtcp_nice_learn(const struct imtcp_flow *c, struct imtcp_nice *n,
				   const struct imtcp_sample *s)
{
	(void)c;
	imtcp_nice_on_ack(n, s->delay_us, s->acked_segs);
}

IMTCP_INLINE void imtcp_nice_decide(struct imtcp_flow *c, struct imtcp_nice *n,
				    const struct imtcp_sample *s, struct imtcp_decision *d)
{
	if (s->round_over &&
	    imtcp_nice_on_round(n, &d->w, s->round_rtt_us, (int)s->round_full, s->limit_segs)) {
		c->facts.reductions_rtt++;
		c->facts.yields = 1;
	} else if (s->full) {
		imtcp_nice_grow(n, &d->w, s->acked_segs, s->limit_segs);
	}
	c->facts.trickle_q16 = imtcp_trickle_q16(imtcp_nice_rtts_per_segment(n));
}

#endif
