// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* [IM §5.2] and [EN §2.3], worked by hand. */
#include "test.h"
#include <imtcp/cc_fs.h>
#include <imtcp/cc_nocc.h>

#define PKT 1250U /* bytes on the wire: 10 000 bits */
#define NO_LIMIT IMTCP_U32_MAX

/* V = 40 Mbit/s · 30 ms = 120 packets. At cwnd 60, h = 10 adds 5 per round trip. */
static void far_below_v_the_window_grows_by_h(void **state)
{
	(void)state;
	assert_int_equal(imtcp_fs_v_segs(40 * MBPS, 30000, PKT), 120);
	assert_int_equal(imtcp_fs_step_segs(60, 120, 10), 5);
	assert_int_equal(imtcp_fs_step_segs(12, 120, 10), 9);
	assert_int_equal(imtcp_fs_step_segs(114, 120, 10), 1); /* 0.5, so one */
	assert_int_equal(imtcp_fs_step_segs(120, 120, 10), 1);
	assert_int_equal(imtcp_fs_step_segs(500, 120, 10), 1);
}

static void h_of_one_is_reno_and_so_is_an_unknown_v(void **state)
{
	(void)state;
	assert_int_equal(imtcp_fs_step_segs(1, 120, 1), 1);
	assert_int_equal(imtcp_fs_step_segs(60, 0, 100), 1);
	assert_int_equal(imtcp_fs_v_segs(0, 30000, PKT), 0);
}

static void a_step_does_not_go_beyond_v(void **state)
{
	(void)state;
	/* h = 100 adds 25, within V. h = 1000 would add 250, beyond V. */
	assert_int_equal(imtcp_fs_step_segs(90, 120, 100), 25);
	assert_int_equal(imtcp_fs_step_segs(90, 120, 1000), 30);
}

static void a_step_is_spread_over_the_acks_of_its_round_trip(void **state)
{
	struct imtcp_window w = {60, 60, 0, 0};
	int i;

	(void)state;
	for (i = 0; i < 6; i++)
		imtcp_fs_grow(&w, 1, 10, NO_LIMIT);
	assert_int_equal(w.cwnd_segs, 61); /* 6 ACKs of 60 segments, 10 segments per round trip */
	for (; i < 60; i++)
		imtcp_fs_grow(&w, 1, 10, NO_LIMIT);
	assert_in_range(w.cwnd_segs, 69, 70);
	imtcp_fs_grow(&w, 10000, 10, NO_LIMIT);
	assert_in_range(w.cwnd_segs, 79, 80); /* one step, however many segments one ACK covers */
	imtcp_fs_grow(&w, 10000, 10, 75);
	assert_int_equal(w.cwnd_segs, 75);
}

static void slow_start_is_renos(void **state)
{
	struct imtcp_window w = {10, 100, 0, 0};

	(void)state;
	imtcp_fs_grow(&w, 10, 50, NO_LIMIT);
	assert_int_equal(w.cwnd_segs, 20);
}

/* D·RTTmin: 200 packets in 50 ms are 120 in 30 ms. */
static void a_loss_leaves_what_the_path_carries_and_never_less_than_half(void **state)
{
	(void)state;
	assert_int_equal(imtcp_carried_segs(200, 50000, 30000), 120);
	assert_int_equal(imtcp_carried_segs(200, 0, 30000), 0);
	assert_int_equal(imtcp_fs_after_loss(150, 120), 120); /* gives up a queue of 30 */
	assert_int_equal(imtcp_fs_after_loss(100, 120), 100); /* no queue to give up */
	assert_int_equal(imtcp_fs_after_loss(300, 120), 150); /* Reno's half is more */
	assert_int_equal(imtcp_fs_after_loss(100, 0), 50);    /* D is unknown */
	assert_int_equal(imtcp_fs_after_loss(1, 0), 2);
}

static void what_was_free_at_least_is_not_averaged(void **state)
{
	struct imtcp_result r = {.avail_bps = 40 * MBPS, .outcome = IMTCP_OUT_OF_RANGE};

	(void)state;
	assert_int_equal(imtcp_fs_smoothed_bps(10 * MBPS, &r), 40 * MBPS);
	assert_int_equal(imtcp_fs_smoothed_bps(50 * MBPS, &r), 50 * MBPS);
	r.sub_range = 5; /* below the range */
	assert_int_equal(imtcp_fs_smoothed_bps(10 * MBPS, &r), 10 * MBPS);
	r.sub_range = 2;
	r.outcome = IMTCP_OK;
	assert_int_equal(imtcp_fs_smoothed_bps(10 * MBPS, &r), 10 * MBPS);
}

static void without_congestion_control_the_receivers_window_is_the_limit(void **state)
{
	(void)state;
	assert_int_equal(imtcp_nocc_window_segs(65535, 1448, NO_LIMIT), 46); /* 45.3 */
	assert_int_equal(imtcp_nocc_window_segs(2896, 1448, NO_LIMIT), 2);
	assert_int_equal(imtcp_nocc_window_segs(0, 1448, NO_LIMIT), 1);
	assert_int_equal(imtcp_nocc_window_segs(1U << 30, 1448, 1000), 1000);
}

SUITE(cc_fs, T(far_below_v_the_window_grows_by_h), T(h_of_one_is_reno_and_so_is_an_unknown_v),
      T(a_step_does_not_go_beyond_v), T(a_step_is_spread_over_the_acks_of_its_round_trip),
      T(slow_start_is_renos), T(what_was_free_at_least_is_not_averaged),
      T(a_loss_leaves_what_the_path_carries_and_never_less_than_half),
      T(without_congestion_control_the_receivers_window_is_the_limit))
