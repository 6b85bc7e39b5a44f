// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* [BG eq. 1], steps, and trust in an estimate, worked by hand. */
#include "test.h"

#define NOW 5000000ULL

struct known {
	struct imtcp_params p;
	struct imtcp_meas m;
	uint64_t at_us; /* time of the newest result */
	int calm;	/* there is no queue */
};

static void start(struct known *k)
{
	memset(k, 0, sizeof(*k));
	imtcp_params_init(&k->p);
	imtcp_meas_init(&k->m, &k->p, 0);
}

static void result_at(struct known *k, uint64_t at_us, uint32_t outcome, uint64_t avail_bps)
{
	struct imtcp_result r = {at_us, avail_bps, 0, 0, outcome, 100, 1, 4};

	k->m.low_bps = 50 * MBPS;
	k->m.high_bps = 100 * MBPS;
	imtcp_estimate_on_result(&k->m, &k->p, &r, k->calm);
	k->at_us = at_us;
}

static void result(struct known *k, uint32_t outcome, uint64_t avail_bps)
{
	result_at(k, NOW, outcome, avail_bps);
}

/* (1) */
static void results_are_smoothed_by_an_eighth(void **state)
{
	struct known k;

	(void)state;
	start(&k);
	result(&k, IMTCP_OK, 80 * MBPS);
	assert_int_equal(k.m.smoothed_bps, 80 * MBPS);
	result(&k, IMTCP_OK, 40 * MBPS);
	assert_int_equal(k.m.smoothed_bps, 75 * MBPS);
	result(&k, IMTCP_OUT_OF_RANGE, 59 * MBPS);
	assert_int_equal(k.m.smoothed_bps, 73 * MBPS);
}

/* A step: two results in a row 25 % above A_s, after a calm round. */
static void two_results_in_a_row_that_are_far_above_the_mean_are_a_step(void **state)
{
	struct known k;

	(void)state;
	start(&k);
	result(&k, IMTCP_OK, 50 * MBPS);
	result(&k, IMTCP_OK, 90 * MBPS); /* (50·7 + 90)/8 = 55 */
	result(&k, IMTCP_OK, 95 * MBPS); /* (55·7 + 95)/8 = 60 */
	assert_int_equal(k.m.smoothed_bps, 60 * MBPS);
	k.calm = 1;
	result(&k, IMTCP_OK, 90 * MBPS);
	assert_int_equal(k.m.smoothed_bps, 90 * MBPS);
}

/* Bursts leave something different free each time. A step leaves the same again. */
static void two_results_in_a_row_that_are_far_below_the_mean_and_alike_are_a_step(void **state)
{
	struct known k;

	(void)state;
	start(&k);
	result(&k, IMTCP_OK, 128 * MBPS);
	result(&k, IMTCP_OK, 40 * MBPS); /* 117 */
	result(&k, IMTCP_OK, 61 * MBPS); /* 110 */
	result(&k, IMTCP_OK, 46 * MBPS); /* 102 */
	assert_int_equal(k.m.smoothed_bps, 102 * MBPS);
	result(&k, IMTCP_OK, 50 * MBPS); /* within 46/8 = 5.75 of the previous result */
	assert_int_equal(k.m.smoothed_bps, 50 * MBPS);
	result(&k, IMTCP_OK, 42 * MBPS); /* (50·7 + 42)/8 = 49: near the new A_s */
	assert_int_equal(k.m.smoothed_bps, 49 * MBPS);
}

/* The streams of the first low result may have met the path before and after the step. */
static void a_step_down_goes_all_the_way_when_its_first_result_lies_between(void **state)
{
	struct known k;
	int i;

	(void)state;
	start(&k);
	result(&k, IMTCP_OK, 64 * MBPS);
	result(&k, IMTCP_OK, 40 * MBPS);
	for (i = 0; i < 2; i++)
		result(&k, IMTCP_OK, 24 * MBPS);
	assert_int_equal(k.m.smoothed_bps, 24 * MBPS);
}

/* A second step follows the first: results below the new A_s count anew. */
static void after_a_step_down_another_is_found(void **state)
{
	struct known k;
	int i;

	(void)state;
	start(&k);
	result(&k, IMTCP_OK, 128 * MBPS);
	for (i = 0; i < 2; i++)
		result(&k, IMTCP_OK, 64 * MBPS);
	assert_int_equal(k.m.smoothed_bps, 64 * MBPS);
	for (i = 0; i < 2; i++)
		result(&k, IMTCP_OK, 24 * MBPS);
	assert_int_equal(k.m.smoothed_bps, 24 * MBPS);
}

static void far_results_on_different_sides_or_with_others_between_are_no_step(void **state)
{
	struct known k;

	(void)state;
	start(&k);
	k.calm = 1;
	result(&k, IMTCP_OK, 80 * MBPS);
	result(&k, IMTCP_OK, 160 * MBPS); /* 90 */
	result(&k, IMTCP_OK, 42 * MBPS);  /* 84 */
	assert_int_equal(k.m.smoothed_bps, 84 * MBPS);
	result(&k, IMTCP_OK, 84 * MBPS);
	result(&k, IMTCP_OK, 44 * MBPS); /* 79 */
	assert_int_equal(k.m.smoothed_bps, 79 * MBPS);
}

/* (1) with gamma = 1/2: (80 + 40)/2. */
static void a_chosen_gamma_is_the_weight_of_a_result(void **state)
{
	struct known k;

	(void)state;
	start(&k);
	k.p.gamma_q16 = 65536 / 2;
	result(&k, IMTCP_OK, 80 * MBPS);
	result(&k, IMTCP_OK, 40 * MBPS);
	assert_int_equal(k.m.smoothed_bps, 60 * MBPS);
}

static void rejected_results_are_not_averaged_in(void **state)
{
	static const uint32_t rejected[] = {IMTCP_NOT_FILLED, IMTCP_RETRANSMITTED, IMTCP_BUNCHED,
					    IMTCP_NO_STRAIN,  IMTCP_FEW_ACKS,	   IMTCP_POOR_FIT,
					    IMTCP_TIMED_OUT};
	struct known k;
	size_t i;

	(void)state;
	start(&k);
	result(&k, IMTCP_OK, 80 * MBPS);
	for (i = 0; i < sizeof(rejected) / sizeof(rejected[0]); i++)
		result(&k, rejected[i], 900 * MBPS);
	assert_int_equal(k.m.smoothed_bps, 80 * MBPS);
}

/*
 * A_s is 80 Mbit/s.
 *
 * ── result ──────────── A_s ──────────────────────────
 * "above 30 Mbit/s"     unchanged
 * "above 96 Mbit/s"     7/8 · 80 + 1/8 · 96 = 82
 * below the range       it counts
 */
static void a_result_above_the_range_never_lowers_the_average(void **state)
{
	struct imtcp_result above = {NOW, 30 * MBPS, 0, 0, IMTCP_OUT_OF_RANGE, 100, 0, 4};
	struct known k;

	(void)state;
	start(&k);
	result(&k, IMTCP_OK, 80 * MBPS);
	imtcp_estimate_on_result(&k.m, &k.p, &above, 0);
	assert_int_equal(k.m.smoothed_bps, 80 * MBPS);
	above.avail_bps = 96 * MBPS;
	imtcp_estimate_on_result(&k.m, &k.p, &above, 0);
	assert_int_equal(k.m.smoothed_bps, 82 * MBPS);
	above.sub_range = IMTCP_SUB_RANGES + 1; /* below the range */
	above.avail_bps = 74 * MBPS;
	imtcp_estimate_on_result(&k.m, &k.p, &above, 0);
	assert_int_equal(k.m.smoothed_bps, 81 * MBPS);
}

static void trusts_at(struct known *k, uint64_t at_us, uint32_t trust)
{
	struct imtcp_estimate e = imtcp_estimate_now(&k->m, at_us);

	assert_int_equal(e.trust, trust);
	assert_int_equal(e.available_bps != 0, trust != IMTCP_TRUST_NONE);
}

/* Right after the newest result. */
static void trusts(struct known *k, uint32_t trust)
{
	trusts_at(k, k->at_us, trust);
}

static void an_estimate_is_believed_for_ten_seconds_after_the_last_result_that_counted(void **state)
{
	static const uint32_t others[] = {IMTCP_NOT_FILLED, IMTCP_RETRANSMITTED, IMTCP_NO_STRAIN};
	struct known k;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		start(&k);
		result(&k, IMTCP_OK, 80 * MBPS);
		result_at(&k, NOW + IMTCP_ESTIMATE_AGE_US, others[i], 9 * MBPS);
		trusts(&k, IMTCP_TRUST_RESULTS);
		result_at(&k, NOW + IMTCP_ESTIMATE_AGE_US + 1, others[i], 9 * MBPS);
		trusts(&k, IMTCP_TRUST_NONE);
	}
}

static void the_next_result_that_counts_renews_an_old_estimate_with_what_it_says(void **state)
{
	struct known k;

	(void)state;
	start(&k);
	result(&k, IMTCP_OK, 80 * MBPS);
	result_at(&k, NOW + IMTCP_ESTIMATE_AGE_US + 1, IMTCP_NOT_FILLED, 9 * MBPS);
	result_at(&k, NOW + IMTCP_ESTIMATE_AGE_US + 2, IMTCP_OK, 40 * MBPS);
	trusts(&k, IMTCP_TRUST_RESULTS);
	assert_int_equal(k.m.smoothed_bps, 40 * MBPS);
}

static void a_range_without_any_result_is_believed_for_ten_seconds_too(void **state)
{
	struct known k;

	(void)state;
	start(&k);
	trusts_at(&k, NOW, IMTCP_TRUST_NONE);
	k.m.low_bps = 50 * MBPS;
	k.m.high_bps = 100 * MBPS;
	assert_int_equal(imtcp_estimate_now(&k.m, NOW + 1000000).available_bps, 75 * MBPS);
	trusts_at(&k, NOW + 1000000 + IMTCP_ESTIMATE_AGE_US, IMTCP_TRUST_RANGE);
	trusts_at(&k, NOW + 1000001 + IMTCP_ESTIMATE_AGE_US, IMTCP_TRUST_NONE);
}

/* A_s is 80 Mbit/s until the third bunched result in a row. Their share of the newest sixteen is
 * then 1 - (15/16)^3 = 0.18. */
static void where_more_than_an_eighth_of_the_results_is_bunched_none_is_believed(void **state)
{
	struct known k;

	(void)state;
	start(&k);
	result(&k, IMTCP_OK, 80 * MBPS);
	result(&k, IMTCP_BUNCHED, 9 * MBPS);
	result(&k, IMTCP_FEW_ACKS, 9 * MBPS);
	trusts(&k, IMTCP_TRUST_RESULTS);
	result(&k, IMTCP_BUNCHED, 9 * MBPS);
	trusts(&k, IMTCP_TRUST_NONE);
}

/* The share is 45/256. Each result that counts takes a sixteenth of it, rounded up. The fifth takes
 * it to 30, below an eighth. */
static void an_unclear_estimate_returns_when_fewer_results_are_bunched(void **state)
{
	struct known k;
	int i;

	(void)state;
	start(&k);
	for (i = 0; i < 3; i++)
		result(&k, IMTCP_BUNCHED, 9 * MBPS);
	for (i = 0; i < 4; i++) {
		result(&k, IMTCP_OK, 40 * MBPS);
		trusts(&k, IMTCP_TRUST_NONE);
	}
	result(&k, IMTCP_OK, 60 * MBPS);
	trusts(&k, IMTCP_TRUST_RESULTS);
	assert_int_equal(k.m.smoothed_bps, 60 * MBPS);
}

SUITE(estimate, T(results_are_smoothed_by_an_eighth),
      T(two_results_in_a_row_that_are_far_above_the_mean_are_a_step),
      T(two_results_in_a_row_that_are_far_below_the_mean_and_alike_are_a_step),
      T(a_step_down_goes_all_the_way_when_its_first_result_lies_between),
      T(after_a_step_down_another_is_found),
      T(far_results_on_different_sides_or_with_others_between_are_no_step),
      T(a_chosen_gamma_is_the_weight_of_a_result), T(rejected_results_are_not_averaged_in),
      T(a_result_above_the_range_never_lowers_the_average),
      T(an_estimate_is_believed_for_ten_seconds_after_the_last_result_that_counted),
      T(the_next_result_that_counts_renews_an_old_estimate_with_what_it_says),
      T(a_range_without_any_result_is_believed_for_ten_seconds_too),
      T(where_more_than_an_eighth_of_the_results_is_bunched_none_is_believed),
      T(an_unclear_estimate_returns_when_fewer_results_are_bunched))
