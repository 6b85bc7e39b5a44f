// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* RFC 5681 §3.1, worked by hand. */
#include "test.h"

#define NO_LIMIT IMTCP_U32_MAX

static struct imtcp_window window(uint32_t cwnd, uint32_t ssthresh)
{
	struct imtcp_window w = {cwnd, ssthresh, 0, 0};

	return w;
}

static void slow_start_doubles_the_window_in_a_round_trip(void **state)
{
	struct imtcp_window w = window(10, 1000);
	int i;

	(void)state;
	for (i = 0; i < 10; i++)
		imtcp_reno_grow(&w, 1, NO_LIMIT);
	assert_int_equal(w.cwnd_segs, 20);
	for (i = 0; i < 10; i++)
		imtcp_reno_grow(&w, 2, NO_LIMIT); /* delayed ACKs: the bytes count */
	assert_int_equal(w.cwnd_segs, 40);
	assert_true(imtcp_in_slow_start(&w));
}

static void congestion_avoidance_adds_one_segment_in_a_round_trip(void **state)
{
	struct imtcp_window w = window(10, 10);
	int i;

	(void)state;
	for (i = 0; i < 9; i++)
		imtcp_reno_grow(&w, 1, NO_LIMIT);
	assert_int_equal(w.cwnd_segs, 10);
	imtcp_reno_grow(&w, 1, NO_LIMIT);
	assert_int_equal(w.cwnd_segs, 11);
	for (i = 0; i < 11; i++)
		imtcp_reno_grow(&w, 1, NO_LIMIT);
	assert_int_equal(w.cwnd_segs, 12);
	assert_int_equal(w.credit_segs, 0);
}

static void what_an_ack_acknowledges_beyond_ssthresh_counts_in_congestion_avoidance(void **state)
{
	struct imtcp_window w = window(8, 10);

	(void)state;
	imtcp_reno_grow(&w, 7, NO_LIMIT); /* 2 reach ssthresh, and 5 of 10 are credit */
	assert_int_equal(w.cwnd_segs, 10);
	assert_int_equal(w.credit_segs, 5);
	imtcp_reno_grow(&w, 5, NO_LIMIT);
	assert_int_equal(w.cwnd_segs, 11);
}

static void a_stretch_ack_of_many_windows_adds_one_segment(void **state)
{
	struct imtcp_window w = window(4, 2);

	(void)state;
	imtcp_reno_grow(&w, 1000, NO_LIMIT);
	assert_int_equal(w.cwnd_segs, 5);
	assert_at_most(w.credit_segs, 4);
	imtcp_reno_grow(&w, 0, NO_LIMIT);
	assert_int_equal(w.cwnd_segs, 5);
}

static void the_limit_bounds_the_window(void **state)
{
	struct imtcp_window w = window(10, 1000);

	(void)state;
	imtcp_reno_grow(&w, 50, 32);
	assert_int_equal(w.cwnd_segs, 32);
	imtcp_reno_grow(&w, 50, 8);
	assert_int_equal(w.cwnd_segs, 8);
}

static void a_loss_halves_the_window_to_two_segments_at_least(void **state)
{
	(void)state;
	assert_int_equal(imtcp_reno_ssthresh(100), 50);
	assert_int_equal(imtcp_reno_ssthresh(11), 5);
	assert_int_equal(imtcp_reno_ssthresh(3), IMTCP_RENO_LEAST_SEGS);
	assert_int_equal(imtcp_reno_ssthresh(0), IMTCP_RENO_LEAST_SEGS);
	assert_int_equal(IMTCP_RENO_LEAST_SEGS, 2); /* RFC 5681 eq. 4 */
}

SUITE(cc_reno, T(slow_start_doubles_the_window_in_a_round_trip),
      T(congestion_avoidance_adds_one_segment_in_a_round_trip),
      T(what_an_ack_acknowledges_beyond_ssthresh_counts_in_congestion_avoidance),
      T(a_stretch_ack_of_many_windows_adds_one_segment), T(the_limit_bounds_the_window),
      T(a_loss_halves_the_window_to_two_segments_at_least))
