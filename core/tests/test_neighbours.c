// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Counting the connections to one host by hand. */
#include "test.h"

#include <imtcp/neighbours.h>

/* Three in each second: the first of a second hears of the second before, which was whole. */
static void each_hears_how_many_there_were_in_the_second_before(void **state)
{
	struct imtcp_neighbours n = {0};

	(void)state;
	assert_int_equal(imtcp_neighbours_note(&n, 7), 1);
	assert_int_equal(imtcp_neighbours_note(&n, 7), 2);
	assert_int_equal(imtcp_neighbours_note(&n, 7), 3);
	assert_int_equal(imtcp_neighbours_note(&n, 8), 3);
	assert_int_equal(imtcp_neighbours_note(&n, 8), 3);
	/* one left: after a second of two there are two */
	assert_int_equal(imtcp_neighbours_note(&n, 9), 2);
}

static void after_a_second_without_any_nobody_is_there(void **state)
{
	struct imtcp_neighbours n = {0};

	(void)state;
	for (int i = 0; i < 5; i++)
		imtcp_neighbours_note(&n, 7);
	assert_int_equal(imtcp_neighbours_note(&n, 9), 1);
	/* the same if a clock went back */
	assert_int_equal(imtcp_neighbours_note(&n, 3), 1);
}

static void more_than_64_count_as_64(void **state)
{
	struct imtcp_neighbours n = {0};
	uint32_t told = 0;

	(void)state;
	for (int i = 0; i < 1000; i++)
		told = imtcp_neighbours_note(&n, 7);
	assert_int_equal(told, 64);
}

/* 180 s, and 21.2 ms are within a 16th of 20. */
static void the_least_round_trip_of_all_holds_for_three_minutes_after_it_was_seen(void **state)
{
	struct imtcp_neighbours n = {0};

	(void)state;
	assert_int_equal(imtcp_neighbours_base_us(&n, 7, 0), 0);
	assert_int_equal(imtcp_neighbours_base_us(&n, 7, 42000), 42000);
	assert_int_equal(imtcp_neighbours_base_us(&n, 8, 20000), 20000);
	assert_int_equal(imtcp_neighbours_base_us(&n, 9, 0), 20000);
	assert_int_equal(imtcp_neighbours_base_us(&n, 100, 21200), 20000);
	assert_int_equal(imtcp_neighbours_base_us(&n, 280, 42000), 20000);
	assert_int_equal(imtcp_neighbours_base_us(&n, 281, 42000), 42000);
}

SUITE(neighbours, T(each_hears_how_many_there_were_in_the_second_before),
      T(after_a_second_without_any_nobody_is_there), T(more_than_64_count_as_64),
      T(the_least_round_trip_of_all_holds_for_three_minutes_after_it_was_seen))
