// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The own foreground in flight by (1) of front.h, worked by hand. */
#include "test.h"

#include <imtcp/front.h>

#define RTT_US 30000U

/* 1000 bytes each millisecond are 30 000 in a round trip. (1) with 1/30 settles there. */
static void a_steady_foreground_has_its_rate_times_the_round_trip_in_flight(void **state)
{
	struct imtcp_front f = {0};
	uint64_t flight = 0;

	(void)state;
	for (uint64_t ms = 1; ms <= 300; ms++)
		flight = imtcp_front_flight_bytes(&f, ms * 1000, RTT_US, ms * 1000);
	assert_in_range(flight, 29900, 30000);
}

static void a_burst_counts_at_once_and_fades_in_a_round_trip(void **state)
{
	struct imtcp_front f = {0};

	(void)state;
	imtcp_front_flight_bytes(&f, 1000, RTT_US, 500);
	assert_int_equal(imtcp_front_flight_bytes(&f, 1100, RTT_US, 60500), 60000);
	/* a third of a round trip later two thirds are left, and two thirds of these after another */
	assert_int_equal(imtcp_front_flight_bytes(&f, 11100, RTT_US, 60500), 40000);
	assert_int_equal(imtcp_front_flight_bytes(&f, 21100, RTT_US, 60500), 26666);
	assert_int_equal(imtcp_front_flight_bytes(&f, 51100, RTT_US, 60500), 0);
}

/* 120 000 bytes in four round trips. */
static void after_a_long_silence_the_mean_rate_counts(void **state)
{
	struct imtcp_front f = {0};

	(void)state;
	imtcp_front_flight_bytes(&f, 1000, RTT_US, 0);
	assert_int_equal(imtcp_front_flight_bytes(&f, 121000, RTT_US, 120000), 30000);
}

/* All that was sent before the first look is no burst. */
static void the_first_look_and_one_without_a_round_trip_know_nothing(void **state)
{
	struct imtcp_front f = {0};

	(void)state;
	assert_int_equal(imtcp_front_flight_bytes(&f, 5000, RTT_US, 1ULL << 40), 0);
	assert_int_equal(imtcp_front_flight_bytes(&f, 6000, 0, (1ULL << 40) + 9000), 0);
	assert_int_equal(imtcp_front_flight_bytes(&f, 6000, RTT_US, (1ULL << 40) + 9000), 0);
}

static void a_counter_that_begins_again_is_no_burst(void **state)
{
	struct imtcp_front f = {0};

	(void)state;
	imtcp_front_flight_bytes(&f, 1000, RTT_US, 900000);
	assert_int_equal(imtcp_front_flight_bytes(&f, 2000, RTT_US, 1500), 0);
	assert_int_equal(imtcp_front_flight_bytes(&f, 2000, RTT_US, 4500), 3000);
}

SUITE(front, T(a_steady_foreground_has_its_rate_times_the_round_trip_in_flight),
      T(a_burst_counts_at_once_and_fades_in_a_round_trip),
      T(after_a_long_silence_the_mean_rate_counts),
      T(the_first_look_and_one_without_a_round_trip_know_nothing),
      T(a_counter_that_begins_again_is_no_burst))
