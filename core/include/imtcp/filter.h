/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Filters: averages, the store of results, the expectile of the capacity, the clock of round trips,
 * and a base RTT that ages.
 *
 * imtcp_minrtt: why the base ages, and how
 *
 * RTTmin is the least RTT of the connection [BG §3.2.1]. Two simple ways to keep it fail:
 *   ── how long ──────── fault ────────────────────────────────────────────────────────────
 *   for ever             after a change to a longer path, it shows a queue that is not there
 *   the last seconds     it contains the connection's own standing queue
 *
 * So the control drains if no sample came near the base for IMTCP_MINRTT_TRIAL_US. It sends almost
 * nothing for IMTCP_MINRTT_DRAIN_ROUNDS round trips. Its own queue disappears, and the base shows
 * again. LEDBAT++ does the same periodically (draft-irtf-iccrg-ledbat-plus-plus §4.4).
 *
 * If the base does not show, then the path is longer or others keep a queue. A longer path repeats
 * the same RTT, and a queue does not. So the base rises in two cases:
 * - The RTTs of the least window, drains included, agree for IMTCP_MINRTT_STEADY_US.
 * - No sample came near the base for IMTCP_MINRTT_AGE_US.
 *
 *        sample <= base·17/16         10 s without one             rounds over
 *      ┌──────────────┐   ┌─────────────────────────┐   ┌──────────────────────────────┐
 *      └──▶ FRESH ────┴───┴──────▶ DRAINING ────────┴───┴──▶ FRESH
 */
#ifndef IMTCP_FILTER_H
#define IMTCP_FILTER_H

#include "fixed.h"

/* Queueing delays below this are noise, microseconds. ours: RTTs of an idle path vary this much
 * because of the hosts (interrupts, delayed softirqs). */
#define IMTCP_HOST_NOISE_US 300U

/* Weight of a new sample in an exponential average: 1/8 [LP §III-D], as in RFC 6298 §2.3. For
 * available bandwidth it is a parameter (params.h). */
#define IMTCP_EWMA_SHIFT 3

/* v·weight without a product of more than 64 bits. The weight is at most 1. */
IMTCP_INLINE imtcp_u64 imtcp_weighted(imtcp_u64 v, imtcp_u32 weight_q16)
{
	return (v >> 16) * weight_q16 + ((v & 0xffff) * weight_q16 >> 16);
}

/* avg <- (1 - weight) avg + weight sample [BG eq. 1]. The first sample is the average. */
IMTCP_INLINE imtcp_u64 imtcp_ewma_by(imtcp_u64 avg, imtcp_u64 sample, imtcp_u32 weight_q16)
{
	if (!avg)
		return sample;
	return avg - imtcp_weighted(avg, weight_q16) + imtcp_weighted(sample, weight_q16);
}

/* The same with a weight of 1/8. */
IMTCP_INLINE imtcp_u64 imtcp_ewma(imtcp_u64 avg, imtcp_u64 sample)
{
	return imtcp_ewma_by(avg, sample, 1U << (16 - IMTCP_EWMA_SHIFT));
}

/* ---- store of results: count, mean and deviation [IM §3.2.6] ---- */

/* Size of the store. When it is full, the weight of all older results halves. ours: The paper keeps
 * all results. Under a slow drift it would then search an ever narrower range. */
#define IMTCP_STORE_MAX 32U

struct imtcp_store {
	imtcp_u64 sum_kbps; /* sum of the values, kbit/s, so that squares of 1 Tbit/s fit in u64 */
	imtcp_u64 sumsq_kbps; /* sum of their squares, (kbit/s)^2 */
	imtcp_u32 count;      /* q */
	imtcp_u32 _pad;
};

IMTCP_INLINE void imtcp_store_clear(struct imtcp_store *s)
{
	s->sum_kbps = 0;
	s->sumsq_kbps = 0;
	s->count = 0;
}

IMTCP_INLINE void imtcp_store_add(struct imtcp_store *s, imtcp_u64 bps)
{
	/* 2^29 kbit/s, half a Tbit/s, is above any rate here. 32 squares stay within 2^63. */
	imtcp_u64 kbps = imtcp_min(bps / 1000, 1ULL << 29);

	if (s->count >= IMTCP_STORE_MAX) {
		s->sum_kbps /= 2;
		s->sumsq_kbps /= 2;
		s->count /= 2;
	}
	s->sum_kbps += kbps;
	s->sumsq_kbps += kbps * kbps;
	s->count++;
}

/* Standard deviation, bit/s. [IM §3.2.6] prints "variance", but uses it as a deviation. */
IMTCP_INLINE imtcp_u64 imtcp_store_deviation_bps(const struct imtcp_store *s)
{
	imtcp_u64 mean_kbps, meansq;

	if (s->count < 2)
		return 0;
	mean_kbps = imtcp_div(s->sum_kbps, s->count);
	meansq = imtcp_div(s->sumsq_kbps, s->count);
	return imtcp_isqrt(imtcp_sub(meansq, mean_kbps * mean_kbps)) * 1000;
}

/* ---- capacity: an upper expectile of the dispersion of back-to-back packets ---- */

/*
 * Packets that leave back to back arrive apart by the bottleneck's time for one packet. Cross
 * traffic makes that longer. Compressed ACKs seldom make it shorter. So the capacity is near the
 * top of the samples, not at their mean (Man, Hasegawa, Murata, PAM 2005).
 *
 * The step up is three times the step down, which gives the 0.75 expectile. ours: the ratio. The
 * shift is the usual 1/16.
 */
#define IMTCP_CAPACITY_UP_SHIFT 4
#define IMTCP_CAPACITY_DOWN_DIV 48

IMTCP_INLINE imtcp_u64 imtcp_capacity_update(imtcp_u64 capacity_bps, imtcp_u64 sample_bps)
{
	if (!capacity_bps)
		return sample_bps;
	/* A compressed ACK pair can show any rate, so at most twice the present value counts. */
	sample_bps = imtcp_min(sample_bps, imtcp_mul(capacity_bps, 2));
	if (sample_bps > capacity_bps)
		return capacity_bps + ((sample_bps - capacity_bps) >> IMTCP_CAPACITY_UP_SHIFT);
	return capacity_bps - (capacity_bps - sample_bps) / IMTCP_CAPACITY_DOWN_DIV;
}

/* ---- round trips ---- */

/*
 * The clock of round trips. A round trip lasts from the departure of a packet to its ACK. All rules
 * "once per RTT" apply at its end.
 *
 *              first ACK               over, nothing is in flight
 *      NONE ──────────────▶ UNDER_WAY ────────────────────────────▶ IDLE
 *                             │    ▲ ▲                               │
 *     over, more is in flight └────┘ └───────────────────────────────┘
 *                                      next ACK with an RTT
 *
 * - UNDER_WAY: a round trip goes on. If nothing is in flight at its end, the state is IDLE. Else
 *   the next one begins.
 * - IDLE: the next ACK with an RTT begins a round trip. That began when its packet left, so idle
 *   time is no part of it.
 *
 * So a window of two segments in one ACK is a round trip each time, too.
 */
enum imtcp_round_state {
	IMTCP_ROUND_NONE = 0, /* no ACK yet */
	IMTCP_ROUND_UNDER_WAY = 1,
	IMTCP_ROUND_IDLE = 2,
};

struct imtcp_round {
	imtcp_u64 start_us;
	imtcp_u64 delivery_bps; /* delivery rate of the previous round, on the wire */
	imtcp_u32 start_una;
	imtcp_u32 end_seq;	     /* an ACK of this ends the round */
	imtcp_u32 least_rtt_us;	     /* in this round so far; 0: no sample yet */
	imtcp_u32 last_least_rtt_us; /* in the previous round */
	imtcp_u32 count;	     /* rounds since the start */
	imtcp_u32 state;	     /* enum imtcp_round_state */
	imtcp_u32 samples;	     /* RTT samples in this round so far */
	imtcp_u32 last_samples;
};

/*
 * Takes an ACK. wire_q8 is wire bytes per payload byte, scale 256. Returns 1 at the end of a round,
 * with last_least_rtt_us and delivery_bps set.
 */
IMTCP_INLINE int imtcp_round_on_ack(struct imtcp_round *r, imtcp_u64 now_us, imtcp_u32 snd_una,
				    imtcp_u32 snd_nxt, imtcp_s32 rtt_us, imtcp_u32 wire_q8)
{
	int over;

	r->samples += rtt_us > 0;
	if (rtt_us > 0 && (!r->least_rtt_us || (imtcp_u32)rtt_us < r->least_rtt_us))
		r->least_rtt_us = (imtcp_u32)rtt_us;
	if (r->state == IMTCP_ROUND_IDLE && rtt_us > 0) {
		r->state = IMTCP_ROUND_UNDER_WAY;
		r->start_us = now_us - (imtcp_u32)rtt_us;
		r->end_seq = snd_nxt;
	}
	over = r->state == IMTCP_ROUND_UNDER_WAY;
	if (over && imtcp_seq_before(snd_una, r->end_seq))
		return 0;
	if (over) {
		imtcp_u64 bytes = (imtcp_u32)(snd_una - r->start_una);

		r->delivery_bps = imtcp_rate_bps(bytes * wire_q8 / 256, now_us - r->start_us);
		r->last_least_rtt_us = r->least_rtt_us;
		r->last_samples = r->samples;
		r->count++;
	}
	r->state = snd_nxt != snd_una ? IMTCP_ROUND_UNDER_WAY : IMTCP_ROUND_IDLE;
	r->start_us = now_us;
	r->start_una = snd_una;
	r->end_seq = snd_nxt;
	r->least_rtt_us = 0;
	r->samples = 0;
	return over;
}

/* ---- least RTT ---- */

/* A tick of Linux's TCP timestamps. */
#define IMTCP_TICK_US 1000U

/*
 * Upper bound of the RTT that a sample proves, microseconds.
 *
 * TCP measures the RTT of retransmitted data by timestamps (RFC 7323 §4.1). Linux reads these in
 * whole ticks at both ends, so a sample may be up to a tick too short. One such sample would make
 * all later ones look delayed. So a sample of whole ticks counts as one tick more.
 *
 * ours: The microsecond clock seldom gives whole ticks. If that clock is no finer, the least RTT is
 * one tick too long.
 */
IMTCP_INLINE imtcp_u32 imtcp_rtt_at_most_us(imtcp_u32 rtt_us)
{
	return rtt_us % IMTCP_TICK_US ? rtt_us : imtcp_to_u32((imtcp_u64)rtt_us + IMTCP_TICK_US);
}

/* A sample this near to the base, within 1/16, refreshes it. ours: More than the usual noise of a
 * 30 ms path. */
#define IMTCP_MINRTT_NEAR_SHIFT 4
/* Time between two trials. ours: as BBR's min_rtt window, 10 s. */
#define IMTCP_MINRTT_TRIAL_US (10 * IMTCP_USEC_PER_SEC)
/* A base that nobody sees for three minutes is outdated. ours: Only a very large transfer keeps a
 * queue for longer. Until then imtcp_bg yields to it. */
#define IMTCP_MINRTT_AGE_US (180 * IMTCP_USEC_PER_SEC)
/* The RTT of a new path stays for five seconds within a millisecond and its jitter. ours: CUBIC's
 * queue is that flat for less time, at its plateau. */
#define IMTCP_MINRTT_STEADY_US (5 * IMTCP_USEC_PER_SEC)
#define IMTCP_MINRTT_STEADY_WITHIN_US 1000U
/* ours: The first round trip empties the path, the second measures it. */
#define IMTCP_MINRTT_DRAIN_ROUNDS 2U
/* The least sample is ignored while all others exceed 3/2 of it. ours: One packet overtook the
 * rest, or a proxy answered the handshake. The connection's own queue is far below half of the
 * base. */
#define IMTCP_MINRTT_ALONE_DIV 2U

struct imtcp_minrtt {
	imtcp_u64 refreshed_us; /* when a sample last came near the base */
	imtcp_u64 began_us;	/* start of the newest trial */
	imtcp_u64 tried_us;	/* end of the newest trial; 0: none */
	imtcp_u64 steady_at_us; /* since when the RTTs of least windows agree; 0: no such RTT */
	imtcp_u32 steady_least_us;
	imtcp_u32 steady_most_us;
	imtcp_u32 base_us;  /* RTTmin; 0: no sample yet */
	imtcp_u32 least_us; /* the least two samples; 0: none */
	imtcp_u32 second_us;
	imtcp_u32 trial_us;	/* least RTT of the present drain */
	imtcp_u32 drain_rounds; /* rounds still to drain; 0: not draining */
	imtcp_u32 drains;	/* drains so far */
	imtcp_u32 longer;	/* the path became longer: RTTs of other connections do not apply */
	imtcp_u32 _pad;
};

IMTCP_INLINE void imtcp_minrtt_on_sample(struct imtcp_minrtt *f, imtcp_u64 now_us, imtcp_s32 rtt_us)
{
	imtcp_u32 rtt;

	if (rtt_us <= 0)
		return;
	rtt = imtcp_rtt_at_most_us((imtcp_u32)rtt_us);
	if (!f->least_us || rtt < f->least_us) {
		f->second_us = f->least_us;
		f->least_us = rtt;
	} else if (!f->second_us || rtt < f->second_us) {
		f->second_us = rtt;
	}
	f->base_us = f->least_us;
	if (f->second_us > f->least_us + f->least_us / IMTCP_MINRTT_ALONE_DIV)
		f->base_us = f->second_us;
	if (rtt <= f->base_us + (f->base_us >> IMTCP_MINRTT_NEAR_SHIFT))
		f->refreshed_us = now_us;
	if (f->drain_rounds && (!f->trial_us || rtt < f->trial_us))
		f->trial_us = rtt;
}

/* Sets the base, also to a longer RTT. */
IMTCP_INLINE void imtcp_minrtt_set(struct imtcp_minrtt *f, imtcp_u64 now_us, imtcp_u32 rtt_us)
{
	f->longer |= rtt_us > f->base_us + (f->base_us >> IMTCP_MINRTT_NEAR_SHIFT);
	f->base_us = f->least_us = f->second_us = rtt_us;
	f->refreshed_us = now_us;
	f->steady_at_us = 0;
}

/* Takes the base of another connection to the same host: a queue may have stood here from the
 * beginning. If it does not show again, a trial corrects it as any base. */
IMTCP_INLINE void imtcp_minrtt_hear(struct imtcp_minrtt *f, imtcp_u32 rtt_us)
{
	if (rtt_us && !f->longer && f->base_us > rtt_us + (rtt_us >> IMTCP_MINRTT_NEAR_SHIFT))
		f->base_us = f->least_us = f->second_us = rtt_us;
}

/*
 * The window was the least, so the queue is not this connection's own, and the least RTT was above
 * the base. If such RTTs agree for long enough, the path has changed, and they are the new base.
 * jitter_us is the usual variation of the RTT.
 */
IMTCP_INLINE void imtcp_minrtt_on_least_window(struct imtcp_minrtt *f, imtcp_u64 now_us,
					       imtcp_u32 rtt_us, imtcp_u32 jitter_us)
{
	imtcp_u32 least = (imtcp_u32)imtcp_min(rtt_us, f->steady_least_us);
	imtcp_u32 most = (imtcp_u32)imtcp_max(rtt_us, f->steady_most_us);

	if (!f->steady_at_us || most - least > IMTCP_MINRTT_STEADY_WITHIN_US + jitter_us) {
		f->steady_at_us = now_us;
		least = most = rtt_us;
	}
	f->steady_least_us = least;
	f->steady_most_us = most;
	if (now_us - f->steady_at_us >= IMTCP_MINRTT_STEADY_US)
		imtcp_minrtt_set(f, now_us, least);
}

/*
 * The end of a round trip. Returns 1 while the control must drain. busy: the window limited
 * sending. An idle connection refreshes nothing and needs no drain.
 */
IMTCP_INLINE int imtcp_minrtt_on_round(struct imtcp_minrtt *f, imtcp_u64 now_us, int busy,
				       imtcp_u32 jitter_us)
{
	if (f->drain_rounds) {
		f->drain_rounds--;
		if (!f->drain_rounds) {
			/* The drain saw the base, or the base is outdated: take the drain's least
			 * RTT. */
			if (f->trial_us && (f->refreshed_us >= f->began_us ||
					    now_us - f->refreshed_us > IMTCP_MINRTT_AGE_US))
				imtcp_minrtt_set(f, now_us, f->trial_us);
			else if (f->trial_us)
				imtcp_minrtt_on_least_window(f, now_us, f->trial_us, jitter_us);
			f->trial_us = 0;
			f->tried_us = now_us;
		}
	} else if (busy && f->base_us &&
		   now_us - imtcp_max(f->refreshed_us, f->tried_us) > IMTCP_MINRTT_TRIAL_US) {
		/* One round more than measured, because the first still carries the old window. */
		f->drain_rounds = IMTCP_MINRTT_DRAIN_ROUNDS + 1;
		f->trial_us = 0;
		f->began_us = now_us;
		f->drains++;
	}
	return f->drain_rounds != 0;
}

#endif
