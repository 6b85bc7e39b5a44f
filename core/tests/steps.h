/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Invariants of the delay-based controls. Each takes its steps from bytes, the fuzzer's or random ones, and names the
 * invariant that did not hold; NULL: all did. Times run forward, as the socket's clock does; round trips, timestamps
 * and windows are anything.
 */
#ifndef IMTCP_STEPS_H
#define IMTCP_STEPS_H

#include "begin.h"
#include "controls.h"
#include "fuzz/fuzz.h"
#include <imtcp/cc_fs.h>
#include <imtcp/cc_nocc.h>

#define HOLDS(what)                                                                                \
	do {                                                                                       \
		if (!(what))                                                                       \
			return #what;                                                              \
	} while (0)

/* Samples that a kernel may give: a window of 1...limit, a clock that runs forward. */
struct steps_flow {
	struct imtcp_window w;
	uint64_t now_us;
	uint32_t limit_segs;
};

static inline void steps_begin(struct bytes *in, struct steps_flow *f)
{
	memset(f, 0, sizeof(*f));
	f->limit_segs = 2 + (uint32_t)take_any(in) % 1000000;
	f->w.cwnd_segs = 1 + (uint32_t)take_any(in) % f->limit_segs;
	f->w.ssthresh_segs = 2 + (uint32_t)take_any(in) / 2;
	f->now_us = 1 + (take_any(in) >> 16);
}

static inline void steps_pass(struct bytes *in, struct steps_flow *f)
{
	f->now_us += take_any(in) >> 34;
}

static inline void steps_loss(struct bytes *in, struct steps_flow *f)
{
	f->w.ssthresh_segs = imtcp_reno_ssthresh(f->w.cwnd_segs);
	f->w.cwnd_segs = take8(in) & 1 ? 1 : f->w.ssthresh_segs;
	if (f->w.cwnd_segs > f->limit_segs)
		f->w.cwnd_segs = f->limit_segs;
}

static inline const char *steps_delay(struct bytes *in)
{
	struct imtcp_owd o;
	struct imtcp_delays d;
	uint64_t now_us = take_any(in) >> 16;

	memset(&o, 0, sizeof(o));
	memset(&d, 0, sizeof(d));
	while (in->left) {
		uint32_t before, value = (uint32_t)take_any(in), rtt_us = (uint32_t)take_any(in);

		now_us += 1 + (take_any(in) >> 34);
		if (imtcp_owd_on_ack(&o, now_us, now_us - rtt_us, value))
			HOLDS(o.clock == IMTCP_OWD_OK && o.tick_us);
		before = imtcp_delays_base_us(&d);
		imtcp_delays_on_sample(&d, now_us, rtt_us);
		HOLDS(imtcp_delays_base_us(&d) <= rtt_us);
		HOLDS(!before || imtcp_delays_base_us(&d) <= before ||
		      d.minute_us == now_us); /* only a new minute forgets */
		HOLDS(imtcp_delays_queue_us(&d) <= rtt_us);
	}
	return NULL;
}

static inline const char *steps_lp(struct bytes *in)
{
	struct imtcp_params p;
	struct steps_flow f;
	struct imtcp_lp lp;

	steps_begin(in, &f);
	take_params(in, &p);
	begin_lp(&lp, &p, &f.w);
	while (in->left) {
		uint32_t before = f.w.cwnd_segs, srtt_us = (uint32_t)take_any(in) >> 4;
		uint64_t reacted_us = lp.reacted_us;
		int early;

		steps_pass(in, &f);
		switch (take8(in) % 5) {
		case 0:
			early = imtcp_lp_on_delay(&lp, f.now_us, (uint32_t)take_any(in),
						  (uint32_t)take_any(in), take8(in) & 1);
			HOLDS(lp.signal >= IMTCP_LP_ONE_WAY && lp.signal <= IMTCP_LP_RTT_COARSE);
			HOLDS(imtcp_lp_least_us(&lp.rtt) <= lp.rtt.most_us[0]);
			if (early && imtcp_lp_on_early(&lp, &f.w, f.now_us, srtt_us)) {
				HOLDS(f.w.cwnd_segs <= imtcp_max(before / 2, 1));
				HOLDS(!imtcp_in_slow_start(&f.w) || f.w.cwnd_segs == 1);
				HOLDS(!reacted_us || f.now_us - reacted_us >= srtt_us);
				HOLDS(!srtt_us || imtcp_lp_in_inference(&lp, f.now_us));
			} else {
				HOLDS(f.w.cwnd_segs == before);
			}
			break;
		case 1:
			imtcp_lp_grow(&lp, &f.w, f.now_us, (uint32_t)take_any(in), f.limit_segs);
			if (imtcp_lp_in_inference(&lp, f.now_us))
				HOLDS(f.w.cwnd_segs == before);
			HOLDS(f.w.cwnd_segs >= imtcp_min(before, 2));
			break;
		case 2:
			HOLDS(imtcp_lp_reduced_segs(&lp, before, f.now_us) <= before);
			imtcp_lp_on_mark(&lp, before, f.now_us, srtt_us);
			break;
		case 3:
			imtcp_lp_on_round(&lp, &f.w, take8(in) & 1);
			HOLDS(lp.most_segs >= f.w.cwnd_segs);
			HOLDS(lp.stalled_rtts <= IMTCP_LP_STALLED_RTTS);
			break;
		default:
			imtcp_lp_on_loss(&lp, f.now_us);
			steps_loss(in, &f);
			break;
		}
		HOLDS(f.w.cwnd_segs >= 1 && f.w.cwnd_segs <= f.limit_segs);
	}
	return NULL;
}

static inline const char *steps_nice(struct bytes *in)
{
	struct imtcp_params p;
	struct steps_flow f;
	struct imtcp_nice n;

	steps_begin(in, &f);
	take_params(in, &p);
	begin_nice(&n, &p);
	while (in->left) {
		uint32_t before = f.w.cwnd_segs, rtts = n.rtts;

		switch (take8(in) % 4) {
		case 0:
			imtcp_nice_on_ack(&n, (uint32_t)take_any(in), (uint32_t)take_any(in));
			HOLDS(n.min_rtt_us <= n.max_rtt_us);
			break;
		case 1:
			if (imtcp_nice_on_round(&n, &f.w, (uint32_t)take_any(in), take8(in) & 1,
						f.limit_segs)) {
				HOLDS(f.w.cwnd_segs == (rtts ? 1 : imtcp_max(before / 2, 1)));
				HOLDS(!n.rtts == (f.w.cwnd_segs > 1));
				HOLDS(!rtts ||
				      n.rtts == imtcp_min(2ULL * rtts, IMTCP_NICE_MOST_RTTS));
			} else {
				HOLDS(rtts ||
				      (f.w.cwnd_segs <= before + 1 && f.w.cwnd_segs + 1 >= before));
				HOLDS(n.rtts <= rtts);
			}
			HOLDS(!n.round_segs && !n.late_segs);
			break;
		case 2:
			imtcp_nice_grow(&n, &f.w, (uint32_t)take_any(in), f.limit_segs);
			HOLDS(f.w.cwnd_segs >= before);
			break;
		default:
			steps_loss(in, &f);
			break;
		}
		HOLDS(f.w.cwnd_segs >= 1 && f.w.cwnd_segs <= f.limit_segs);
		HOLDS(n.rtts <= IMTCP_NICE_MOST_RTTS);
		HOLDS(imtcp_nice_rtts_per_segment(&n) <= IMTCP_NICE_MOST_RTTS);
	}
	return NULL;
}

static inline const char *steps_ledbat(struct bytes *in)
{
	struct imtcp_params p;
	struct steps_flow f;
	struct imtcp_ledbat l;

	steps_begin(in, &f);
	take_params(in, &p);
	begin_ledbat(&l, &p);
	while (in->left) {
		uint32_t before = f.w.cwnd_segs, acked = (uint32_t)take_any(in);
		int slow = imtcp_in_slow_start(&f.w), full = take8(in) & 1;

		steps_pass(in, &f);
		switch (take8(in) % 3) {
		case 0:
			imtcp_ledbat_on_delay(&l, f.now_us, (uint32_t)take_any(in),
					      (uint32_t)take_any(in), take8(in) & 1);
			break;
		case 1:
			imtcp_ledbat_on_ack(&l, &f.w, acked, (uint32_t)take_any(in), full,
					    f.limit_segs);
			HOLDS(full || f.w.cwnd_segs <= imtcp_max(before, IMTCP_LEDBAT_LEAST_SEGS));
			HOLDS(slow || f.w.cwnd_segs <= imtcp_max(before + 1ULL, 2));
			/* at most half goes for one window of ACKs */
			HOLDS(2ULL * f.w.cwnd_segs + 2 >= before);
			HOLDS(imtcp_delays_queue_us(&l.delays) < l.target_us ||
			      f.w.cwnd_segs <= imtcp_max(before, IMTCP_LEDBAT_LEAST_SEGS));
			HOLDS(f.w.cwnd_segs == before || slow ||
			      f.w.cwnd_segs >= IMTCP_LEDBAT_LEAST_SEGS);
			break;
		default:
			steps_loss(in, &f);
			break;
		}
		HOLDS(f.w.cwnd_segs >= 1 && f.w.cwnd_segs <= f.limit_segs);
		HOLDS(l.fraction_q16 < IMTCP_LEDBAT_SEG_Q16);
	}
	return NULL;
}

static inline const char *steps_ledbatpp(struct bytes *in)
{
	struct imtcp_params p;
	struct imtcp_ledbatpp l;
	struct steps_flow f;

	steps_begin(in, &f);
	take_params(in, &p);
	begin_ledbatpp(&l, &p);
	while (in->left) {
		uint32_t before = f.w.cwnd_segs, acked = (uint32_t)take_any(in);
		uint32_t srtt_us = (uint32_t)take_any(in) >> 4, phase = l.phase;
		int full = take8(in) & 1;

		steps_pass(in, &f);
		switch (take8(in) % 3) {
		case 0:
			imtcp_ledbatpp_on_delay(&l, f.now_us, (uint32_t)take_any(in));
			break;
		case 1:
			imtcp_ledbatpp_on_ack(&l, &f.w, f.now_us, srtt_us, acked, full,
					      f.limit_segs);
			HOLDS(l.phase <= IMTCP_LEDBATPP_RAMP);
			if (l.phase == IMTCP_LEDBATPP_FROZEN)
				HOLDS(f.w.cwnd_segs <= imtcp_max(before, IMTCP_LEDBATPP_SLOW_SEGS));
			/* a slowdown may take all but two; nothing else more than half */
			HOLDS(phase == IMTCP_LEDBATPP_STEADY ||
			      2ULL * f.w.cwnd_segs + 2 >= before ||
			      l.phase != IMTCP_LEDBATPP_STEADY);
			HOLDS(f.w.cwnd_segs <= imtcp_max(2ULL * before + 1, 2));
			break;
		default:
			steps_loss(in, &f);
			break;
		}
		HOLDS(f.w.cwnd_segs >= 1 && f.w.cwnd_segs <= f.limit_segs);
		HOLDS(l.fraction_q16 < IMTCP_LEDBAT_SEG_Q16);
	}
	return NULL;
}

static inline const char *steps_fs(struct bytes *in)
{
	struct steps_flow f;

	steps_begin(in, &f);
	while (in->left) {
		uint32_t before = f.w.cwnd_segs, h = 1 + (uint32_t)take_any(in);
		uint64_t bps = take_any(in);
		uint32_t rtt_us = (uint32_t)take_any(in), pkt = (uint32_t)take_any(in) % 9000;
		uint32_t v = imtcp_fs_v_segs(bps, rtt_us, pkt), step;
		int slow = imtcp_in_slow_start(&f.w);

		step = imtcp_fs_step_segs(before, v, h ? h : 1);
		HOLDS(step >= 1 && (step == 1 || (uint64_t)before + step <= v));
		HOLDS(step <= imtcp_fs_step_segs(before, v, h < 1U << 31 ? 2 * h : h));
		imtcp_fs_grow(&f.w, (uint32_t)take_any(in), step, f.limit_segs);
		HOLDS(slow || f.w.cwnd_segs <= (uint64_t)before + step);
		HOLDS(f.w.cwnd_segs >= imtcp_min(before, f.limit_segs));
		before = f.w.cwnd_segs;
		step = imtcp_fs_after_loss(before, v);
		HOLDS(step >= imtcp_reno_ssthresh(before) && step <= imtcp_max(before, 2));
		HOLDS(step <= imtcp_max(v, imtcp_reno_ssthresh(before)));
		HOLDS(imtcp_nocc_window_segs(rtt_us, pkt, f.limit_segs) >= 1);
		HOLDS(imtcp_nocc_window_segs(rtt_us, pkt, f.limit_segs) <= f.limit_segs);
		if (take8(in) & 1)
			steps_loss(in, &f);
	}
	return NULL;
}

/* Invariants of the papers' units after each step. */
static inline const char *steps_paper_units(const struct imtcp_meas *m)
{
	HOLDS(m->low_bps <= m->high_bps);
	HOLDS(m->n >= IMTCP_PAPER_STREAM_PACKETS_LEAST && m->n <= IMTCP_STREAM_MAX);
	HOLDS(m->m >= IMTCP_STORE_PACKETS_LEAST && m->m <= m->n);
	HOLDS(m->unit >= IMTCP_STORE && m->unit <= IMTCP_PASS);
	HOLDS(m->sending <= IMTCP_SUB_RANGES && m->judged <= IMTCP_SUB_RANGES);
	HOLDS(m->result.avail_bps <= m->result.high_bps);
	HOLDS(m->result.outcome != IMTCP_OK || m->result.avail_bps >= m->result.low_bps);
	HOLDS(m->completed <= m->started);
	return NULL;
}

/* Invariants of a Control unit's answer. */
static inline const char *steps_paper_answer(const struct imtcp_flow *c,
					     const struct imtcp_paper *p,
					     const struct imtcp_departure *dep,
					     const struct imtcp_decision *d)
{
	if (d->plan == IMTCP_PLAN_STREAM) {
		/* a packet, within 50 ms, give or take the division */
		HOLDS(imtcp_time_us(imtcp_paper_packet_bytes(dep), d->pace_bps) <=
		      IMTCP_T_MAX_US + 1);
		HOLDS(d->hold_segs == dep->flight_segs + dep->chunk_segs);
	} else if (d->hold_segs && c->meas.unit == IMTCP_STORE) {
		/* an ACK is to come, which asks again */
		HOLDS(d->hold_segs == dep->flight_segs);
		HOLDS(!dep->recovering && !c->meas.blocked);
		HOLDS(p->stored_us &&
		      dep->now_us - p->stored_us <
			      imtcp_max(imtcp_paper_hold_limit_us(&c->meas, dep), 1));
	}
	return steps_paper_units(&c->meas);
}

/* A question before a departure, and what leaves by its answer. */
static inline const char *steps_ask(struct bytes *in, const struct control *control,
				    struct imtcp_flow *c, union control_own *own,
				    struct steps_flow *f, struct imtcp_sample *s,
				    struct imtcp_departure *dep, struct imtcp_decision *d)
{
	uint32_t room, segs;

	memset(dep, 0, sizeof(*dep));
	memset(d, 0, sizeof(*d));
	dep->now_us = f->now_us;
	dep->cwnd_segs = f->w.cwnd_segs;
	dep->snd_nxt = s->snd_nxt;
	dep->flight_segs = (s->snd_nxt - s->snd_una) / 1000;
	dep->unsent_bytes = (uint32_t)take_any(in);
	dep->receiver_bytes = (uint32_t)take_any(in);
	dep->mss_bytes = 1000;
	dep->pkt_bytes = 1052;
	dep->srtt_us = s->srtt_us = 1 + (uint32_t)take_any(in) % 10000000;
	dep->ssthresh_segs = f->w.ssthresh_segs;
	dep->chunk_most_segs = 1 + take8(in) % 45;
	dep->chunk_most_bytes = 65536;
	dep->pacing_shift = 7 + take8(in) % 4;
	dep->rtt_dev_us = (uint32_t)take_any(in);
	dep->recovering = take8(in) < 8;
	control->space(c, own, dep, d);
	HOLDS(d->pace_bps);
	HOLDS(imtcp_held_segs(c, d, dep->cwnd_segs) >= 1);
	HOLDS(imtcp_whole_segs(c, imtcp_held_segs(c, d, dep->cwnd_segs)) == dep->cwnd_segs);
	room = (uint32_t)imtcp_sub(imtcp_held_segs(c, d, dep->cwnd_segs), dep->flight_segs);
	segs = (uint32_t)imtcp_min(imtcp_min(room, dep->unsent_bytes / 1000), 1000);
	if (take8(in) & 3)
		s->snd_nxt += segs * 1000;
	return NULL;
}

static inline const char *steps_paper(struct bytes *in)
{
	/* those with a Control unit first */
	static const struct control *const controls[] = {&control_paper,     &control_paper_bg,
							 &control_paper_cap, &control_paper_fs,
							 &control_paper_lp,  &control_paper_nice};
	static struct imtcp_flow c;
	const struct control *control;
	struct imtcp_sample s = {0};
	struct imtcp_departure dep;
	struct imtcp_decision d;
	union control_own own;
	struct steps_flow f;
	const char *why;
	uint32_t which;

	steps_begin(in, &f);
	memset(&c, 0, sizeof(c));
	memset(&own, 0, sizeof(own));
	take_params(in, &c.params);
	s.snd_una = s.snd_nxt = (uint32_t)take(in);
	which = take8(in) % (sizeof(controls) / sizeof(controls[0]));
	control = controls[which];
	imtcp_flow_begin(&c, f.now_us, s.snd_una, s.snd_nxt);
	control->start(&c, &own, &f.w);
	s.mss_bytes = 1000;
	s.pkt_bytes = 1052;
	s.wire_q8 = 1052 * 256 / 1000;
	s.limit_segs = f.limit_segs;
	while (in->left) {
		uint32_t before = f.w.cwnd_segs, out = (s.snd_nxt - s.snd_una) / 1000;

		steps_pass(in, &f);
		switch (take8(in) % 8) {
		default:
			why = steps_ask(in, control, &c, &own, &f, &s, &dep, &d);
			if (!why && which < 4)
				why = steps_paper_answer(&c, &own.paper, &dep, &d);
			if (why)
				return why;
			break;
		case 0:
		case 1:
		case 2:
			if (!out)
				break;
			s.now_us = f.now_us;
			s.rtt_us = (imtcp_s32)take_any(in);
			s.stamp = (uint32_t)take_any(in);
			s.stamped = take8(in) & 1;
			s.acked_segs = 1 + take8(in) % out;
			s.snd_una += s.acked_segs * 1000;
			imtcp_facts_on_ack(&c.facts, &s, ~0ULL);
			s.full = take8(in) & 1;
			memset(&d, 0, sizeof(d));
			imtcp_decision_begin(&c, &s, &d, &f.w);
			control->learn(&c, &own, &s);
			control->decide(&c, &own, &s, &d);
			/* never more than was acknowledged, but for full speed's step */
			HOLDS(d.w.cwnd_segs <=
			      (uint64_t)before + s.acked_segs +
				      (control == &control_paper_fs ? c.params.h_segs : 1));
			HOLDS(d.w.cwnd_segs >= 1);
			HOLDS(control != &control_paper_bg || !c.facts.cap_segs ||
			      d.w.cwnd_segs <= c.facts.cap_segs);
			imtcp_decision_bound(&c, &s, &d, 0);
			f.w = d.w;
			HOLDS(f.w.cwnd_segs >= 1 && f.w.cwnd_segs <= f.limit_segs);
			if (which < 4 && (why = steps_paper_units(&c.meas)))
				return why;
			break;
		case 3:
			s.now_us = f.now_us;
			s.cwnd_segs = f.w.cwnd_segs;
			imtcp_hold_on_loss(&c, f.w.cwnd_segs);
			steps_loss(in, &f);
			control->reduced(&c, &own, &s);
			HOLDS(which >= 4 || (!c.meas.planned && c.meas.blocked));
			break;
		}
	}
	return NULL;
}

#endif
