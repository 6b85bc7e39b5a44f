// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* draft-irtf-iccrg-ledbat-plus-plus §4, worked by hand. */
#include "test.h"
#include "begin.h"

#define NOW 9000000ULL
#define RTT 30000U
#define NO_LIMIT IMTCP_U32_MAX

/* The steady phase with a base RTT of 30 ms and the present RTT queue_us more. No slowdown is
 * due. */
static void start_with(const struct imtcp_params *p, struct imtcp_ledbatpp *l,
		       struct imtcp_window *w, uint32_t cwnd, uint32_t queue_us)
{
	int i;

	begin_ledbatpp(l, p);
	memset(w, 0, sizeof(*w));
	w->cwnd_segs = cwnd;
	w->ssthresh_segs = 2;
	l->phase = IMTCP_LEDBATPP_STEADY;
	l->due_us = NOW + 3600 * IMTCP_USEC_PER_SEC;
	imtcp_ledbatpp_on_delay(l, NOW, RTT);
	for (i = 0; i < 4; i++)
		imtcp_ledbatpp_on_delay(l, NOW, RTT + queue_us);
}

static void start(struct imtcp_ledbatpp *l, struct imtcp_window *w, uint32_t cwnd,
		  uint32_t queue_us)
{
	start_with(defaults(), l, w, cwnd, queue_us);
}

static void ack(struct imtcp_ledbatpp *l, struct imtcp_window *w, uint64_t now_us, uint32_t segs)
{
	imtcp_ledbatpp_on_ack(l, w, now_us, RTT, segs, 1, NO_LIMIT);
}

/*
 * GAIN = 1/min(16, ceil(120/base)):
 *
 * ── base ─────── GAIN ──
 * below 8 ms     1/16
 * 30 ms          1/4
 * 100 ms         1/2
 * from 120 ms    1
 */
static void the_gain_is_small_on_short_paths(void **state)
{
	(void)state;
	assert_int_equal(imtcp_ledbatpp_divisor(60000, 1000), 16);
	assert_int_equal(imtcp_ledbatpp_divisor(60000, 7500), 16);
	assert_int_equal(imtcp_ledbatpp_divisor(60000, 30000), 4);
	assert_int_equal(imtcp_ledbatpp_divisor(60000, 100000), 2);
	assert_int_equal(imtcp_ledbatpp_divisor(60000, 120000), 1);
	assert_int_equal(imtcp_ledbatpp_divisor(60000, 900000), 1);
	assert_int_equal(imtcp_ledbatpp_divisor(60000, 0), 16);
	/* ceil(2·20/30) = 2: a smaller target gives a larger GAIN */
	assert_int_equal(imtcp_ledbatpp_divisor(20000, 30000), 2);
}

static void below_the_target_a_round_trip_adds_the_gain(void **state)
{
	struct imtcp_ledbatpp l;
	struct imtcp_window w;

	(void)state;
	start(&l, &w, 40, 59000); /* just below TARGET: additive, not proportional */
	ack(&l, &w, NOW, 40);
	assert_int_equal(w.cwnd_segs, 40);
	assert_int_equal(l.fraction_q16, 65536 / 4);
}

/* A queue of 90 ms is 3/2 of TARGET: W += 1/4 - 40/2 = -19.75. */
static void above_the_target_it_decreases_with_the_window(void **state)
{
	struct imtcp_ledbatpp l;
	struct imtcp_window w;

	(void)state;
	start(&l, &w, 40, 90000);
	ack(&l, &w, NOW, 40);
	assert_int_equal(w.cwnd_segs, 20);
	assert_int_equal(l.fraction_q16, 65536 / 4);
}

/* TARGET 40 ms gives GAIN 1/3. A queue of 50 ms is 5/4 of it: W += 1/3 - 40/4 = -9.67. With a
 * TARGET of 60 ms it would grow. */
static void a_smaller_target_shrinks_the_window_at_shorter_queues(void **state)
{
	struct imtcp_params p = *defaults();
	struct imtcp_ledbatpp l;
	struct imtcp_window w;

	(void)state;
	p.ledbatpp_target_us = 40000;
	start_with(&p, &l, &w, 40, 50000);
	ack(&l, &w, NOW, 40);
	assert_int_equal(w.cwnd_segs, 30);
	assert_int_equal(l.fraction_q16, 65536 / 3);
	/* slow start ends at 3/4 of TARGET */
	start_with(&p, &l, &w, 40, 30001);
	l.phase = IMTCP_LEDBATPP_START;
	w.ssthresh_segs = 1000;
	ack(&l, &w, NOW, 40);
	assert_int_equal(l.phase, IMTCP_LEDBATPP_STEADY);
}

static void no_round_trip_takes_more_than_half(void **state)
{
	struct imtcp_ledbatpp l;
	struct imtcp_window w;

	(void)state;
	start(&l, &w, 40, 600000);
	ack(&l, &w, NOW, 40);
	assert_int_equal(w.cwnd_segs, 20);
	assert_int_equal(l.fraction_q16, 0);
}

static void slow_start_ends_at_three_quarters_of_the_target_and_grows_by_the_gain(void **state)
{
	struct imtcp_ledbatpp l;
	struct imtcp_window w;

	(void)state;
	start(&l, &w, 40, 45000);
	l.phase = IMTCP_LEDBATPP_START;
	w.ssthresh_segs = 1000;
	ack(&l, &w, NOW, 40);
	assert_int_equal(w.cwnd_segs, 50); /* 40 + 40/4 */
	start(&l, &w, 40, 45001);
	l.phase = IMTCP_LEDBATPP_START;
	w.ssthresh_segs = 1000;
	ack(&l, &w, NOW, 40);
	assert_int_equal(w.cwnd_segs, 40);
	assert_int_equal(l.phase, IMTCP_LEDBATPP_STEADY);
	assert_int_equal(l.due_us, NOW + 2 * RTT);
}

/* A slowdown takes W to two for two round trips, and back up. The next follows after 9 times its
 * length. */
static void a_slowdown_shows_the_path_and_costs_a_tenth(void **state)
{
	struct imtcp_ledbatpp l;
	struct imtcp_window w;
	uint64_t now = NOW;

	(void)state;
	start(&l, &w, 40, 10000);
	l.due_us = NOW;
	ack(&l, &w, now, 2);
	assert_int_equal(l.phase, IMTCP_LEDBATPP_FROZEN);
	assert_int_equal(w.cwnd_segs, 2);
	assert_int_equal(w.ssthresh_segs, 40);
	ack(&l, &w, now + 2 * RTT - 1, 2);
	assert_int_equal(w.cwnd_segs, 2);
	now += 2 * RTT;
	while (l.phase != IMTCP_LEDBATPP_STEADY) {
		ack(&l, &w, now, w.cwnd_segs);
		assert_at_most(w.cwnd_segs, 40);
		now += RTT;
		assert_at_most(now, NOW + 100 * RTT);
	}
	now -= RTT;
	assert_int_equal(w.cwnd_segs, 40);
	assert_int_equal(l.due_us - now, 9 * (now - NOW));
	assert_int_equal(l.slowdowns, 1);
}

static void after_a_timeout_it_starts_slowly_again(void **state)
{
	struct imtcp_ledbatpp l;
	struct imtcp_window w;

	(void)state;
	start(&l, &w, 1, 0);
	w.ssthresh_segs = 20;
	ack(&l, &w, NOW, 1);
	assert_int_equal(w.cwnd_segs, 2); /* the floor */
	ack(&l, &w, NOW, 2);
	ack(&l, &w, NOW, 2);
	assert_int_equal(w.cwnd_segs, 3); /* 2 + 2/4 + 2/4 */
}

SUITE(cc_ledbatpp, T(the_gain_is_small_on_short_paths),
      T(below_the_target_a_round_trip_adds_the_gain),
      T(above_the_target_it_decreases_with_the_window),
      T(a_smaller_target_shrinks_the_window_at_shorter_queues),
      T(no_round_trip_takes_more_than_half),
      T(slow_start_ends_at_three_quarters_of_the_target_and_grows_by_the_gain),
      T(a_slowdown_shows_the_path_and_costs_a_tenth), T(after_a_timeout_it_starts_slowly_again))
