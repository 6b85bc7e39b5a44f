// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The papers' controls as printed: their equations by hand, and their behaviour on a path. */
#include <string.h>
#include "path_sim.h"
#include <imtcp/cc_paper_lp.h>
#include <imtcp/cc_paper_nice.h>

#define MSS 1000U
#define PKT 1250U /* on the wire: 10 000 bits */
#define NOW 5000000ULL
#define START 1000000ULL
#define SEC 1000000ULL

/* ---- the Control unit [IM §3.3, §3.4] ---- */

struct unit {
	struct imtcp_flow c;
	struct imtcp_paper p;
	struct imtcp_departure dep;
	struct imtcp_decision d;
};

/* N = 5, a range of 40 to 80 Mbit/s, and 98 of 100 segments in flight: two wait. */
static void begin(struct unit *u)
{
	memset(u, 0, sizeof(*u));
	imtcp_params_init(&u->c.params);
	imtcp_flow_begin(&u->c, NOW, 0, 0);
	imtcp_paper_start(&u->c, &u->p, NULL);
	imtcp_paper_set_range(&u->c.meas, 40 * MBPS, 80 * MBPS);
	u->c.meas.wire_q8 = PKT * 256 / MSS;
	u->dep.now_us = NOW;
	u->dep.cwnd_segs = 100;
	u->dep.flight_segs = 98;
	u->dep.unsent_bytes = u->dep.receiver_bytes = 1000 * MSS;
	u->dep.mss_bytes = MSS;
	u->dep.pkt_bytes = PKT;
	u->dep.chunk_segs = 1;
	u->dep.srtt_us = 25000;
	u->dep.rtt_dev_us = 1000;
}

static void ask(struct unit *u)
{
	memset(&u->d, 0, sizeof(u->d));
	u->d.unpaced = 1;
	imtcp_paper_unit(&u->c.meas, &u->p, &u->dep, &u->d);
}

/* segs segments leave, as the answer allows. */
static void leaves(struct unit *u, uint32_t segs)
{
	u->dep.snd_nxt += segs * MSS;
	u->dep.flight_segs += segs;
}

/* An ACK made room for segs segments. */
static void acked(struct unit *u, uint32_t segs, uint64_t after_us)
{
	u->dep.flight_segs -= segs;
	u->dep.now_us += after_us;
}

static void store_lets_nothing_go_until_m_packets_wait(void **state)
{
	struct unit u;

	(void)state;
	begin(&u);
	ask(&u);
	assert_int_equal(u.c.meas.unit, IMTCP_STORE);
	assert_int_equal(u.d.hold_segs, 98); /* the amount in flight */
	acked(&u, 2, 100);
	ask(&u);
	assert_int_equal(u.d.hold_segs, 96);
	acked(&u, 1, 100); /* the fifth: m = N = 5 */
	ask(&u);
	assert_int_equal(u.c.meas.unit, IMTCP_SEND);
	assert_int_equal(u.d.hold_segs, 95 + 1);
	assert_int_equal(u.d.plan, IMTCP_PLAN_STREAM);
	assert_int_equal(u.d.unpaced, 0);
	assert_int_equal(u.c.meas.hold_us, 200);
}

/*
 * The highest of four sub-ranges is 70 to 80 Mbit/s:
 *
 * M/(S_j - S_j-1) = B_2 + (j-1)(B_1 - B_2)/(N-1)
 */
static void a_stream_leaves_at_its_computed_rates_and_then_everything(void **state)
{
	static const uint64_t kbps[] = {72500, 75000, 77500, 80000, 80000};
	struct unit u;
	size_t j;

	(void)state;
	begin(&u);
	u.dep.flight_segs = 95;
	for (j = 0; j < 5; j++) {
		ask(&u);
		assert_int_equal(u.d.pace_bps, kbps[j] * KBPS);
		assert_int_equal(u.d.hold_segs, u.dep.flight_segs + 1);
		leaves(&u, 1);
		/* two packets come to the buffer meanwhile */
		acked(&u, j == 1 ? 2 : 0, 10000000 / (kbps[j] / 1000) / 1000);
	}
	ask(&u);
	assert_int_equal(u.c.meas.sending, 1);
	assert_int_equal(u.c.meas.unit, IMTCP_EMPTY);
	assert_int_equal(u.d.hold_segs, 0); /* the whole window at once */
	assert_int_equal(u.d.unpaced, 1);
	leaves(&u, 2);
	ask(&u); /* nothing is held: store for the next stream */
	assert_int_equal(u.c.meas.unit, IMTCP_STORE);
	acked(&u, 1, 100);
	ask(&u);
	assert_int_equal(u.d.hold_segs, 99);
}

static void after_the_last_stream_all_passes_until_its_acks_are_in(void **state)
{
	struct unit u;
	int i;

	(void)state;
	begin(&u);
	u.c.meas.planned = IMTCP_SUB_RANGES;
	u.c.meas.sending = IMTCP_SUB_RANGES - 1;
	u.dep.flight_segs = 95;
	for (i = 0; i < 5; i++) {
		ask(&u);
		leaves(&u, 1);
		u.dep.now_us += 200;
	}
	for (i = 0; i < 3; i++) {
		acked(&u, 1, 10000);
		ask(&u);
		assert_int_equal(u.c.meas.unit, IMTCP_PASS);
		assert_int_equal(u.d.hold_segs, 0);
	}
}

/*
 * A is the middle of the range, 60 Mbit/s:
 *
 * T = M (N-1)/A + 4 D_RTT = 666 us + 4 ms
 */
static void a_hold_ends_by_t(void **state)
{
	struct unit u;

	(void)state;
	begin(&u);
	ask(&u);
	acked(&u, 0, 4665);
	ask(&u);
	assert_int_equal(u.d.hold_segs, 98);
	acked(&u, 0, 1);
	ask(&u);
	assert_int_equal(u.d.hold_segs, 0);
	assert_int_equal(u.c.meas.unit, IMTCP_EMPTY);
	begin(&u);
	u.c.meas.avail_bps = 20 * MBPS; /* a result gives 2 ms + 4 ms */
	assert_int_equal(imtcp_paper_hold_limit_us(&u.c.meas, &u.dep), 6000);
	u.c.meas.t_us = 1000; /* chosen [IM §4.1.3] */
	assert_int_equal(imtcp_paper_hold_limit_us(&u.c.meas, &u.dep), 1000);
}

static void a_hold_ends_with_a_window_below_n_and_with_nothing_in_flight(void **state)
{
	struct unit u;

	(void)state;
	begin(&u);
	ask(&u);
	u.dep.cwnd_segs = 4;
	u.dep.flight_segs = 2;
	ask(&u);
	assert_int_equal(u.d.hold_segs, 0);
	u.dep.cwnd_segs = 5;
	u.dep.flight_segs = 1;
	ask(&u);
	assert_int_equal(u.d.hold_segs, 1);
	u.dep.flight_segs = 0; /* no ACK would come */
	u.dep.unsent_bytes = MSS;
	ask(&u);
	assert_int_equal(u.d.hold_segs, 0);
}

static void nothing_else_ends_a_hold(void **state)
{
	struct unit u;
	uint32_t i;

	(void)state;
	begin(&u);
	u.c.meas.store_packets = 5;
	for (i = 0; i < 1000; i++) {
		u.dep.now_us = NOW + i;
		u.dep.srtt_us = 1000 + i * 977 % 400000;
		u.dep.limited = i & 1;
		u.dep.slow_start = (i >> 1) & 1;
		u.dep.base_bps = i * MBPS;
		u.dep.late_ns = i * 1000ULL;
		u.dep.most_flight_segs = i;
		u.dep.unsent_bytes = MSS + i % 4000;
		ask(&u);
		assert_int_equal(u.d.hold_segs, 98);
	}
}

/* [IM §3.4.1]: packets of a stream that come late, and two successful measurements. */
static void m_grows_by_a_stream_that_is_not_filled_and_falls_by_two_good_measurements(void **state)
{
	struct imtcp_sample s = {0};
	struct unit u;
	int i;

	(void)state;
	begin(&u);
	u.c.meas.m = 3;
	u.dep.flight_segs = 97;
	for (i = 0; i < 3; i++) {
		ask(&u);
		leaves(&u, 1);
		u.dep.now_us += 130;
	}
	ask(&u); /* it waits for an ACK */
	assert_int_equal(u.c.meas.unit, IMTCP_SEND);
	acked(&u, 1, 1000);
	ask(&u);
	assert_int_equal(u.c.meas.m, 4);
	assert_int_equal(u.d.hold_segs, 0);
	assert_int_equal(u.c.meas.sending, 0); /* the same stream again */
	s.now_us = NOW;
	for (i = 1; i <= 8; i++) {
		u.c.meas.judged = u.c.meas.planned = 2;
		u.c.meas.verdict[0].trend = IMTCP_TREND_UP;
		u.c.meas.verdict[1].trend = IMTCP_TREND_FLAT;
		imtcp_paper_conclude(&u.c.meas, &s);
		assert_int_equal(u.c.meas.m, (uint32_t)imtcp_max((uint64_t)(4 - i / 2), 2));
	}
}

static void after_a_loss_all_goes_and_nothing_is_held_before_a_new_ack(void **state)
{
	struct imtcp_sample s = {0};
	struct unit u;

	(void)state;
	begin(&u);
	u.dep.flight_segs = 95;
	ask(&u);
	leaves(&u, 1);
	ask(&u);
	assert_int_equal(u.c.meas.planned, IMTCP_SUB_RANGES);
	imtcp_paper_on_loss(&u.c.meas, &u.p, &s);
	assert_int_equal(u.c.meas.invalid[IMTCP_RETRANSMITTED], 1);
	ask(&u);
	assert_int_equal(u.d.hold_segs, 0);
	s.snd_una = MSS;
	s.mss_bytes = MSS;
	s.wire_q8 = PKT * 256 / MSS;
	imtcp_paper_on_ack(&u.c.meas, &u.p, &s);
	u.dep.flight_segs = 98;
	ask(&u);
	assert_int_equal(u.d.hold_segs, 98);
}

/* ---- the Measurement unit [IM §3.2] ---- */

/* Five packets leave back to back. Four of them, 40 000 bits, arrive within 1 ms after the
 * first. */
static void the_first_range_is_half_of_the_trains_rate_to_all_of_it(void **state)
{
	struct imtcp_sample s = {0};
	struct unit u;
	uint32_t i;

	(void)state;
	begin(&u);
	u.c.meas.high_bps = u.c.meas.low_bps = 0;
	u.dep.flight_segs = 95;
	ask(&u);
	assert_int_equal(u.d.hold_segs, 100); /* N at once */
	assert_int_equal(u.d.unpaced, 1);
	leaves(&u, 5);
	ask(&u);
	assert_int_equal(u.c.meas.unit, IMTCP_PASS);
	s.mss_bytes = MSS;
	s.wire_q8 = PKT * 256 / MSS;
	s.rtt_us = 25000;
	for (i = 1; i <= 5; i++) {
		s.prior_una = s.snd_una;
		s.snd_una = i * MSS;
		s.now_us = NOW + 25000 + i * 250;
		imtcp_paper_on_ack(&u.c.meas, &u.p, &s);
	}
	assert_int_equal(u.c.meas.low_bps, 20 * MBPS);
	assert_int_equal(u.c.meas.high_bps, 40 * MBPS);
	assert_int_equal(u.c.meas.unit, IMTCP_STORE);
}

static void conclude(struct unit *u, const uint32_t *trends, uint32_t streams)
{
	struct imtcp_sample s = {0};
	uint32_t i;

	for (i = 0; i < streams; i++) {
		u->c.meas.verdict[i].trend = trends[i];
		u->c.meas.verdict[i].avail_bps = (77 - 10 * i) * MBPS;
		u->c.meas.verdict[i].all_strained = 0;
	}
	u->c.meas.judged = u->c.meas.planned = streams;
	s.now_us = NOW;
	s.srtt_us = 25000;
	imtcp_paper_conclude(&u->c.meas, &s);
}

static void every_measurement_gives_a_result_and_the_next_range(void **state)
{
	static const uint32_t free_[] = {IMTCP_TREND_FLAT, IMTCP_TREND_FLAT};
	static const uint32_t second[] = {IMTCP_TREND_UP, IMTCP_TREND_UP, IMTCP_TREND_FLAT,
					  IMTCP_TREND_FLAT};
	static const uint32_t all[] = {IMTCP_TREND_UP, IMTCP_TREND_UP, IMTCP_TREND_UP,
				       IMTCP_TREND_UP};
	struct unit u;

	(void)state;
	begin(&u);
	conclude(&u, second, 4);
	assert_int_equal(u.c.meas.result.outcome, IMTCP_OK);
	assert_int_equal(u.c.meas.avail_bps, 67 * MBPS);
	/* nothing was stored: the range keeps its width of 40 Mbit/s */
	assert_int_equal(u.c.meas.low_bps, 47 * MBPS);
	assert_int_equal(u.c.meas.high_bps, 87 * MBPS);
	conclude(&u, second, 4);
	/* S = 0: B_m = A/5 */
	assert_int_equal(u.c.meas.high_bps - u.c.meas.low_bps, 13400000);
	begin(&u);
	conclude(&u, free_, 2); /* a = 0: A := B_u, and the range grows upwards by half its width */
	assert_int_equal(u.c.meas.avail_bps, 80 * MBPS);
	assert_int_equal(u.c.meas.low_bps, 40 * MBPS);
	assert_int_equal(u.c.meas.high_bps, 100 * MBPS);
	begin(&u);
	conclude(&u, all, 4); /* a tie of k and k + 1: stream k was not strained at its start */
	assert_int_equal(u.c.meas.result.sub_range, IMTCP_SUB_RANGES);
	begin(&u);
	u.c.meas.verdict[3].all_strained = 1;
	{
		struct imtcp_sample s = {0};
		uint32_t i;

		for (i = 0; i < 4; i++)
			u.c.meas.verdict[i].trend = IMTCP_TREND_UP;
		u.c.meas.judged = u.c.meas.planned = 4;
		imtcp_paper_conclude(&u.c.meas, &s);
	}
	assert_int_equal(u.c.meas.avail_bps, 40 * MBPS); /* B_l */
	assert_int_equal(u.c.meas.low_bps, 20 * MBPS);
	assert_int_equal(u.c.meas.high_bps, 80 * MBPS);
}

/*
 * Two results, with q = 2:
 *
 * ── results ─────── 1.96 S / sqrt(q) ──── width ──────────
 * 60 and 64 Mbit/s  2.77                  the least, A/10
 * 40 and 64 Mbit/s  16.6                  the interval
 */
static void the_width_is_that_of_the_95_percent_interval_or_the_least_one(void **state)
{
	struct unit u;

	(void)state;
	begin(&u);
	imtcp_store_add(&u.c.meas.store, 60 * MBPS);
	imtcp_paper_range_around(&u.c.meas, 64 * MBPS);
	assert_int_equal(u.c.meas.high_bps, 64 * MBPS + 6400 * KBPS);
	begin(&u);
	imtcp_store_add(&u.c.meas.store, 40 * MBPS);
	imtcp_paper_range_around(&u.c.meas, 64 * MBPS);
	assert_within_pct(u.c.meas.high_bps - 64 * MBPS, 16632 * KBPS, 3);
}

static void the_next_measurement_begins_at_once_unless_a_pause_was_chosen(void **state)
{
	static const uint32_t second[] = {IMTCP_TREND_UP, IMTCP_TREND_FLAT, IMTCP_TREND_FLAT};
	struct unit u;

	(void)state;
	begin(&u);
	conclude(&u, second, 3);
	ask(&u);
	assert_int_equal(u.d.hold_segs, 98);
	begin(&u);
	u.c.meas.pause_plus1 = 21; /* [IM §4.5] */
	conclude(&u, second, 3);
	ask(&u);
	assert_int_equal(u.d.hold_segs, 0);
	u.dep.now_us += 20 * 25000;
	ask(&u);
	assert_int_equal(u.d.hold_segs, 98);
}

/* ---- windows ---- */

static void imtcp_bg_cuts_by_the_ratio_of_round_trips(void **state)
{
	(void)state;
	/* (3), (4): the limit is 1.2 · 30 = 36 ms */
	assert_int_equal(imtcp_paper_bg_by_rtt(100, 35900, 30000, IMTCP_DELTA_Q8), 100);
	assert_int_equal(imtcp_paper_bg_by_rtt(100, 40000, 30000, IMTCP_DELTA_Q8), 75);
	assert_int_equal(imtcp_paper_bg_by_rtt(1, 90000, 30000, IMTCP_DELTA_Q8), 1);
}

struct deciding {
	struct unit u;
	struct imtcp_sample s;
};

static void begin_deciding(struct deciding *f, uint32_t cwnd_segs, uint32_t ssthresh_segs)
{
	memset(f, 0, sizeof(*f));
	begin(&f->u);
	f->u.d.w.cwnd_segs = cwnd_segs;
	f->u.d.w.ssthresh_segs = ssthresh_segs;
	f->u.p.limited = 1;
	f->u.p.min_rtt_us = 30000;
	f->s.now_us = NOW;
	f->s.srtt_us = 40000;
	f->s.pkt_bytes = PKT;
	f->s.limit_segs = 10000;
	f->s.full = 1;
	f->s.acked_segs = 1;
}

static void eq_3_is_judged_once_in_a_round_trip_or_at_each_ack_of_srtt_or_the_newest(void **state)
{
	struct deciding f;

	(void)state;
	begin_deciding(&f, 100, 50);
	imtcp_paper_bg_decide(&f.u.c, &f.u.p, &f.s, &f.u.d);
	assert_int_equal(f.u.d.w.cwnd_segs, 100); /* the round trip goes on */
	f.s.round_over = 1;
	imtcp_paper_bg_decide(&f.u.c, &f.u.p, &f.s, &f.u.d);
	assert_int_equal(f.u.d.w.cwnd_segs, 75);
	f.s.round_over = 0;
	f.u.c.params.paper_rtt = IMTCP_PAPER_RTT_SRTT_ACK;
	imtcp_paper_bg_decide(&f.u.c, &f.u.p, &f.s, &f.u.d);
	assert_int_equal(f.u.d.w.cwnd_segs, 56);
	f.s.round_over = 1;
	f.u.c.params.paper_rtt = IMTCP_PAPER_RTT_NEWEST;
	f.u.p.newest_rtt_us = 30000; /* the queue is gone, and srtt is still high */
	imtcp_paper_bg_decide(&f.u.c, &f.u.p, &f.s, &f.u.d);
	assert_in_range(f.u.d.w.cwnd_segs, 56, 57);
}

/* In slow start a round trip of ACKs would restore 75 segments, and delta would have no effect.
 * Reno adds one. */
static void what_eq_4_cuts_is_not_given_back_by_slow_start(void **state)
{
	struct deciding f;
	int i;

	(void)state;
	begin_deciding(&f, 100, IMTCP_U32_MAX);
	f.s.round_over = 1;
	imtcp_paper_bg_decide(&f.u.c, &f.u.p, &f.s, &f.u.d);
	assert_int_equal(f.u.d.w.cwnd_segs, 75);
	assert_int_equal(f.u.d.w.ssthresh_segs, 75);
	f.s.round_over = 0;
	for (i = 0; i < 75; i++)
		imtcp_paper_bg_decide(&f.u.c, &f.u.p, &f.s, &f.u.d);
	assert_int_equal(f.u.d.w.cwnd_segs, 76);
	begin_deciding(&f, 2, IMTCP_U32_MAX);
	f.s.round_over = 1;
	imtcp_paper_bg_decide(&f.u.c, &f.u.p, &f.s, &f.u.d);
	assert_int_equal(f.u.d.w.ssthresh_segs, 2);
}

/* (2): 20 Mbit/s · 30 ms / 10 000 bits = 60 segments, at once. Without a result there is no
 * bound. */
static void imtcp_bg_cuts_to_maxcwnd_at_once(void **state)
{
	struct deciding f;

	(void)state;
	begin_deciding(&f, 100, 200);
	imtcp_paper_bg_decide(&f.u.c, &f.u.p, &f.s, &f.u.d);
	assert_int_equal(f.u.d.w.cwnd_segs, 101); /* slow start */
	f.u.c.meas.smoothed_bps = 20 * MBPS;
	imtcp_paper_bg_decide(&f.u.c, &f.u.p, &f.s, &f.u.d);
	assert_int_equal(f.u.d.w.cwnd_segs, 60);
	assert_int_equal(f.u.c.facts.reductions_cap, 1);
}

/* Mean window with a result per round trip, alternately apart_bps above and below A. A fills 60
 * segments. */
static uint32_t mean_window(uint32_t gamma_pct, uint64_t apart_bps)
{
	uint32_t gamma_q16 = gamma_pct * 65536 / 100, chance = 1, sum = 0, rounds = 2000, i;
	struct deciding f;

	begin_deciding(&f, 60, 60);
	f.s.srtt_us = 30000;
	f.s.round_over = 1;
	f.u.c.meas.smoothed_bps = 20 * MBPS;
	for (i = 0; i < rounds; i++) {
		chance = chance * 1664525 + 1013904223;
		f.u.c.meas.smoothed_bps = imtcp_ewma_by(
			f.u.c.meas.smoothed_bps,
			20 * MBPS + (chance >> 31 ? apart_bps : -apart_bps), gamma_q16);
		f.s.acked_segs = f.u.d.w.cwnd_segs;
		imtcp_paper_bg_decide(&f.u.c, &f.u.p, &f.s, &f.u.d);
		sum += f.u.d.w.cwnd_segs;
	}
	return sum / rounds;
}

/* [BG fig. 5]: a low result cuts the window at once, and a high one restores one segment per round
 * trip. With gamma = 1 the window is 30 segments plus the round trips since a low result, one on
 * average. If all results agree, gamma has no effect. */
static void
a_large_gamma_makes_the_window_small_only_where_results_scatter_about_what_is_free(void **state)
{
	(void)state;
	assert_in_range(mean_window(5, 10 * MBPS), 57, 60);
	assert_in_range(mean_window(12, 10 * MBPS), 52, 56);
	assert_in_range(mean_window(90, 10 * MBPS), 31, 34);
	assert_int_equal(mean_window(5, 0), 60);
	assert_int_equal(mean_window(90, 0), 60);
}

/* g RTT A is 40 segments. It applies above m N = 25, and not below 5 · 8. */
static void imtcps_own_background_mode_is_bounded_only_above_m_n(void **state)
{
	struct deciding f;

	(void)state;
	begin_deciding(&f, 100, 50);
	f.u.c.params.g_q8 = 128;
	f.u.c.meas.avail_bps = 20 * MBPS;
	imtcp_paper_cap_decide(&f.u.c, &f.u.p, &f.s, &f.u.d);
	assert_int_equal(f.u.d.w.cwnd_segs, 40);
	f.u.d.w.cwnd_segs = 100;
	f.u.c.meas.n = 8;
	imtcp_paper_cap_decide(&f.u.c, &f.u.p, &f.s, &f.u.d);
	assert_int_equal(f.u.d.w.cwnd_segs, 100);
	assert_int_equal(f.u.c.facts.cap_segs, 0);
	/* and there is no rule on the RTT */
	f.s.round_over = 1;
	f.s.srtt_us = 400000;
	f.u.c.meas.avail_bps = 0;
	imtcp_paper_cap_decide(&f.u.c, &f.u.p, &f.s, &f.u.d);
	assert_int_equal(f.u.d.w.cwnd_segs, 100);
}

/* V = 200 and h = 100: a window of 100 grows by half of h at the end of the round trip. Near V,
 * above V and without V the step is 1. */
static void full_speed_adds_h_times_what_is_missing_each_round_trip(void **state)
{
	struct deciding f;

	(void)state;
	assert_int_equal(imtcp_paper_fs_step_segs(100, 200, 100), 50);
	assert_int_equal(imtcp_paper_fs_step_segs(199, 200, 100), 1);
	assert_int_equal(imtcp_paper_fs_step_segs(300, 200, 100), 1);
	assert_int_equal(imtcp_paper_fs_step_segs(100, 0, 100), 1);
	/* beyond V, as printed */
	assert_int_equal(imtcp_paper_fs_step_segs(10, 20, 100), 50);
	begin_deciding(&f, 100, 50);
	f.u.c.meas.avail_bps = 50 * MBPS; /* 40 ms of it are 200 segments */
	imtcp_paper_fs_decide(&f.u.c, &f.u.p, &f.s, &f.u.d);
	assert_int_equal(f.u.d.w.cwnd_segs, 100);
	f.s.round_over = f.s.round_full = 1;
	imtcp_paper_fs_decide(&f.u.c, &f.u.p, &f.s, &f.u.d);
	assert_int_equal(f.u.d.w.cwnd_segs, 150);
	/* TCP counts a hold as a limiting window. If the application limits, there is no step. */
	f.u.p.limited = 0;
	imtcp_paper_fs_decide(&f.u.c, &f.u.p, &f.s, &f.u.d);
	assert_int_equal(f.u.d.w.cwnd_segs, 150);
}

/* Delays of 10, 10 and 50 ms give sd = 15 ms, below the limit of 16 ms. Another 50 ms takes sd to
 * 19.4 ms. */
static void tcp_lp_indicates_above_its_share_of_the_lifes_range(void **state)
{
	struct imtcp_paper_lp lp;

	(void)state;
	memset(&lp, 0, sizeof(lp));
	assert_int_equal(imtcp_paper_lp_on_delay(&lp, 10000, 15), 0);
	assert_int_equal(imtcp_paper_lp_on_delay(&lp, 10000, 15), 0);
	assert_int_equal(imtcp_paper_lp_on_delay(&lp, 50000, 15), 0);
	assert_int_equal(imtcp_paper_lp_on_delay(&lp, 50000, 15), 1);
	assert_int_equal(lp.smoothed_us, 19375);
	assert_int_equal(lp.least_us, 10000);
	assert_int_equal(lp.most_us, 50000);
}

static void tcp_lp_halves_and_then_goes_down_to_one_packet_within_itt(void **state)
{
	struct imtcp_paper_lp lp;
	struct deciding f;

	(void)state;
	begin_deciding(&f, 100, 50);
	memset(&lp, 0, sizeof(lp));
	lp.early = 1;
	imtcp_paper_lp_decide(&f.u.c, &lp, &f.s, &f.u.d);
	assert_int_equal(f.u.d.w.cwnd_segs, 100); /* d_max is unknown */
	lp.started = 1;
	imtcp_paper_lp_decide(&f.u.c, &lp, &f.s, &f.u.d);
	assert_int_equal(f.u.d.w.cwnd_segs, 50);
	f.s.now_us += 39999; /* one reaction per round trip */
	imtcp_paper_lp_decide(&f.u.c, &lp, &f.s, &f.u.d);
	assert_int_equal(f.u.d.w.cwnd_segs, 50);
	f.s.now_us += 1;
	imtcp_paper_lp_decide(&f.u.c, &lp, &f.s, &f.u.d);
	assert_int_equal(f.u.d.w.cwnd_segs, 1);
	assert_int_equal(f.u.c.facts.trickle_q16, 0); /* alone, not two in two round trips */
	lp.early = 0;
	f.s.now_us += 119999; /* itt is three round trips */
	imtcp_paper_lp_decide(&f.u.c, &lp, &f.s, &f.u.d);
	assert_int_equal(f.u.d.w.cwnd_segs, 1);
	f.s.now_us += 1;
	imtcp_paper_lp_decide(&f.u.c, &lp, &f.s, &f.u.d);
	assert_int_equal(f.u.d.w.cwnd_segs, 2);
}

/* With RTTs of 30 and 50 ms a packet is late above 32 ms. Congestion needs more than 5 late packets
 * of 10. */
static void nice_halves_when_more_than_half_of_the_window_is_late(void **state)
{
	struct imtcp_window w = {10, 2, 0, 0};
	struct imtcp_paper_nice p;
	int i;

	(void)state;
	memset(&p, 0, sizeof(p));
	p.nice.t_pct = 10;
	p.nice.f_pct = 50;
	imtcp_paper_nice_on_ack(&p, 30000, 1);
	for (i = 0; i < 6; i++)
		imtcp_paper_nice_on_ack(&p, 50000, 1); /* the first makes the range, and is late */
	assert_int_equal(p.nice.late_segs, 6);
	assert_int_equal(imtcp_paper_nice_on_round(&p, &w, 1, 100), 1);
	assert_int_equal(w.cwnd_segs, 5);
	for (i = 0; i < 2; i++)
		imtcp_paper_nice_on_ack(&p, 50000, 1);
	assert_int_equal(imtcp_paper_nice_on_round(&p, &w, 1, 100), 0); /* 2 of 5: Vegas */
	assert_int_equal(w.cwnd_segs, 5); /* diff = 5 · 20/50 = 2, between alpha and beta */
}

/* Each round trip is late. Below one packet TCP's window is that of a trickle, and says nothing of
 * Nice's. */
static void nice_goes_down_to_one_packet_in_48_round_trips(void **state)
{
	struct imtcp_paper_nice p;
	struct deciding f;
	int i;

	(void)state;
	begin_deciding(&f, 8, 8);
	memset(&p, 0, sizeof(p));
	imtcp_paper_nice_start(&f.u.c, &p, NULL);
	imtcp_paper_nice_on_ack(&p, 30000, 1);
	imtcp_paper_nice_on_ack(&p, 50000, 8);
	for (i = 0; i < 9; i++) {
		f.s.round_over = 1;
		imtcp_decision_begin(&f.u.c, &f.s, &f.u.d, &f.u.d.w);
		imtcp_paper_nice_decide(&f.u.c, &p, &f.s, &f.u.d);
		imtcp_decision_bound(&f.u.c, &f.s, &f.u.d, 0);
		imtcp_paper_nice_on_ack(&p, 50000, 1);
		if (f.u.d.w.cwnd_segs >= 2 && !f.u.c.facts.trickle_q16)
			imtcp_paper_nice_on_ack(&p, 50000, f.u.d.w.cwnd_segs);
	}
	assert_int_equal(f.u.c.facts.trickle_q16, 65536 / 48);
}

/* Ordinary packets leave at once. Only a window below one is paced. */
static void no_paper_paces_but_for_a_window_below_one(void **state)
{
	struct imtcp_paper_nice nice;
	struct imtcp_paper_lp lp;
	struct unit u;

	(void)state;
	memset(&nice, 0, sizeof(nice));
	memset(&lp, 0, sizeof(lp));
	begin(&u);
	imtcp_paper_lp_space(&u.c, &lp, &u.dep, &u.d);
	assert_int_equal(u.d.unpaced, 1);
	begin(&u);
	imtcp_paper_nice_space(&u.c, &nice, &u.dep, &u.d);
	assert_int_equal(u.d.unpaced, 1);
	begin(&u);
	u.c.facts.trickle_q16 = imtcp_trickle_q16(2);
	imtcp_paper_nice_space(&u.c, &nice, &u.dep, &u.d);
	assert_int_equal(u.d.unpaced, 0);
}

/* A timeout follows after the start of the recovery. The pause before both returns, also a chosen
 * one. */
static void a_loss_that_was_none_leaves_the_pause_that_was_chosen(void **state)
{
	struct imtcp_sample s = {.now_us = NOW, .srtt_us = 25000, .lost = 1};
	struct unit u;

	(void)state;
	begin(&u);
	u.c.meas.resume_us = NOW + 100000;
	u.c.meas.pause_rtts = 3;
	imtcp_hold_on_loss(&u.c, 100);
	imtcp_paper_reduced(&u.c, &u.p, &s);
	s.timed_out = 1;
	imtcp_paper_reduced(&u.c, &u.p, &s);
	imtcp_flow_undo(&u.c);
	assert_int_equal(u.c.meas.resume_us, NOW + 100000);
	assert_int_equal(u.c.meas.pause_rtts, 3);
}

static void nice_doubles_in_each_second_round_trip(void **state)
{
	struct imtcp_paper_nice p;
	struct deciding f;
	uint32_t at[4], i;

	(void)state;
	begin_deciding(&f, 10, 1000);
	memset(&p, 0, sizeof(p));
	imtcp_paper_nice_start(&f.u.c, &p, NULL);
	for (i = 0; i < 4; i++) {
		f.s.acked_segs = f.u.d.w.cwnd_segs;
		f.s.round_over = 0;
		imtcp_paper_nice_decide(&f.u.c, &p, &f.s, &f.u.d);
		at[i] = f.u.d.w.cwnd_segs;
		f.s.round_over = 1;
		f.s.acked_segs = 0;
		imtcp_paper_nice_decide(&f.u.c, &p, &f.s, &f.u.d);
	}
	assert_int_equal(at[1], 2 * at[0]);
	assert_int_equal(at[2], at[1]);
	assert_int_equal(at[3], 2 * at[2]);
}

/* ---- the hold of TCP's window (flow.h) ---- */

static void a_held_window_is_read_whole_until_tcp_writes_another(void **state)
{
	struct imtcp_decision d = {0};
	struct unit u;

	(void)state;
	begin(&u);
	d.hold_segs = 60;
	assert_int_equal(imtcp_held_segs(&u.c, &d, 100), 60);
	assert_int_equal(imtcp_whole_segs(&u.c, 60), 100);
	assert_int_equal(imtcp_whole_segs(&u.c, 10), 10); /* TCP began anew after idle time */
	imtcp_hold_on_loss(&u.c, 100);
	assert_int_equal(imtcp_whole_segs(&u.c, 60), 60); /* loss recovery set it */
	assert_int_equal(u.c.hold.loss_segs, 100);
	d.hold_segs = 200; /* more than the window: no hold */
	assert_int_equal(imtcp_held_segs(&u.c, &d, 100), 100);
	assert_int_equal(imtcp_whole_segs(&u.c, 100), 100);
}

/* ---- on a path ---- */

static struct sim s;

/* 100 Mbit/s over 30 ms in single packets, as in ns-2. Cross traffic takes 60 Mbit/s. */
static struct sim_cfg path(const char *name, const struct control *control)
{
	struct sim_cfg c = {.name = name,
			    .control = control,
			    .capacity_bps = 100 * MBPS,
			    .cross_bps = 60 * MBPS,
			    .rtt_us = 30000,
			    .max_chunk = 1};

	return c;
}

static void imtcp_bg_as_printed_measures_and_takes_what_is_free(void **state)
{
	struct sim_cfg c = path("paper_bg, 40 of 100 free", &control_paper_bg);
	struct sim_summary r = sim_over(&s, &c, 20, 5 * SEC);

	(void)state;
	assert_at_most(10, r.count[IMTCP_OK]);
	assert_true(r.error_p50_pct < 15);
	assert_true(sim_goodput_bps(&s, 20) > 0.5 * 40 * MBPS);
	assert_true(sim_goodput_bps(&s, 20) < 1.05 * 40 * MBPS);
	assert_true(s.holds > 0);
}

static void imtcp_as_printed_is_as_fast_as_the_path_and_holds(void **state)
{
	struct sim_cfg c = path("paper, 40 of 100 free", &control_paper);
	struct sim_summary r;

	(void)state;
	c.reno = 1; /* else the window grows without end, because the buffer is deep */
	c.cwnd_segs = 150;
	r = sim_over(&s, &c, 20, 5 * SEC);
	assert_true(r.results > 100);
	assert_true(r.error_p50_pct < 15);
	assert_true(sim_goodput_bps(&s, 20) > 0.9 * 40 * MBPS);
	assert_true(s.holds > 0);
}

/* 5 packets in a stream, and 7 if an ACK answers two [IM §3.5.1]. */
static void delayed_acks_make_the_streams_half_as_long_again(void **state)
{
	struct sim_cfg c = path("paper, delayed ACKs", &control_paper);

	(void)state;
	c.reno = 1;
	c.cwnd_segs = 150;
	sim_over(&s, &c, 5, 2 * SEC);
	assert_int_equal(s.flow.meas.n, 5);
	c.acks_every = 2;
	sim_over(&s, &c, 5, 2 * SEC);
	assert_int_equal(s.flow.meas.n, 7);
	assert_true(s.flow.meas.completed > 20);
}

/* The rate is far below the window. Held packets must not wait for a stream that is never
 * filled. */
static void an_application_that_writes_little_is_not_slowed_down(void **state)
{
	struct sim_cfg c = path("paper, 1 Mbit/s written", &control_paper);

	(void)state;
	c.app_bps = MBPS;
	sim_over(&s, &c, 20, 5 * SEC);
	assert_true((double)s.bytes_acked * 8 > 0.98 * 20 * MBPS);
}

/* The socket buffer or the receiver's window takes 20 segments, so a larger window is never
 * full. */
static void small_buffers_bound_what_is_in_flight_and_stop_nothing(void **state)
{
	struct sim_cfg c = path("paper, a small socket buffer", &control_paper);
	int receiver;

	(void)state;
	for (receiver = 0; receiver < 2; receiver++) {
		c.sndbuf_bytes = receiver ? 0 : 20 * SIM_MSS;
		c.rcv_segs = receiver ? 20 : 0;
		sim_over(&s, &c, 10, 2 * SEC);
		assert_true(s.flow.meas.completed > 20);
		/* 20 segments in 30 ms are 8 Mbit/s */
		assert_true(sim_goodput_bps(&s, 10) > 0.7 * 8 * MBPS);
		assert_true(sim_goodput_bps(&s, 10) < 1.05 * 8 * MBPS);
	}
}

/* The bottleneck fragments to 576 bytes, which adds 7 % of bytes. So 37.5 of 40 Mbit/s are free [IM
 * §3.5.2]. */
static void fragmentation_on_the_way_changes_little(void **state)
{
	struct sim_cfg c = path("paper_bg, fragments", &control_paper_bg);
	struct sim_summary r;

	(void)state;
	c.mtu_bytes = 576;
	r = sim_over(&s, &c, 20, 5 * SEC);
	assert_at_most(10, r.count[IMTCP_OK]);
	assert_true(r.error_p50_pct < 15);
	assert_true(sim_goodput_bps(&s, 20) > 0.5 * 37.5 * MBPS);
}

/* The application writes 38 Mbit/s in pieces of any size, and 40 are free. Small packets are in no
 * stream. */
static void what_an_application_writes_in_pieces_is_measured_in_full_packets(void **state)
{
	struct sim_cfg c = path("paper, 38 Mbit/s written", &control_paper);
	struct sim_summary r;

	(void)state;
	c.app_bps = 38 * MBPS;
	r = sim_over(&s, &c, 20, 5 * SEC);
	assert_true((double)s.bytes_acked * 8 > 0.95 * 20 * 38 * MBPS);
	assert_true(r.error_p50_pct < 15);
}

/* ACKs come each 10 ms, so no stream shows a trend, and the range climbs. Measurements continue. */
static void where_acks_say_nothing_the_range_climbs_to_its_bound_and_measuring_goes_on(void **state)
{
	struct sim_cfg c = path("paper_bg, ACKs in bunches", &control_paper_bg);
	uint64_t ends;

	(void)state;
	c.bunch_us = 10000;
	c.ack_filter = 1;
	sim_over(&s, &c, 30, 5 * SEC);
	ends = s.flow.meas.ends;
	assert_at_most(s.flow.meas.high_bps, IMTCP_PAPER_MOST_BPS);
	sim_run(&s, 40 * SEC);
	assert_at_most(ends + 10, s.flow.meas.ends);
	assert_at_most(s.flow.meas.high_bps, IMTCP_PAPER_MOST_BPS);
}

SUITE(paper, T(fragmentation_on_the_way_changes_little),
      T(nice_goes_down_to_one_packet_in_48_round_trips),
      T(no_paper_paces_but_for_a_window_below_one),
      T(a_loss_that_was_none_leaves_the_pause_that_was_chosen),
      T(what_an_application_writes_in_pieces_is_measured_in_full_packets),
      T(where_acks_say_nothing_the_range_climbs_to_its_bound_and_measuring_goes_on),
      T(store_lets_nothing_go_until_m_packets_wait),
      T(a_stream_leaves_at_its_computed_rates_and_then_everything),
      T(after_the_last_stream_all_passes_until_its_acks_are_in), T(a_hold_ends_by_t),
      T(a_hold_ends_with_a_window_below_n_and_with_nothing_in_flight), T(nothing_else_ends_a_hold),
      T(m_grows_by_a_stream_that_is_not_filled_and_falls_by_two_good_measurements),
      T(after_a_loss_all_goes_and_nothing_is_held_before_a_new_ack),
      T(the_first_range_is_half_of_the_trains_rate_to_all_of_it),
      T(every_measurement_gives_a_result_and_the_next_range),
      T(the_width_is_that_of_the_95_percent_interval_or_the_least_one),
      T(the_next_measurement_begins_at_once_unless_a_pause_was_chosen),
      T(imtcp_bg_cuts_by_the_ratio_of_round_trips),
      T(eq_3_is_judged_once_in_a_round_trip_or_at_each_ack_of_srtt_or_the_newest),
      T(what_eq_4_cuts_is_not_given_back_by_slow_start), T(imtcp_bg_cuts_to_maxcwnd_at_once),
      T(a_large_gamma_makes_the_window_small_only_where_results_scatter_about_what_is_free),
      T(imtcps_own_background_mode_is_bounded_only_above_m_n),
      T(full_speed_adds_h_times_what_is_missing_each_round_trip),
      T(tcp_lp_indicates_above_its_share_of_the_lifes_range),
      T(tcp_lp_halves_and_then_goes_down_to_one_packet_within_itt),
      T(nice_halves_when_more_than_half_of_the_window_is_late),
      T(nice_doubles_in_each_second_round_trip),
      T(a_held_window_is_read_whole_until_tcp_writes_another),
      T(imtcp_bg_as_printed_measures_and_takes_what_is_free),
      T(imtcp_as_printed_is_as_fast_as_the_path_and_holds),
      T(delayed_acks_make_the_streams_half_as_long_again),
      T(an_application_that_writes_little_is_not_slowed_down),
      T(small_buffers_bound_what_is_in_flight_and_stop_nothing))
