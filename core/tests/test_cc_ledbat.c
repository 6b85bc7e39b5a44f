// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* RFC 6817 §2.4.2, worked by hand. */
#include "test.h"
#include "begin.h"

#define NOW 9000000ULL
#define NO_LIMIT IMTCP_U32_MAX

/* The base delay is 20 ms, and the present delay queue_us more. The window is past slow start. */
static void start_with(const struct imtcp_params *p, struct imtcp_ledbat *l, struct imtcp_window *w,
		       uint32_t cwnd, uint32_t queue_us)
{
	int i;

	begin_ledbat(l, p);
	memset(w, 0, sizeof(*w));
	w->cwnd_segs = cwnd;
	w->ssthresh_segs = 2;
	imtcp_ledbat_on_delay(l, NOW, 20000, 0, 0);
	for (i = 0; i < 4; i++)
		imtcp_ledbat_on_delay(l, NOW, 20000 + queue_us, 0, 0);
}

static void start(struct imtcp_ledbat *l, struct imtcp_window *w, uint32_t cwnd, uint32_t queue_us)
{
	start_with(defaults(), l, w, cwnd, queue_us);
}

/* ACKs for one window, two segments each. */
static void round_trip(struct imtcp_ledbat *l, struct imtcp_window *w)
{
	uint32_t acks = w->cwnd_segs / 2, i;

	for (i = 0; i < acks; i++)
		imtcp_ledbat_on_ack(l, w, 2, w->cwnd_segs, 1, NO_LIMIT);
}

static void on_an_empty_path_the_window_grows_by_a_segment_in_a_round_trip(void **state)
{
	struct imtcp_ledbat l;
	struct imtcp_window w;

	(void)state;
	start(&l, &w, 40, 0);
	round_trip(&l, &w);
	/* acked/cwnd sums to 1 over a window, less the effect of its growth */
	assert_in_range(w.cwnd_segs * 65536ULL + l.fraction_q16, 40 * 65536 + 64000, 41 * 65536);
}

static void half_way_to_the_target_it_grows_half_as_fast(void **state)
{
	struct imtcp_ledbat l;
	struct imtcp_window w;

	(void)state;
	start(&l, &w, 40, 50000);
	round_trip(&l, &w);
	assert_in_range(l.fraction_q16, 32000, 32768);
	assert_int_equal(w.cwnd_segs, 40);
}

static void at_the_target_it_stays(void **state)
{
	struct imtcp_ledbat l;
	struct imtcp_window w;

	(void)state;
	start(&l, &w, 40, IMTCP_LEDBAT_TARGET_US);
	round_trip(&l, &w);
	assert_int_equal(w.cwnd_segs, 40);
	assert_int_equal(l.fraction_q16, 0);
}

/*
 * A queue of 50 ms:
 *
 * ── TARGET ── off_target ──
 * 100 ms       1/2
 * 50 ms        0
 * 25 ms        -1
 */
static void a_smaller_target_holds_and_shrinks_the_window_at_shorter_queues(void **state)
{
	struct imtcp_params p = *defaults();
	struct imtcp_ledbat l;
	struct imtcp_window w;

	(void)state;
	p.ledbat_target_us = 50000;
	start_with(&p, &l, &w, 40, 50000);
	round_trip(&l, &w);
	assert_int_equal(w.cwnd_segs, 40);
	assert_int_equal(l.fraction_q16, 0);
	w.ssthresh_segs = 1000; /* nor by slow start */
	imtcp_ledbat_on_ack(&l, &w, 10, 40, 1, NO_LIMIT);
	assert_int_equal(w.cwnd_segs, 40);
	assert_false(imtcp_in_slow_start(&w));
	p.ledbat_target_us = 25000;
	start_with(&p, &l, &w, 40, 50000);
	round_trip(&l, &w);
	assert_in_range(w.cwnd_segs * 65536ULL + l.fraction_q16, 39 * 65536 - 2000, 39 * 65536);
}

/* GAIN 1/4: a round trip adds a quarter of a segment on an empty path. */
static void the_gain_weighs_growth_and_decrease_alike(void **state)
{
	struct imtcp_params p = *defaults();
	struct imtcp_ledbat l;
	struct imtcp_window w;

	(void)state;
	p.ledbat_gain_q8 = 256 / 4;
	start_with(&p, &l, &w, 40, 0);
	round_trip(&l, &w);
	assert_int_equal(w.cwnd_segs, 40);
	assert_in_range(l.fraction_q16, 16000, 16384);
	start_with(&p, &l, &w, 40, 300000);
	round_trip(&l, &w);
	assert_int_equal(w.cwnd_segs, 39);
	/* 1/2, and a little more, because acked/cwnd is 2/39 from the second ACK on */
	assert_in_range(l.fraction_q16, 31900, 32768);
}

/* off_target = (100 - 300)/100 = -2: a round trip takes two segments. */
static void above_the_target_it_shrinks_in_proportion(void **state)
{
	struct imtcp_ledbat l;
	struct imtcp_window w;

	(void)state;
	start(&l, &w, 40, 300000);
	round_trip(&l, &w);
	assert_in_range(w.cwnd_segs * 65536ULL + l.fraction_q16, 38 * 65536 - 6000, 38 * 65536);
}

static void the_window_has_a_floor_of_two(void **state)
{
	struct imtcp_ledbat l;
	struct imtcp_window w;
	int i;

	(void)state;
	start(&l, &w, 8, 4000000);
	for (i = 0; i < 20; i++)
		imtcp_ledbat_on_ack(&l, &w, 8, 8, 1, NO_LIMIT);
	assert_int_equal(w.cwnd_segs, IMTCP_LEDBAT_LEAST_SEGS);
}

static void it_grows_to_one_more_than_is_in_flight(void **state)
{
	struct imtcp_ledbat l;
	struct imtcp_window w;
	int i;

	(void)state;
	start(&l, &w, 10, 0);
	for (i = 0; i < 100; i++)
		imtcp_ledbat_on_ack(&l, &w, 10, 11, 1, NO_LIMIT);
	assert_int_equal(w.cwnd_segs, 12);
	for (i = 0; i < 100; i++)
		imtcp_ledbat_on_ack(&l, &w, 10, 40, 0, NO_LIMIT); /* not full: does not matter */
	assert_int_equal(w.cwnd_segs, 12);
}

static void slow_start_ends_at_the_target(void **state)
{
	struct imtcp_ledbat l;
	struct imtcp_window w;

	(void)state;
	start(&l, &w, 10, 50000);
	w.ssthresh_segs = 1000;
	imtcp_ledbat_on_ack(&l, &w, 10, 10, 1, NO_LIMIT);
	assert_int_equal(w.cwnd_segs, 20);
	start(&l, &w, 10, 100000);
	w.ssthresh_segs = 1000;
	imtcp_ledbat_on_ack(&l, &w, 10, 10, 1, NO_LIMIT);
	assert_int_equal(w.cwnd_segs, 10);
	assert_false(imtcp_in_slow_start(&w));
}

/* The latecomer takes the queue of earlier flows as part of its base delay. */
static void who_starts_on_a_full_queue_takes_it_for_the_path(void **state)
{
	struct imtcp_ledbat l;
	struct imtcp_window w;

	(void)state;
	begin_ledbat(&l, defaults());
	memset(&w, 0, sizeof(w));
	w.cwnd_segs = 40;
	w.ssthresh_segs = 2;
	imtcp_ledbat_on_delay(&l, NOW, 120000, 0, 0); /* 20 ms of path and 100 ms of queue */
	assert_int_equal(imtcp_delays_queue_us(&l.delays), 0);
	round_trip(&l, &w);
	assert_true(l.fraction_q16 > 60000);
}

static void timestamps_that_appear_begin_a_history_of_their_own(void **state)
{
	struct imtcp_ledbat l;
	struct imtcp_window w;

	(void)state;
	start(&l, &w, 40, 50000);
	assert_int_equal(l.one_way, 0);
	imtcp_ledbat_on_delay(&l, NOW, 70000, 1234, 1);
	assert_int_equal(l.one_way, 1);
	assert_int_equal(imtcp_delays_queue_us(&l.delays), 0);
}

SUITE(cc_ledbat, T(on_an_empty_path_the_window_grows_by_a_segment_in_a_round_trip),
      T(half_way_to_the_target_it_grows_half_as_fast), T(at_the_target_it_stays),
      T(a_smaller_target_holds_and_shrinks_the_window_at_shorter_queues),
      T(the_gain_weighs_growth_and_decrease_alike), T(above_the_target_it_shrinks_in_proportion),
      T(the_window_has_a_floor_of_two), T(it_grows_to_one_more_than_is_in_flight),
      T(slow_start_ends_at_the_target), T(who_starts_on_a_full_queue_takes_it_for_the_path),
      T(timestamps_that_appear_begin_a_history_of_their_own))
