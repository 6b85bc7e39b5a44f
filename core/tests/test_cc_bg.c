// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* [BG §3.2], equations 1 to 4 by hand, and what holds around them. */
#include "test.h"

#define PKT 1250U /* bytes on the wire: 10 000 bits */
#define NOW 5000000ULL

struct flow {
	struct imtcp_params p;
	struct imtcp_bg b;
	struct imtcp_window w;
	struct imtcp_meas m;
	struct imtcp_facts facts;
};

/* A flow of a known RTTmin. */
static void start(struct flow *f, uint32_t cwnd, uint32_t ssthresh, uint32_t base_us)
{
	memset(f, 0, sizeof(*f));
	imtcp_params_init(&f->p);
	imtcp_meas_init(&f->m, &f->p, 0);
	f->w.cwnd_segs = cwnd;
	f->w.ssthresh_segs = ssthresh;
	f->facts.minrtt.base_us = f->facts.minrtt.least_us = base_us;
	f->facts.minrtt.refreshed_us = NOW;
}

static void round_ends(struct flow *f, uint64_t now_us, uint32_t floor_segs, uint32_t busy)
{
	struct imtcp_bg_round_end end = {now_us, floor_segs, busy};

	imtcp_bg_on_round(&f->b, &f->facts, &f->p, &f->w, &end);
}

static void set_cap(struct flow *f, uint32_t stream_segs)
{
	struct imtcp_estimate e = imtcp_estimate_now(&f->m);

	imtcp_bg_set_cap(&f->b, &f->facts, &f->p, &e, PKT, stream_segs);
}

static void round_of(struct flow *f, uint32_t rtt_us, uint32_t floor_segs)
{
	f->facts.round.last_least_rtt_us = rtt_us;
	round_ends(f, NOW, floor_segs, 1);
}

static void result_at(struct flow *f, uint64_t at_us, uint32_t outcome, uint64_t avail_bps)
{
	struct imtcp_result r = {at_us, avail_bps, 0, 0, outcome, 100, 1, 4};

	f->m.low_bps = 50 * MBPS;
	f->m.high_bps = 100 * MBPS;
	imtcp_bg_on_result(&f->b, &f->m, &f->p, &r);
	imtcp_bg_note_age(&f->b, &r);
	imtcp_bg_lapse(&f->b, &f->m, at_us);
}

static void result(struct flow *f, uint32_t outcome, uint64_t avail_bps)
{
	result_at(f, NOW, outcome, avail_bps);
}

/* (1) */
static void results_are_smoothed_by_an_eighth(void **state)
{
	struct flow f;

	(void)state;
	start(&f, 10, 10, 30000);
	result(&f, IMTCP_OK, 80 * MBPS);
	assert_int_equal(f.m.smoothed_bps, 80 * MBPS);
	result(&f, IMTCP_OK, 40 * MBPS);
	assert_int_equal(f.m.smoothed_bps, 75 * MBPS);
	result(&f, IMTCP_OUT_OF_RANGE, 59 * MBPS);
	assert_int_equal(f.m.smoothed_bps, 73 * MBPS);
}

/* A step: both of two results 25 % above A_s, after a calm round. */
static void two_results_in_a_row_that_are_far_above_the_mean_are_a_step(void **state)
{
	struct flow f;

	(void)state;
	start(&f, 10, 10, 30000);
	result(&f, IMTCP_OK, 50 * MBPS);
	result(&f, IMTCP_OK, 90 * MBPS); /* (50·7 + 90)/8 = 55 */
	result(&f, IMTCP_OK, 95 * MBPS); /* (55·7 + 95)/8 = 60 */
	assert_int_equal(f.m.smoothed_bps, 60 * MBPS);
	round_of(&f, 30000, 0);
	result(&f, IMTCP_OK, 90 * MBPS);
	assert_int_equal(f.m.smoothed_bps, 90 * MBPS);
}

/* Each of several bursts leaves something else free; what a step leaves free is the same again. */
static void two_results_in_a_row_that_are_far_below_the_mean_and_alike_are_a_step(void **state)
{
	struct flow f;

	(void)state;
	start(&f, 10, 10, 30000);
	result(&f, IMTCP_OK, 128 * MBPS);
	result(&f, IMTCP_OK, 40 * MBPS); /* 117 */
	result(&f, IMTCP_OK, 61 * MBPS); /* 110 */
	result(&f, IMTCP_OK, 46 * MBPS); /* 102 */
	assert_int_equal(f.m.smoothed_bps, 102 * MBPS);
	result(&f, IMTCP_OK, 50 * MBPS); /* within 46/8 = 5.75 of the one before */
	assert_int_equal(f.m.smoothed_bps, 50 * MBPS);
	result(&f, IMTCP_OK, 42 * MBPS); /* (50·7 + 42)/8 = 49: near to the new A_s */
	assert_int_equal(f.m.smoothed_bps, 49 * MBPS);
}

/* The streams of the first low result may have met the path before and after. */
static void a_step_down_goes_all_the_way_when_its_first_result_lies_between(void **state)
{
	struct flow f;
	int i;

	(void)state;
	start(&f, 10, 10, 30000);
	result(&f, IMTCP_OK, 64 * MBPS);
	result(&f, IMTCP_OK, 40 * MBPS);
	for (i = 0; i < 2; i++)
		result(&f, IMTCP_OK, 24 * MBPS);
	assert_int_equal(f.m.smoothed_bps, 24 * MBPS);
}

/* A step within a step: what is below the new A_s counts anew. */
static void after_a_step_down_another_is_found(void **state)
{
	struct flow f;
	int i;

	(void)state;
	start(&f, 10, 10, 30000);
	result(&f, IMTCP_OK, 128 * MBPS);
	for (i = 0; i < 2; i++)
		result(&f, IMTCP_OK, 64 * MBPS);
	assert_int_equal(f.m.smoothed_bps, 64 * MBPS);
	for (i = 0; i < 2; i++)
		result(&f, IMTCP_OK, 24 * MBPS);
	assert_int_equal(f.m.smoothed_bps, 24 * MBPS);
}

static void far_results_on_different_sides_or_with_others_between_are_no_step(void **state)
{
	struct flow f;

	(void)state;
	start(&f, 10, 10, 30000);
	round_of(&f, 30000, 0);
	result(&f, IMTCP_OK, 80 * MBPS);
	result(&f, IMTCP_OK, 160 * MBPS); /* 90 */
	result(&f, IMTCP_OK, 42 * MBPS);  /* 84 */
	assert_int_equal(f.m.smoothed_bps, 84 * MBPS);
	result(&f, IMTCP_OK, 84 * MBPS);
	result(&f, IMTCP_OK, 44 * MBPS); /* 79 */
	assert_int_equal(f.m.smoothed_bps, 79 * MBPS);
}

/* (1) with gamma = 1/2: (80 + 40)/2. */
static void a_chosen_gamma_is_the_weight_of_a_result(void **state)
{
	struct flow f;

	(void)state;
	start(&f, 10, 10, 30000);
	f.p.gamma_q16 = 65536 / 2;
	result(&f, IMTCP_OK, 80 * MBPS);
	result(&f, IMTCP_OK, 40 * MBPS);
	assert_int_equal(f.m.smoothed_bps, 60 * MBPS);
}

static void rejected_results_are_not_averaged_in(void **state)
{
	static const uint32_t rejected[] = {IMTCP_NOT_FILLED, IMTCP_RETRANSMITTED, IMTCP_BUNCHED,
					    IMTCP_NO_STRAIN,  IMTCP_FEW_ACKS,	   IMTCP_POOR_FIT,
					    IMTCP_TIMED_OUT};
	struct flow f;
	size_t i;

	(void)state;
	start(&f, 10, 10, 30000);
	result(&f, IMTCP_OK, 80 * MBPS);
	for (i = 0; i < sizeof(rejected) / sizeof(rejected[0]); i++)
		result(&f, rejected[i], 900 * MBPS);
	assert_int_equal(f.m.smoothed_bps, 80 * MBPS);
}

/* (2): 42 Mbit/s, A_s and its 20th, · 30 ms = 1.26 Mbit = 126 packets of 10 000 bits. */
static void the_cap_is_available_bandwidth_times_least_rtt(void **state)
{
	struct flow f;

	(void)state;
	start(&f, 300, 300, 30000);
	result(&f, IMTCP_OK, 40 * MBPS);
	set_cap(&f, 10);
	assert_int_equal(f.facts.cap_segs, 126);
	imtcp_bg_apply_cap(&f.b, &f.facts, &f.w, 0);
	assert_int_equal(f.w.cwnd_segs, 126); /* at once */
	assert_int_equal(f.w.ssthresh_segs, 126);
	assert_int_equal(f.facts.reductions_cap, 1);
	imtcp_bg_apply_cap(&f.b, &f.facts, &f.w, 0);
	assert_int_equal(f.facts.reductions_cap, 1); /* only when above */
}

/* 40 of 100 Mbit/s are free, 120 packets. The greatest counts: a 20th of 40, 2; a 16th of the missing 60, 3.75
 * (131 packets); the deviation, once there is one: after 40 and 72, A_s = 44 and (7·0 + 32)/8 = 4 (48 Mbit/s, 144
 * packets). With 3 ms of queue, half of the way to delta, half of that (138); with 6 ms none. */
static void above_it_the_cap_has_a_slack_that_a_queue_takes_away(void **state)
{
	struct flow f;

	(void)state;
	start(&f, 300, 300, 30000);
	f.m.capacity_bps = 100 * MBPS;
	result(&f, IMTCP_OK, 40 * MBPS);
	set_cap(&f, 10);
	assert_int_equal(f.facts.cap_segs, 131);
	result(&f, IMTCP_OK, 72 * MBPS);
	assert_int_equal(f.m.deviation_bps, 4 * MBPS);
	set_cap(&f, 10);
	assert_int_equal(f.facts.cap_segs, 144);
	round_of(&f, 33000, 0);
	set_cap(&f, 10);
	assert_int_equal(f.facts.cap_segs, 138);
	round_of(&f, 36000, 0);
	set_cap(&f, 10);
	assert_int_equal(f.facts.cap_segs, 132);
}

/* However much the results scatter: 21/20 of the capacity of 100 Mbit/s, 315 packets. */
static void the_slack_ends_at_the_capacity(void **state)
{
	struct flow f;

	(void)state;
	start(&f, 300, 300, 30000);
	f.m.capacity_bps = 100 * MBPS;
	result(&f, IMTCP_OK, 80 * MBPS);
	f.m.deviation_bps = 50 * MBPS;
	set_cap(&f, 10);
	assert_int_equal(f.facts.cap_segs, 315);
}

/* [IM §5.1], g = 1/2: 0.5 · 126 = 63 packets. */
static void a_chosen_g_is_the_share_of_the_bandwidth_that_the_cap_leaves(void **state)
{
	struct flow f;

	(void)state;
	start(&f, 300, 300, 30000);
	f.p.g_q8 = 128;
	f.m.low_bps = 20 * MBPS;
	f.m.high_bps = 60 * MBPS;
	set_cap(&f, 10);
	assert_int_equal(f.facts.cap_segs, 120); /* nothing is known yet to take a share of */
	result(&f, IMTCP_OK, 40 * MBPS);
	set_cap(&f, 10);
	assert_int_equal(f.facts.cap_segs, 63);
	assert_int_equal(f.m.smoothed_bps, 40 * MBPS); /* of A itself, not of its share */
	imtcp_bg_apply_cap(&f.b, &f.facts, &f.w, 0);
	assert_int_equal(f.w.cwnd_segs, 63);
}

/* "Above 30 Mbit/s" is no news where 80 are known; 7/8 · 80 + 1/8 · 96 = 82; below is news. */
static void a_result_above_the_range_never_lowers_the_average(void **state)
{
	struct imtcp_result above = {NOW, 30 * MBPS, 0, 0, IMTCP_OUT_OF_RANGE, 100, 0, 4};
	struct flow f;

	(void)state;
	start(&f, 300, 300, 30000);
	result(&f, IMTCP_OK, 80 * MBPS);
	imtcp_bg_on_result(&f.b, &f.m, &f.p, &above);
	assert_int_equal(f.m.smoothed_bps, 80 * MBPS);
	above.avail_bps = 96 * MBPS;
	imtcp_bg_on_result(&f.b, &f.m, &f.p, &above);
	assert_int_equal(f.m.smoothed_bps, 82 * MBPS);
	above.sub_range = IMTCP_SUB_RANGES + 1; /* below the range */
	above.avail_bps = 74 * MBPS;
	imtcp_bg_on_result(&f.b, &f.m, &f.p, &above);
	assert_int_equal(f.m.smoothed_bps, 81 * MBPS);
}

/* [IM §5.1]: "while that exceeds m·N". 0.05 · 120 = 6 packets carry no stream of 8. */
static void a_small_g_leaves_what_a_measurement_needs(void **state)
{
	struct flow f;

	(void)state;
	start(&f, 300, 300, 30000);
	f.p.g_q8 = IMTCP_G_LEAST_Q8;
	result(&f, IMTCP_OK, 40 * MBPS);
	set_cap(&f, f.m.n + 2);
	assert_int_equal(f.facts.cap_segs, 10);
	f.m.smoothed_bps = 1; /* of which the share is nothing */
	f.facts.cap_segs = 0;
	set_cap(&f, f.m.n + 2);
	assert_int_equal(f.facts.cap_segs, 10);
}

static void the_cap_never_stops_the_measuring(void **state)
{
	struct flow f;

	(void)state;
	start(&f, 300, 300, 1000);
	result(&f, IMTCP_OK, 1 * MBPS); /* 0.1 packets */
	set_cap(&f, 14);
	assert_int_equal(f.facts.cap_segs, 14);
	set_cap(&f, 0);
	assert_int_equal(f.facts.cap_segs, IMTCP_BG_FIRST_LEAST_SEGS);
}

static void where_a_round_trip_is_too_short_to_measure_in_there_is_no_cap(void **state)
{
	struct flow f;

	(void)state;
	start(&f, 300, 300, IMTCP_SHORT_RTT_US);
	result(&f, IMTCP_OK, 1 * MBPS);
	set_cap(&f, 14);
	assert_int_equal(f.facts.cap_segs, 14);
	f.facts.minrtt.base_us = IMTCP_SHORT_RTT_US - 1; /* the path became shorter */
	set_cap(&f, 14);
	assert_int_equal(f.facts.cap_segs, 0);
	imtcp_bg_apply_cap(&f.b, &f.facts, &f.w, 0);
	assert_int_equal(f.w.cwnd_segs, 300);
}

/* RTTmin 10 us: a queue of 1000 us is noise, one of 1500 leaves 1000/2500 of 70 segments, not 10/1510. */
static void below_the_noise_of_the_hosts_a_cut_is_that_of_the_noise(void **state)
{
	struct flow f;

	(void)state;
	start(&f, 70, 70, 10);
	round_of(&f, 10 + IMTCP_SHORT_RTT_US, 0);
	round_of(&f, 10 + IMTCP_SHORT_RTT_US, 0);
	assert_int_equal(f.w.cwnd_segs, 70);
	round_of(&f, 1510, 0);
	round_of(&f, 1510, 0);
	assert_int_equal(f.w.cwnd_segs, 28);
}

/* 80 Mbit/s, which cannot be told any more from a result on that is bunched two seconds after the first that was. */
static void lapsed(struct flow *f)
{
	start(f, 300, 300, 30000);
	f->m.low_bps = 50 * MBPS;
	f->m.high_bps = 100 * MBPS;
	result_at(f, NOW, IMTCP_OK, 80 * MBPS);
	result_at(f, NOW + 1000, IMTCP_BUNCHED, 9 * MBPS);
	result_at(f, NOW + 1000 + IMTCP_BG_SILENT_MOST_US, IMTCP_BUNCHED, 9 * MBPS);
	assert_int_equal(f->m.smoothed_bps, 80 * MBPS);
	set_cap(f, 14);
	assert_int_equal(f->facts.cap_segs, 252); /* (80 + 80/20) Mbit/s · 30 ms / 10 000 bits */
	result_at(f, NOW + 1001 + IMTCP_BG_SILENT_MOST_US, IMTCP_BUNCHED, 9 * MBPS);
	set_cap(f, 14);
}

static void after_two_seconds_of_bunched_results_there_is_no_cap(void **state)
{
	struct flow f;

	(void)state;
	lapsed(&f);
	assert_int_equal(f.m.smoothed_bps, 0);
	assert_int_equal(f.facts.cap_segs, 0);
	imtcp_bg_apply_cap(&f.b, &f.facts, &f.w, 0);
	assert_int_equal(f.w.cwnd_segs, 300);
}

/* 300 + 300/8 */
static void
without_the_cap_that_lapsed_the_window_grows_by_an_eighth_and_the_rtt_rule_cuts_it(void **state)
{
	struct flow f;

	(void)state;
	lapsed(&f);
	round_of(&f, 31000, 0); /* calm */
	assert_int_equal(f.w.ssthresh_segs, 337);
	round_of(&f, 34000, 0); /* neither calm nor congested */
	assert_int_equal(f.w.ssthresh_segs, 337);
	round_of(&f, 40000, 0);
	assert_int_equal(f.w.cwnd_segs, 225); /* 300 · 30 / 40 */
}

static void the_first_result_that_counts_brings_the_cap_back_at_what_it_says(void **state)
{
	struct flow f;

	(void)state;
	lapsed(&f);
	result_at(&f, NOW + 3000000, IMTCP_NOT_FILLED, 20 * MBPS);
	assert_int_equal(f.b.cap_lapsed, 1);
	result_at(&f, NOW + 3000000, IMTCP_OK, 40 * MBPS);
	assert_int_equal(f.m.smoothed_bps, 40 * MBPS);
	set_cap(&f, 14);
	assert_int_equal(f.facts.cap_segs, 126); /* (40 + 40/20) · 30 ms / 10 000 bits */
	/* and the two seconds begin anew */
	result_at(&f, NOW + 3000001, IMTCP_BUNCHED, 9 * MBPS);
	result_at(&f, NOW + 3000001 + IMTCP_BG_SILENT_MOST_US, IMTCP_BUNCHED, 9 * MBPS);
	assert_int_equal(f.b.cap_lapsed, 0);
}

/* Streams that were not filled say nothing of the path, and A_s was told by ACKs that could be believed: for ten
 * seconds. */
static void
whatever_the_results_are_like_the_cap_lapses_ten_seconds_after_the_last_that_counted(void **state)
{
	uint32_t outcome;
	struct flow f;

	(void)state;
	for (outcome = 1; outcome < IMTCP_OUTCOMES; outcome++) {
		if (outcome == IMTCP_BUNCHED || outcome == IMTCP_FEW_ACKS ||
		    outcome == IMTCP_OUT_OF_RANGE)
			continue;
		start(&f, 300, 300, 30000);
		result_at(&f, NOW, IMTCP_OK, 80 * MBPS);
		result_at(&f, NOW + IMTCP_BG_CAP_AGE_US, outcome, 80 * MBPS);
		assert_int_equal(f.b.cap_lapsed, 0);
		assert_int_equal(f.m.smoothed_bps, 80 * MBPS);
		result_at(&f, NOW + IMTCP_BG_CAP_AGE_US + 1, outcome, 80 * MBPS);
		assert_int_equal(f.b.cap_lapsed, 1);
		assert_int_equal(f.m.smoothed_bps, 0);
	}
}

/* A program that writes little at a time is never measured. */
static void without_any_result_the_cap_lapses_ten_seconds_after_its_first_range(void **state)
{
	struct flow f;

	(void)state;
	start(&f, 300, 300, 30000);
	imtcp_bg_lapse(&f.b, &f.m, NOW); /* no range yet */
	f.m.low_bps = 50 * MBPS;
	f.m.high_bps = 100 * MBPS;
	imtcp_bg_lapse(&f.b, &f.m, NOW + 1000000);
	imtcp_bg_lapse(&f.b, &f.m, NOW + 1000000 + IMTCP_BG_CAP_AGE_US);
	set_cap(&f, 14);
	assert_int_equal(f.facts.cap_segs, 225); /* 75 Mbit/s */
	imtcp_bg_lapse(&f.b, &f.m, NOW + 1000001 + IMTCP_BG_CAP_AGE_US);
	set_cap(&f, 14);
	assert_int_equal(f.facts.cap_segs, 0);
}

static void before_the_first_result_the_cap_is_the_middle_of_the_first_range(void **state)
{
	struct flow f;

	(void)state;
	start(&f, 10, 10, 30000);
	set_cap(&f, 10);
	assert_int_equal(f.facts.cap_segs,
			 0); /* no range either: Reno, the RTT rule holds the line */
	f.m.low_bps = 50 * MBPS;
	f.m.high_bps = 100 * MBPS;
	set_cap(&f, 10);
	assert_int_equal(f.facts.cap_segs, 225); /* 75 Mbit/s · 30 ms / 10 000 bits */
}

static void without_a_round_trip_time_there_is_no_cap(void **state)
{
	struct flow f;

	(void)state;
	memset(&f, 0, sizeof(f));
	f.w.cwnd_segs = 1000;
	result(&f, IMTCP_OK, 40 * MBPS);
	set_cap(&f, 10);
	imtcp_bg_apply_cap(&f.b, &f.facts, &f.w, 0);
	assert_int_equal(f.w.cwnd_segs, 1000);
	round_of(&f, 30000, 0);
	assert_int_equal(f.w.cwnd_segs, 1000);
}

/* (3) and (4): RTTmin 30 ms, RTT 40 ms > 36 ms: 120 · 30/40 = 90. */
static void a_queue_above_delta_scales_the_window_by_least_rtt_over_rtt(void **state)
{
	struct flow f;

	(void)state;
	start(&f, 120, 200, 30000);
	round_of(&f, 40000, 0);
	assert_int_equal(f.w.cwnd_segs, 90);
	assert_int_equal(f.w.ssthresh_segs, 90);
	assert_int_equal(f.facts.reductions_rtt, 1);
	assert_true(f.facts.yields);
	round_of(&f, 60000, 0);
	assert_int_equal(f.w.cwnd_segs, 45);
}

static void at_delta_itself_nothing_happens(void **state)
{
	uint64_t base = 30000, at = base * IMTCP_DELTA_Q8 / 256; /* delta · RTTmin, floored */
	struct flow f;

	(void)state;
	start(&f, 120, 200, (uint32_t)base);
	f.facts.cap_segs = 120;
	round_of(&f, (uint32_t)at, 0);
	assert_int_equal(f.w.cwnd_segs, 120);
	assert_int_equal(f.facts.reductions_rtt, 0);
	assert_false(f.facts.yields);
	round_of(&f, (uint32_t)at + 1, 0);
	assert_int_equal(f.facts.reductions_rtt, 1);
}

/* delta = 1.5: 44 ms of 30 are no congestion, 46 are; calm is below 1.25, 37.5 ms. */
static void a_chosen_delta_moves_congestion_and_the_calm_below_it(void **state)
{
	struct flow f;

	(void)state;
	start(&f, 120, 20, 30000);
	f.p.delta_q8 = 384;
	f.facts.cap_segs = 150;
	round_of(&f, 44000, 0);
	assert_int_equal(f.facts.reductions_rtt, 0);
	assert_int_equal(f.w.ssthresh_segs, 20);
	round_of(&f, 37000, 0);
	assert_int_equal(f.w.ssthresh_segs, 123); /* 120 + (150 - 120)/8 */
	round_of(&f, 46000, 0);
	assert_int_equal(f.facts.reductions_rtt, 1);
	assert_int_equal(f.w.cwnd_segs, 78); /* 120 · 30/46 */
}

/* 300 ms: delta = 1.2 of 30 ms (51/256, 5.9 ms) in the queue is congestion, not 60 ms; calm is below 25/256. */
static void a_longer_path_is_judged_by_its_queue_as_one_of_30_ms(void **state)
{
	struct flow f;

	(void)state;
	start(&f, 120, 20, 300000);
	f.facts.cap_segs = 200;
	round_of(&f, 302930, 0); /* 30000 · 25 / 256 is 2929 */
	assert_int_equal(f.w.ssthresh_segs, 20);
	round_of(&f, 302929, 0);
	assert_int_equal(f.w.ssthresh_segs, 130); /* 120 + (200 - 120)/8 */
	round_of(&f, 305976, 0);		  /* 30000 · 51 / 256 is 5976 */
	assert_int_equal(f.facts.reductions_rtt, 0);
	round_of(&f, 310000, 0);
	assert_int_equal(f.facts.reductions_rtt, 1);
	assert_int_equal(f.w.cwnd_segs, 113); /* 120 · 165 / (165 + 10), 165 between 30 and 300 */
}

/* count samples of this RTT, evenly over 30 ms. */
static void stretch_of(struct flow *f, uint64_t *now_us, int count, int32_t rtt_us)
{
	for (int i = 0; i < count; i++)
		imtcp_bg_on_rtt(&f->b, f->facts.minrtt.base_us, *now_us += 30000 / (uint64_t)count,
				rtt_us);
}

/* A round whose first 30 ms had no queue and whose last had one of 20 ms, and the other way round. */
static void on_a_longer_path_the_newest_30_ms_of_the_round_decide(void **state)
{
	uint64_t now_us = NOW;
	struct flow f;

	(void)state;
	start(&f, 120, 20, 100000);
	f.facts.cap_segs = 200;
	f.b.stretch.start_us = NOW;
	stretch_of(&f, &now_us, 40, 100000);
	stretch_of(&f, &now_us, 60, 120000);
	stretch_of(&f, &now_us, 3, 100000); /* three are too few to say that it is gone */
	round_of(&f, 100000, 0);
	assert_int_equal(f.w.cwnd_segs, 91); /* 120 · 65 / (65 + 20), 65 between 30 and 100 */
	f.b.stretch.start_us = now_us;
	stretch_of(&f, &now_us, 40, 120000);
	stretch_of(&f, &now_us, 40, 100000);
	round_of(&f, 100000, 0);
	assert_int_equal(f.facts.reductions_rtt, 1);
	assert_int_equal(f.w.ssthresh_segs, 104); /* 91 + (200 - 91)/8 */
}

static void without_30_ms_and_four_samples_the_least_of_the_whole_round_decides(void **state)
{
	uint64_t now_us = NOW;
	struct flow f;

	(void)state;
	start(&f, 120, 20, 100000);
	f.b.stretch.start_us = NOW;
	for (int i = 0; i < 9; i++)
		imtcp_bg_on_rtt(&f.b, f.facts.minrtt.base_us, now_us += 3000, 140000);
	imtcp_bg_on_rtt(&f.b, f.facts.minrtt.base_us, now_us + 3000, -1);
	imtcp_bg_on_rtt(&f.b, f.facts.minrtt.base_us, now_us + 3000, 0);
	round_of(&f, 100000, 0);
	assert_int_equal(f.facts.reductions_rtt, 0);
	stretch_of(&f, &now_us, 3, 140000);
	round_of(&f, 100000, 0);
	assert_int_equal(f.facts.reductions_rtt, 0);
}

static void the_rtt_rule_stops_at_four_segments_and_then_at_two(void **state)
{
	struct flow f;

	(void)state;
	start(&f, 6, 200, 30000);
	round_of(&f, 300000, 0);
	assert_int_equal(f.w.cwnd_segs, 4);
	round_of(&f, 300000, 0);
	assert_int_equal(f.w.cwnd_segs, 2);
	round_of(&f, 300000, 0);
	assert_int_equal(f.w.cwnd_segs, 2);
	/* a smaller window than the floor (after a timeout) is not raised by a "reduction" */
	f.w.cwnd_segs = 1;
	round_of(&f, 300000, 0);
	assert_int_equal(f.w.cwnd_segs, 1);
	assert_int_equal(f.facts.reductions_rtt, 2);
}

static void the_floor_that_the_user_asked_for_holds_against_cap_and_rtt(void **state)
{
	struct flow f;

	(void)state;
	start(&f, 120, 200, 30000);
	round_of(&f, 300000, 50);
	assert_int_equal(f.w.cwnd_segs, 50);
	f.facts.cap_segs = 20;
	f.w.cwnd_segs = 60;
	imtcp_bg_apply_cap(&f.b, &f.facts, &f.w, 50);
	assert_int_equal(f.w.cwnd_segs, 50);
}

static void on_a_short_path_one_round_alone_meets_no_queue(void **state)
{
	struct flow f;

	(void)state;
	start(&f, 120, 120, IMTCP_SHORT_RTT_US - 1);
	round_of(&f, 5000, 0);
	round_of(&f, 1500, 0); /* 501 us above RTTmin: the noise */
	round_of(&f, 5000, 0);
	assert_int_equal(f.w.cwnd_segs, 120);
	round_of(&f, 5000, 0);
	assert_int_equal(f.w.cwnd_segs, 23); /* 120 · 1000 / (1000 + 4001) */
	round_of(&f, 5000, 0);		     /* of before the cut */
	assert_int_equal(f.w.cwnd_segs, 23);
	round_of(&f, 5000, 0);
	assert_int_equal(f.w.cwnd_segs, 4);
	start(&f, 120, 120, IMTCP_SHORT_RTT_US);
	round_of(&f, 5000, 0);
	assert_int_equal(f.w.cwnd_segs, 24);
}

static void the_noise_of_a_short_path_is_no_queue(void **state)
{
	uint32_t i;
	struct flow f;

	(void)state;
	start(&f, 120, 200, 200);
	for (i = 0; i < 4; i++)
		round_of(&f, 200 + IMTCP_SHORT_RTT_US, 0); /* six times RTTmin, on a LAN */
	assert_int_equal(f.facts.reductions_rtt, 0);
	round_of(&f, 200 + IMTCP_SHORT_RTT_US + 1, 0);
	round_of(&f, 200 + IMTCP_SHORT_RTT_US + 1, 0);
	assert_int_equal(f.facts.reductions_rtt, 1);
	/* from a millisecond on, where delta would be 200 us */
	start(&f, 120, 200, IMTCP_SHORT_RTT_US);
	round_of(&f, IMTCP_SHORT_RTT_US + IMTCP_HOST_NOISE_US, 0);
	assert_int_equal(f.facts.reductions_rtt, 0);
	round_of(&f, IMTCP_SHORT_RTT_US + IMTCP_HOST_NOISE_US + 1, 0);
	assert_int_equal(f.facts.reductions_rtt, 1);
}

/* (120 - 20)/8 = 12; below eight segments of the cap what is left is Reno's one. */
static void a_calm_round_opens_an_eighth_of_the_way_to_the_cap(void **state)
{
	struct flow f;

	(void)state;
	start(&f, 20, 20, 30000);
	f.facts.cap_segs = 120;
	round_of(&f, 30500, 0);
	assert_int_equal(f.w.ssthresh_segs, 32);
	assert_int_equal(f.w.cwnd_segs, 20);
	start(&f, 113, 113, 30000);
	f.facts.cap_segs = 120;
	round_of(&f, 30500, 0);
	assert_int_equal(f.w.ssthresh_segs, 113);
	/* slow start in progress is not cut short, and a cap below the window opens nothing */
	start(&f, 20, 60, 30000);
	f.facts.cap_segs = 120;
	round_of(&f, 30500, 0);
	assert_int_equal(f.w.ssthresh_segs, 60);
	f.facts.cap_segs = 10;
	round_of(&f, 30500, 0);
	assert_int_equal(f.w.ssthresh_segs, 60);
	/* between calm and delta: Reno, one segment a round trip */
	start(&f, 20, 20, 30000);
	f.facts.cap_segs = 120;
	round_of(&f, 30000U * 115 / 100, 0);
	assert_int_equal(f.w.ssthresh_segs, 20);
	assert_int_equal(f.w.cwnd_segs, 20);
}

/* Two results a quarter above A_s after a calm round: somebody has left. */
static void step_up(struct flow *f, uint32_t cap_segs)
{
	round_of(f, 30000, 0);
	result(f, IMTCP_OK, 20 * MBPS);
	result(f, IMTCP_OK, 80 * MBPS);
	result(f, IMTCP_OK, 80 * MBPS);
	assert_int_equal(f->m.smoothed_bps, 80 * MBPS);
	f->facts.cap_segs = cap_segs;
}

static void after_a_step_upwards_calm_rounds_double_up_to_the_cap_until_it_is_reached(void **state)
{
	struct flow f;

	(void)state;
	start(&f, 20, 20, 30000);
	step_up(&f, 120);
	round_of(&f, 30500, 0);
	assert_int_equal(f.w.ssthresh_segs, 120);
	f.w.cwnd_segs = 121; /* there: from now on an eighth */
	imtcp_bg_apply_cap(&f.b, &f.facts, &f.w, 0);
	f.facts.cap_segs = 200;
	round_of(&f, 30500, 0);
	assert_int_equal(f.w.ssthresh_segs, 130);
}

static void a_queue_or_a_loss_on_the_way_up_ends_the_doubling(void **state)
{
	struct flow f;

	(void)state;
	start(&f, 20, 20, 30000);
	step_up(&f, 120);
	round_of(&f, 40000, 0); /* (4): 15 */
	round_of(&f, 30500, 0);
	assert_int_equal(f.w.ssthresh_segs, 28); /* 15 + 105/8 */
	start(&f, 20, 20, 30000);
	step_up(&f, 120);
	imtcp_bg_on_loss(&f.b);
	result(&f, IMTCP_OK, 80 * MBPS);
	round_of(&f, 30500, 0);
	assert_int_equal(f.w.ssthresh_segs, 32);
}

static void after_a_loss_growth_is_renos_until_a_newer_result(void **state)
{
	struct flow f;

	(void)state;
	start(&f, 20, 20, 30000);
	f.facts.cap_segs = 120;
	imtcp_bg_on_loss(&f.b);
	round_of(&f, 30500, 0);
	assert_int_equal(f.w.ssthresh_segs, 20);
	result(&f, IMTCP_OUT_OF_RANGE, 50000000);
	round_of(&f, 30500, 0);
	assert_int_equal(f.w.ssthresh_segs, 20);
	result(&f, IMTCP_OK, 50000000);
	round_of(&f, 30500, 0);
	assert_true(f.w.ssthresh_segs > 20);
}

/* No strain in the whole range is news of the path, too; strain in all of it is not yet a value. */
static void after_a_loss_above_the_range_lets_the_window_grow_towards_the_cap(void **state)
{
	struct imtcp_result above = {NOW, 50 * MBPS, 0, 0, IMTCP_OUT_OF_RANGE, 100, 0, 2};
	struct flow f;

	(void)state;
	start(&f, 20, 20, 30000);
	f.facts.cap_segs = 120;
	imtcp_bg_on_loss(&f.b);
	imtcp_bg_on_result(&f.b, &f.m, &f.p, &above);
	round_of(&f, 30500, 0);
	assert_int_equal(f.w.ssthresh_segs, 32);
}

/* Two RTTs in turn for long. */
static void jittered(struct flow *f, int32_t least_us, int32_t most_us)
{
	for (uint64_t i = 0; i < 200; i++)
		imtcp_bg_on_rtt(&f->b, f->facts.minrtt.base_us, NOW + i,
				i & 1 ? most_us : least_us);
}

/* One RTT differs from the next by 3 ms: the least of two is 3 · 3 / 3 ms above the path's, of 29 0.3. */
static void what_jitter_adds_to_the_least_of_few_round_trips_is_no_queue(void **state)
{
	struct flow f;

	(void)state;
	start(&f, 40, 10, 30000);
	jittered(&f, 30000, 33000);
	assert_in_range(f.b.stretch.jitter_us, 2980, 3000);
	f.facts.round.last_samples = 2;
	round_of(&f, 38900, 0); /* 8.9 - 3.0 is less than a fifth of 30 */
	assert_int_equal(f.facts.reductions_rtt, 0);
	round_of(&f, 39100, 0);
	assert_int_equal(f.w.cwnd_segs, 33); /* 40 · 30 / 36.1 */
	f.facts.round.last_samples = 29;
	round_of(&f, 36200, 0);
	assert_int_equal(f.facts.reductions_rtt, 1);
	round_of(&f, 36400, 0);
	assert_int_equal(f.facts.reductions_rtt, 2);
}

/* Delayed ACKs, each of which counts as one round trip at most. */
static void jitter_hides_no_queue_of_more_than_a_round_trip(void **state)
{
	struct flow f;

	(void)state;
	start(&f, 40, 10, 10000);
	jittered(&f, 10000, 400000);
	assert_in_range(f.b.stretch.jitter_us, 9950, 10000);
	f.facts.round.last_samples = 1;
	round_of(&f, 21900, 0); /* 11.9 - 10 */
	assert_int_equal(f.facts.reductions_rtt, 0);
	round_of(&f, 22100, 0);
	assert_int_equal(f.facts.reductions_rtt, 1);
}

static void a_lone_delayed_answer_costs_a_window_that_was_not_full_nothing(void **state)
{
	struct flow f;

	(void)state;
	start(&f, 10, 10, 30000);
	f.facts.round.last_least_rtt_us = 70000;
	f.facts.round.last_samples = 1;
	round_ends(&f, NOW, 0, 0);
	assert_int_equal(f.w.cwnd_segs, 10);
	f.facts.round.last_samples = 2;
	round_ends(&f, NOW, 0, 0);
	assert_int_equal(f.w.cwnd_segs, 4); /* 10 · 30 / 70 */
}

/* Every RTT is 35 ms over a base of 30 for longer than the age: drain, learn, come back. */
static void an_aged_least_rtt_is_put_to_trial_and_the_window_comes_back(void **state)
{
	uint64_t now = NOW;
	uint32_t drained = 0;
	struct flow f;

	(void)state;
	start(&f, 120, 120, 30000);
	f.facts.cap_segs = 120;
	f.facts.round.last_least_rtt_us = 35000;
	while (!f.b.draining && now < NOW + 2 * IMTCP_MINRTT_TRIAL_US) {
		now += 35000;
		imtcp_minrtt_on_sample(&f.facts.minrtt, now, 35000);
		round_ends(&f, now, 0, 1);
	}
	assert_in_range(now - NOW, IMTCP_MINRTT_TRIAL_US, IMTCP_MINRTT_TRIAL_US + 70000);
	while (f.b.draining) {
		assert_int_equal(f.w.cwnd_segs, IMTCP_BG_FIRST_LEAST_SEGS);
		assert_int_equal(f.w.ssthresh_segs, IMTCP_BG_FIRST_LEAST_SEGS); /* it cannot grow */
		drained++;
		now += 35000;
		imtcp_minrtt_on_sample(&f.facts.minrtt, now, 31001);
		f.facts.round.last_least_rtt_us = 31001;
		round_ends(&f, now, 0, 1);
	}
	assert_int_equal(drained, IMTCP_MINRTT_DRAIN_ROUNDS + 1);
	assert_int_equal(f.facts.minrtt.base_us, 31001);
	assert_int_equal(f.w.ssthresh_segs, 120); /* slow start to where it was */
}

/* A timeout in the drain: slow start ends at half of the window before it. */
static void a_loss_while_the_path_is_drained_halves_the_window_that_comes_back(void **state)
{
	uint64_t now = NOW + IMTCP_MINRTT_TRIAL_US + 1;
	struct flow f;

	(void)state;
	start(&f, 120, 120, 30000);
	f.facts.round.last_least_rtt_us = 35000;
	round_ends(&f, now, 0, 1);
	assert_int_equal(f.b.draining, 1);
	imtcp_bg_on_loss(&f.b);
	while (f.b.draining)
		round_ends(&f, now += 35000, 0, 1);
	assert_int_equal(f.w.ssthresh_segs, 60);
}

/* Every RTT is 90 ms over a base of 30, at the least window. */
static void a_path_that_became_longer_is_no_queue_after_five_seconds(void **state)
{
	uint64_t now = NOW;
	struct flow f;

	(void)state;
	start(&f, 2, 2, 30000);
	f.facts.round.last_least_rtt_us = 90001;
	for (; f.facts.minrtt.base_us == 30000 && now < NOW + 20000000; now += 90001)
		round_ends(&f, now, 0, 1);
	assert_in_range(now - NOW, IMTCP_MINRTT_STEADY_US, IMTCP_MINRTT_STEADY_US + 200000);
	round_ends(&f, now, 0, 1);
	assert_int_equal(f.facts.yields, 0);
}

static void a_window_in_bytes_rounds_to_whole_segments(void **state)
{
	(void)state;
	assert_int_equal(imtcp_window_segs(40 * MBPS, 30000, PKT), 120);
	assert_int_equal(imtcp_window_segs(40 * MBPS, 30100, PKT), 120); /* 120.4 */
	assert_int_equal(imtcp_window_segs(40 * MBPS, 30150, PKT), 121); /* 120.6 */
	assert_int_equal(imtcp_window_segs(0, 30000, PKT), 0);
	assert_int_equal(imtcp_window_segs(40 * MBPS, 30000, 0), 0);
}

SUITE(cc_bg, T(results_are_smoothed_by_an_eighth),
      T(two_results_in_a_row_that_are_far_above_the_mean_are_a_step),
      T(two_results_in_a_row_that_are_far_below_the_mean_and_alike_are_a_step),
      T(a_step_down_goes_all_the_way_when_its_first_result_lies_between),
      T(after_a_step_down_another_is_found),
      T(far_results_on_different_sides_or_with_others_between_are_no_step),
      T(a_chosen_gamma_is_the_weight_of_a_result), T(rejected_results_are_not_averaged_in),
      T(the_cap_is_available_bandwidth_times_least_rtt),
      T(above_it_the_cap_has_a_slack_that_a_queue_takes_away), T(the_slack_ends_at_the_capacity),
      T(a_chosen_g_is_the_share_of_the_bandwidth_that_the_cap_leaves),
      T(a_result_above_the_range_never_lowers_the_average),
      T(a_small_g_leaves_what_a_measurement_needs), T(the_cap_never_stops_the_measuring),
      T(where_a_round_trip_is_too_short_to_measure_in_there_is_no_cap),
      T(below_the_noise_of_the_hosts_a_cut_is_that_of_the_noise),
      T(after_two_seconds_of_bunched_results_there_is_no_cap),
      T(without_the_cap_that_lapsed_the_window_grows_by_an_eighth_and_the_rtt_rule_cuts_it),
      T(the_first_result_that_counts_brings_the_cap_back_at_what_it_says),
      T(whatever_the_results_are_like_the_cap_lapses_ten_seconds_after_the_last_that_counted),
      T(without_any_result_the_cap_lapses_ten_seconds_after_its_first_range),
      T(before_the_first_result_the_cap_is_the_middle_of_the_first_range),
      T(without_a_round_trip_time_there_is_no_cap),
      T(a_queue_above_delta_scales_the_window_by_least_rtt_over_rtt),
      T(at_delta_itself_nothing_happens), T(a_chosen_delta_moves_congestion_and_the_calm_below_it),
      T(a_longer_path_is_judged_by_its_queue_as_one_of_30_ms),
      T(on_a_longer_path_the_newest_30_ms_of_the_round_decide),
      T(without_30_ms_and_four_samples_the_least_of_the_whole_round_decides),
      T(what_jitter_adds_to_the_least_of_few_round_trips_is_no_queue),
      T(jitter_hides_no_queue_of_more_than_a_round_trip),
      T(a_lone_delayed_answer_costs_a_window_that_was_not_full_nothing),
      T(the_rtt_rule_stops_at_four_segments_and_then_at_two),
      T(the_floor_that_the_user_asked_for_holds_against_cap_and_rtt),
      T(on_a_short_path_one_round_alone_meets_no_queue), T(the_noise_of_a_short_path_is_no_queue),
      T(a_calm_round_opens_an_eighth_of_the_way_to_the_cap),
      T(after_a_step_upwards_calm_rounds_double_up_to_the_cap_until_it_is_reached),
      T(a_queue_or_a_loss_on_the_way_up_ends_the_doubling),
      T(after_a_loss_growth_is_renos_until_a_newer_result),
      T(after_a_loss_above_the_range_lets_the_window_grow_towards_the_cap),
      T(an_aged_least_rtt_is_put_to_trial_and_the_window_comes_back),
      T(a_loss_while_the_path_is_drained_halves_the_window_that_comes_back),
      T(a_path_that_became_longer_is_no_queue_after_five_seconds),
      T(a_window_in_bytes_rounds_to_whole_segments))
