// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* From trends to the sub-range, the outcome and the next range [IM §3.2.4-3.2.6]. */
#include "test.h"

#define K IMTCP_SUB_RANGES
#define NOW 9000000ULL

/* 'U' rises, 'F' does not, '?' unknown; one letter a stream, the highest sub-range first. */
static void judged_as(struct imtcp_meas *m, const char *trends)
{
	uint32_t i;

	memset(m, 0, sizeof(*m));
	imtcp_meas_init(m, defaults(), 0);
	m->low_bps = 40 * MBPS;
	m->high_bps = 80 * MBPS;
	m->planned = m->judged = (uint32_t)strlen(trends);
	for (i = 0; i < m->judged; i++) {
		struct imtcp_verdict *v = &m->verdict[i];

		v->trend = trends[i] == 'U'   ? IMTCP_TREND_UP
			   : trends[i] == 'F' ? IMTCP_TREND_FLAT
					      : IMTCP_TREND_UNKNOWN;
		v->intervals = 7;
		v->validity_pct = 95;
		v->avail_bps = (imtcp_meas_edge_bps(m, i) + imtcp_meas_edge_bps(m, i + 1)) / 2;
		m->tally.unknown += v->trend == IMTCP_TREND_UNKNOWN;
	}
}

/* The sum of [IM §3.2.4] for a; streams that were not sent count as -1. */
static int sum_for(const struct imtcp_meas *m, uint32_t a)
{
	int sum = 0;
	uint32_t j;

	for (j = 1; j <= K; j++) {
		uint32_t trend = j <= m->judged ? m->verdict[j - 1].trend : IMTCP_TREND_FLAT;
		int t = trend == IMTCP_TREND_UP ? 1 : trend == IMTCP_TREND_FLAT ? -1 : 0;

		sum += j <= a ? t : -t;
	}
	return sum;
}

static void the_chosen_sub_range_maximises_the_sum_of_im_3_2_4(void **state)
{
	static const char letters[] = "UF?";
	struct imtcp_meas m;
	char trends[K + 1] = "";
	uint32_t code, n, i, a, chosen, combos;
	int most;

	(void)state;
	for (n = 1; n <= K; n++) {
		for (combos = 1, i = 0; i < n; i++)
			combos *= 3;
		for (code = 0; code < combos; code++) {
			uint32_t rest = code;

			for (i = 0; i < n; i++, rest /= 3)
				trends[i] = letters[rest % 3];
			trends[n] = 0;
			judged_as(&m, trends);
			for (most = -100, a = 0; a <= K; a++)
				if (sum_for(&m, a) > most)
					most = sum_for(&m, a);
			chosen = imtcp_meas_choose(&m);
			if (chosen > K || sum_for(&m, chosen) != most)
				fail_msg("%s: a = %u, sum %d, the most is %d", trends, chosen,
					 sum_for(&m, chosen), most);
		}
	}
}

static void clear_cases_are_chosen_as_by_hand(void **state)
{
	static const struct {
		const char *trends;
		uint32_t a;
	} table[] = {
		{"FFFF", 0}, {"UFFF", 1}, {"UUFF", 2}, {"UUUF", 3},
		{"UUUU", K}, {"UFUU", K}, {"FF", 0}, /* the rest was not sent */
		{"UFF", 1},  {"FUUU", K},
	};
	struct imtcp_meas m;
	size_t i;

	(void)state;
	assert_int_equal(K, 4);
	for (i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		judged_as(&m, table[i].trends);
		if (imtcp_meas_choose(&m) != table[i].a)
			fail_msg("%s: a = %u, not %u", table[i].trends, imtcp_meas_choose(&m),
				 table[i].a);
	}
}

/* "Other ties go to the higher sub-range", and "above" must be earned. */
static void ties_go_to_the_highest_sub_range_but_not_above_it(void **state)
{
	static const struct {
		const char *trends;
		uint32_t a;
	} table[] = {
		{"?FFF", 1}, /* 0 and 1 */
		{"U?FF", 1}, /* 1 and 2 */
		{"UU?F", 2}, /* 2 and 3 */
		{"UFUF", 1}, /* 1 and 3 */
		{"????", 1}, /* all */
	};
	struct imtcp_meas m;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		judged_as(&m, table[i].trends);
		if (imtcp_meas_choose(&m) != table[i].a)
			fail_msg("%s: a = %u, not %u", table[i].trends, imtcp_meas_choose(&m),
				 table[i].a);
	}
}

/* The sums of a = k and a = k + 1 are equal (T(k+1) = 0): the fit decides. */
static void below_the_range_is_told_by_an_empty_line_i(void **state)
{
	struct imtcp_meas m;

	(void)state;
	judged_as(&m, "UUUU");
	assert_int_equal(imtcp_meas_choose(&m), K);
	m.verdict[K - 1].all_strained = 1;
	assert_int_equal(imtcp_meas_choose(&m), K + 1);
	judged_as(&m, "UFFF");
	m.verdict[K - 1].all_strained = 1; /* not the chosen one: of no importance */
	assert_int_equal(imtcp_meas_choose(&m), 1);
	assert_int_equal(imtcp_meas_choose(NULL), 0);
}

/* ---- sub-ranges ---- */

/* (40, 80), k = 4: 80 70 60 50 40. */
static void sub_ranges_are_of_equal_width_the_highest_first(void **state)
{
	struct imtcp_meas m;
	uint32_t i;

	(void)state;
	judged_as(&m, "");
	for (i = 0; i <= K; i++)
		assert_int_equal(imtcp_meas_edge_bps(&m, i),
				 80 * MBPS - i * (40 * MBPS / IMTCP_SUB_RANGES));
}

/* ---- results and next ranges ---- */

static void conclude(struct imtcp_meas *m)
{
	struct imtcp_sample ev;

	memset(&ev, 0, sizeof(ev));
	ev.now_us = NOW;
	ev.srtt_us = 30000;
	ev.mss_bytes = 1448;
	imtcp_meas_conclude(m, &ev);
}

static uint64_t half_width(const struct imtcp_meas *m)
{
	return (m->high_bps - m->low_bps) / 2;
}

static void the_first_value_keeps_the_last_width(void **state)
{
	struct imtcp_meas m;

	(void)state;
	judged_as(&m, "UUFF"); /* the middle of (60, 70) */
	conclude(&m);
	assert_int_equal(m.result.outcome, IMTCP_OK);
	assert_int_equal(m.result.sub_range, 2);
	assert_int_equal(m.result.avail_bps, 65 * MBPS);
	assert_int_equal(m.result.low_bps, 40 * MBPS); /* the range that was searched */
	assert_int_equal(m.result.high_bps, 80 * MBPS);
	assert_int_equal(m.result.streams, 4);
	assert_int_equal(m.result.validity_pct, 95);
	assert_int_equal(m.avail_bps, 65 * MBPS);
	assert_int_equal(m.avail_at_us, NOW);
	assert_int_equal(m.completed, 1);
	assert_int_equal(m.store.count, 1);
	assert_int_equal(m.low_bps, 45 * MBPS);
	assert_int_equal(m.high_bps, 85 * MBPS);
}

/*
 * Stored: 20 40 40 40 50 50 70 90, now 65. Sum 465; squares 400 + 3·1600 + 2·2500 + 4900 + 8100
 * = 23 200, and 4225: 27 425. q = 9: mean 51.667; 3047.2 - 2669.4 = 377.8, S = 19.44;
 * 1.96 · 19.44 / 3 = 12.70 Mbit/s.
 */
static void the_next_range_is_the_confidence_interval_of_the_stored_values(void **state)
{
	static const unsigned set[] = {20, 40, 40, 40, 50, 50, 70, 90};
	struct imtcp_meas m;
	size_t i;

	(void)state;
	assert_int_equal(IMTCP_Z95_Q100, 196);
	judged_as(&m, "UUFF");
	for (i = 0; i < 8; i++)
		imtcp_store_add(&m.store, set[i] * MBPS);
	conclude(&m);
	assert_int_equal(m.store.count, 9);
	assert_within_pct(half_width(&m), 12700 * KBPS, 0.5);
	assert_within_pct((m.low_bps + m.high_bps) / 2, 65 * MBPS, 0.1);
}

static void the_range_has_a_least_width(void **state)
{
	struct imtcp_meas m;
	uint64_t least;
	int i;

	(void)state;
	judged_as(&m, "UUFF");
	for (i = 0; i < 9; i++)
		imtcp_store_add(&m.store, 65 * MBPS);
	conclude(&m);
	assert_within_pct(2 * half_width(&m), 65 * MBPS / IMTCP_WIDTH_DIV, 0.1);
	/* a share of capacity where A is small against it */
	judged_as(&m, "UUFF");
	for (i = 0; i < 9; i++)
		imtcp_store_add(&m.store, 65 * MBPS);
	m.capacity_bps = 400 * MBPS;
	least = imtcp_max(65 * MBPS / IMTCP_WIDTH_DIV, 400 * MBPS / IMTCP_WIDTH_CAPACITY_DIV);
	conclude(&m);
	assert_within_pct(2 * half_width(&m), least, 0.1);
}

static void a_miss_widens_the_range_by_half_and_empties_the_store(void **state)
{
	struct imtcp_meas m;

	(void)state;
	judged_as(&m, "FF");
	imtcp_store_add(&m.store, 65 * MBPS);
	conclude(&m);
	assert_int_equal(m.result.outcome, IMTCP_OUT_OF_RANGE);
	assert_int_equal(m.result.sub_range, 0);
	assert_int_equal(m.result.avail_bps, 80 * MBPS); /* A := B_u */
	assert_int_equal(m.low_bps, 40 * MBPS);
	assert_int_equal(m.high_bps, 100 * MBPS);
	assert_int_equal(m.store.count, 0);
	assert_int_equal(m.completed, 0);
	assert_int_equal(m.avail_bps, 0);

	judged_as(&m, "UUUU");
	m.verdict[K - 1].all_strained = 1;
	conclude(&m);
	assert_int_equal(m.result.outcome, IMTCP_OUT_OF_RANGE);
	assert_int_equal(m.result.sub_range, K + 1);
	assert_int_equal(m.result.avail_bps, 40 * MBPS); /* A := B_l */
	assert_int_equal(m.low_bps, 20 * MBPS);
	assert_int_equal(m.high_bps, 80 * MBPS);
}

static void the_range_stays_within_the_capacity(void **state)
{
	struct imtcp_meas m;

	(void)state;
	judged_as(&m, "");
	m.capacity_bps = 80 * MBPS;
	imtcp_meas_set_range(&m, 50 * MBPS, 500 * MBPS);
	assert_in_range(m.high_bps, 80 * MBPS, 100 * MBPS);
	imtcp_meas_set_range(&m, 0, 1);
	assert_int_equal(m.high_bps, 80 * MBPS / IMTCP_HIGH_CAPACITY_DIV);
	assert_int_equal(m.low_bps, 80 * MBPS / IMTCP_LOW_CAPACITY_DIV);
	/* crossing ends: still a range, with room between */
	imtcp_meas_set_range(&m, 500 * MBPS, 30 * MBPS);
	assert_true(m.low_bps < m.high_bps);
	m.capacity_bps = 0;
	imtcp_meas_set_range(&m, 0, 0);
	assert_true(m.low_bps > 0 && m.low_bps < m.high_bps);
}

/* ---- results that are not averaged in ---- */

static void rejected(struct imtcp_meas *m, uint32_t outcome)
{
	uint64_t low = m->low_bps, high = m->high_bps, before = m->invalid[outcome];
	uint32_t stored = m->store.count;

	conclude(m);
	assert_int_equal(m->result.outcome, outcome);
	assert_int_equal(m->invalid[outcome], before + 1);
	assert_int_equal(m->completed, 0);
	assert_int_equal(m->avail_bps, 0);
	assert_int_equal(m->store.count, stored);
	assert_int_equal(m->low_bps, low);
	assert_int_equal(m->high_bps, high);
	assert_int_equal(m->planned, 0);
}

/* Bunched ACKs may also have spoiled the capacity, so the range may change; but never below what
 * is being delivered, and not where nothing is known of that. */
static void bunched_streams_spoil_a_result(void **state)
{
	struct imtcp_meas m;

	(void)state;
	judged_as(&m, "UUFF");
	m.tally.bunched = 3;
	rejected(&m, IMTCP_BUNCHED);
	judged_as(&m, "UUFF");
	m.tally.bunched = 3;
	m.capacity_bps = 100 * MBPS;
	m.delivery_bps = 30 * MBPS;
	conclude(&m);
	assert_int_equal(m.result.outcome, IMTCP_BUNCHED);
	assert_int_equal(m.avail_bps, 0);
	assert_int_equal(m.completed, 0);
	assert_true(m.high_bps >= 30 * MBPS && m.low_bps < m.high_bps);
	assert_at_most(m.capacity_bps, 100 * MBPS);
	judged_as(&m, "UUFF");
	m.tally.bunched = 1; /* of four */
	conclude(&m);
	assert_int_equal(m.result.outcome, IMTCP_OK);
}

static void streams_of_few_acks_spoil_a_result(void **state)
{
	struct imtcp_meas m;

	(void)state;
	judged_as(&m, "UUFF");
	m.tally.few = 3;
	rejected(&m, IMTCP_FEW_ACKS);
	judged_as(&m, "UUFF");
	m.tally.thinned = 1;
	rejected(&m, IMTCP_FEW_ACKS);
}

static void streams_without_a_trend_or_a_fit_spoil_a_result(void **state)
{
	struct imtcp_meas m;

	(void)state;
	judged_as(&m, "U???");
	rejected(&m, IMTCP_POOR_FIT);
	judged_as(&m, "UUFF");
	m.verdict[1].validity_pct = IMTCP_VALID_LEAST_PCT - 1;
	rejected(&m, IMTCP_POOR_FIT);
	judged_as(&m, "UUFF");
	m.verdict[1].validity_pct = IMTCP_VALID_LEAST_PCT;
	conclude(&m);
	assert_int_equal(m.result.outcome, IMTCP_OK);
}

/* A queue stands while 30 Mbit/s are delivered, and the stream says 65: a token bucket. */
static void more_than_a_standing_queue_lets_through_is_no_strain(void **state)
{
	struct imtcp_meas m;

	(void)state;
	judged_as(&m, "UUFF");
	m.standing_rounds = IMTCP_CONGESTED_ROUNDS;
	m.delivery_bps = 30 * MBPS;
	rejected(&m, IMTCP_NO_STRAIN);
	/* no queue: delivery may be less for any reason (window, application) */
	judged_as(&m, "UUFF");
	m.delivery_bps = 30 * MBPS;
	conclude(&m);
	assert_int_equal(m.result.outcome, IMTCP_OK);
	/* a queue, but as much delivered as estimated */
	judged_as(&m, "UUFF");
	m.standing_rounds = IMTCP_CONGESTED_ROUNDS;
	m.delivery_bps = 60 * MBPS;
	conclude(&m);
	assert_int_equal(m.result.outcome, IMTCP_OK);
	/* "above the range" is no way around it */
	judged_as(&m, "FF");
	m.standing_rounds = IMTCP_CONGESTED_ROUNDS;
	m.delivery_bps = 30 * MBPS;
	rejected(&m, IMTCP_NO_STRAIN);
}

/*
 * A queue shows a capacity of 50 Mbit/s while a range from before it is searched: at most 9/8 of it,
 * 56.25, can be true. The range ends there now; and "above the range" at its end widens it no more.
 */
static void more_than_the_capacity_that_a_queue_showed_is_no_strain(void **state)
{
	struct imtcp_meas m;

	(void)state;
	judged_as(&m, "UUFF"); /* 65 */
	m.capacity_bps = 50 * MBPS;
	conclude(&m);
	assert_int_equal(m.result.outcome, IMTCP_OK);
	judged_as(&m, "UUFF");
	m.capacity_bps = 50 * MBPS;
	m.queued_at_us = NOW;
	conclude(&m);
	assert_int_equal(m.result.outcome, IMTCP_NO_STRAIN);
	assert_int_equal(m.avail_bps, 0);
	assert_int_equal(m.store.count, 0);
	assert_int_equal(m.low_bps, 40 * MBPS);
	assert_int_equal(m.high_bps, 56250 * KBPS);
	judged_as(&m, "FF");
	m.capacity_bps = 50 * MBPS;
	m.queued_at_us = NOW;
	m.high_bps = 56250 * KBPS;
	conclude(&m);
	assert_int_equal(m.result.outcome, IMTCP_OUT_OF_RANGE);
	assert_int_equal(m.result.avail_bps, 50 * MBPS);
	assert_int_equal(m.low_bps, 40 * MBPS);
	assert_int_equal(m.high_bps, 56250 * KBPS);
	assert_int_equal(m.capacity_bps, 50 * MBPS);
	/* one that reaches far down does not stay so slow either */
	judged_as(&m, "FF");
	m.capacity_bps = 50 * MBPS;
	m.queued_at_us = NOW;
	m.low_bps = 2 * MBPS;
	m.high_bps = 56250 * KBPS;
	conclude(&m);
	assert_int_equal(m.low_bps, 28125 * KBPS);
	assert_int_equal(m.high_bps, 56250 * KBPS);
}

/* The middle of (60, 70) is 65, and a queue showed 60: A <= C. */
static void a_result_is_at_most_the_capacity_that_a_queue_showed(void **state)
{
	struct imtcp_meas m;

	(void)state;
	judged_as(&m, "UUFF");
	m.capacity_bps = 60 * MBPS;
	m.queued_at_us = NOW;
	conclude(&m);
	assert_int_equal(m.result.outcome, IMTCP_OK);
	assert_int_equal(m.avail_bps, 60 * MBPS);
}

SUITE(choice, T(the_chosen_sub_range_maximises_the_sum_of_im_3_2_4),
      T(clear_cases_are_chosen_as_by_hand), T(ties_go_to_the_highest_sub_range_but_not_above_it),
      T(below_the_range_is_told_by_an_empty_line_i),
      T(sub_ranges_are_of_equal_width_the_highest_first), T(the_first_value_keeps_the_last_width),
      T(the_next_range_is_the_confidence_interval_of_the_stored_values),
      T(the_range_has_a_least_width), T(a_miss_widens_the_range_by_half_and_empties_the_store),
      T(the_range_stays_within_the_capacity), T(bunched_streams_spoil_a_result),
      T(streams_of_few_acks_spoil_a_result), T(streams_without_a_trend_or_a_fit_spoil_a_result),
      T(more_than_a_standing_queue_lets_through_is_no_strain),
      T(more_than_the_capacity_that_a_queue_showed_is_no_strain),
      T(a_result_is_at_most_the_capacity_that_a_queue_showed))
