/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What holds for the delay-based controls whatever happens: each takes its steps from bytes (the
 * fuzzer's, or random ones) and says what did not hold; NULL: all did. Times run forward, as the
 * socket's clock does; round trips, timestamps and windows are anything.
 */
#ifndef IMTCP_STEPS_H
#define IMTCP_STEPS_H

#include "begin.h"
#include "fuzz/fuzz.h"
#include <imtcp/cc_fs.h>
#include <imtcp/cc_nocc.h>

#define HOLDS(what)                                                                                \
	do {                                                                                       \
		if (!(what))                                                                       \
			return #what;                                                              \
	} while (0)

/* What a kernel may say: a window of 1...limit, a clock that runs forward. */
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

#endif
