// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* [LP §III], worked by hand: equations 1 and 2, and the state machine. */
#include "test.h"
#include "begin.h"

#define NOW 9000000ULL
#define RTT 30000U
#define NO_LIMIT IMTCP_U32_MAX

/* A flow that lost a packet, and saw RTTs between 30 and 130 ms. d_max - d_min is 100 ms, so (2)
 * holds above 45 ms. */
static void start_with(const struct imtcp_params *p, struct imtcp_lp *lp, struct imtcp_window *w,
		       uint32_t cwnd)
{
	memset(w, 0, sizeof(*w));
	w->cwnd_segs = cwnd;
	w->ssthresh_segs = cwnd;
	begin_lp(lp, p, w);
	imtcp_lp_delay_on_sample(&lp->rtt, NOW, 30000);
	imtcp_lp_delay_on_sample(&lp->rtt, NOW, 130000);
	lp->rtt.smoothed_us = 30000;
	imtcp_lp_on_loss(lp, NOW - 2 * RTT);
}

static void start(struct imtcp_lp *lp, struct imtcp_window *w, uint32_t cwnd)
{
	start_with(defaults(), lp, w, cwnd);
}

static void delays_are_smoothed_by_an_eighth(void **state)
{
	struct imtcp_lp_delay f;

	(void)state;
	memset(&f, 0, sizeof(f));
	imtcp_lp_delay_on_sample(&f, NOW, 80000);
	assert_int_equal(f.smoothed_us, 80000);
	imtcp_lp_delay_on_sample(&f, NOW, 160000);
	assert_int_equal(f.smoothed_us, 90000); /* 7/8·80 + 1/8·160 */
	assert_int_equal(imtcp_lp_least_us(&f), 80000);
	assert_int_equal(f.most_us[0], 160000);
	assert_int_equal(imtcp_lp_margin_us(&f, 15), 12000); /* 0.15·80 ms */
}

static void an_early_indication_is_a_delay_above_the_threshold(void **state)
{
	struct imtcp_window w;
	struct imtcp_lp lp;

	(void)state;
	start(&lp, &w, 40);
	lp.rtt.smoothed_us = 45000; /* 30 + 0.15·100 ms: not above */
	assert_false(imtcp_lp_early(&lp.rtt, 15, 0));
	lp.rtt.smoothed_us = 45001;
	assert_true(imtcp_lp_early(&lp.rtt, 15, 0));
	assert_true(imtcp_lp_early(&lp.rtt, 15, 15000));
	assert_false(imtcp_lp_early(&lp.rtt, 15, 15001)); /* the range may be noise */
}

/* The same delays: a delta of 0.15 indicates above 45 ms, one of 0.3 above 60 ms. */
static void a_larger_delta_indicates_later(void **state)
{
	struct imtcp_params p = *defaults();
	struct imtcp_window w;
	struct imtcp_lp lp;

	(void)state;
	start(&lp, &w, 40);
	lp.rtt.smoothed_us = 60000;
	assert_true(imtcp_lp_on_delay(&lp, NOW, 60000, 0, 0));
	p.lp_delta_pct = 30;
	start_with(&p, &lp, &w, 40);
	lp.rtt.smoothed_us = 60000;
	assert_false(imtcp_lp_on_delay(&lp, NOW, 60000, 0, 0));
	lp.rtt.smoothed_us = 60008;
	assert_true(imtcp_lp_on_delay(&lp, NOW, 60008, 0, 0));
}

static void the_first_indication_halves_and_stops_growth_for_three_round_trips(void **state)
{
	struct imtcp_window w;
	struct imtcp_lp lp;

	(void)state;
	start(&lp, &w, 40);
	assert_true(imtcp_lp_on_early(&lp, &w, NOW, RTT));
	assert_int_equal(w.cwnd_segs, 20);
	assert_int_equal(lp.halvings, 1);
	imtcp_lp_grow(&lp, &w, NOW + 3 * RTT - 1, 1000, NO_LIMIT);
	assert_int_equal(w.cwnd_segs, 20);
	/* Afterwards a window adds one segment: additive increase, no slow start. */
	imtcp_lp_grow(&lp, &w, NOW + 3 * RTT, 20, NO_LIMIT);
	assert_int_equal(w.cwnd_segs, 21);
}

static void a_second_indication_within_itt_leaves_one_packet(void **state)
{
	struct imtcp_window w;
	struct imtcp_lp lp;

	(void)state;
	start(&lp, &w, 40);
	imtcp_lp_on_early(&lp, &w, NOW, RTT);
	assert_true(imtcp_lp_on_early(&lp, &w, NOW + RTT, RTT));
	assert_int_equal(w.cwnd_segs, 1);
	assert_int_equal(lp.retreats, 1);
	assert_int_equal(imtcp_lp_rtts_per_segment(&lp), 1);
	/* The second indication begins itt anew. */
	assert_true(imtcp_lp_in_inference(&lp, NOW + 4 * RTT - 1));
	assert_false(imtcp_lp_in_inference(&lp, NOW + 4 * RTT));
	imtcp_lp_grow(&lp, &w, NOW + 4 * RTT - 1, 1, NO_LIMIT);
	assert_int_equal(imtcp_lp_rtts_per_segment(&lp), 1);
	imtcp_lp_grow(&lp, &w, NOW + 4 * RTT, 1, NO_LIMIT);
	assert_int_equal(imtcp_lp_rtts_per_segment(&lp), 0);
	assert_int_equal(w.cwnd_segs, 2);
}

static void itt_is_as_long_as_was_chosen(void **state)
{
	struct imtcp_params p = *defaults();
	struct imtcp_window w;
	struct imtcp_lp lp;

	(void)state;
	p.lp_itt_rtts = 5;
	start_with(&p, &lp, &w, 40);
	imtcp_lp_on_early(&lp, &w, NOW, RTT);
	imtcp_lp_grow(&lp, &w, NOW + 5 * RTT - 1, 1000, NO_LIMIT);
	assert_int_equal(w.cwnd_segs, 20);
	assert_true(imtcp_lp_on_early(&lp, &w, NOW + 5 * RTT - 1, RTT));
	assert_int_equal(w.cwnd_segs, 1);
	/* So does a router's mark. */
	start_with(&p, &lp, &w, 40);
	imtcp_lp_on_mark(&lp, 40, NOW, RTT);
	assert_int_equal(imtcp_lp_reduced_segs(&lp, 20, NOW + 5 * RTT - 1), 1);
	assert_int_equal(imtcp_lp_reduced_segs(&lp, 20, NOW + 5 * RTT), 10);
}

static void an_indication_after_itt_is_a_first_one_again(void **state)
{
	struct imtcp_window w;
	struct imtcp_lp lp;

	(void)state;
	start(&lp, &w, 40);
	imtcp_lp_on_early(&lp, &w, NOW, RTT);
	assert_true(imtcp_lp_on_early(&lp, &w, NOW + 3 * RTT, RTT));
	assert_int_equal(w.cwnd_segs, 10);
	assert_int_equal(lp.halvings, 2);
	assert_int_equal(lp.retreats, 0);
}

static void there_is_one_reaction_in_a_round_trip_and_losses_count(void **state)
{
	struct imtcp_window w;
	struct imtcp_lp lp;

	(void)state;
	start(&lp, &w, 40);
	imtcp_lp_on_early(&lp, &w, NOW, RTT);
	assert_false(imtcp_lp_on_early(&lp, &w, NOW + RTT - 1, RTT));
	assert_int_equal(w.cwnd_segs, 20);
	start(&lp, &w, 40);
	imtcp_lp_on_loss(&lp, NOW);
	assert_false(imtcp_lp_on_early(&lp, &w, NOW + RTT - 1, RTT));
	assert_true(imtcp_lp_on_early(&lp, &w, NOW + RTT, RTT));
}

static void the_first_slow_start_runs_to_the_first_loss(void **state)
{
	struct imtcp_window w = {10, 1000, 0, 0};
	struct imtcp_lp lp;

	(void)state;
	begin_lp(&lp, defaults(), &w);
	assert_false(imtcp_lp_on_early(&lp, &w, NOW, RTT));
	imtcp_lp_on_loss(&lp, NOW);
	assert_true(imtcp_lp_on_early(&lp, &w, NOW + RTT, RTT));
	/* A connection past slow start that changes to TCP-LP waits for no loss. */
	w.cwnd_segs = w.ssthresh_segs = 40;
	begin_lp(&lp, defaults(), &w);
	assert_true(imtcp_lp_on_early(&lp, &w, NOW, RTT));
}

static void round_trips(struct imtcp_lp *lp, const struct imtcp_window *w, int full, int n)
{
	while (n--)
		imtcp_lp_on_round(lp, w, full);
}

/* [LP §II]: to the first loss or the maximum window size. */
static void a_slow_start_that_stands_for_four_round_trips_is_over(void **state)
{
	struct imtcp_window w = {20, 1000, 0, 0};
	struct imtcp_lp lp;

	(void)state;
	begin_lp(&lp, defaults(), &w);
	/* in the first round trip the window grows from nothing */
	round_trips(&lp, &w, 0, 1 + 3);
	assert_false(imtcp_lp_on_early(&lp, &w, NOW, RTT));
	round_trips(&lp, &w, 0, 1);
	assert_true(imtcp_lp_on_early(&lp, &w, NOW, RTT));
	assert_int_equal(w.cwnd_segs, 10);
	/* Additive increase follows. */
	imtcp_lp_grow(&lp, &w, NOW + 3 * RTT, 10, NO_LIMIT);
	assert_int_equal(w.cwnd_segs, 11);
}

static void a_slow_start_that_goes_on_after_a_pause_is_not_over(void **state)
{
	struct imtcp_window w = {20, 1000, 0, 0};
	struct imtcp_lp lp;

	(void)state;
	begin_lp(&lp, defaults(), &w);
	round_trips(&lp, &w, 0, 9);
	w.cwnd_segs = 40;
	round_trips(&lp, &w, 1, 1 + 3);
	assert_false(imtcp_lp_on_early(&lp, &w, NOW, RTT));
	/* Growth back to the old window does not count. */
	w.cwnd_segs = 30;
	round_trips(&lp, &w, 1, 1);
	assert_true(imtcp_lp_on_early(&lp, &w, NOW, RTT));
}

static void a_first_window_that_is_not_filled_is_no_greatest(void **state)
{
	struct imtcp_window w = {10, 1000, 0, 0};
	struct imtcp_lp lp;

	(void)state;
	begin_lp(&lp, defaults(), &w);
	round_trips(&lp, &w, 0, 9);
	assert_false(imtcp_lp_on_early(&lp, &w, NOW, RTT));
	/* A full window that does not grow: a ceiling limits it. */
	round_trips(&lp, &w, 1, 4);
	assert_true(imtcp_lp_on_early(&lp, &w, NOW, RTT));
}

static void marks_drive_the_same_machine(void **state)
{
	struct imtcp_window w;
	struct imtcp_lp lp;

	(void)state;
	start(&lp, &w, 40);
	assert_int_equal(imtcp_lp_reduced_segs(&lp, 40, NOW), 20);
	imtcp_lp_on_mark(&lp, 40, NOW, RTT);
	assert_int_equal(imtcp_lp_rtts_per_segment(&lp), 0);
	assert_int_equal(imtcp_lp_reduced_segs(&lp, 20, NOW + 2 * RTT), 1);
	assert_int_equal(imtcp_lp_reduced_segs(&lp, 20, NOW + 3 * RTT), 10);
	assert_int_equal(imtcp_lp_reduced_segs(&lp, 1, NOW + 3 * RTT), 1);
	imtcp_lp_on_mark(&lp, 20, NOW + 2 * RTT, RTT);
	assert_int_equal(imtcp_lp_rtts_per_segment(&lp), 1);
	assert_int_equal(lp.retreats, 1);
}

/* Forward delays lie between 10 and 50 ms. 0.15·40 = 6 ms is more than a tick of 1 ms. */
static void the_one_way_delay_is_used_where_timestamps_carry_it(void **state)
{
	struct imtcp_window w;
	struct imtcp_lp lp;
	uint64_t at = NOW;
	int i, early = 0;

	(void)state;
	start(&lp, &w, 40);
	for (i = 0; i < 40; i++) {
		uint32_t forward = i < 20 ? 10000 : 50000;

		at += 10000;
		/* the way back takes 100 ms first, then 60, so the RTT is constant */
		early = imtcp_lp_on_delay(&lp, at + 110000, 110000,
					  (uint32_t)((at + forward) / 1000), 1);
		if (i == 19)
			assert_false(early && lp.signal == IMTCP_LP_ONE_WAY);
	}
	assert_int_equal(lp.signal, IMTCP_LP_ONE_WAY);
	assert_true(early);
}

static void without_fine_timestamps_the_round_trip_is_used_and_said(void **state)
{
	struct imtcp_window w;
	struct imtcp_lp lp;
	uint64_t at = NOW;
	int i;

	(void)state;
	start(&lp, &w, 40);
	lp.rtt.smoothed_us = 60000;
	assert_true(imtcp_lp_on_delay(&lp, NOW, 60000, 0, 0));
	assert_int_equal(lp.signal, IMTCP_LP_RTT_NO_STAMPS);
	/* The path's delays differ by less than a tick. */
	for (i = 0; i < 10; i++, at += 1000)
		imtcp_lp_on_delay(&lp, at, 60000, (uint32_t)(at / 1000), 1);
	assert_int_equal(lp.signal, IMTCP_LP_RTT_COARSE);
	/* The clock ticks 10 000 times a second. */
	for (i = 0; i < 600; i++, at += 1000)
		imtcp_lp_on_delay(&lp, at, 60000, (uint32_t)(at / 100), 1);
	assert_int_equal(lp.signal, IMTCP_LP_RTT_UNKNOWN);
}

static void the_range_of_delays_is_forgotten_within_two_minutes(void **state)
{
	struct imtcp_lp_delay f;
	uint64_t now = NOW;

	(void)state;
	memset(&f, 0, sizeof(f));
	imtcp_lp_delay_on_sample(&f, now, 10000);
	imtcp_lp_delay_on_sample(&f, now, 90000);
	imtcp_lp_delay_on_sample(&f, now += IMTCP_LP_WINDOW_US, 20000);
	assert_int_equal(imtcp_lp_margin_us(&f, 15), 12000); /* still of 10...90 ms */
	imtcp_lp_delay_on_sample(&f, now += IMTCP_LP_WINDOW_US, 20000);
	assert_int_equal(imtcp_lp_margin_us(&f, 15), 0);
	assert_int_equal(imtcp_lp_least_us(&f), 20000);
}

SUITE(cc_lp, T(delays_are_smoothed_by_an_eighth),
      T(an_early_indication_is_a_delay_above_the_threshold), T(a_larger_delta_indicates_later),
      T(the_first_indication_halves_and_stops_growth_for_three_round_trips),
      T(a_second_indication_within_itt_leaves_one_packet), T(itt_is_as_long_as_was_chosen),
      T(an_indication_after_itt_is_a_first_one_again),
      T(there_is_one_reaction_in_a_round_trip_and_losses_count),
      T(the_first_slow_start_runs_to_the_first_loss),
      T(a_slow_start_that_stands_for_four_round_trips_is_over),
      T(a_slow_start_that_goes_on_after_a_pause_is_not_over),
      T(a_first_window_that_is_not_filled_is_no_greatest), T(marks_drive_the_same_machine),
      T(the_one_way_delay_is_used_where_timestamps_carry_it),
      T(without_fine_timestamps_the_round_trip_is_used_and_said),
      T(the_range_of_delays_is_forgotten_within_two_minutes))
