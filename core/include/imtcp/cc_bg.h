/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * ImTCP-bg: background transfer that takes the bandwidth nobody else wants.
 *
 * Model [BG §3.2]: Reno, with two brakes.
 *
 *   (1) A_s <- (1 - gamma) A_s + gamma A          each result of the measurement (meas.h)
 *   (2) maxcwnd = g · (A_s + slack) · RTTmin      cwnd is cut to it at once when above
 *   (3) congestion when RTT / RTTmin > delta      once per round trip
 *   (4) cwnd <- cwnd · RTTmin / RTT
 *
 *                 RTT/RTTmin > delta (3)
 *      ┌──────┐ ───────────────────────────▶ cwnd (4), ssthresh = cwnd ─┐
 *      │ grow │◀──────────────────────────────────────────────────────────┘
 *      └──────┘ a calm round: an eighth of the way to the cap; cwnd <= maxcwnd (2) always
 *
 * g is that of the ImTCP paper's own background mode, MaxCwnd = g·RTT·A while that exceeds m·N,
 * 0 < g <= 1 [IM §5.1]: smaller g, less bandwidth and less interference. With g = 1, the
 * default, (2) is as [BG] has it.
 *
 * Reference: [BG §3.2]; [IM §5.1] for g and the floor of the cap.
 *
 * Differences from the paper
 *  1. RTT in (3) and (4) is the least of the round trip that ended, not srtt: with delayed
 *     ACKs a lone packet's ACK waits up to 40 ms, srtt of a small window stays above
 *     delta·RTTmin, and the window never grows again.
 *  2. (4) acts once per round trip: on every ACK it would collapse the window before the
 *     first cut could show in the RTT.
 *  3. After a calm round (RTT below the middle of 1 and delta) the window goes an eighth of the
 *     way to the cap, and after a step upwards (10) doubles up to it; the paper adds one segment
 *     per round trip, which is the least here. Not after a loss: until a result that is newer than
 *     it, growth is Reno's.
 *  4. A result outside of the search range counts in (1) with the end of the range that it
 *     passed, as [IM §3.2.5] sets it.
 *  5. RTTmin ages, and follows a path that has changed (filter.h).
 *  6. Before the first result the cap is the middle of the first search range.
 *  7. The slack of (2), which the paper does not have: what the results differ by, or a 16th of what is
 *     missing to the capacity, or a 20th of A_s, whichever is most; less of it the nearer the queue is to
 *     delta, and none from there on (imtcp_bg_slack_bps).
 *  8. Where (2) is below what a measurement needs, [IM §5.1] has no cap at all; here it is
 *     N + 2 segments, or a small g would take more than a larger one.
 *  9. A result "above the range" never lowers A_s (imtcp_estimate_counts).
 * 10. Two results in a row that are a quarter above A_s, or a quarter below it and alike, are a step, which (1)
 *     would follow by an eighth per result: A_s is the nearer of them at once (imtcp_estimate_step).
 * 11. (4) has a floor: four segments, and two where four still meet a queue.
 * 12. (3) judges a path of more than 30 ms by its queue as if it had 30 (imtcp_bg_reference_us): with B for
 *     that, queue / B > delta - 1. (4) cuts by M / (M + queue), M the middle of B and RTTmin.
 * 13. Nor is the RTT there the least of the whole round: that of its newest 30 ms (imtcp_bg_on_rtt).
 * 14. Of the queue that this RTT shows, what jitter alone would show is taken off (imtcp_bg_jitter_us).
 * 15. Where RTTmin is too short to measure in there is no cap (imtcp_bg_set_cap), and one round that meets a queue is
 *     none yet (imtcp_bg_meets_queue). There and elsewhere what may be the hosts' noise is no queue, and M of (4)
 *     is at least that (imtcp_bg_noise_us).
 * 16. Nor is there a cap where no result has counted for long (imtcp_bg_lapse). Growth then is an eighth per calm round.
 *
 * cc_paper_bg.h has the thesis's control without any of these.
 */
#ifndef IMTCP_CC_BG_H
#define IMTCP_CC_BG_H

#include "flow.h"

/* Least window of the RTT rule, segments; and where a window above that stops first. ours: below four, a
 * loss cannot be found by three duplicate ACKs; at two, each ACK of a receiver that delays them is
 * still at once. With four at least, a greedy flow lost 4 % of its 50 Mbit/s, with two about 2 %:
 * lab/notes/0003-steps-and-the-least-window.md. */
#define IMTCP_BG_LEAST_SEGS 2U
#define IMTCP_BG_FIRST_LEAST_SEGS 4U

/* The slack of the cap, of which the greatest counts where no queue stands. ours, by
 * lab/notes/0009-a-cap-for-results-that-are-right.md:
 * - a 20th of A_s: in a window of exactly that, what a hold kept back is lost for good
 *   (lab/notes/0002-the-cap-after-a-calm-round.md);
 * - a 16th of what is missing to the capacity: beside steady traffic, whose results do not scatter, that 20th is less
 *   than holds keep back (lab/notes/0010-what-each-rule-earns.md);
 * - the mean deviation of the results: beside bursts most moments are quieter than the mean, and the RTT rule
 *   holds the line in the others. Twice that is as good there, but five flows swing each other up by it. */
#define IMTCP_BG_SLACK_DIV 20U
#define IMTCP_BG_SLACK_MISSING_DIV 16U

/* After a calm round the window goes this part, an eighth, of the way to the cap. ours: A_s is the mean of
 * quiet moments, and a window back at it within two round trips of each cut has the next queue stand at
 * once. Five flows alone have half the queue of slow start to the cap, and share it evenly:
 * lab/notes/0005-what-a-queue-delivers.md. */
#define IMTCP_BG_APPROACH_DIV 8U

/* The longest RTTmin that a queue is compared with, 30 ms. ours: the others wait in the queue, however long
 * the background's own way is. A fifth of 300 ms would be a queue of 60 ms before anything is given way
 * to, and the cut then a sixth. A cut as of 30 ms would be ten times what empties the queue, and five flows of
 * 300 ms would use 0.63 of an idle line: lab/notes/0007-a-long-way-is-judged-as-a-short-one.md. */
#define IMTCP_BG_REFERENCE_MOST_US 30000U

/* ACKs may come too bunched or too few to judge for this long, two seconds, with the cap believed. ours: beside the
 * web, beside greedy flows and alone none of 70 runs had a bunched result that long after the last that counted; where
 * ACKs jitter at 1 Gbit/s six of seven were, for 25 s, and the flow stayed at what one had once said:
 * lab/notes/0018-no-word-from-the-acks.md. */
#define IMTCP_BG_SILENT_MOST_US (2 * IMTCP_USEC_PER_SEC)
/* The cap is believed for this long, ten seconds, after the last result that counted. ours: a pause of 20 round trips
 * of 300 ms, and a measurement after it. A program that writes little at a time is not measured at all, and stayed at a
 * third of the line after what had shared it was gone: lab/notes/0022-what-is-old-steers-nothing.md. */
#define IMTCP_BG_CAP_AGE_US (10 * IMTCP_USEC_PER_SEC)

/* A queue is told by the least RTT of this long a stretch of ACKs, and of so many samples. ours: as long as
 * the longest reference, so that a path's queue is as old whatever its RTT is; four samples, for a lone
 * one of a small window may be of a delayed ACK. */
#define IMTCP_BG_STRETCH_US IMTCP_BG_REFERENCE_MOST_US
#define IMTCP_BG_STRETCH_SAMPLES 4U

/* Of k round trips that are anywhere in a range R the least is R / (k + 1) above the path's on average, and one
 * differs from the next by R / 3: three of these differences. ours, as is the bound, B: what is
 * more than a round trip without a queue is a delayed ACK, or a queue. Without it a flow beside the web that
 * used 0.60 of what was free used 0.31 where ACKs jitter by a tenth of the round trip, with it 0.58:
 * lab/notes/0011-jitter-and-windows-of-two.md. */
#define IMTCP_BG_JITTER_RANGE 3U

/* A stretch of ACKs within a round trip. */
struct imtcp_bg_stretch {
	imtcp_u64 start_us;
	imtcp_u32 least_rtt_us; /* so far; 0: no sample yet */
	imtcp_u32 samples;
	imtcp_u32 last_least_rtt_us; /* of the one before in this round; 0: none is over */
	imtcp_u32 last_samples;
	imtcp_u32 newest_rtt_us;
	imtcp_u32 jitter_us; /* mean distance of an RTT from the one before, at most RTTmin */
};

/* What the window knows of a round trip that ended. */
struct imtcp_bg_round_end {
	imtcp_u64 now_us;
	imtcp_u32 floor_segs; /* the window that the user asked for at least; 0: none */
	imtcp_u32 busy;	      /* the window was full */
};

struct imtcp_bg {
	struct imtcp_bg_stretch stretch;
	imtcp_u64
		counted_at_us; /* when a result counted, or the first range was known; 0: neither */
	imtcp_u64 silent_at_us; /* first result since that the ACKs said nothing of; 0: none */
	imtcp_u32 draining;	/* RTTmin is on trial: send almost nothing */
	imtcp_u32 before_drain_segs;
	imtcp_u32 cap_stale;  /* a loss is newer than the newest result */
	imtcp_u32 cap_lapsed; /* no result has counted for long: no cap until one counts */
	imtcp_u32 queued;     /* the round that ended met a queue that has cost nothing yet */
	imtcp_u32 calm;	      /* the round that ended met no queue */
	imtcp_u32 stepped_up; /* A_s stepped upwards, and no queue was met on the way to its cap */
	imtcp_u32 queue_us;   /* of the newest round */
};

/* B: the round trip that a queue is compared with in (3), RTTmin, and at most 30 ms. */
IMTCP_INLINE imtcp_u32 imtcp_bg_reference_us(imtcp_u32 base_us)
{
	return (imtcp_u32)imtcp_min(base_us, IMTCP_BG_REFERENCE_MOST_US);
}

/*
 * What the cap is above A_s, bit/s: all of the slack without a queue, none where (3) begins. A function of its
 * own, or the verifier would follow every way through it once for each way to it.
 */
IMTCP_GLOBAL imtcp_u64 imtcp_bg_slack_bps(const struct imtcp_bg *b, const struct imtcp_params *p,
					  const struct imtcp_estimate *e, imtcp_u32 base_us)
{
	imtcp_u64 least, slack, missing;
	imtcp_u32 most_us;

	if (!b || !p || !e)
		return 0;
	least = slack = e->available_bps / IMTCP_BG_SLACK_DIV;
	missing = imtcp_sub(e->capacity_bps, e->available_bps);
	most_us = (imtcp_u32)imtcp_scale(imtcp_bg_reference_us(base_us), p->delta_q8 - 256, 256);
	slack = imtcp_max(slack, missing / IMTCP_BG_SLACK_MISSING_DIV);
	slack = imtcp_max(slack, e->deviation_bps);
	/* nobody has more than the capacity, however much the results scatter */
	slack = imtcp_min(slack, imtcp_max(missing + e->capacity_bps / IMTCP_BG_SLACK_DIV, least));
	return imtcp_scale(slack, imtcp_sub(most_us, b->queue_us), imtcp_max(most_us, 1));
}

/*
 * (2): the cap for the present estimate. stream_segs is the window that a measurement needs: the cap
 * holds only while it can go on being measured [IM §5.1], or a low value would stay for ever. So where the
 * round trip is too short to measure in there is none, and the RTT rule holds the line alone.
 */
IMTCP_INLINE void imtcp_bg_set_cap(const struct imtcp_bg *b, struct imtcp_facts *f,
				   const struct imtcp_params *p, const struct imtcp_estimate *e,
				   imtcp_u32 pkt_bytes, imtcp_u32 stream_segs)
{
	imtcp_u64 bps = e->available_bps;
	imtcp_u32 least = (imtcp_u32)imtcp_max(stream_segs, IMTCP_BG_FIRST_LEAST_SEGS);
	imtcp_u32 base_us = f->minrtt.base_us;

	if (!bps || !base_us)
		return;
	if (e->trust == IMTCP_TRUST_RESULTS) {
		bps += imtcp_bg_slack_bps(b, p, e, base_us);
		/* no share of what is not known: the first result needs a window that carries its
		 * streams */
		bps = imtcp_scale(bps, p->g_q8, 256);
	}
	if (b->cap_lapsed || imtcp_too_short(base_us))
		f->cap_segs = 0;
	else
		f->cap_segs = (imtcp_u32)imtcp_max(imtcp_window_segs(bps, base_us, pkt_bytes),
						   least);
}

/* (1): a measurement ended. */
IMTCP_INLINE void imtcp_bg_on_result(struct imtcp_bg *b, struct imtcp_meas *m,
				     const struct imtcp_params *p, const struct imtcp_result *r)
{
	/* up only where no queue stands: a queue says that what seems free is not */
	if (imtcp_estimate_on_result(m, p, r, (int)b->calm))
		b->stepped_up = 1;
	/* the whole range was free: that is news, too */
	if (r->outcome == IMTCP_OK || imtcp_above_range(r))
		b->cap_stale = 0;
}

/* A measurement ended: when did one count last, and have the ACKs said anything since? After imtcp_bg_on_result. */
IMTCP_INLINE void imtcp_bg_note_age(struct imtcp_bg *b, const struct imtcp_result *r)
{
	if (r->outcome == IMTCP_OK || r->outcome == IMTCP_OUT_OF_RANGE) {
		b->counted_at_us = r->at_us;
		b->silent_at_us = 0;
		b->cap_lapsed = 0;
	} else if (!b->silent_at_us &&
		   (r->outcome == IMTCP_BUNCHED || r->outcome == IMTCP_FEW_ACKS)) {
		b->silent_at_us = r->at_us;
	}
}

/*
 * Does the cap still say anything? Where no result has counted for long A_s, or the first range, is of another time: it is
 * forgotten, and the RTT rule holds the line alone until a result counts. Once per round trip, where there is a cap.
 */
IMTCP_INLINE void imtcp_bg_lapse(struct imtcp_bg *b, struct imtcp_meas *m, imtcp_u64 now_us)
{
	if (!m->high_bps)
		return;
	if (!b->counted_at_us)
		b->counted_at_us = now_us;
	if (now_us - b->counted_at_us <= IMTCP_BG_CAP_AGE_US &&
	    (!b->silent_at_us || now_us - b->silent_at_us <= IMTCP_BG_SILENT_MOST_US))
		return;
	b->cap_lapsed = 1;
	imtcp_estimate_forget(m);
}

/* A loss: what the cap says is older than what the path says. */
IMTCP_INLINE void imtcp_bg_on_loss(struct imtcp_bg *b)
{
	b->cap_stale = 1;
	b->stepped_up = 0;
	/* the window after the drain is that of a loss */
	b->before_drain_segs = imtcp_reno_ssthresh(b->before_drain_segs);
}

/* (2): the window at most the cap, at least floor_segs. Cutting it counts. */
IMTCP_INLINE void imtcp_bg_apply_cap(struct imtcp_bg *b, struct imtcp_facts *f,
				     struct imtcp_window *w, imtcp_u32 floor_segs)
{
	imtcp_u32 cap = (imtcp_u32)imtcp_max(f->cap_segs, floor_segs);

	if (!f->cap_segs || w->cwnd_segs <= cap)
		return;
	f->reductions_cap++;
	f->yields = 1;
	b->stepped_up = 0;
	w->cwnd_segs = cap;
	w->credit_segs = 0;
	if (w->ssthresh_segs > cap)
		w->ssthresh_segs = cap;
}

/* Is a queue more than this share of the reference, scale 256? */
IMTCP_INLINE int imtcp_bg_queue_exceeds(imtcp_u32 queue_us, imtcp_u32 reference_us,
					imtcp_u32 share_q8)
{
	return (imtcp_u64)queue_us * 256 > (imtcp_u64)reference_us * share_q8;
}

/* What may be no queue but the hosts. Where RTTmin is less than a millisecond, that: TCP puts as much into one buffer
 * there, and a window that is cut for it lets both ends sleep (lab/notes/0017-what-is-no-queue-on-a-lan.md). */
IMTCP_INLINE imtcp_u32 imtcp_bg_noise_us(imtcp_u32 base_us)
{
	return imtcp_too_short(base_us) ? IMTCP_SHORT_RTT_US : IMTCP_HOST_NOISE_US;
}

/*
 * (3), of a queue that exceeds delta or not. On a LAN a receiver that the scheduler makes wait for a few milliseconds
 * delays all of one window and not the next: there each cut takes two rounds in a row.
 */
IMTCP_INLINE int imtcp_bg_meets_queue(struct imtcp_bg *b, imtcp_u32 base_us, int exceeds)
{
	int queued = exceeds && b->queue_us > imtcp_bg_noise_us(base_us);
	int meets = queued && (b->queued || !imtcp_too_short(base_us));

	b->queued = queued && !meets;
	return meets;
}

/* Where (4) stops: at four, and from there at two, if four still leave a queue. */
IMTCP_INLINE imtcp_u32 imtcp_bg_least_segs(imtcp_u32 cwnd_segs)
{
	return cwnd_segs > IMTCP_BG_FIRST_LEAST_SEGS ? IMTCP_BG_FIRST_LEAST_SEGS
						     : IMTCP_BG_LEAST_SEGS;
}

/* How far the window may double up after a calm round: to the cap after a step, else an eighth of the way; with a cap that
 * lapsed by an eighth of itself. */
IMTCP_INLINE imtcp_u32 imtcp_bg_approach_segs(const struct imtcp_bg *b, imtcp_u32 cap_segs,
					      imtcp_u32 cwnd_segs)
{
	imtcp_u64 gap = b->cap_lapsed ? cwnd_segs : imtcp_sub(cap_segs, cwnd_segs);

	return cwnd_segs + (imtcp_u32)(b->stepped_up ? gap : gap / IMTCP_BG_APPROACH_DIV);
}

/* An ACK told an RTT, microseconds; base_us is RTTmin. */
IMTCP_INLINE void imtcp_bg_on_rtt(struct imtcp_bg *b, imtcp_u32 base_us, imtcp_u64 now_us,
				  imtcp_s32 rtt_us)
{
	struct imtcp_bg_stretch *s = &b->stretch;
	imtcp_u32 rtt = (imtcp_u32)rtt_us;

	if (rtt_us <= 0)
		return;
	if (s->newest_rtt_us) {
		imtcp_u64 apart_us = imtcp_apart(rtt, s->newest_rtt_us);

		s->jitter_us = (imtcp_u32)imtcp_ewma(s->jitter_us, imtcp_min(apart_us, base_us));
	}
	s->newest_rtt_us = rtt;
	s->samples++;
	if (!s->least_rtt_us || rtt < s->least_rtt_us)
		s->least_rtt_us = rtt;
	if (s->samples < IMTCP_BG_STRETCH_SAMPLES || now_us - s->start_us < IMTCP_BG_STRETCH_US)
		return;
	s->last_least_rtt_us = s->least_rtt_us;
	s->last_samples = s->samples;
	s->start_us = now_us;
	s->least_rtt_us = 0;
	s->samples = 0;
}

/* What jitter adds to the least of so many RTTs, microseconds. */
IMTCP_INLINE imtcp_u32 imtcp_bg_jitter_us(const struct imtcp_bg *b, imtcp_u32 base_us,
					  imtcp_u32 samples)
{
	imtcp_u64 us = imtcp_div((imtcp_u64)b->stretch.jitter_us * IMTCP_BG_JITTER_RANGE,
				 samples + 1ULL);

	return (imtcp_u32)imtcp_min(us, imtcp_bg_reference_us(base_us));
}

/*
 * The least RTT of the newest stretch of the round that ends now, or of all of it where none was long enough, without
 * what jitter adds; 0: there was none.
 */
IMTCP_INLINE imtcp_u32 imtcp_bg_newest_rtt_us(struct imtcp_bg *b, const struct imtcp_facts *f,
					      imtcp_u64 now_us)
{
	const struct imtcp_round *r = &f->round;
	imtcp_u32 rtt = b->stretch.last_least_rtt_us, samples = b->stretch.last_samples;

	b->stretch.start_us = now_us;
	b->stretch.least_rtt_us = 0;
	b->stretch.samples = 0;
	b->stretch.last_least_rtt_us = 0;
	if (!rtt) {
		rtt = r->last_least_rtt_us;
		samples = r->last_samples;
	}
	if (!rtt)
		return 0;
	return (imtcp_u32)imtcp_max(
		imtcp_sub(rtt, imtcp_bg_jitter_us(b, f->minrtt.base_us, samples)), 1);
}

/* A round trip ended: (3) and (4), RTTmin's age, growth to the cap. */
IMTCP_GLOBAL int imtcp_bg_on_round(struct imtcp_bg *b, struct imtcp_facts *f,
				   const struct imtcp_params *p, struct imtcp_window *w,
				   const struct imtcp_bg_round_end *end)
{
	imtcp_u32 rtt, base, least, queue_us, reference_us, tolerated_q8, jitter_us;
	int drain;

	if (!b || !f || !p || !w || !end)
		return 0;
	rtt = imtcp_bg_newest_rtt_us(b, f, end->now_us);
	base = f->minrtt.base_us;
	queue_us = imtcp_to_u32(imtcp_sub(rtt, base));
	least = (imtcp_u32)imtcp_max(end->floor_segs, imtcp_bg_least_segs(w->cwnd_segs));
	jitter_us = b->stretch.jitter_us * IMTCP_BG_JITTER_RANGE;
	drain = imtcp_minrtt_on_round(&f->minrtt, end->now_us, (int)end->busy, jitter_us);
	f->yields = 0;
	if (drain && !b->draining)
		b->before_drain_segs = w->cwnd_segs;
	if (!drain && b->draining) {
		w->ssthresh_segs = (imtcp_u32)imtcp_max(b->before_drain_segs, least);
		w->credit_segs = 0;
	}
	b->draining = (imtcp_u32)drain;
	if (drain) {
		w->cwnd_segs = (imtcp_u32)imtcp_min(w->cwnd_segs, IMTCP_BG_FIRST_LEAST_SEGS);
		w->ssthresh_segs = w->cwnd_segs;
		return 0;
	}
	/* one small question and its answer, a delayed ACK for all that is known */
	if (!rtt || !base || (!end->busy && f->round.last_samples == 1))
		return 0;
	reference_us = imtcp_bg_reference_us(base);
	b->queue_us = queue_us;
	tolerated_q8 = p->delta_q8 - 256;
	/* calm, ours: below the middle between no queue and delta */
	b->calm = !imtcp_bg_queue_exceeds(queue_us, reference_us, tolerated_q8 / 2);
	if (imtcp_bg_meets_queue(b, base,
				 imtcp_bg_queue_exceeds(queue_us, reference_us, tolerated_q8))) {
		imtcp_u64 middle_us = imtcp_max(((imtcp_u64)reference_us + base) / 2,
						imtcp_bg_noise_us(base));
		imtcp_u32 cwnd = imtcp_to_u32(
			imtcp_scale(w->cwnd_segs, middle_us, middle_us + queue_us));

		cwnd = (imtcp_u32)imtcp_max(cwnd, least);
		if (cwnd < w->cwnd_segs) {
			w->cwnd_segs = cwnd;
			f->reductions_rtt++;
		} else {
			imtcp_minrtt_on_least_window(&f->minrtt, end->now_us,
						     f->round.last_least_rtt_us, jitter_us);
		}
		w->ssthresh_segs = w->cwnd_segs;
		w->credit_segs = 0;
		f->yields = 1;
		b->stepped_up = 0;
	} else if (b->calm && !b->cap_stale) {
		w->ssthresh_segs = (imtcp_u32)imtcp_max(
			w->ssthresh_segs, imtcp_bg_approach_segs(b, f->cap_segs, w->cwnd_segs));
	}
	return 0;
}

/* ---- the control's row ---- */

#define imtcp_bg_start imtcp_no_start
#define imtcp_bg_target imtcp_halve

IMTCP_INLINE void imtcp_bg_learn(struct imtcp_flow *c, struct imtcp_bg *b,
				 const struct imtcp_sample *s)
{
	struct imtcp_meas *m = &c->meas;

	if (!s->acked_bytes)
		return;
	imtcp_bg_on_rtt(b, s->min_rtt_us, s->now_us, s->rtt_us);
	imtcp_meas_on_ack(m, &c->facts.round, s);
	if (!imtcp_estimate_news(m))
		return;
	imtcp_bg_on_result(b, m, &c->params, &m->result);
	imtcp_bg_note_age(b, &m->result);
}

IMTCP_INLINE void imtcp_bg_decide(struct imtcp_flow *c, struct imtcp_bg *b,
				  const struct imtcp_sample *s, struct imtcp_decision *d)
{
	struct imtcp_estimate e;

	d->least_segs = IMTCP_BG_FIRST_LEAST_SEGS;
	if (c->facts.undone)
		b->cap_stale = 0;
	if (s->round_over)
		imtcp_bg_lapse(b, &c->meas, s->now_us);
	e = imtcp_estimate_now(&c->meas);
	imtcp_bg_set_cap(b, &c->facts, &c->params, &e, s->pkt_bytes, c->meas.n + 2);
	if (s->round_over) {
		struct imtcp_bg_round_end end = {c->facts.acked_at_us, s->floor_segs,
						 s->round_full};

		imtcp_bg_on_round(b, &c->facts, &c->params, &d->w, &end);
	}
	if (s->full && !b->draining)
		imtcp_reno_grow(&d->w, s->acked_segs, s->limit_segs);
	imtcp_bg_apply_cap(b, &c->facts, &d->w, d->floor_segs);
	if (b->draining)
		d->floor_segs = 0;
}

IMTCP_INLINE void imtcp_bg_space(struct imtcp_flow *c, struct imtcp_bg *b,
				 struct imtcp_departure *dep, struct imtcp_decision *d)
{
	dep->recovering |= b->draining;
	imtcp_space_streams(c, b, dep, d);
}

IMTCP_INLINE void imtcp_bg_reduced(struct imtcp_flow *c, struct imtcp_bg *b,
				   const struct imtcp_sample *s)
{
	imtcp_bg_on_loss(b);
	imtcp_meas_on_loss(&c->meas, s->now_us, s->snd_nxt, s->srtt_us);
}

#endif
