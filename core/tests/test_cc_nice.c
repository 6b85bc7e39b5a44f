// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* [NICE §3] by hand. */
#include "test.h"
#include "begin.h"

#define NO_LIMIT IMTCP_U32_MAX

/* RTTs between 30 and 130 ms were seen: a packet is late above 40 ms. */
static void start_with(const struct imtcp_params *p, struct imtcp_nice *n, struct imtcp_window *w,
		       uint32_t cwnd)
{
	begin_nice(n, p);
	memset(w, 0, sizeof(*w));
	w->cwnd_segs = cwnd;
	w->ssthresh_segs = 2;
	n->min_rtt_us = 30000;
	n->max_rtt_us = 130000;
}

static void start(struct imtcp_nice *n, struct imtcp_window *w, uint32_t cwnd)
{
	start_with(defaults(), n, w, cwnd);
}

static void a_packet_is_late_above_a_tenth_of_the_range(void **state)
{
	struct imtcp_window w;
	struct imtcp_nice n;

	(void)state;
	start(&n, &w, 40);
	imtcp_nice_on_ack(&n, 40000, 2);
	assert_int_equal(n.late_segs, 0);
	imtcp_nice_on_ack(&n, 40001, 3);
	assert_int_equal(n.late_segs, 3);
	assert_int_equal(n.round_segs, 5);
	imtcp_nice_on_ack(&n, 25001, 1);
	assert_int_equal(n.min_rtt_us, 25001);
}

/* Retransmissions are timed in ticks of a millisecond, cut off. */
static void a_sample_of_whole_milliseconds_makes_no_shorter_least_round_trip(void **state)
{
	struct imtcp_window w;
	struct imtcp_nice n;

	(void)state;
	start(&n, &w, 66);
	n.min_rtt_us = 0;
	imtcp_nice_on_ack(&n, 30000, 1); /* better than none */
	assert_int_equal(n.min_rtt_us, 31000);
	assert_int_equal(n.late_segs, 0);
	imtcp_nice_on_ack(&n, 30268, 1);
	assert_int_equal(n.min_rtt_us, 30268);
	imtcp_nice_on_ack(&n, 30000, 1);
	assert_int_equal(n.min_rtt_us, 30268);
	/* 66 * 246 / 30514 of a packet waits: below alpha */
	imtcp_nice_on_round(&n, &w, 30514, 1, NO_LIMIT);
	assert_int_equal(w.cwnd_segs, 67);
}

/* 15 % of the range is 45 ms, 20 % is 50 ms. */
static void with_a_threshold_of_a_fifth_a_packet_at_15_percent_is_not_late(void **state)
{
	struct imtcp_params p = *defaults();
	struct imtcp_window w;
	struct imtcp_nice n;

	(void)state;
	p.nice_t_pct = 20;
	start_with(&p, &n, &w, 40);
	imtcp_nice_on_ack(&n, 45000, 2);
	imtcp_nice_on_ack(&n, 50000, 2);
	assert_int_equal(n.late_segs, 0);
	imtcp_nice_on_ack(&n, 50001, 3);
	assert_int_equal(n.late_segs, 3);
}

/* A tenth of 3 ms is what hosts add by themselves. */
static void on_an_idle_path_whose_round_trips_only_tremble_no_packet_is_late(void **state)
{
	struct imtcp_window w;
	struct imtcp_nice n;

	(void)state;
	start(&n, &w, 40);
	n.max_rtt_us = n.min_rtt_us + 10 * IMTCP_HOST_NOISE_US - 1;
	imtcp_nice_on_ack(&n, n.max_rtt_us, 2);
	assert_int_equal(n.late_segs, 0);
	n.max_rtt_us++;
	imtcp_nice_on_ack(&n, n.max_rtt_us, 2);
	assert_int_equal(n.late_segs, 2);
}

static void more_than_half_of_a_round_late_halves_the_window(void **state)
{
	struct imtcp_window w;
	struct imtcp_nice n;

	(void)state;
	start(&n, &w, 40);
	imtcp_nice_on_ack(&n, 50000, 20);
	imtcp_nice_on_ack(&n, 35000, 20); /* half of them: not more than f */
	assert_false(imtcp_nice_on_round(&n, &w, 30000, 1, NO_LIMIT));
	assert_int_equal(w.cwnd_segs, 41); /* Vegas: nothing queued, +1 */
	imtcp_nice_on_ack(&n, 50000, 21);
	imtcp_nice_on_ack(&n, 35000, 20);
	assert_true(imtcp_nice_on_round(&n, &w, 35000, 1, NO_LIMIT));
	assert_int_equal(w.cwnd_segs, 20);
	assert_int_equal(n.halvings, 1);
	/* counted for that round alone */
	assert_false(imtcp_nice_on_round(&n, &w, 0, 1, NO_LIMIT));
	assert_int_equal(w.cwnd_segs, 20);
}

static void a_smaller_share_of_late_packets_halves_where_it_was_chosen(void **state)
{
	struct imtcp_params p = *defaults();
	struct imtcp_window w;
	struct imtcp_nice n;

	(void)state;
	p.nice_f_pct = 20;
	start_with(&p, &n, &w, 40);
	imtcp_nice_on_ack(&n, 50000, 8);
	imtcp_nice_on_ack(&n, 35000, 32); /* a fifth: not more than f */
	assert_false(imtcp_nice_on_round(&n, &w, 30000, 1, NO_LIMIT));
	imtcp_nice_on_ack(&n, 50000, 9);
	imtcp_nice_on_ack(&n, 35000, 32);
	assert_true(imtcp_nice_on_round(&n, &w, 30000, 1, NO_LIMIT));
}

static void below_one_packet_the_round_trips_between_double_up_to_48(void **state)
{
	static const uint32_t rtts[] = {1, 2, 4, 8, 16, 32, 48, 48};
	struct imtcp_window w;
	struct imtcp_nice n;
	size_t i;

	(void)state;
	start(&n, &w, 2);
	for (i = 0; i < sizeof(rtts) / sizeof(rtts[0]); i++) {
		w.cwnd_segs = 2; /* the stack's, while ours is below */
		imtcp_nice_on_ack(&n, 50000, 2);
		assert_true(imtcp_nice_on_round(&n, &w, 50000, 1, NO_LIMIT));
		assert_int_equal(imtcp_nice_rtts_per_segment(&n), rtts[i]);
		imtcp_nice_grow(&n, &w, 2, NO_LIMIT);
		assert_int_equal(w.cwnd_segs, 1);
	}
	/* a calm round: one packet in a round trip, then two, then three */
	imtcp_nice_on_ack(&n, 31000, 2);
	imtcp_nice_on_round(&n, &w, 31000, 1, NO_LIMIT);
	assert_int_equal(imtcp_nice_rtts_per_segment(&n), 1);
	imtcp_nice_on_ack(&n, 31000, 2);
	imtcp_nice_on_round(&n, &w, 31000, 1, NO_LIMIT);
	assert_int_equal(imtcp_nice_rtts_per_segment(&n), 0);
	assert_int_equal(w.cwnd_segs, 2);
	imtcp_nice_on_ack(&n, 31000, 2);
	imtcp_nice_on_round(&n, &w, 31000, 1, NO_LIMIT);
	assert_int_equal(w.cwnd_segs, 3);
}

/* cwnd 40, minRTT 30 ms: at 31 ms diff is 40·1/31 = 1.3 packets, at 32.3 ms 2.8, at 33 ms 3.6, at 34 ms 4.7. */
static void vegas_keeps_one_to_three_packets_in_the_queue(void **state)
{
	struct imtcp_window w;
	struct imtcp_nice n;

	(void)state;
	assert_int_equal(imtcp_nice_queued_q8(40, 30000, 31000), 330);
	assert_int_equal(imtcp_nice_queued_q8(40, 30000, 34000), 1204);
	start(&n, &w, 40);
	imtcp_nice_on_round(&n, &w, 30500, 1, NO_LIMIT); /* 0.7 */
	assert_int_equal(w.cwnd_segs, 41);
	imtcp_nice_on_round(&n, &w, 31000, 1, NO_LIMIT);
	assert_int_equal(w.cwnd_segs, 41);
	imtcp_nice_on_round(&n, &w, 32300, 1, NO_LIMIT);
	assert_int_equal(w.cwnd_segs, 41);
	imtcp_nice_on_round(&n, &w, 33000, 1, NO_LIMIT);
	assert_int_equal(w.cwnd_segs, 40);
}

static void a_window_that_is_not_full_does_not_grow(void **state)
{
	struct imtcp_window w;
	struct imtcp_nice n;

	(void)state;
	start(&n, &w, 40);
	imtcp_nice_on_round(&n, &w, 30000, 0, NO_LIMIT);
	assert_int_equal(w.cwnd_segs, 40);
	imtcp_nice_on_round(&n, &w, 30000, 1, 40);
	assert_int_equal(w.cwnd_segs, 40);
}

static void slow_start_ends_at_the_first_packet_in_the_queue(void **state)
{
	struct imtcp_window w = {10, 1000, 0, 0};
	struct imtcp_nice n;

	(void)state;
	begin_nice(&n, defaults());
	imtcp_nice_on_ack(&n, 29999, 1);
	imtcp_nice_grow(&n, &w, 10, NO_LIMIT);
	assert_int_equal(w.cwnd_segs, 20);
	imtcp_nice_on_round(&n, &w, 30000, 1, NO_LIMIT);
	assert_true(imtcp_in_slow_start(&w));
	imtcp_nice_on_round(&n, &w, 34000, 1, NO_LIMIT); /* 20·4/34 = 2.4 packets */
	assert_false(imtcp_in_slow_start(&w));
	imtcp_nice_grow(&n, &w, 20, NO_LIMIT);
	assert_int_equal(w.cwnd_segs, 20);
}

SUITE(cc_nice, T(a_packet_is_late_above_a_tenth_of_the_range),
      T(a_sample_of_whole_milliseconds_makes_no_shorter_least_round_trip),
      T(with_a_threshold_of_a_fifth_a_packet_at_15_percent_is_not_late),
      T(on_an_idle_path_whose_round_trips_only_tremble_no_packet_is_late),
      T(more_than_half_of_a_round_late_halves_the_window),
      T(a_smaller_share_of_late_packets_halves_where_it_was_chosen),
      T(below_one_packet_the_round_trips_between_double_up_to_48),
      T(vegas_keeps_one_to_three_packets_in_the_queue), T(a_window_that_is_not_full_does_not_grow),
      T(slow_start_ends_at_the_first_packet_in_the_queue))
