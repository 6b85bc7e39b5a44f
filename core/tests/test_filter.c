// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "test.h"

#define MSS 1448U

/* ---- [BG eq. 1], gamma = 1/8 ---- */

static void the_average_follows_equation_1_of_bg(void **state)
{
	uint64_t avg = 0;

	(void)state;
	assert_int_equal(IMTCP_GAMMA_Q16, 65536 / 8); /* the paper's, not tuning */
	assert_int_equal(1U << IMTCP_EWMA_SHIFT, 8);
	avg = imtcp_ewma(avg, 80 * MBPS);
	assert_int_equal(avg, 80 * MBPS); /* the first sample whole */
	avg = imtcp_ewma(avg, 40 * MBPS);
	assert_int_equal(avg, 75 * MBPS); /* 7/8 · 80 + 1/8 · 40 */
	avg = imtcp_ewma(avg, 40 * MBPS);
	assert_int_equal(avg, 70625 * KBPS); /* 7/8 · 75 + 5 */
	avg = imtcp_ewma(avg, 40 * MBPS);
	assert_int_equal(avg, 66796875); /* 7/8 · 70.625 + 5 */
}

/* gamma = 1/4: 3/4 · 80 + 1/4 · 40 = 70; 1: the newest alone; and no product overflows. */
static void the_weight_of_a_sample_can_be_chosen(void **state)
{
	(void)state;
	assert_int_equal(imtcp_ewma_by(80 * MBPS, 40 * MBPS, 65536 / 4), 70 * MBPS);
	assert_int_equal(imtcp_ewma_by(80 * MBPS, 40 * MBPS, 65536), 40 * MBPS);
	assert_int_equal(imtcp_ewma_by(0, 40 * MBPS, 655), 40 * MBPS);
	assert_int_equal(imtcp_ewma_by(IMTCP_U64_MAX, IMTCP_U64_MAX, 8192), IMTCP_U64_MAX);
	assert_int_equal(imtcp_weighted(IMTCP_U64_MAX, 8192), IMTCP_U64_MAX >> 3);
}

static void a_constant_sample_is_its_own_average(void **state)
{
	uint64_t avg = 0;
	int i;

	(void)state;
	for (i = 0; i < 100; i++)
		avg = imtcp_ewma(avg, 12345677);
	assert_int_equal(avg, 12345677);
	/* a step is forgotten to 1 % in 35 samples: (7/8)^35 = 0.9 % */
	for (i = 0; i < 35; i++)
		avg = imtcp_ewma(avg, 24691354);
	assert_within_pct(avg, 24691354, 0.6);
}

/* ---- the store [IM §3.2.6] ---- */

/* 2 4 4 4 5 5 7 9 Mbit/s: mean 5, squares sum to 232, variance 232/8 - 25 = 4, deviation 2. */
static void the_deviation_of_a_hand_worked_set_is_two(void **state)
{
	static const unsigned set[] = {2, 4, 4, 4, 5, 5, 7, 9};
	struct imtcp_store s = {0, 0, 0, 0};
	size_t i;

	(void)state;
	for (i = 0; i < 8; i++)
		imtcp_store_add(&s, set[i] * MBPS);
	assert_int_equal(s.count, 8);
	assert_int_equal(imtcp_store_deviation_bps(&s), 2 * MBPS);
	imtcp_store_clear(&s);
	assert_int_equal(s.count, 0);
	assert_int_equal(imtcp_store_deviation_bps(&s), 0);
}

static void equal_results_and_a_single_one_have_no_deviation(void **state)
{
	struct imtcp_store s = {0, 0, 0, 0};
	int i;

	(void)state;
	imtcp_store_add(&s, 33 * MBPS);
	assert_int_equal(imtcp_store_deviation_bps(&s), 0);
	for (i = 0; i < 200; i++) {
		imtcp_store_add(&s, 33 * MBPS);
		assert_int_equal(imtcp_store_deviation_bps(&s), 0);
		assert_in_range(s.count, 2, IMTCP_STORE_MAX);
	}
}

static void a_full_store_forgets_half_of_its_past(void **state)
{
	struct imtcp_store s = {0, 0, 0, 0};
	uint32_t i;

	(void)state;
	for (i = 0; i < IMTCP_STORE_MAX; i++)
		imtcp_store_add(&s, 10 * MBPS);
	assert_int_equal(s.count, IMTCP_STORE_MAX);
	imtcp_store_add(&s, 10 * MBPS);
	assert_int_equal(s.count, IMTCP_STORE_MAX / 2 + 1);
	/* a new level drives the old one out */
	for (i = 0; i < 8 * IMTCP_STORE_MAX; i++)
		imtcp_store_add(&s, 50 * MBPS);
	assert_within_pct(s.sum_kbps / s.count, 50 * MBPS / 1000, 1);
	assert_at_most(imtcp_store_deviation_bps(&s), 5 * MBPS);
}

static void the_store_holds_any_rate_without_overflow(void **state)
{
	struct imtcp_store s = {0, 0, 0, 0};
	uint32_t i;

	(void)state;
	for (i = 0; i < 3 * IMTCP_STORE_MAX; i++)
		imtcp_store_add(&s, IMTCP_U64_MAX);
	assert_int_equal(imtcp_store_deviation_bps(&s), 0);
	for (i = 0; i < 3 * IMTCP_STORE_MAX; i++)
		imtcp_store_add(&s, i & 1 ? IMTCP_U64_MAX : 0);
	/* half at the bound b, half at 0: deviation b/2 */
	assert_within_pct(imtcp_store_deviation_bps(&s), (1ULL << 28) * 1000, 1);
}

/* ---- capacity ---- */

static void capacity_goes_up_by_a_sixteenth_and_down_by_a_third_of_that(void **state)
{
	uint64_t up = 1ULL << IMTCP_CAPACITY_UP_SHIFT, down = IMTCP_CAPACITY_DOWN_DIV;

	(void)state;
	assert_int_equal(imtcp_capacity_update(0, 90 * MBPS), 90 * MBPS);
	assert_int_equal(imtcp_capacity_update(96 * MBPS, 112 * MBPS), 96 * MBPS + 16 * MBPS / up);
	assert_int_equal(imtcp_capacity_update(96 * MBPS, 48 * MBPS), 96 * MBPS - 48 * MBPS / down);
	assert_int_equal(imtcp_capacity_update(96 * MBPS, 96 * MBPS), 96 * MBPS);
	assert_int_equal(down, 3 * up); /* the 0.75 expectile */
}

static void a_compressed_pair_of_acks_counts_as_twice_the_capacity_at_most(void **state)
{
	uint64_t once = imtcp_capacity_update(100 * MBPS, 200 * MBPS);

	(void)state;
	assert_int_equal(imtcp_capacity_update(100 * MBPS, 100 * GBPS), once);
	assert_int_equal(imtcp_capacity_update(IMTCP_U64_MAX / 2 + 5, IMTCP_U64_MAX),
			 IMTCP_U64_MAX / 2 + 5 + ((IMTCP_U64_MAX / 2 - 4) >> 4));
}

/* Half of the samples at C, half at C/2 (cross traffic between the packets): the expectile e
 * satisfies 3 (C - e) = e - C/2, e = 7/8 C. */
static void capacity_settles_near_the_top_of_its_samples(void **state)
{
	uint64_t c = 0;
	int i;

	(void)state;
	for (i = 0; i < 2000; i++)
		c = imtcp_capacity_update(c, i & 1 ? 100 * MBPS : 50 * MBPS);
	assert_within_pct(c, 87500 * KBPS, 2);
}

/* ---- round trips ---- */

/* Ten segments in flight, one ACK a millisecond; the round is over when what was sent at its
 * start is acknowledged, 10 ms later: 10 · 1448 bytes in 10 ms. */
static void a_round_lasts_from_a_departure_to_its_ack(void **state)
{
	struct imtcp_round r;
	uint32_t una = 0, i;
	int over;

	(void)state;
	memset(&r, 0, sizeof(r));
	assert_int_equal(imtcp_round_on_ack(&r, 1000, una, 10 * MSS, 9000, 256), 0);
	for (i = 1; i <= 10; i++) {
		una += MSS;
		over = imtcp_round_on_ack(&r, 1000 + i * 1000, una, una + 10 * MSS,
					  (int32_t)(10000 - (i == 4) * 500), 256);
		assert_int_equal(over, i == 10);
	}
	assert_int_equal(r.count, 1);
	assert_int_equal(r.last_least_rtt_us, 9500);
	assert_int_equal(r.delivery_bps, 10ULL * MSS * 8 * 100);
	/* the next round begins without the old one's least RTT */
	assert_int_equal(r.least_rtt_us, 0);
	assert_int_equal(r.end_seq, 20 * MSS);
}

/* Two segments at a time, one ACK for both: nothing is in flight then, and each ACK ends a round. */
static void a_window_that_one_ack_empties_is_a_round_from_its_departure(void **state)
{
	struct imtcp_round r;
	uint32_t una = 0;
	uint64_t now = 50000;

	(void)state;
	memset(&r, 0, sizeof(r));
	imtcp_round_on_ack(&r, now, una, una + 2 * MSS, 9000, 256);
	for (uint32_t i = 1; i <= 5; i++) {
		una += 2 * MSS;
		now += 30000; /* the sender was idle for 20 of them */
		assert_int_equal(imtcp_round_on_ack(&r, now, una, una, 10000, 256), 1);
		assert_int_equal(r.count, i);
		assert_int_equal(r.last_samples, 1);
		assert_int_equal(r.last_least_rtt_us, 10000);
		if (i > 1)
			assert_int_equal(r.delivery_bps, 2ULL * MSS * 8 * 100);
	}
	/* six leave after a silence, two to an ACK: the round ends with the last */
	now += 500000;
	assert_int_equal(imtcp_round_on_ack(&r, now, una + 2 * MSS, una + 6 * MSS, 10000, 256), 0);
	assert_int_equal(
		imtcp_round_on_ack(&r, now + 1000, una + 4 * MSS, una + 6 * MSS, 11000, 256), 0);
	assert_int_equal(
		imtcp_round_on_ack(&r, now + 2000, una + 6 * MSS, una + 6 * MSS, 12000, 256), 1);
	assert_int_equal(r.delivery_bps, 6ULL * MSS * 8 * 1000000 / 12000);
	assert_int_equal(r.last_samples, 3);
	/* without a sample nobody knows when it left: an idle time is no round trip */
	assert_int_equal(imtcp_round_on_ack(&r, now + 90000, una + 8 * MSS, una + 8 * MSS, -1, 256),
			 0);
}

static void a_round_counts_wire_bytes_and_survives_the_wrap(void **state)
{
	struct imtcp_round r;
	uint32_t una = 0xffffff00U;

	(void)state;
	memset(&r, 0, sizeof(r));
	imtcp_round_on_ack(&r, 0, una, una + 4 * MSS, 0, 512);
	assert_int_equal(imtcp_round_on_ack(&r, 2000, una + 2 * MSS, una + 6 * MSS, 0, 512), 0);
	assert_int_equal(imtcp_round_on_ack(&r, 4000, una + 4 * MSS, una + 8 * MSS, 0, 512), 1);
	/* 4 segments in 4 ms, two wire bytes for each of payload */
	assert_int_equal(r.delivery_bps, 2ULL * MSS * 8 * 1000);
	/* no RTT sample (retransmissions): none is invented */
	assert_int_equal(r.last_least_rtt_us, 0);
}

/* ---- least RTT ---- */

static void run(struct imtcp_minrtt *f, uint64_t *now, uint64_t until, int32_t rtt_us)
{
	for (; *now < until; *now += (uint64_t)rtt_us) {
		imtcp_minrtt_on_sample(f, *now, rtt_us);
		assert_int_equal(imtcp_minrtt_on_round(f, *now, 1, 0), 0);
	}
}

static void a_shorter_path_is_learned_at_once(void **state)
{
	struct imtcp_minrtt f;

	(void)state;
	memset(&f, 0, sizeof(f));
	imtcp_minrtt_on_sample(&f, 1000, 30001);
	assert_int_equal(f.base_us, 30001);
	imtcp_minrtt_on_sample(&f, 2000, 20001);
	assert_int_equal(f.base_us, 20001);
	imtcp_minrtt_on_sample(&f, 3000, 0);
	imtcp_minrtt_on_sample(&f, 3000, -5);
	imtcp_minrtt_on_sample(&f, 3000, 25001);
	assert_int_equal(f.base_us, 20001);
}

/* The handshake overtook everything on a path of 30 ms. */
static void a_sample_far_below_all_others_is_not_the_base(void **state)
{
	struct imtcp_minrtt f;

	(void)state;
	memset(&f, 0, sizeof(f));
	imtcp_minrtt_on_sample(&f, 1000, 15001);
	imtcp_minrtt_on_sample(&f, 2000, 31001);
	assert_int_equal(f.base_us, 31001);
	imtcp_minrtt_on_sample(&f, 3000, 30001);
	assert_int_equal(f.base_us, 30001);
	/* a second one: the path is so short */
	imtcp_minrtt_on_sample(&f, 4000, 15501);
	assert_int_equal(f.base_us, 15001);
	/* 3/2 may be the connection's own queue after one sample of an empty path */
	memset(&f, 0, sizeof(f));
	imtcp_minrtt_on_sample(&f, 1000, 20001);
	imtcp_minrtt_on_sample(&f, 2000, 30001);
	assert_int_equal(f.base_us, 20001);
}

static void samples_near_the_base_keep_it_fresh_for_ever(void **state)
{
	struct imtcp_minrtt f;
	uint64_t now = 1000;

	(void)state;
	memset(&f, 0, sizeof(f));
	imtcp_minrtt_on_sample(&f, now, 30001);
	/* noise within 1/16 of the base */
	run(&f, &now, 2 * IMTCP_MINRTT_AGE_US, 30001 + (30001 >> IMTCP_MINRTT_NEAR_SHIFT));
	assert_int_equal(f.base_us, 30001);
	assert_int_equal(f.drains, 0);
}

/* The flow's own queue keeps every RTT at 40 ms over a path of 30: the trial drains it. */
static void a_flow_whose_own_queue_stands_does_not_learn_it_as_base(void **state)
{
	struct imtcp_minrtt f;
	uint64_t now = 1000;
	int rounds = 0;

	(void)state;
	memset(&f, 0, sizeof(f));
	imtcp_minrtt_on_sample(&f, now, 30001);
	while (!imtcp_minrtt_on_round(&f, now, 1, 0)) {
		now += 40000;
		imtcp_minrtt_on_sample(&f, now, 40001);
		assert_int_equal(f.base_us, 30001);
		assert_at_most(now, IMTCP_MINRTT_TRIAL_US + 100000);
	}
	/* the drain: the first round still carries the old queue, then the path is empty */
	do {
		now += 40000;
		imtcp_minrtt_on_sample(&f, now, rounds ? 30200 : 40001);
		rounds++;
	} while (imtcp_minrtt_on_round(&f, now, 1, 0));
	assert_int_equal(rounds, IMTCP_MINRTT_DRAIN_ROUNDS + 1);
	assert_int_equal(f.base_us, 30200);
	assert_int_equal(f.drains, 1);
	/* and it is fresh again */
	assert_int_equal(imtcp_minrtt_on_round(&f, now + 1000, 1, 0), 0);
}

/* Rounds of busy windows above a base of 30 ms until that rises, or until_us: when it did. */
static uint64_t rises(struct imtcp_minrtt *f, uint64_t until_us,
		      uint32_t (*rtt_us)(uint64_t now_us), int least_window)
{
	uint64_t now;

	memset(f, 0, sizeof(*f));
	imtcp_minrtt_on_sample(f, 1000, 30001);
	imtcp_minrtt_on_sample(f, 1000, 30001);
	for (now = 1000; f->base_us == 30001 && now < until_us; now += rtt_us(now)) {
		imtcp_minrtt_on_sample(f, now, (int32_t)rtt_us(now));
		if (!imtcp_minrtt_on_round(f, now, 1, 0) && least_window)
			imtcp_minrtt_on_least_window(f, now, rtt_us(now), 0);
	}
	return now;
}

static uint32_t way_of_80_ms(uint64_t now_us)
{
	return 80001 + (now_us / 80001) % 2 * 900; /* within a millisecond */
}

/* A sawtooth of 4 s from 50 to 100 ms in a path of 30 that never empties. */
static uint32_t sawtooth(uint64_t now_us)
{
	return 80001 + (uint32_t)(now_us % 4000000 / 80);
}

static void a_longer_path_is_learned_within_five_seconds_of_least_windows(void **state)
{
	struct imtcp_minrtt f;
	uint64_t at_us;

	(void)state;
	at_us = rises(&f, IMTCP_MINRTT_AGE_US, way_of_80_ms, 1);
	assert_int_equal(f.base_us, 80001);
	assert_in_range(at_us, IMTCP_MINRTT_STEADY_US, IMTCP_MINRTT_STEADY_US + 200000);
	assert_int_equal(f.drains, 0);
}

/* With a window that is never the least, as under a floor. */
static void a_longer_path_is_learned_by_two_drains_that_agree(void **state)
{
	struct imtcp_minrtt f;
	uint64_t at_us;

	(void)state;
	at_us = rises(&f, IMTCP_MINRTT_AGE_US, way_of_80_ms, 0);
	assert_in_range(f.base_us, 80001, 80901);
	assert_int_equal(f.drains, 2);
	assert_in_range(at_us, 2 * IMTCP_MINRTT_TRIAL_US, 2 * IMTCP_MINRTT_TRIAL_US + 1000000);
}

static void a_queue_that_moves_is_no_longer_path_for_three_minutes(void **state)
{
	struct imtcp_minrtt f;
	uint64_t at_us;

	(void)state;
	at_us = rises(&f, 3 * IMTCP_MINRTT_AGE_US, sawtooth, 1);
	assert_in_range(at_us, IMTCP_MINRTT_AGE_US,
			IMTCP_MINRTT_AGE_US + IMTCP_MINRTT_TRIAL_US + 1000000);
}

static void a_drain_without_samples_keeps_the_base(void **state)
{
	struct imtcp_minrtt f;
	uint64_t now = IMTCP_MINRTT_AGE_US * 2;
	uint32_t i;

	(void)state;
	memset(&f, 0, sizeof(f));
	imtcp_minrtt_on_sample(&f, 1000, 30001);
	assert_int_equal(imtcp_minrtt_on_round(&f, now, 1, 0), 1);
	for (i = 0; i < IMTCP_MINRTT_DRAIN_ROUNDS; i++)
		assert_int_equal(imtcp_minrtt_on_round(&f, now, 1, 0), 1);
	assert_int_equal(imtcp_minrtt_on_round(&f, now, 1, 0), 0);
	assert_int_equal(f.base_us, 30001);
}

/* A retransmission is timed in ticks: 30.3 ms come as 30 or 31. Nobody yields to the rest of one. */
static void a_sample_of_whole_milliseconds_is_worth_one_more(void **state)
{
	struct imtcp_minrtt f;

	(void)state;
	memset(&f, 0, sizeof(f));
	imtcp_minrtt_on_sample(&f, 1000, 30000); /* better than none */
	assert_int_equal(f.base_us, 31000);
	imtcp_minrtt_on_sample(&f, 2000, 30268);
	assert_int_equal(f.base_us, 30268);
	imtcp_minrtt_on_sample(&f, 3000, 30000);
	assert_int_equal(f.base_us, 30268);
	imtcp_minrtt_on_sample(&f, 4000, 29000); /* shorter all the same */
	assert_int_equal(f.base_us, 30000);
	assert_int_equal(imtcp_rtt_at_most_us(UINT32_MAX / 1000 * 1000), UINT32_MAX);
}

static void an_idle_connection_is_not_asked_to_drain(void **state)
{
	struct imtcp_minrtt f;

	(void)state;
	memset(&f, 0, sizeof(f));
	assert_int_equal(imtcp_minrtt_on_round(&f, 100 * IMTCP_MINRTT_AGE_US, 1, 0), 0);
	imtcp_minrtt_on_sample(&f, 1000, 30000);
	assert_int_equal(imtcp_minrtt_on_round(&f, 100 * IMTCP_MINRTT_AGE_US, 0, 0), 0);
	assert_int_equal(f.drains, 0);
}

/* Heard once it is the base, and is tried ten seconds after a sample came near it. Who found a longer path hears no more. */
static void a_base_that_others_saw_is_believed_until_ones_own_path_is_longer(void **state)
{
	struct imtcp_minrtt f;

	(void)state;
	memset(&f, 0, sizeof(f));
	imtcp_minrtt_hear(&f, 20000);
	assert_int_equal(f.base_us, 0); /* of oneself first */
	imtcp_minrtt_on_sample(&f, 1000, 30001);
	imtcp_minrtt_hear(&f, 29000); /* the same, within a 16th */
	assert_int_equal(f.base_us, 30001);
	imtcp_minrtt_hear(&f, 20000);
	assert_int_equal(f.base_us, 20000);
	imtcp_minrtt_on_sample(&f, 2000, 30001);
	assert_int_equal(f.base_us, 20000);
	assert_int_equal(f.refreshed_us, 1000);
	imtcp_minrtt_hear(&f, 0);
	assert_int_equal(f.base_us, 20000);
	imtcp_minrtt_set(&f, 3000, 30000);
	imtcp_minrtt_hear(&f, 20000);
	assert_int_equal(f.base_us, 30000);
}

SUITE(filter, T(a_base_that_others_saw_is_believed_until_ones_own_path_is_longer),
      T(the_average_follows_equation_1_of_bg), T(the_weight_of_a_sample_can_be_chosen),
      T(a_constant_sample_is_its_own_average), T(the_deviation_of_a_hand_worked_set_is_two),
      T(equal_results_and_a_single_one_have_no_deviation), T(a_full_store_forgets_half_of_its_past),
      T(the_store_holds_any_rate_without_overflow),
      T(capacity_goes_up_by_a_sixteenth_and_down_by_a_third_of_that),
      T(a_compressed_pair_of_acks_counts_as_twice_the_capacity_at_most),
      T(capacity_settles_near_the_top_of_its_samples), T(a_round_lasts_from_a_departure_to_its_ack),
      T(a_window_that_one_ack_empties_is_a_round_from_its_departure),
      T(a_round_counts_wire_bytes_and_survives_the_wrap), T(a_shorter_path_is_learned_at_once),
      T(a_sample_far_below_all_others_is_not_the_base),
      T(a_longer_path_is_learned_within_five_seconds_of_least_windows),
      T(a_longer_path_is_learned_by_two_drains_that_agree),
      T(a_queue_that_moves_is_no_longer_path_for_three_minutes),
      T(a_sample_of_whole_milliseconds_is_worth_one_more),
      T(samples_near_the_base_keep_it_fresh_for_ever),
      T(a_flow_whose_own_queue_stands_does_not_learn_it_as_base),
      T(a_drain_without_samples_keeps_the_base), T(an_idle_connection_is_not_asked_to_drain))
