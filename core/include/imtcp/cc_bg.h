/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * ImTCP-bg: background transfer that takes the bandwidth nobody else wants.
 *
 * Two things steer it. The measurement says what is free: it bounds the window. The queueing delay q says when others
 * came: it moves the window below that bound.
 *
 *   W the window, RTTmin the base RTT, B the lesser of RTTmin and 30 ms, n the connections to the same host
 *
 *   (1) A_s <- (1 - gamma) A_s + gamma A                     each result (estimate.h)          [BG eq. 1]
 *   (2) W <= cap = g (A_s + slack) RTTmin                    while A_s is believed             [BG eq. 2]
 *   (3) q0 = (delta - 1) B / 4 + min(B, RTTmin / (n W))      the queue that is no congestion   [BG eq. 3]
 *   for each segment that is acknowledged
 *   (4) q < q0:   W <- W + G (1 - q / q0) B / RTTmin         G = (cap - W) / (4 W), 1 at most; 1/2 without a cap
 *   (5) q >= q0:  W <- W - (q - q0) / (4 RTTmin)                                               [BG eq. 4]
 *
 *      ┌────────────┐ q >= q0,   ┌──────────┐  a loss or a mark   ┌───────────────────────┐
 *      │ slow start │ W = cap    │ (4), (5) │ ──────────────────▶ │ W / 2; G <= 1 / W for │
 *      └────────────┘ ─────────▶ └──────────┘ ◀────────────────── │ two seconds           │
 *             ▲                    │      ▲        two seconds    └───────────────────────┘
 *             │ timeout, idle time │      │ RTTmin was tried
 *             └────────────────────┤      │
 *          RTTmin unseen for 10 s  ▼      │
 *                               ┌───────────┐
 *                               │ drain     │ W <= 4 (filter.h)
 *                               └───────────┘
 *
 * Below two segments W is a pace: two segments leave at a time, W of them a round trip (flow.h). W is a quarter at least, and
 * two segments over all n.
 *
 * Walk: learn takes each RTT into q and each result into A_s. It sets the cap by (2). decide sets the window by slow start,
 * by (4) or by (5). target answers a loss with half of the window, or with all of it where the loss is noise.
 *
 * g is that of the ImTCP paper's own background mode: MaxCwnd = g·RTT·A while that exceeds m·N, 0 < g <= 1 [IM §5.1]. A
 * smaller g takes less and interferes less.
 *
 * References: [BG §3.2]; [IM §5.1] for g and the floor of the cap.
 *
 * Differences from the paper (cc_paper_bg.h has its control without any of them)
 *  1. q comes from the least RTT of the newest 10 to 20 ms, not from srtt. With delayed ACKs srtt of a small window
 *     stays above delta·RTTmin. And q0 has one segment of its own, or a small window would be congestion by itself. The n
 *     connections to one host share that segment (neighbours.h).
 *  2. (5) takes a quarter of what would empty the queue in a round trip, where (4) of the paper takes all of it at once.
 *  3. (4) is faster than one segment per round trip far from the cap, and slower near to it.
 *  4. Where RTTmin is above 30 ms the queue is held against 30 ms: others wait in it however long this path is.
 *  5. The cap has a slack (imtcp_bg_slack_bps) and a floor of N + 2 segments: what a measurement needs. There is none
 *     while the estimate is not believed (estimate.h), and none where RTTmin is below a millisecond: nothing is measured.
 *  6. Before the first result the cap is the middle of the first search range.
 *  7. A loss beside a short queue is noise (imtcp_bg_is_noise). After any other the window grows as Reno's for two seconds.
 *  8. RTTmin ages, and follows a path that has changed (filter.h).
 *  9. A result "above the range" never lowers A_s, and two that agree are a step (estimate.h).
 * 10. W may be less than a segment: with two at least, ten connections keep 20 in the queue whatever they are told.
 */
#ifndef IMTCP_CC_BG_H
#define IMTCP_CC_BG_H

#include "flow.h"

/* Below this window, segments, two leave at a time: each ACK of a receiver that delays them is still at once. */
#define IMTCP_BG_PAIR_SEGS 2U
/* Least window: a quarter of a segment, scale 65536. ours: with two segments each, many connections take
 * half of a greedy flow's link (lab/notes/0027-windows-below-two.md). */
#define IMTCP_BG_LEAST_Q16 16384U
#define IMTCP_BG_LEAST_ALL_Q16 131072U
/* The longest RTTmin that a queue is held against, 30 ms. ours: a fifth of 300 ms would allow a
 * queue of 60 ms (lab/notes/0007-a-long-way-is-judged-as-a-short-one.md). */
#define IMTCP_BG_REFERENCE_MOST_US 30000U
/* Constants of (3), (4) and (5). lab/notes/0025-the-queue-moves-the-window.md tried other values. */
#define IMTCP_BG_THRESHOLD_DIV 4U
#define IMTCP_BG_APPROACH_DIV 4U
#define IMTCP_BG_GROWTH_DIV 2U
#define IMTCP_BG_BRAKE_DIV 4U
/* A stretch of ACKs: a round trip, 10 ms at most, and two samples at least. The queue is the least RTT of the newest two
 * stretches. ours: a lone sample may be of a delayed ACK. Stretches of 5 ms used less at the same harm (the same note). */
#define IMTCP_BG_STRETCH_MOST_US 10000U
#define IMTCP_BG_STRETCH_SAMPLES 2U
/* For two seconds after a loss the window grows by one segment per round trip at most. ours: without, short buffers lost
 * three times as much (the same note). */
#define IMTCP_BG_AFTER_LOSS_US (2 * IMTCP_USEC_PER_SEC)
/* Losses that are noise lie 50 segments apart on the mean, 2 %, and are two at once at most. ours: a policer's, or a full
 * buffer's, are more. */
#define IMTCP_BG_NOISE_APART_SEGS 50U
#define IMTCP_BG_NOISE_MOST_SEGS 2U
/* And no distance counts for more than a thousand segments: one long quiet time would cover a hundred losses. ours. */
#define IMTCP_BG_APART_MOST_SEGS 1000U
/* Losses are held against the longest queue, which fades. The stretch moves a 256th of the way to each new
 * queue, so it halves in two seconds or more. ours: without this, one moment of late ACKs makes losses of a
 * short buffer look like noise for a minute (lab/notes/0026-one-moment-of-late-acks.md). */
#define IMTCP_BG_FADE_SHIFT 8
/* Mean distance of two RTTs that follow each other to the range of all of them, where they are anywhere in it: a third. */
#define IMTCP_BG_JITTER_RANGE 3U
/* The slack of the cap. ours: in a window of exactly A_s, what a hold kept back is lost for good
 * (lab/notes/0002-the-cap-after-a-calm-round.md). */
#define IMTCP_BG_SLACK_DIV 20U
#define IMTCP_BG_SLACK_MISSING_DIV 16U

/* RTTs of a stretch of ACKs, microseconds. */
struct imtcp_bg_stretch {
	imtcp_u32 least_us; /* 0: no sample */
	imtcp_u32 most_us;
};

struct imtcp_bg {
	imtcp_u64 window_q16; /* W, scale 65536 */
	imtcp_u64 lost_at_us; /* the newest loss that was no noise; 0: none */
	imtcp_u64 stretch_start_us;
	struct imtcp_bg_stretch stretch, stretch_before;
	imtcp_u32 stretch_samples;
	imtcp_u32 written_segs;	 /* the window that this control wrote last: another one is TCP's */
	imtcp_u32 queue_us;	 /* q */
	imtcp_u32 longest_us;	 /* the longest queue, fading */
	imtcp_u32 newest_rtt_us; /* 0: none yet */
	imtcp_u32 jitter_us;	 /* mean distance of an RTT from the one before */
	imtcp_u32 lost_segs;	 /* lost when the newest loss was told */
	imtcp_u32 since_segs;	 /* acknowledged since */
	imtcp_u32 apart_segs;	 /* mean over losses; 0: there was none */
	imtcp_u32 draining;	 /* RTTmin is on trial: send almost nothing */
	imtcp_u32 before_drain_segs;
	imtcp_u32 uncapped_q16; /* G of (4) without a cap, scale 65536; 0: a half */
};

/* B: what a queue is held against. */
IMTCP_INLINE imtcp_u32 imtcp_bg_reference_us(imtcp_u32 base_us)
{
	return (imtcp_u32)imtcp_min(base_us, IMTCP_BG_REFERENCE_MOST_US);
}

/* Delay that may come from the hosts and not from a queue. Where RTTmin is less than a millisecond the
 * noise is what RTTs that follow each other differ by, up to a millisecond. Hosts that wait for their
 * processors delay one window and not the next. A queue that stands delays all alike. ours:
 * lab/notes/0030-how-late-hosts-are.md. */
IMTCP_INLINE imtcp_u32 imtcp_bg_noise_us(imtcp_u32 base_us, imtcp_u32 jitter_us)
{
	if (!imtcp_too_short(base_us))
		return IMTCP_HOST_NOISE_US;
	return (imtcp_u32)imtcp_clamp(jitter_us, IMTCP_HOST_NOISE_US, IMTCP_SHORT_RTT_US);
}

/* The least window of a connection among so many to the same host, scale 65536. */
IMTCP_INLINE imtcp_u64 imtcp_bg_least_q16(imtcp_u32 neighbours)
{
	return imtcp_min(IMTCP_BG_LEAST_Q16, IMTCP_BG_LEAST_ALL_Q16 / imtcp_max(neighbours, 1));
}

/* q0 of (3), microseconds. */
IMTCP_INLINE imtcp_u32 imtcp_bg_threshold_us(imtcp_u32 delta_q8, imtcp_u32 base_us,
					     imtcp_u64 window_q16, imtcp_u32 neighbours,
					     imtcp_u32 jitter_us)
{
	imtcp_u32 reference_us = imtcp_bg_reference_us(base_us);
	imtcp_u64 own_us = imtcp_div((imtcp_u64)base_us << 16,
				     window_q16 * imtcp_max(neighbours, 1));
	imtcp_u64 tolerated_us = imtcp_scale(reference_us, delta_q8 - 256,
					     256 * IMTCP_BG_THRESHOLD_DIV);

	return (imtcp_u32)(imtcp_max(tolerated_us, imtcp_bg_noise_us(base_us, jitter_us)) +
			   imtcp_min(own_us, reference_us));
}

/* ---- the cap ---- */

/* Slack of the cap above A_s, bit/s. It is the greatest of three: a 20th of A_s, a 16th of the distance to
 * the capacity, and the deviation of results. The cap is never more than the capacity and a 20th. Beside
 * steady traffic the second counts, beside bursts the third:
 * lab/notes/0009-a-cap-for-results-that-are-right.md, lab/notes/0010-what-each-rule-earns.md. */
IMTCP_GLOBAL imtcp_u64 imtcp_bg_slack_bps(const struct imtcp_estimate *e)
{
	imtcp_u64 least, slack, missing;

	if (!e)
		return 0;
	least = e->available_bps / IMTCP_BG_SLACK_DIV;
	missing = imtcp_sub(e->capacity_bps, e->available_bps);
	slack = imtcp_max(least, missing / IMTCP_BG_SLACK_MISSING_DIV);
	slack = imtcp_max(slack, e->deviation_bps);
	return imtcp_min(slack, imtcp_max(missing + e->capacity_bps / IMTCP_BG_SLACK_DIV, least));
}

/* (2): the cap for this estimate, at least least_segs, the window that a measurement needs [IM §5.1]; 0: none. */
IMTCP_INLINE imtcp_u32 imtcp_bg_cap_segs(const struct imtcp_estimate *e, imtcp_u32 g_q8,
					 imtcp_u32 base_us, imtcp_u32 pkt_bytes,
					 imtcp_u32 least_segs)
{
	imtcp_u64 bps = e->available_bps;

	if (!bps || !base_us || imtcp_too_short(base_us))
		return 0;
	/* no share of what is not known: the first result needs a window that carries its streams */
	if (e->trust == IMTCP_TRUST_RESULTS)
		bps = imtcp_scale(bps + imtcp_bg_slack_bps(e), g_q8, 256);
	return (imtcp_u32)imtcp_max(imtcp_window_segs(bps, base_us, pkt_bytes), least_segs);
}

/* (2): the cap of now. */
IMTCP_INLINE void imtcp_bg_bound(struct imtcp_flow *c, const struct imtcp_sample *s)
{
	struct imtcp_estimate e = imtcp_estimate_now(&c->meas, s->now_us);

	c->facts.cap_segs = imtcp_bg_cap_segs(&e, c->params.g_q8, s->min_rtt_us, s->pkt_bytes,
					      imtcp_meas_least_window_segs(&c->meas));
}

/* ---- the queue ---- */

/* How long a stretch of ACKs is: no longer than a round trip, or the window would swing about what q was. */
IMTCP_INLINE imtcp_u32 imtcp_bg_stretch_us(imtcp_u32 base_us)
{
	return (imtcp_u32)imtcp_clamp(base_us, IMTCP_SHORT_RTT_US, IMTCP_BG_STRETCH_MOST_US);
}

/* An ACK told an RTT, microseconds; base_us is RTTmin. */
IMTCP_INLINE void imtcp_bg_on_rtt(struct imtcp_bg *b, imtcp_u32 base_us, imtcp_u64 now_us,
				  imtcp_s32 rtt_us)
{
	imtcp_u32 rtt = (imtcp_u32)rtt_us, least;

	if (rtt_us <= 0 || !base_us)
		return;
	if (b->newest_rtt_us) {
		imtcp_u64 apart_us = imtcp_apart(rtt, b->newest_rtt_us);
		imtcp_u64 most_us = imtcp_max(base_us, IMTCP_SHORT_RTT_US);

		b->jitter_us = (imtcp_u32)imtcp_ewma(b->jitter_us, imtcp_min(apart_us, most_us));
	}
	b->newest_rtt_us = rtt;
	b->stretch_samples++;
	if (!b->stretch.least_us || rtt < b->stretch.least_us)
		b->stretch.least_us = rtt;
	if (rtt > b->stretch.most_us)
		b->stretch.most_us = rtt;
	least = b->stretch.least_us;
	if (b->stretch_before.least_us)
		least = (imtcp_u32)imtcp_min(least, b->stretch_before.least_us);
	b->queue_us = (imtcp_u32)imtcp_sub(least, base_us);
	if (b->queue_us > b->longest_us)
		b->longest_us = b->queue_us;
	if (b->stretch_samples < IMTCP_BG_STRETCH_SAMPLES ||
	    now_us - b->stretch_start_us < imtcp_bg_stretch_us(base_us))
		return;
	b->longest_us -= (b->longest_us - b->queue_us) >> IMTCP_BG_FADE_SHIFT;
	b->stretch_before = b->stretch;
	b->stretch_start_us = now_us;
	b->stretch.least_us = 0;
	b->stretch.most_us = 0;
	b->stretch_samples = 0;
}

/* ---- losses ---- */

/* The longest queue that a packet of the newest stretches saw: those beside the hole are among them. */
IMTCP_INLINE imtcp_u32 imtcp_bg_beside_us(const struct imtcp_bg *b, imtcp_u32 base_us)
{
	return (imtcp_u32)imtcp_sub(imtcp_max(b->stretch.most_us, b->stretch_before.most_us),
				    base_us);
}

/* How far losses lie apart, with the newest, segments. */
IMTCP_INLINE imtcp_u32 imtcp_bg_apart_segs(const struct imtcp_bg *b, imtcp_u32 lost_segs)
{
	imtcp_u64 apart = imtcp_div(b->since_segs, imtcp_max(lost_segs, 1));

	return (imtcp_u32)imtcp_ewma(b->apart_segs,
				     imtcp_clamp(apart, 1, IMTCP_BG_APART_MOST_SEGS));
}

/*
 * Is a loss noise? A buffer that overflowed was full when its neighbours passed: they saw half of the longest queue or
 * more. Where they did not, and losses are few, the path loses at random. A mark is none, and a timeout is no noise.
 */
IMTCP_INLINE int imtcp_bg_is_noise(const struct imtcp_bg *b, imtcp_u32 base_us,
				   const struct imtcp_sample *s)
{
	imtcp_u32 lost_segs = s->lost_segs - b->lost_segs;

	return s->lost && !s->timed_out && lost_segs <= IMTCP_BG_NOISE_MOST_SEGS &&
	       imtcp_bg_apart_segs(b, lost_segs) >= IMTCP_BG_NOISE_APART_SEGS &&
	       imtcp_bg_beside_us(b, base_us) < b->longest_us / 2;
}

/* A loss was told: what is known of losses. */
IMTCP_INLINE void imtcp_bg_on_loss(struct imtcp_bg *b, imtcp_u32 base_us,
				   const struct imtcp_sample *s)
{
	imtcp_u32 beside_us = imtcp_bg_beside_us(b, base_us);

	if (!imtcp_bg_is_noise(b, base_us, s)) {
		b->lost_at_us = s->now_us;
		/* the window after the drain is that of a loss */
		b->before_drain_segs = imtcp_reno_ssthresh(b->before_drain_segs);
	}
	b->longest_us = (imtcp_u32)imtcp_max(b->longest_us, beside_us);
	b->apart_segs = imtcp_bg_apart_segs(b, s->lost_segs - b->lost_segs);
	b->lost_segs = s->lost_segs;
	b->since_segs = 0;
}

/* ---- the window ---- */

/* The growth of (4) for one acknowledged segment, scale 65536. */
IMTCP_INLINE imtcp_u64 imtcp_bg_growth_q16(const struct imtcp_bg *b, const struct imtcp_facts *f,
					   imtcp_u64 now_us, imtcp_u32 threshold_us)
{
	imtcp_u64 cap_q16 = (imtcp_u64)f->cap_segs << 16, up = b->uncapped_q16;
	imtcp_u32 base_us = f->minrtt.base_us;

	if (!up)
		up = 65536 / IMTCP_BG_GROWTH_DIV;

	/* far below the cap as slow start, and no faster */
	if (f->cap_segs)
		up = imtcp_min(65536, imtcp_scale(imtcp_sub(cap_q16, b->window_q16),
						  65536 / IMTCP_BG_APPROACH_DIV, b->window_q16));
	up = imtcp_scale(up, imtcp_bg_reference_us(base_us), base_us);
	if (b->lost_at_us && now_us - b->lost_at_us < IMTCP_BG_AFTER_LOSS_US)
		up = imtcp_min(up, imtcp_div(1ULL << 32, b->window_q16));
	return imtcp_scale(up, threshold_us - b->queue_us, threshold_us);
}

/* The window after an ACK, within the cap: slow start, (4) or (5); Reno's where no RTT is known. Returns 1 where a queue
 * holds it back. A function of its own, or the verifier would follow every way through it once for each way to it. */
IMTCP_GLOBAL int imtcp_bg_steer(struct imtcp_bg *b, struct imtcp_facts *f, imtcp_u32 delta_q8,
				struct imtcp_window *w, const struct imtcp_sample *s)
{
	imtcp_u64 window, acked_q16, most_q16, least_q16;
	imtcp_u32 base_us, empty_us, threshold_us, segs;
	int queued;

	if (!b || !f || !w || !s)
		return 0;
	if (!f->minrtt.base_us) {
		if (s->full)
			imtcp_reno_grow(w, s->acked_segs, s->limit_segs);
		return 0;
	}
	base_us = f->minrtt.base_us;
	/* at least a millisecond: on a LAN a queue is many RTTs long, and while it empties each ACK tells of it again */
	empty_us = (imtcp_u32)imtcp_max(base_us, IMTCP_SHORT_RTT_US);
	if (!b->written_segs)
		b->window_q16 = (imtcp_u64)w->cwnd_segs << 16;
	else if (w->cwnd_segs != b->written_segs)
		b->window_q16 = imtcp_scale(b->window_q16, w->cwnd_segs, b->written_segs);
	window = b->window_q16;
	acked_q16 = (imtcp_u64)s->acked_segs << 16;
	least_q16 = imtcp_bg_least_q16(f->neighbours);
	threshold_us = imtcp_bg_threshold_us(delta_q8, base_us, window, f->neighbours,
					     b->jitter_us);
	queued = b->queue_us >= threshold_us;
	if (queued && imtcp_in_slow_start(w)) {
		imtcp_u64 carried_segs = imtcp_carried_segs(s->delivered_segs, s->delivered_in_us,
							    empty_us);

		if (carried_segs)
			window = imtcp_min(window, imtcp_max(carried_segs, IMTCP_BG_PAIR_SEGS)
							   << 16);
	} else if (queued) {
		imtcp_u64 cut = imtcp_scale(acked_q16, b->queue_us - threshold_us,
					    (imtcp_u64)IMTCP_BG_BRAKE_DIV * empty_us);

		/* a stretch ACK of a whole window takes no more than half of it */
		cut = imtcp_min(cut, window / 2);
		window -= imtcp_min(cut, imtcp_sub(window, least_q16));
	} else if (s->full && imtcp_in_slow_start(w)) {
		window += acked_q16;
	} else if (s->full) {
		window += s->acked_segs * imtcp_bg_growth_q16(b, f, s->now_us, threshold_us);
	}
	most_q16 = (imtcp_u64)imtcp_min(s->limit_segs, f->cap_segs ? f->cap_segs : s->limit_segs)
		   << 16;
	window = imtcp_min(window, most_q16);
	window = imtcp_max(window, least_q16);
	segs = (imtcp_u32)(window >> 16);
	/* slow start ends at a queue or at the cap, and does not give back what either took */
	if (queued || segs == f->cap_segs)
		w->ssthresh_segs = (imtcp_u32)imtcp_min(w->ssthresh_segs,
							imtcp_max(segs, IMTCP_RENO_LEAST_SEGS));
	w->cwnd_segs = (imtcp_u32)imtcp_max(segs, 1);
	f->trickle_q16 = 0;
	/* after a timeout the window is TCP's, and one segment leaves */
	if (segs < IMTCP_BG_PAIR_SEGS && !s->timed_out) {
		f->trickle_q16 = (imtcp_u32)window;
		w->cwnd_segs = IMTCP_TRICKLE_CWND_SEGS;
	}
	b->window_q16 = window;
	b->written_segs = w->cwnd_segs;
	return queued;
}

/* A round trip ended: is RTTmin to be tried? */
IMTCP_INLINE void imtcp_bg_on_round(struct imtcp_bg *b, struct imtcp_facts *f,
				    const struct imtcp_sample *s, struct imtcp_window *w)
{
	imtcp_u32 jitter_us = b->jitter_us * IMTCP_BG_JITTER_RANGE;
	int drain = imtcp_minrtt_on_round(&f->minrtt, f->acked_at_us, (int)s->round_full,
					  jitter_us);

	if (drain && !b->draining)
		b->before_drain_segs = w->cwnd_segs;
	if (!drain && b->draining)
		w->ssthresh_segs = (imtcp_u32)imtcp_max(b->before_drain_segs, IMTCP_BG_PAIR_SEGS);
	b->draining = (imtcp_u32)drain;
}

/* ---- the control's row ---- */

#define imtcp_bg_start imtcp_no_start

IMTCP_INLINE void imtcp_bg_learn(struct imtcp_flow *c, struct imtcp_bg *b,
				 const struct imtcp_sample *s)
{
	struct imtcp_meas *m = &c->meas;
	imtcp_u32 base_us = s->min_rtt_us;
	int calm, news;

	imtcp_bg_on_rtt(b, base_us, s->now_us, s->rtt_us);
	if (!s->acked_bytes)
		return;
	b->since_segs = imtcp_to_u32((imtcp_u64)b->since_segs + s->acked_segs);
	imtcp_meas_on_ack(m, &c->facts.round, s);
	news = imtcp_estimate_news(m);
	if (news) {
		/* up only where no queue stands: a queue says that what seems free is not */
		calm = b->queue_us < imtcp_bg_threshold_us(c->params.delta_q8, base_us,
							   b->window_q16, c->facts.neighbours,
							   b->jitter_us);
		imtcp_estimate_on_result(m, &c->params, &m->result, calm);
	}
	/* RTTmin and the estimate's age may wait for the end of a round trip; slow start may not wait for a cap */
	if (news || s->round_over || !c->facts.cap_segs)
		imtcp_bg_bound(c, s);
}

IMTCP_INLINE void imtcp_bg_decide(struct imtcp_flow *c, struct imtcp_bg *b,
				  const struct imtcp_sample *s, struct imtcp_decision *d)
{
	struct imtcp_facts *f = &c->facts;
	imtcp_u32 before_segs = d->w.cwnd_segs;

	d->least_segs = IMTCP_MEASURING_LEAST_SEGS;
	if (f->undone)
		b->lost_at_us = 0;
	/* a floor above the cap keeps the window */
	if (f->cap_segs && before_segs > imtcp_max(f->cap_segs, d->floor_segs))
		f->reductions_cap++;
	if (s->round_over)
		imtcp_bg_on_round(b, f, s, &d->w);
	if (b->draining) {
		d->w.cwnd_segs = (imtcp_u32)imtcp_min(before_segs, IMTCP_MEASURING_LEAST_SEGS);
		d->w.ssthresh_segs = d->w.cwnd_segs;
		d->floor_segs = 0;
		return;
	}
	if (!imtcp_bg_steer(b, f, c->params.delta_q8, &d->w, s))
		return;
	f->yields = 1;
	if (!s->round_over)
		return;
	f->reductions_rtt += d->w.cwnd_segs < before_segs;
	if (b->window_q16 >> 16 <= IMTCP_BG_PAIR_SEGS)
		imtcp_minrtt_on_least_window(&f->minrtt, f->acked_at_us, f->round.last_least_rtt_us,
					     b->jitter_us * IMTCP_BG_JITTER_RANGE);
}

IMTCP_INLINE void imtcp_bg_space(struct imtcp_flow *c, struct imtcp_bg *b,
				 struct imtcp_departure *dep, struct imtcp_decision *d)
{
	dep->recovering |= b->draining;
	if (c->facts.trickle_q16)
		imtcp_space(c, b, dep, d);
	else
		imtcp_space_streams(c, b, dep, d);
}

IMTCP_INLINE imtcp_u32 imtcp_bg_target(const struct imtcp_flow *c, const struct imtcp_bg *b,
				       const struct imtcp_sample *s)
{
	if (imtcp_bg_is_noise(b, c->facts.minrtt.base_us, s))
		return (imtcp_u32)imtcp_max(s->cwnd_segs, IMTCP_RENO_LEAST_SEGS);
	return imtcp_reno_ssthresh(s->cwnd_segs);
}

IMTCP_INLINE void imtcp_bg_reduced(struct imtcp_flow *c, struct imtcp_bg *b,
				   const struct imtcp_sample *s)
{
	imtcp_bg_on_loss(b, c->facts.minrtt.base_us, s);
	imtcp_meas_on_loss(&c->meas, s->now_us, s->snd_nxt, s->srtt_us);
}

#endif
