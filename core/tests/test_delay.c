// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* One-way delays from timestamps, and LEDBAT's histories, worked by hand. */
#include "test.h"
#include <imtcp/delay.h>

#define SENT 7000000ULL
#define FIRST_STAMP 4000000000U /* any: the peer's clock has its own offset */

/* The peer's clock, arrival_us after the first packet's departure. Its readings begin anywhere. */
static uint32_t stamp(uint64_t arrival_us, uint32_t tick_us)
{
	return FIRST_STAMP + (uint32_t)(arrival_us / tick_us);
}

/* Packets 10 ms apart take 20 ms forward and 5 ms back, and from now on more_us more forward. */
static uint32_t delay_after(struct imtcp_owd *o, uint64_t *at_us, uint32_t packets,
			    uint32_t tick_us, uint32_t more_us)
{
	for (; packets; packets--) {
		uint64_t arrived = *at_us + 20000 + more_us;

		imtcp_owd_on_ack(o, SENT + arrived + 5000, SENT + *at_us, stamp(arrived, tick_us));
		*at_us += 10000;
	}
	return o->delay_us;
}

static void the_delay_is_that_of_the_way_forward(void **state)
{
	uint32_t before, after;
	struct imtcp_owd o;
	uint64_t at = 0;

	(void)state;
	memset(&o, 0, sizeof(o));
	before = delay_after(&o, &at, 10, 1000, 0);
	after = delay_after(&o, &at, 10, 1000, 15000);
	assert_int_equal(after - before, 15000); /* 15 ms of queue */
	assert_int_equal(o.clock, IMTCP_OWD_OK);
	assert_int_equal(o.epoch, 1);
}

static void a_queue_on_the_way_back_is_not_in_it(void **state)
{
	uint32_t before;
	struct imtcp_owd o;

	(void)state;
	memset(&o, 0, sizeof(o));
	imtcp_owd_on_ack(&o, SENT + 25000, SENT, stamp(20000, 1000));
	before = o.delay_us;
	/* Sent 10 ms later, 20 ms forward again, 300 ms back. */
	imtcp_owd_on_ack(&o, SENT + 330000, SENT + 10000, stamp(30000, 1000));
	assert_int_equal(o.delay_us, before);
}

static void a_timestamp_that_wraps_is_one_tick_later(void **state)
{
	uint32_t before;
	struct imtcp_owd o;

	(void)state;
	memset(&o, 0, sizeof(o));
	imtcp_owd_on_ack(&o, SENT + 25000, SENT, IMTCP_U32_MAX);
	before = o.delay_us;
	imtcp_owd_on_ack(&o, SENT + 26000, SENT + 1000, 0);
	assert_int_equal(o.delay_us, before);
}

/* A tick of 4 ms counts as 1 ms for a quarter of a second. Then it is known. */
static void the_tick_of_the_peer_is_found(void **state)
{
	static const uint32_t ticks[] = {1, 1000, 4000, 10000, 100000};
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(ticks) / sizeof(ticks[0]); i++) {
		uint32_t before, after;
		struct imtcp_owd o;
		uint64_t at = 0;

		memset(&o, 0, sizeof(o));
		before = delay_after(&o, &at, 101, ticks[i], 0);
		assert_int_equal(o.tick_us, ticks[i]);
		assert_int_equal(o.clock, IMTCP_OWD_OK);
		assert_int_equal(o.epoch, ticks[i] == 1000 ? 1 : 2);
		after = delay_after(&o, &at, 10, ticks[i], 200000);
		assert_in_range(after - before, 200000 - ticks[i], 200000 + ticks[i]);
	}
}

static void a_clock_that_is_none_is_not_believed(void **state)
{
	struct imtcp_owd o;
	uint64_t at = 0;

	(void)state;
	memset(&o, 0, sizeof(o));
	delay_after(&o, &at, 101, 100, 0); /* 100 us: no system has this tick */
	assert_int_equal(o.clock, IMTCP_OWD_UNKNOWN);
	assert_int_equal(imtcp_owd_nearest_tick_us(100), 0);
	assert_int_equal(imtcp_owd_nearest_tick_us(0), 1);
	assert_int_equal(imtcp_owd_nearest_tick_us(5000000), 0);
}

/* RFC 6817 §3.4.1: the least delay of each of the last ten minutes. */
static void the_base_delay_is_forgotten_after_ten_minutes(void **state)
{
	struct imtcp_delays d;
	uint64_t now = SENT;
	uint32_t minute;

	(void)state;
	memset(&d, 0, sizeof(d));
	assert_int_equal(imtcp_delays_base_us(&d), 0);
	imtcp_delays_on_sample(&d, now, 20000);
	for (minute = 1; minute < IMTCP_BASE_HISTORY; minute++) {
		now += IMTCP_BASE_MINUTE_US;
		imtcp_delays_on_sample(&d, now, 50000);
		assert_int_equal(imtcp_delays_base_us(&d), 20000);
	}
	now += IMTCP_BASE_MINUTE_US;
	imtcp_delays_on_sample(&d, now, 50000);
	assert_int_equal(imtcp_delays_base_us(&d), 50000);
}

static void one_slow_packet_in_four_is_no_queue(void **state)
{
	struct imtcp_delays d;
	int i;

	(void)state;
	memset(&d, 0, sizeof(d));
	imtcp_delays_on_sample(&d, SENT, 20000);
	for (i = 0; i < 3; i++)
		imtcp_delays_on_sample(&d, SENT, 90000);
	assert_int_equal(imtcp_delays_queue_us(&d),
			 0); /* only one of the last four was at the base */
	imtcp_delays_on_sample(&d, SENT, 80000);
	assert_int_equal(imtcp_delays_queue_us(&d), 60000);
}

/* A request of 300 bytes, then full segments of 1448. */
static void small_segments_do_not_count_beside_full_ones(void **state)
{
	uint32_t small = 0;

	(void)state;
	assert_false(imtcp_delay_counts(&small, 300, 1, 1448));
	assert_true(imtcp_delay_counts(&small, 2896, 2, 1448));
	assert_int_equal(small, 0);
	assert_false(imtcp_delay_counts(&small, 2895, 2, 1448));
	assert_int_equal(small, 2);
}

static void where_there_are_only_small_segments_they_count(void **state)
{
	uint32_t small = 0, i;

	(void)state;
	for (i = 0; i < IMTCP_SMALL_SEGS_MOST; i++)
		assert_false(imtcp_delay_counts(&small, 300, 1, 1448));
	assert_true(imtcp_delay_counts(&small, 300, 1, 1448));
	/* The count does not wrap. */
	small = UINT32_MAX;
	assert_true(imtcp_delay_counts(&small, 300, 1, 1448));
}

SUITE(delay, T(the_delay_is_that_of_the_way_forward), T(a_queue_on_the_way_back_is_not_in_it),
      T(a_timestamp_that_wraps_is_one_tick_later), T(the_tick_of_the_peer_is_found),
      T(a_clock_that_is_none_is_not_believed), T(the_base_delay_is_forgotten_after_ten_minutes),
      T(one_slow_packet_in_four_is_no_queue), T(small_segments_do_not_count_beside_full_ones),
      T(where_there_are_only_small_segments_they_count))
