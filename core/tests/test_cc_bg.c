// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The cap [BG eq. 2] and the delay law of cc_bg.h, worked by hand. */
#include "test.h"

#define PKT 1250U /* bytes on the wire: 10 000 bits */
#define NOW 5000000ULL

struct flow {
	struct imtcp_flow c;
	struct imtcp_bg b;
	struct imtcp_window w;
	struct imtcp_sample s;
};

/* A flow with a known RTTmin and a full window. */
static void start(struct flow *f, uint32_t cwnd, uint32_t ssthresh, uint32_t base_us)
{
	memset(f, 0, sizeof(*f));
	imtcp_params_init(&f->c.params);
	imtcp_meas_init(&f->c.meas, &f->c.params, 0);
	f->w.cwnd_segs = cwnd;
	f->w.ssthresh_segs = ssthresh;
	f->c.facts.minrtt.base_us = f->c.facts.minrtt.least_us = base_us;
	f->c.facts.minrtt.refreshed_us = f->c.facts.acked_at_us = NOW;
	f->s.now_us = NOW;
	f->s.min_rtt_us = base_us;
	f->s.limit_segs = 10000;
	f->s.pkt_bytes = PKT;
	f->s.full = 1;
}

/* One ACK of so many segments. */
static void ack(struct flow *f, uint32_t segs)
{
	struct imtcp_decision d = {0};

	f->s.acked_segs = segs;
	d.w = f->w;
	imtcp_bg_bound(&f->c, &f->s);
	imtcp_bg_decide(&f->c, &f->b, &f->s, &d);
	f->w = d.w;
}

/* The same at the end of a round trip. */
static void round_ends(struct flow *f, uint32_t segs)
{
	f->s.round_over = f->s.round_full = 1;
	ack(f, segs);
	f->s.round_over = 0;
}

static uint32_t cap_of(struct flow *f, uint32_t stream_segs)
{
	struct imtcp_estimate e = imtcp_estimate_now(&f->c.meas, f->s.now_us);

	return imtcp_bg_cap_segs(&e, f->c.params.g_q8, f->c.facts.minrtt.base_us, PKT, stream_segs);
}

/* So many ACKs with this RTT, apart_us from each other. */
static void rtts(struct flow *f, int count, uint64_t apart_us, uint32_t rtt_us)
{
	for (int i = 0; i < count; i++) {
		f->s.now_us += apart_us;
		imtcp_bg_on_rtt(&f->b, f->s.min_rtt_us, f->s.now_us, (int32_t)rtt_us);
	}
}

/* A loss, reported as by the kernel. Returns ssthresh. */
static uint32_t loses(struct flow *f, uint32_t lost_segs)
{
	uint32_t target;

	f->s.cwnd_segs = f->w.cwnd_segs;
	f->s.lost = 1;
	f->s.lost_segs += lost_segs;
	target = imtcp_bg_target(&f->c, &f->b, &f->s);
	imtcp_bg_reduced(&f->c, &f->b, &f->s);
	f->s.lost = 0;
	return target;
}

/* ---- (2) ---- */

/* A_s and its 20th are 42 Mbit/s. In 30 ms that is 1.26 Mbit, or 126 packets. */
static void the_cap_is_available_bandwidth_times_least_rtt(void **state)
{
	struct flow f;

	(void)state;
	start(&f, 300, IMTCP_U32_MAX, 30000);
	f.c.meas.smoothed_bps = 40 * MBPS;
	ack(&f, 1);
	assert_int_equal(f.c.facts.cap_segs, 126);
	assert_int_equal(f.w.cwnd_segs, 126); /* at once */
	assert_int_equal(f.w.ssthresh_segs, 126);
	assert_int_equal(f.c.facts.reductions_cap, 1);
	ack(&f, 100);
	assert_int_equal(f.w.cwnd_segs, 126);
	assert_int_equal(f.c.facts.reductions_cap, 1); /* only if the window is above the cap */
}

/*
 * 40 of 100 Mbit/s are free, which are 120 packets. The slack is the greatest of its three terms:
 *
 * ── term ────────────────── slack ──── cap ────────
 * 20th of A_s               2 Mbit/s
 * 16th of the missing 60    3.75       131 packets
 * deviation of 4            4          132
 * deviation of 8            8          144
 */
static void above_it_the_cap_has_a_slack(void **state)
{
	struct flow f;

	(void)state;
	start(&f, 300, 300, 30000);
	f.c.meas.capacity_bps = 100 * MBPS;
	f.c.meas.smoothed_bps = 40 * MBPS;
	assert_int_equal(cap_of(&f, 10), 131);
	f.c.meas.deviation_bps = 4 * MBPS;
	assert_int_equal(cap_of(&f, 10), 132);
	f.c.meas.deviation_bps = 8 * MBPS;
	assert_int_equal(cap_of(&f, 10), 144);
}

/* However much the results scatter, the cap is at most 21/20 of the capacity, 315 packets. */
static void the_slack_ends_at_the_capacity(void **state)
{
	struct flow f;

	(void)state;
	start(&f, 300, 300, 30000);
	f.c.meas.capacity_bps = 100 * MBPS;
	f.c.meas.smoothed_bps = 80 * MBPS;
	f.c.meas.deviation_bps = 50 * MBPS;
	assert_int_equal(cap_of(&f, 10), 315);
}

/* [IM §5.1], g = 1/2: half of 126 packets. */
static void a_chosen_g_is_the_share_of_the_bandwidth_that_the_cap_leaves(void **state)
{
	struct flow f;

	(void)state;
	start(&f, 300, 300, 30000);
	f.c.params.g_q8 = 128;
	f.c.meas.low_bps = 20 * MBPS;
	f.c.meas.high_bps = 60 * MBPS;
	assert_int_equal(cap_of(&f, 10), 120); /* before the first result there is no share */
	f.c.meas.smoothed_bps = 40 * MBPS;
	assert_int_equal(cap_of(&f, 10), 63);
}

/* [IM §5.1]: "while that exceeds m·N". g = 0.05 gives 6 packets, too few for a stream of 8. */
static void a_small_g_leaves_what_a_measurement_needs(void **state)
{
	struct flow f;

	(void)state;
	start(&f, 300, 300, 30000);
	f.c.params.g_q8 = IMTCP_G_LEAST_Q8;
	f.c.meas.smoothed_bps = 40 * MBPS;
	assert_int_equal(cap_of(&f, f.c.meas.n + 2), 10);
	f.c.meas.smoothed_bps = 1; /* its share rounds to nothing */
	assert_int_equal(cap_of(&f, f.c.meas.n + 2), 10);
}

static void where_a_round_trip_is_too_short_to_measure_in_there_is_no_cap(void **state)
{
	struct flow f;

	(void)state;
	start(&f, 300, 300, IMTCP_SHORT_RTT_US);
	f.c.meas.smoothed_bps = 1 * MBPS; /* a tenth of a packet */
	assert_int_equal(cap_of(&f, 14), 14);
	f.c.facts.minrtt.base_us = IMTCP_SHORT_RTT_US - 1;
	assert_int_equal(cap_of(&f, 14), 0);
}

static void without_a_round_trip_time_there_is_no_cap_and_the_window_is_renos(void **state)
{
	struct flow f;

	(void)state;
	start(&f, 300, 300, 30000);
	assert_int_equal(cap_of(&f, 14), 0);
	f.c.meas.smoothed_bps = 40 * MBPS;
	f.c.facts.minrtt.base_us = 0;
	assert_int_equal(cap_of(&f, 14), 0);
	ack(&f, 299);
	assert_int_equal(f.w.cwnd_segs, 300);
	ack(&f, 1);
	assert_int_equal(f.w.cwnd_segs, 301);
}

/* ---- (3), (4), (5) ---- */

/* q0 of 20 segments and 20 ms: (delta - 1)/4 of 20 ms, and a 20th of it for a segment. */
static void the_threshold_is_a_quarter_of_deltas_queue_and_one_segment_of_ones_own(void **state)
{
	(void)state;
	assert_int_equal(imtcp_bg_threshold_us(307, 20000, 20 << 16, 1, 0), 996 + 1000);
	assert_int_equal(imtcp_bg_threshold_us(384, 20000, 20 << 16, 1, 0), 2500 + 1000);
	assert_int_equal(imtcp_bg_threshold_us(307, 2000, 20 << 16, 1, 0),
			 300 + 100); /* noise of the hosts */
	/* 300 ms counts as 30 ms; with a window of two the own part is at most that */
	assert_int_equal(imtcp_bg_threshold_us(307, 300000, 100 << 16, 1, 0), 1494 + 3000);
	assert_int_equal(imtcp_bg_threshold_us(307, 300000, 2 << 16, 1, 0), 1494 + 30000);
	/* Four neighbours share that segment. A count of zero means alone. */
	assert_int_equal(imtcp_bg_threshold_us(307, 20000, 20 << 16, 4, 0), 996 + 250);
	assert_int_equal(imtcp_bg_threshold_us(307, 20000, 20 << 16, 0, 0), 996 + 1000);
}

/* The cap is 168 segments. A window of 112 is 56 below it. Each of 112 segments adds 56/448,
 * together 14. */
static void under_the_cap_a_round_trip_goes_a_quarter_of_the_way_to_it(void **state)
{
	struct flow f;

	(void)state;
	start(&f, 112, 2, 20000);
	f.c.meas.smoothed_bps = 80 * MBPS;
	ack(&f, 112);
	assert_int_equal(f.c.facts.cap_segs, 168);
	assert_int_equal(f.w.cwnd_segs, 126);
}

/* Far below a cap the window doubles, as in slow start. */
static void without_a_cap_a_round_trip_adds_half_of_the_window(void **state)
{
	struct flow f;

	(void)state;
	start(&f, 40, 2, 20000);
	for (int i = 0; i < 40; i++)
		ack(&f, 1);
	assert_int_equal(f.w.cwnd_segs, 60);
	start(&f, 40, 2, 20000);
	f.c.meas.smoothed_bps = 800 * MBPS;
	ack(&f, 40);
	assert_int_equal(f.w.cwnd_segs, 80);
}

/* q0 of 40 segments and 20 ms is 1496 us. Half of it halves the growth. */
static void growth_falls_to_nothing_at_the_threshold(void **state)
{
	struct flow f;

	(void)state;
	start(&f, 40, 2, 20000);
	f.b.queue_us = 748;
	ack(&f, 40);
	assert_int_equal(f.w.cwnd_segs, 50);
	start(&f, 40, 2, 20000);
	f.b.queue_us = 1496;
	ack(&f, 40);
	assert_int_equal(f.w.cwnd_segs, 40);
}

/* 2000 us above q0, 40 segments take 2000/80000 each, together one. */
static void
above_the_threshold_a_quarter_of_what_empties_the_queue_goes_each_round_trip(void **state)
{
	struct flow f;

	(void)state;
	start(&f, 40, 100, 20000);
	f.b.written_segs = 40;
	f.b.window_q16 = f.b.share_q16 = 40 << 16;
	f.w.ssthresh_segs = 2;
	f.b.queue_us = 1496 + 2000;
	round_ends(&f, 40);
	assert_int_equal(f.w.cwnd_segs, 39);
	assert_int_equal(f.c.facts.yields, 1);
	assert_int_equal(f.c.facts.reductions_rtt, 1);
	/* and slow start does not take it back */
	assert_int_equal(f.w.ssthresh_segs, 2);
}

/* A window of 40 with nothing to gain or to lose: q is q0. */
static void settled(struct flow *f)
{
	start(f, 40, 2, 20000);
	f->b.queue_us = 1496;
	ack(f, 40);
	assert_int_equal(f->w.cwnd_segs, 40);
}

static void
the_own_foreground_has_its_part_of_the_window_at_once_and_gives_it_back_at_once(void **state)
{
	struct flow f;

	(void)state;
	settled(&f);
	f.s.front_segs = 10;
	ack(&f, 1);
	assert_int_equal(f.w.cwnd_segs, 30);
	assert_int_equal(f.c.facts.yields, 1);
	f.s.front_segs = 0;
	ack(&f, 1);
	assert_int_equal(f.w.cwnd_segs, 40);
}

/* An eighth of 40 is left. */
static void a_foreground_of_any_size_leaves_an_eighth(void **state)
{
	struct flow f;

	(void)state;
	settled(&f);
	f.s.front_segs = 1000000;
	ack(&f, 1);
	assert_int_equal(f.w.cwnd_segs, 5);
}

/* The foreground was there first: nothing says yet that the path has no room for both. */
static void slow_start_goes_on_beside_a_foreground(void **state)
{
	struct flow f;

	(void)state;
	start(&f, 10, 1000, 20000);
	f.s.front_segs = 30;
	ack(&f, 10);
	assert_int_equal(f.w.cwnd_segs, 20);
	f.s.front_segs = 25;
	ack(&f, 20);
	assert_int_equal(f.w.cwnd_segs, 40);
	assert_int_equal(f.b.window_q16 >> 16, 65);
	/* a queue ends it, and the foreground of now is part of the window */
	f.b.queue_us = 5000;
	f.w.ssthresh_segs = 1000;
	ack(&f, 1);
	assert_int_equal(f.b.window_q16 >> 16, 65);
	f.s.front_segs = 35;
	ack(&f, 0);
	assert_int_equal(f.w.cwnd_segs, 30);
}

/* 40 Mbit/s, a slack of 2 and 20 ms are 84 packets: with 30 of the foreground the path has 114. */
static void the_cap_is_what_others_leave_so_the_foreground_comes_on_top(void **state)
{
	struct flow f;

	(void)state;
	start(&f, 200, 2, 20000);
	f.c.meas.smoothed_bps = 40 * MBPS;
	f.s.front_segs = 30;
	ack(&f, 1);
	assert_int_equal(f.b.window_q16 >> 16, 114);
	assert_int_equal(f.w.cwnd_segs, 84);
}

static void an_ack_of_a_whole_window_takes_no_more_than_half_of_it(void **state)
{
	struct flow f;

	(void)state;
	start(&f, 40, 2, 20000);
	f.b.queue_us = 900000;
	ack(&f, 40);
	assert_int_equal(f.w.cwnd_segs, 20);
}

/* Each cut halves W: from 40 over 2.5, 1.25 and so on down to a quarter. TCP's window is four when
 * W is below two. */
static void below_two_segments_the_window_is_a_pace_down_to_a_quarter(void **state)
{
	struct flow f;

	(void)state;
	start(&f, 40, 2, 20000);
	f.b.queue_us = 900000;
	for (int i = 0; i < 4; i++)
		ack(&f, 40);
	assert_int_equal(f.w.cwnd_segs, 2);
	assert_int_equal(f.c.facts.trickle_q16, 0);
	ack(&f, 40);
	assert_int_equal(f.c.facts.trickle_q16, 5 << 14);
	assert_int_equal(f.w.cwnd_segs, IMTCP_TRICKLE_CWND_SEGS);
	assert_int_equal(f.w.ssthresh_segs, 2);
	for (int i = 0; i < 10; i++)
		ack(&f, 40);
	assert_int_equal(f.c.facts.trickle_q16, 1 << 14);
	/* two segments without a queue: W grows by half of each */
	f.b.queue_us = 0;
	ack(&f, 2);
	assert_int_equal(f.c.facts.trickle_q16, 5 << 14);
	ack(&f, 2);
	assert_int_equal(f.c.facts.trickle_q16, 0);
	assert_int_equal(f.w.cwnd_segs, 2);
}

/* Two segments over 64 connections are a 32nd each. */
static void the_least_window_of_many_to_one_host_is_two_for_all_of_them(void **state)
{
	struct flow f;

	(void)state;
	assert_int_equal(imtcp_bg_least_q16(0), 65536 / 4);
	assert_int_equal(imtcp_bg_least_q16(8), 65536 / 4);
	start(&f, 2, 2, 20000);
	f.c.facts.neighbours = 64;
	f.b.queue_us = 900000;
	for (int i = 0; i < 10; i++)
		ack(&f, 2);
	assert_int_equal(f.c.facts.trickle_q16, 65536 / 32);
}

/* TCP halves its window of four to two. The control's, 1.25, halves with it. */
static void a_loss_halves_a_window_below_two(void **state)
{
	struct flow f;

	(void)state;
	start(&f, 5, 2, 20000);
	f.b.queue_us = 900000;
	ack(&f, 40);
	ack(&f, 40);
	assert_int_equal(f.c.facts.trickle_q16, 5 << 14);
	f.b.queue_us = 10000;
	f.w.cwnd_segs = loses(&f, 1);
	assert_int_equal(f.w.cwnd_segs, 2);
	ack(&f, 0);
	assert_int_equal(f.c.facts.trickle_q16, 5 << 13);
}

/* The window is TCP's, and grows by the acknowledged segments. */
static void a_timeouts_window_of_one_is_no_pace_while_it_is_repaired(void **state)
{
	struct flow f;

	(void)state;
	start(&f, 40, 2, 20000);
	ack(&f, 0);
	f.s.timed_out = 1;
	f.w.cwnd_segs = 1;
	f.b.queue_us = 900000;
	ack(&f, 0);
	assert_int_equal(f.c.facts.trickle_q16, 0);
	assert_int_equal(f.w.cwnd_segs, 1);
	f.b.queue_us = 0;
	ack(&f, 1);
	assert_int_equal(f.w.cwnd_segs, 2);
}

/* 300 ms: 40 segments add half of them, times 30/300, which is two. */
static void a_longer_path_grows_as_much_in_a_second_as_one_of_30_ms(void **state)
{
	struct flow f;

	(void)state;
	start(&f, 40, 2, 300000);
	ack(&f, 40);
	/* 0.05 in 65536ths rounds down to 3276 */
	assert_int_equal(f.b.window_q16, (40 << 16) + 40 * 3276);
}

/* RTTmin 100 us, 100 segments, 1 us per segment. A cut is that of a path of 1 ms: 400/4000 of the
 * window. */
static void the_noise_of_a_lan_is_what_its_rtts_differ_by(void **state)
{
	static const struct {
		uint32_t jitter_us, noise_us;
	} of[] = {{0, 300}, {500, 500}, {5000, 1000}};
	struct flow f;
	size_t i;

	(void)state;
	for (i = 0; i < 3; i++) {
		start(&f, 100, 2, 100);
		f.b.jitter_us = of[i].jitter_us;
		f.b.queue_us = of[i].noise_us;
		ack(&f, 1);
		assert_int_equal(f.w.cwnd_segs, 100);
		start(&f, 100, 2, 100);
		f.b.jitter_us = of[i].jitter_us;
		f.b.queue_us = of[i].noise_us + 1 + 400;
		ack(&f, 100);
		assert_int_equal(f.w.cwnd_segs, 90);
	}
}

static void a_window_that_is_not_full_does_not_grow(void **state)
{
	struct flow f;

	(void)state;
	start(&f, 40, 2, 20000);
	f.s.full = 0;
	ack(&f, 40);
	assert_int_equal(f.w.cwnd_segs, 40);
	f.w.ssthresh_segs = 80;
	ack(&f, 40);
	assert_int_equal(f.w.cwnd_segs, 40);
}

static void the_window_keeps_to_its_limit(void **state)
{
	struct flow f;

	(void)state;
	start(&f, 40, 2, 20000);
	f.s.limit_segs = 45;
	ack(&f, 40);
	assert_int_equal(f.w.cwnd_segs, 45);
}

/* TCP halved a window of 40.5. */
static void a_window_that_tcp_wrote_is_followed(void **state)
{
	struct flow f;

	(void)state;
	start(&f, 40, 2, 20000);
	ack(&f, 1);
	assert_int_equal(f.b.window_q16, (40 << 16) + 32768);
	f.w.cwnd_segs = 20;
	f.s.full = 0;
	ack(&f, 1);
	assert_int_equal(f.w.cwnd_segs, 20);
	assert_int_equal(f.b.window_q16, (20 << 16) + 16384);
}

static void slow_start_doubles_until_a_queue_and_then_leaves_what_the_path_carried(void **state)
{
	struct flow f;

	(void)state;
	start(&f, 10, IMTCP_U32_MAX, 20000);
	ack(&f, 10);
	assert_int_equal(f.w.cwnd_segs, 20);
	ack(&f, 20);
	assert_int_equal(f.w.cwnd_segs, 40);
	f.b.queue_us = 10000;
	f.s.delivered_segs = 33;
	f.s.delivered_in_us = 22000; /* 33 in 22 ms are 30 in 20 ms */
	ack(&f, 1);
	assert_int_equal(f.w.cwnd_segs, 30);
	assert_int_equal(f.w.ssthresh_segs, 30);
	f.b.queue_us = 0;
	ack(&f, 30);
	assert_int_equal(f.w.cwnd_segs, 45);
}

/* ---- the queue ---- */

static void the_queue_is_the_least_of_the_newest_two_stretches(void **state)
{
	struct flow f;

	(void)state;
	start(&f, 40, 2, 20000);
	rtts(&f, 5, 2000, 22000);
	assert_int_equal(f.b.queue_us, 2000);
	rtts(&f, 5, 2000, 30000);
	assert_int_equal(f.b.queue_us, 2000);
	rtts(&f, 5, 2000, 30000);
	assert_int_equal(f.b.queue_us, 10000);
	rtts(&f, 1, 2000, 21000);
	assert_int_equal(f.b.queue_us, 1000);
}

/* A stretch needs two samples, because one may be a delayed ACK. An ACK without an RTT changes
 * nothing. */
static void a_lone_sample_is_no_stretch(void **state)
{
	struct flow f;

	(void)state;
	start(&f, 2, 2, 20000);
	rtts(&f, 2, 20000, 20500);
	rtts(&f, 1, 60000, 60000);
	assert_int_equal(f.b.queue_us, 500);
	imtcp_bg_on_rtt(&f.b, 20000, f.s.now_us + 1, -1);
	imtcp_bg_on_rtt(&f.b, 20000, f.s.now_us + 1, 0);
	imtcp_bg_on_rtt(&f.b, 0, f.s.now_us + 1, 9);
	assert_int_equal(f.b.queue_us, 500);
}

/* ---- losses ---- */

static void a_loss_halves_the_window_and_for_two_seconds_a_round_trip_adds_one_segment(void **state)
{
	struct flow f;

	(void)state;
	start(&f, 80, 2, 20000);
	ack(&f, 0);
	f.w.cwnd_segs = f.w.ssthresh_segs = loses(&f, 3);
	assert_int_equal(f.w.cwnd_segs, 40);
	f.s.now_us += IMTCP_BG_AFTER_LOSS_US - 1;
	ack(&f, 40);
	/* 1/40 in 65536ths rounds down to 1638 */
	assert_int_equal(f.b.window_q16, (40 << 16) + 40 * 1638);
	f.s.now_us++;
	ack(&f, 40);
	assert_int_equal(f.b.window_q16, (60 << 16) + 40 * 1638);
}

static void a_loss_that_was_none_is_forgotten(void **state)
{
	struct flow f;

	(void)state;
	start(&f, 40, 2, 20000);
	loses(&f, 3);
	imtcp_flow_undo(&f.c);
	ack(&f, 40);
	assert_int_equal(f.w.cwnd_segs, 60);
}

/* A flow of 40 segments that saw a queue of 40 ms, with losses 200 segments apart. Its packets now
 * meet 1 ms. */
static void saw_a_queue(struct flow *f)
{
	start(f, 40, 2, 20000);
	f->b.apart_segs = 200;
	f->b.since_segs = 200;
	rtts(f, 20, 2000, 21000);
	f->b.longest_us = 40000;
}

static void a_loss_beside_a_short_queue_is_noise_and_costs_nothing(void **state)
{
	struct flow f;

	(void)state;
	saw_a_queue(&f);
	assert_int_equal(loses(&f, 1), 40);
	ack(&f, 40);
	assert_true(f.w.cwnd_segs > 41);
	assert_int_equal(f.b.lost_at_us, 0);
	assert_int_equal(f.b.longest_us, 40000);
}

/* Each stretch of 10 ms takes a 256th of the distance to the present queue, here 152 us. A burst of
 * ACKs that are 300 ms late leaves 30 ms after six seconds, and little after twenty. */
static void the_longest_queue_fades_with_time(void **state)
{
	struct flow f;

	(void)state;
	saw_a_queue(&f);
	rtts(&f, 5, 2000, 21000);
	assert_int_equal(f.b.longest_us, 40000 - 152);
	rtts(&f, 6, 10000, 320000);
	assert_in_range(f.b.longest_us, 297000, 300000);
	rtts(&f, 3000, 2000, 21000);
	assert_in_range(f.b.longest_us, 25000, 35000);
	rtts(&f, 7000, 2000, 21000);
	assert_at_most(f.b.longest_us, 2000);
}

/* A packet beside the loss waited for 20 ms, half of the longest queue. */
static void a_loss_beside_half_of_the_longest_queue_is_congestion(void **state)
{
	struct flow f;

	(void)state;
	saw_a_queue(&f);
	rtts(&f, 1, 10, 39999);
	assert_int_equal(loses(&f, 1), 40);
	saw_a_queue(&f);
	rtts(&f, 1, 10, 40000);
	assert_int_equal(loses(&f, 1), 20);
	assert_int_equal(f.b.lost_at_us, f.s.now_us);
}

/* ours: A policer has no queue and loses many. Three losses at once are no noise, even at a mean
 * distance above 50. */
static void many_losses_are_congestion_whatever_the_queue(void **state)
{
	uint32_t kept = 0;
	struct flow f;

	(void)state;
	saw_a_queue(&f);
	assert_int_equal(loses(&f, IMTCP_BG_NOISE_MOST_SEGS + 1), 20);
	/* One loss in ten segments: the mean distance falls from 200 to 50 in a dozen losses. */
	saw_a_queue(&f);
	for (int i = 0; i < 20; i++) {
		f.b.since_segs = 10;
		kept += loses(&f, 1) == 40;
	}
	assert_in_range(kept, 11, 13);
}

static void a_mark_or_a_timeout_is_no_noise(void **state)
{
	struct flow f;

	(void)state;
	saw_a_queue(&f);
	f.s.cwnd_segs = 40;
	f.s.lost = 0;
	assert_int_equal(imtcp_bg_target(&f.c, &f.b, &f.s), 20);
	f.s.lost = f.s.timed_out = 1;
	assert_int_equal(imtcp_bg_target(&f.c, &f.b, &f.s), 20);
}

static void a_flow_that_never_saw_a_queue_takes_each_loss_for_congestion(void **state)
{
	struct flow f;

	(void)state;
	start(&f, 40, 2, 20000);
	f.b.since_segs = 200;
	rtts(&f, 20, 2000, 20000);
	assert_int_equal(loses(&f, 1), 20);
}

/* ---- RTTmin ---- */

static void an_aged_least_rtt_is_put_to_trial_and_the_window_comes_back(void **state)
{
	struct imtcp_minrtt *m;
	uint32_t drained = 0;
	struct flow f;

	(void)state;
	start(&f, 120, 120, 30000);
	m = &f.c.facts.minrtt;
	f.c.meas.smoothed_bps = 40 * MBPS;
	while (!f.b.draining && f.s.now_us < NOW + 2 * IMTCP_MINRTT_TRIAL_US) {
		f.s.now_us = f.c.facts.acked_at_us += 35000;
		f.c.meas.counted_at_us = f.s.now_us;
		imtcp_minrtt_on_sample(m, f.s.now_us, 35000);
		round_ends(&f, 0);
	}
	assert_in_range(f.s.now_us - NOW, IMTCP_MINRTT_TRIAL_US, IMTCP_MINRTT_TRIAL_US + 70000);
	while (f.b.draining) {
		assert_int_equal(f.w.cwnd_segs, IMTCP_MEASURING_LEAST_SEGS);
		assert_int_equal(f.w.ssthresh_segs,
				 IMTCP_MEASURING_LEAST_SEGS); /* the window cannot grow */
		drained++;
		f.s.now_us = f.c.facts.acked_at_us += 35000;
		imtcp_minrtt_on_sample(m, f.s.now_us, 31001);
		round_ends(&f, 4);
	}
	assert_int_equal(drained, IMTCP_MINRTT_DRAIN_ROUNDS + 1);
	assert_int_equal(m->base_us, 31001);
	assert_int_equal(f.w.ssthresh_segs, 120); /* slow start returns to the old window */
	assert_int_equal(f.w.cwnd_segs, 8);
}

/* A timeout in the drain: slow start ends at half of the window before the drain. */
static void a_loss_while_the_path_is_drained_halves_the_window_that_comes_back(void **state)
{
	struct flow f;

	(void)state;
	start(&f, 120, 120, 30000);
	f.c.facts.acked_at_us += IMTCP_MINRTT_TRIAL_US + 1;
	round_ends(&f, 0);
	assert_int_equal(f.b.draining, 1);
	loses(&f, 3);
	while (f.b.draining) {
		f.c.facts.acked_at_us += 35000;
		round_ends(&f, 0);
	}
	assert_int_equal(f.w.ssthresh_segs, 60);
}

/* At the least window every RTT is 90 ms, above a base of 30 ms. */
static void a_path_that_became_longer_is_no_queue_after_five_seconds(void **state)
{
	struct imtcp_facts *facts;
	struct flow f;

	(void)state;
	start(&f, 2, 2, 30000);
	facts = &f.c.facts;
	facts->round.last_least_rtt_us = 90001;
	f.b.queue_us = 60001;
	while (facts->minrtt.base_us == 30000 && facts->acked_at_us < NOW + 20000000) {
		facts->acked_at_us += 90001;
		round_ends(&f, 2);
	}
	assert_in_range(facts->acked_at_us - NOW, IMTCP_MINRTT_STEADY_US,
			IMTCP_MINRTT_STEADY_US + 300000);
	assert_int_equal(facts->minrtt.base_us, 90001);
}

static void a_window_in_bytes_rounds_to_whole_segments(void **state)
{
	(void)state;
	assert_int_equal(imtcp_window_segs(40 * MBPS, 30000, PKT), 120);
	assert_int_equal(imtcp_window_segs(40 * MBPS, 30100, PKT), 120); /* 120.4 */
	assert_int_equal(imtcp_window_segs(40 * MBPS, 30150, PKT), 121); /* 120.6 */
	assert_int_equal(imtcp_window_segs(0, 30000, PKT), 0);
	assert_int_equal(imtcp_window_segs(40 * MBPS, 30000, 0), 0);
}

SUITE(cc_bg, T(the_cap_is_available_bandwidth_times_least_rtt), T(above_it_the_cap_has_a_slack),
      T(the_slack_ends_at_the_capacity),
      T(a_chosen_g_is_the_share_of_the_bandwidth_that_the_cap_leaves),
      T(a_small_g_leaves_what_a_measurement_needs),
      T(where_a_round_trip_is_too_short_to_measure_in_there_is_no_cap),
      T(without_a_round_trip_time_there_is_no_cap_and_the_window_is_renos),
      T(the_threshold_is_a_quarter_of_deltas_queue_and_one_segment_of_ones_own),
      T(under_the_cap_a_round_trip_goes_a_quarter_of_the_way_to_it),
      T(without_a_cap_a_round_trip_adds_half_of_the_window),
      T(growth_falls_to_nothing_at_the_threshold),
      T(above_the_threshold_a_quarter_of_what_empties_the_queue_goes_each_round_trip),
      T(the_own_foreground_has_its_part_of_the_window_at_once_and_gives_it_back_at_once),
      T(a_foreground_of_any_size_leaves_an_eighth), T(slow_start_goes_on_beside_a_foreground),
      T(the_cap_is_what_others_leave_so_the_foreground_comes_on_top),
      T(an_ack_of_a_whole_window_takes_no_more_than_half_of_it),
      T(below_two_segments_the_window_is_a_pace_down_to_a_quarter),
      T(the_least_window_of_many_to_one_host_is_two_for_all_of_them),
      T(a_loss_halves_a_window_below_two),
      T(a_timeouts_window_of_one_is_no_pace_while_it_is_repaired),
      T(a_longer_path_grows_as_much_in_a_second_as_one_of_30_ms),
      T(the_noise_of_a_lan_is_what_its_rtts_differ_by), T(a_window_that_is_not_full_does_not_grow),
      T(the_window_keeps_to_its_limit), T(a_window_that_tcp_wrote_is_followed),
      T(slow_start_doubles_until_a_queue_and_then_leaves_what_the_path_carried),
      T(the_queue_is_the_least_of_the_newest_two_stretches), T(a_lone_sample_is_no_stretch),
      T(a_loss_halves_the_window_and_for_two_seconds_a_round_trip_adds_one_segment),
      T(a_loss_that_was_none_is_forgotten),
      T(a_loss_beside_a_short_queue_is_noise_and_costs_nothing),
      T(the_longest_queue_fades_with_time),
      T(a_loss_beside_half_of_the_longest_queue_is_congestion),
      T(many_losses_are_congestion_whatever_the_queue), T(a_mark_or_a_timeout_is_no_noise),
      T(a_flow_that_never_saw_a_queue_takes_each_loss_for_congestion),
      T(an_aged_least_rtt_is_put_to_trial_and_the_window_comes_back),
      T(a_loss_while_the_path_is_drained_halves_the_window_that_comes_back),
      T(a_path_that_became_longer_is_no_queue_after_five_seconds),
      T(a_window_in_bytes_rounds_to_whole_segments))
