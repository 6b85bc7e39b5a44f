/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * ImTCP-bg: background transfer that uses only the bandwidth that nobody else wants [BG §3.2].
 *
 * Two rules set the window W. The measured available bandwidth bounds W. The queueing delay q moves
 * W below that bound, because a queue means that others are sending.
 *
 *   ── Model ─────────────────────────────────────────────────────────────────────────────────────
 *   W       window of this host on the path       RTTmin  base RTT
 *   A, A_s  available bandwidth: a result, and    B       min(RTTmin, 30 ms)
 *           the average of results                n       connections to the same host
 *
 *   (1) A_s <- (1 - gamma) A_s + gamma A                   each result (estimate.h)     [BG eq. 1]
 *   (2) W <= cap = g (A_s + slack) RTTmin                  while A_s is trusted         [BG eq. 2]
 *   (3) q0 = (delta - 1) B / 4 + min(B, RTTmin / (n W))    tolerated queueing delay     [BG eq. 3]
 *   for each acknowledged segment
 *   (4) q < q0:   W <- W + G (1 - q / q0) B / RTTmin       G = (cap - W) / (4 W), at most 1;
 *                                                          without a cap 1/2
 *   (5) q >= q0:  W <- W - (q - q0) / (4 RTTmin)                                        [BG eq. 4]
 *   (6) cwnd = W - F / n, at least W / 8      F: this host's own foreground in flight (front.h)
 *
 *      ┌────────────┐ q >= q0,   ┌──────────┐  a loss or a mark   ┌───────────────────────┐
 *      │ slow start │ W = cap    │ (4), (5) │ ──────────────────▶ │ W / 2; G <= 1 / W for │
 *      └────────────┘ ─────────▶ └──────────┘ ◀────────────────── │ two seconds           │
 *        ▲    ▲                    │      │        two seconds    └───────────────────────┘
 *        │    └────────────────────┘      │
 *        │      timeout, idle time        │ RTTmin unseen for 10 s
 *        │                                ▼
 *        │       rounds over          ┌───────┐
 *        └─────────────────────────── │ drain │ W <= 4 (filter.h)
 *                                     └───────┘
 *
 * States
 * - Slow start adds a segment for each acknowledged segment. A queue or the cap ends it. A queue
 *   also cuts W to what the path carried in RTTmin.
 * - After it W follows (4) and (5): up while q is below q0, down while q is above.
 * - A loss or a mark halves W. For two seconds W then grows by at most one segment per round trip.
 *   A loss that is noise keeps W.
 * - The drain shows RTTmin again: W is at most 4, so the connection's own queue disappears. Slow
 *   start then returns to the window before.
 *
 * learn takes each RTT into q and each result into A_s, and sets the cap by (2). decide sets W.
 * target answers a loss or a mark.
 *
 * Below two segments W is a pace: two segments leave at a time, W of them per round trip (flow.h).
 * W is at least a quarter of a segment, and at least two segments over all n connections.
 *
 * A smaller g uses less and interferes less. It is g of the ImTCP paper's background mode [IM
 * §5.1], which also gives the floor of the cap.
 *
 * Differences from the paper (cc_paper_bg.h implements it without them)
 *  1. q is the least RTT of the newest 10 to 20 ms, less RTTmin. srtt does not serve: with delayed
 *     ACKs and a small window it stays above delta·RTTmin. q0 tolerates one segment of its own, or
 *     a small window would be congestion by itself. The n connections to one host share that
 *     segment (neighbours.h).
 *  2. (5) drains a quarter of the excess queue in a round trip. The paper drains all of it at once.
 *  3. (4) grows faster than Reno far from the cap, and slower near it.
 *  4. If RTTmin exceeds 30 ms, q0 is that of 30 ms. Others wait in the queue however long this path
 *     is.
 *  5. The cap has a slack (imtcp_bg_slack_bps), and a floor of N + 2 segments for a measurement.
 *     There is no cap while the estimate is not trusted (estimate.h). There is none if RTTmin is
 *     below 1 ms, where nothing is measured.
 *  6. Before the first result, A in (2) is the middle of the first search range.
 *  7. A loss beside a short queue is noise (imtcp_bg_is_noise). After any other, W grows as Reno's
 *     for two seconds.
 *  8. RTTmin ages, and follows a change of the path (filter.h).
 *  9. A result "above the range" never lowers A_s. Two results that agree are a step (estimate.h).
 * 10. W may be less than a segment. With two at least, ten connections would keep 20 segments in
 *     the queue at any q.
 * 11. This host's own foreground needs no queue to be heard: (6) makes room for it at once. The cap
 *     is what others leave, so F comes on top of it.
 */
#ifndef IMTCP_CC_BG_H
#define IMTCP_CC_BG_H

#include "flow.h"

/* The own foreground takes no more of W than seven eighths. ours: it may pass another bottleneck, and W
 * then grows by what is acknowledged (lab/notes/0034-the-own-foreground.md). */
#define IMTCP_BG_BESIDE_FRONT_DIV 8U
/* Below this window, in segments, two segments leave at a time. So a receiver with delayed ACKs
 * answers at once. */
#define IMTCP_BG_PAIR_SEGS 2U
/* Least window, scale 65536: a quarter of a segment for one connection, two segments for all
 * connections to one host. ours: see lab/notes/0027-windows-below-two.md. */
#define IMTCP_BG_LEAST_Q16 16384U
#define IMTCP_BG_LEAST_ALL_Q16 131072U
/* B is at most this, 30 ms. ours: On a long path the paper's q0 would tolerate a long queue
 * (lab/notes/0007-a-long-way-is-judged-as-a-short-one.md). */
#define IMTCP_BG_REFERENCE_MOST_US 30000U
/* Divisors in (3), (4) and (5). ours: see lab/notes/0025-the-queue-moves-the-window.md. */
#define IMTCP_BG_THRESHOLD_DIV 4U
#define IMTCP_BG_APPROACH_DIV 4U
#define IMTCP_BG_GROWTH_DIV 2U
#define IMTCP_BG_BRAKE_DIV 4U
/* A stretch of ACKs lasts a round trip, at most 10 ms, and has at least two samples. q comes from
 * the least RTT of the newest two stretches. ours: A single sample may be a delayed ACK. Shorter
 * stretches use less and harm as much (lab/notes/0025-the-queue-moves-the-window.md). */
#define IMTCP_BG_STRETCH_MOST_US 10000U
#define IMTCP_BG_STRETCH_SAMPLES 2U
/* For two seconds after a loss, W grows by at most one segment per round trip. ours: Otherwise
 * short buffers lose much more (lab/notes/0025-the-queue-moves-the-window.md). */
#define IMTCP_BG_AFTER_LOSS_US (2 * IMTCP_USEC_PER_SEC)
/* Losses are noise if they are 50 segments apart on average, and at most two at once. ours: A
 * policer or a full buffer loses more. */
#define IMTCP_BG_NOISE_APART_SEGS 50U
#define IMTCP_BG_NOISE_MOST_SEGS 2U
/* No distance counts for more than a thousand segments. ours: One long quiet time would excuse a
 * hundred losses. */
#define IMTCP_BG_APART_MOST_SEGS 1000U
/* The longest queue fades: each stretch takes a 256th of its distance to the present queue, so it
 * halves in two seconds or more. ours: One moment of late ACKs would else turn losses of a short
 * buffer into noise for a minute (lab/notes/0026-one-moment-of-late-acks.md). */
#define IMTCP_BG_FADE_SHIFT 8
/* Range of RTTs in multiples of the mean distance between consecutive ones: three if they are
 * uniform. */
#define IMTCP_BG_JITTER_RANGE 3U
/* Divisors of the slack of the cap. ours: A window of exactly A_s·RTTmin never catches up on what a
 * hold kept back (lab/notes/0002-the-cap-after-a-calm-round.md). */
#define IMTCP_BG_SLACK_DIV 20U
#define IMTCP_BG_SLACK_MISSING_DIV 16U

/* RTTs of one stretch of ACKs, microseconds. */
struct imtcp_bg_stretch {
	imtcp_u32 least_us; /* 0: no sample */
	imtcp_u32 most_us;
};

struct imtcp_bg {
	imtcp_u64 share_q16;  /* the part of W that the own foreground left: what was written */
	imtcp_u64 window_q16; /* W, scale 65536 */
	imtcp_u64 lost_at_us; /* time of the newest loss that was not noise; 0: none */
	imtcp_u64 stretch_start_us;
	struct imtcp_bg_stretch stretch, stretch_before;
	imtcp_u32 stretch_samples;
	imtcp_u32 written_segs;	 /* the window that this control wrote; another is TCP's own */
	imtcp_u32 queue_us;	 /* q */
	imtcp_u32 longest_us;	 /* the longest queue; it fades */
	imtcp_u32 newest_rtt_us; /* 0: none yet */
	imtcp_u32 jitter_us;	 /* mean distance between consecutive RTTs */
	imtcp_u32 lost_segs;	 /* lost segments of the connection up to the newest loss */
	imtcp_u32 since_segs;	 /* segments acknowledged since then */
	imtcp_u32 apart_segs;	 /* mean distance between losses; 0: no loss yet */
	imtcp_u32 draining;	 /* RTTmin is on trial, and the window is at most 4 */
	imtcp_u32 before_drain_segs;
	imtcp_u32 uncapped_q16; /* G of (4) without a cap, scale 65536; 0: 1/2 */
	imtcp_u32 front_segs;	/* F / n at the last ACK */
	imtcp_u32 _pad;
};

/* B of the model. */
IMTCP_INLINE imtcp_u32 imtcp_bg_reference_us(imtcp_u32 base_us)
{
	return (imtcp_u32)imtcp_min(base_us, IMTCP_BG_REFERENCE_MOST_US);
}

/* RTT variation that the hosts may cause, microseconds. If RTTmin is below 1 ms, it follows the
 * distance between consecutive RTTs. Busy hosts delay one window and not the next, and a standing
 * queue delays all alike. ours: see lab/notes/0030-how-late-hosts-are.md. */
IMTCP_INLINE imtcp_u32 imtcp_bg_noise_us(imtcp_u32 base_us, imtcp_u32 jitter_us)
{
	if (!imtcp_too_short(base_us))
		return IMTCP_HOST_NOISE_US;
	return (imtcp_u32)imtcp_clamp(jitter_us, IMTCP_HOST_NOISE_US, IMTCP_SHORT_RTT_US);
}

/* Least window of a connection that has so many neighbours, scale 65536. */
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

/* Slack of the cap above A_s, bit/s. It is the maximum of a 20th of A_s, a 16th of the distance to
 * the capacity, and the deviation of the results. A_s and the slack together stay below the
 * capacity and a 20th. The second term matters beside steady traffic, the third beside bursts
 * (lab/notes/0009-a-cap-for-results-that-are-right.md, lab/notes/0010-what-each-rule-earns.md). */
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

/* (2): the cap for an estimate, in segments; 0: none. It is at least least_segs, the window that a
 * measurement needs [IM §5.1]. */
IMTCP_INLINE imtcp_u32 imtcp_bg_cap_segs(const struct imtcp_estimate *e, imtcp_u32 g_q8,
					 imtcp_u32 base_us, imtcp_u32 pkt_bytes,
					 imtcp_u32 least_segs)
{
	imtcp_u64 bps = e->available_bps;

	if (!bps || !base_us || imtcp_too_short(base_us))
		return 0;
	/* Before the first result g and the slack do not apply: the window must carry the first
	 * streams. */
	if (e->trust == IMTCP_TRUST_RESULTS)
		bps = imtcp_scale(bps + imtcp_bg_slack_bps(e), g_q8, 256);
	return (imtcp_u32)imtcp_max(imtcp_window_segs(bps, base_us, pkt_bytes), least_segs);
}

/* (2): sets the present cap. */
IMTCP_INLINE void imtcp_bg_bound(struct imtcp_flow *c, const struct imtcp_sample *s)
{
	struct imtcp_estimate e = imtcp_estimate_now(&c->meas, s->now_us);

	c->facts.cap_segs = imtcp_bg_cap_segs(&e, c->params.g_q8, s->min_rtt_us, s->pkt_bytes,
					      imtcp_meas_least_window_segs(&c->meas));
}

/* ---- the queue ---- */

/* Length of a stretch of ACKs. It is at most a round trip, or the window would oscillate with an
 * outdated q. */
IMTCP_INLINE imtcp_u32 imtcp_bg_stretch_us(imtcp_u32 base_us)
{
	return (imtcp_u32)imtcp_clamp(base_us, IMTCP_SHORT_RTT_US, IMTCP_BG_STRETCH_MOST_US);
}

/* Takes an RTT from an ACK, microseconds. base_us is RTTmin. */
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

/* The longest queue in the newest stretches. Packets beside a loss are among them. */
IMTCP_INLINE imtcp_u32 imtcp_bg_beside_us(const struct imtcp_bg *b, imtcp_u32 base_us)
{
	return (imtcp_u32)imtcp_sub(imtcp_max(b->stretch.most_us, b->stretch_before.most_us),
				    base_us);
}

/* Mean distance between losses with the newest one, segments. */
IMTCP_INLINE imtcp_u32 imtcp_bg_apart_segs(const struct imtcp_bg *b, imtcp_u32 lost_segs)
{
	imtcp_u64 apart = imtcp_div(b->since_segs, imtcp_max(lost_segs, 1));

	return (imtcp_u32)imtcp_ewma(b->apart_segs,
				     imtcp_clamp(apart, 1, IMTCP_BG_APART_MOST_SEGS));
}

/*
 * Is a loss noise? The path then loses at random, and no buffer overflowed.
 *
 * A buffer that overflows was full for the packets beside the loss, so they saw half of the longest
 * queue or more. If they did not, and losses are few, the loss is noise. A mark is no loss. A
 * timeout is never noise.
 */
IMTCP_INLINE int imtcp_bg_is_noise(const struct imtcp_bg *b, imtcp_u32 base_us,
				   const struct imtcp_sample *s)
{
	imtcp_u32 lost_segs = s->lost_segs - b->lost_segs;

	return s->lost && !s->timed_out && lost_segs <= IMTCP_BG_NOISE_MOST_SEGS &&
	       imtcp_bg_apart_segs(b, lost_segs) >= IMTCP_BG_NOISE_APART_SEGS &&
	       imtcp_bg_beside_us(b, base_us) < b->longest_us / 2;
}

/* Updates the record of losses after a loss or a mark. */
IMTCP_INLINE void imtcp_bg_on_loss(struct imtcp_bg *b, imtcp_u32 base_us,
				   const struct imtcp_sample *s)
{
	imtcp_u32 beside_us = imtcp_bg_beside_us(b, base_us);

	if (!imtcp_bg_is_noise(b, base_us, s)) {
		b->lost_at_us = s->now_us;
		/* The window after the drain is reduced, too. */
		b->before_drain_segs = imtcp_reno_ssthresh(b->before_drain_segs);
	}
	b->longest_us = (imtcp_u32)imtcp_max(b->longest_us, beside_us);
	b->apart_segs = imtcp_bg_apart_segs(b, s->lost_segs - b->lost_segs);
	b->lost_segs = s->lost_segs;
	b->since_segs = 0;
}

/* ---- the window ---- */

/* Increase by (4) for one acknowledged segment, scale 65536. */
IMTCP_INLINE imtcp_u64 imtcp_bg_growth_q16(const struct imtcp_bg *b, const struct imtcp_facts *f,
					   const struct imtcp_sample *s, imtcp_u32 threshold_us)
{
	imtcp_u64 cap_q16 = (imtcp_u64)(f->cap_segs + s->front_segs) << 16, up = b->uncapped_q16;
	imtcp_u32 base_us = f->minrtt.base_us;

	if (!up)
		up = 65536 / IMTCP_BG_GROWTH_DIV;

	/* Far below the cap it is as fast as slow start, and no faster. */
	if (f->cap_segs)
		up = imtcp_min(65536, imtcp_scale(imtcp_sub(cap_q16, b->window_q16),
						  65536 / IMTCP_BG_APPROACH_DIV, b->window_q16));
	up = imtcp_scale(up, imtcp_bg_reference_us(base_us), base_us);
	if (b->lost_at_us && s->now_us - b->lost_at_us < IMTCP_BG_AFTER_LOSS_US)
		up = imtcp_min(up, imtcp_div(1ULL << 32, b->window_q16));
	return imtcp_scale(up, threshold_us - b->queue_us, threshold_us);
}

/* (6): the part of W that this host's own foreground leaves, scale 65536. Where W is new, it is what the
 * connection had, and F. most_q16 bounds the result. */
IMTCP_GLOBAL imtcp_u64 imtcp_bg_beside_front_q16(imtcp_u64 window_q16, imtcp_u32 front_segs,
						 int is_new, imtcp_u64 most_q16)
{
	imtcp_u64 least_q16 = imtcp_min(window_q16, IMTCP_BG_PAIR_SEGS << 16);

	if (!is_new)
		least_q16 = imtcp_max(least_q16, window_q16 / IMTCP_BG_BESIDE_FRONT_DIV);
	return imtcp_min(imtcp_max(imtcp_sub(window_q16, (imtcp_u64)front_segs << 16), least_q16),
			 most_q16);
}

/* Sets the window after an ACK, within the cap: slow start, (4) or (5); Reno's growth if no RTT is
 * known. Returns 1 if a queue holds the window back. It is a global function, so the verifier
 * follows its paths only once. */
IMTCP_GLOBAL int imtcp_bg_steer(struct imtcp_bg *b, struct imtcp_facts *f, imtcp_u32 delta_q8,
				struct imtcp_window *w, const struct imtcp_sample *s)
{
	imtcp_u64 window, acked_q16, most_q16, least_q16, front_q16, host_q16, share_q16;
	imtcp_u32 base_us, empty_us, threshold_us, segs;
	int queued, slow_start, is_new;

	if (!b || !f || !w || !s)
		return 0;
	if (!f->minrtt.base_us) {
		if (s->full)
			imtcp_reno_grow(w, s->acked_segs, s->limit_segs);
		return 0;
	}
	base_us = f->minrtt.base_us;
	/* At least 1 ms: on a LAN a queue lasts many RTTs, and each ACK reports it again while it
	 * drains. */
	empty_us = (imtcp_u32)imtcp_max(base_us, IMTCP_SHORT_RTT_US);
	front_q16 = (imtcp_u64)s->front_segs << 16;
	share_q16 = b->written_segs ? imtcp_scale(b->share_q16, w->cwnd_segs, b->written_segs)
				    : (imtcp_u64)w->cwnd_segs << 16;
	b->window_q16 = b->window_q16 - b->share_q16 + share_q16;
	slow_start = imtcp_max(b->window_q16 >> 16, w->cwnd_segs) < w->ssthresh_segs;
	window = b->window_q16;
	/* as long as the path's window is unknown, the foreground is no part of it yet */
	is_new = slow_start || !b->written_segs;
	if (is_new)
		window = imtcp_sub(window + front_q16, (imtcp_u64)b->front_segs << 16);
	b->front_segs = s->front_segs;
	acked_q16 = (imtcp_u64)s->acked_segs << 16;
	/* W is the host's: of its foreground as much is acknowledged, by its part of W */
	host_q16 = imtcp_scale(acked_q16, window, imtcp_max(share_q16, 1));
	least_q16 = imtcp_bg_least_q16(f->neighbours);
	threshold_us = imtcp_bg_threshold_us(delta_q8, base_us, window, f->neighbours,
					     b->jitter_us);
	queued = b->queue_us >= threshold_us;
	if (queued && slow_start) {
		imtcp_u64 carried_segs = imtcp_carried_segs(s->delivered_segs, s->delivered_in_us,
							    empty_us);

		if (carried_segs)
			window = imtcp_min(
				window,
				front_q16 + (imtcp_max(carried_segs, IMTCP_BG_PAIR_SEGS) << 16));
	} else if (queued) {
		imtcp_u64 cut = imtcp_scale(host_q16, b->queue_us - threshold_us,
					    (imtcp_u64)IMTCP_BG_BRAKE_DIV * empty_us);

		/* A stretch ACK of a whole window takes at most half of it. */
		cut = imtcp_min(cut, window / 2);
		window -= imtcp_min(cut, imtcp_sub(window, least_q16));
	} else if (s->full && slow_start) {
		window += acked_q16;
	} else if (s->full) {
		window += imtcp_scale(host_q16, imtcp_bg_growth_q16(b, f, s, threshold_us),
				      1U << 16);
	}
	most_q16 = (imtcp_u64)imtcp_min(s->limit_segs, f->cap_segs ? f->cap_segs : s->limit_segs)
		   << 16;
	window = imtcp_min(window, most_q16 + front_q16);
	window = imtcp_max(window, least_q16);
	b->window_q16 = window;
	window = b->share_q16 = imtcp_bg_beside_front_q16(window, s->front_segs, is_new,
							  imtcp_max(most_q16, least_q16));
	segs = (imtcp_u32)(window >> 16);
	/* A queue or the cap ends slow start: it must not take the reduction back. */
	if (queued || segs == f->cap_segs)
		w->ssthresh_segs = (imtcp_u32)imtcp_min(
			w->ssthresh_segs, imtcp_max(b->window_q16 >> 16, IMTCP_RENO_LEAST_SEGS));
	w->cwnd_segs = (imtcp_u32)imtcp_max(segs, 1);
	f->trickle_q16 = 0;
	/* After a timeout the window is TCP's, and one segment leaves. */
	if (segs < IMTCP_BG_PAIR_SEGS && !s->timed_out) {
		f->trickle_q16 = (imtcp_u32)window;
		w->cwnd_segs = IMTCP_TRICKLE_CWND_SEGS;
	}
	b->written_segs = w->cwnd_segs;
	return queued;
}

/* A round trip ended: starts or ends the drain. */
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

/* A round trip of the least window ended, with this least RTT. If the path has become longer, its window
 * is as unknown as at the beginning: slow start finds it. */
IMTCP_INLINE void imtcp_bg_on_least_window(const struct imtcp_bg *b, struct imtcp_facts *f,
					   struct imtcp_window *w, imtcp_u32 least_rtt_us)
{
	imtcp_u32 base_us = f->minrtt.base_us;

	imtcp_minrtt_on_least_window(&f->minrtt, f->acked_at_us, least_rtt_us,
				     b->jitter_us * IMTCP_BG_JITTER_RANGE);
	if (f->minrtt.base_us > base_us)
		w->ssthresh_segs = IMTCP_U32_MAX;
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
		/* Step up only without a queue: a queue shows that the bandwidth is not free. */
		calm = b->queue_us < imtcp_bg_threshold_us(c->params.delta_q8, base_us,
							   b->window_q16, c->facts.neighbours,
							   b->jitter_us);
		imtcp_estimate_on_result(m, &c->params, &m->result, calm);
	}
	/* RTTmin and the estimate's age can wait for the end of a round trip. Slow start cannot
	 * wait for a cap. */
	if (news || s->round_over || !c->facts.cap_segs)
		imtcp_bg_bound(c, s);
}

IMTCP_INLINE void imtcp_bg_decide(struct imtcp_flow *c, struct imtcp_bg *b,
				  const struct imtcp_sample *s, struct imtcp_decision *d)
{
	struct imtcp_facts *f = &c->facts;
	imtcp_u32 before_segs = d->w.cwnd_segs;
	int queued;

	d->least_segs = IMTCP_MEASURING_LEAST_SEGS;
	if (f->undone)
		b->lost_at_us = 0;
	/* If the floor exceeds the cap, the window is not reduced to the cap. */
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
	queued = imtcp_bg_steer(b, f, c->params.delta_q8, &d->w, s);
	if (queued || s->front_segs)
		f->yields = 1;
	if (!queued || !s->round_over)
		return;
	f->reductions_rtt += d->w.cwnd_segs < before_segs;
	if (b->window_q16 >> 16 <= IMTCP_BG_PAIR_SEGS)
		imtcp_bg_on_least_window(b, f, &d->w, f->round.last_least_rtt_us);
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
