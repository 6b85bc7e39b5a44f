// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Streams, worked by hand through a fluid FIFO with capacity C and cross traffic C - A. ds is the
 * time from the departure of the previous packet, dr that from its arrival.
 *
 *	── dr ──────────────────────── while ──────────
 *	dr = ds                        x = M/ds <= A
 *	dr = ds (1 + (x - A)/C)        x > A
 *
 * M is 1250 bytes = 10 000 bits, which take 100 us at 100 Mbit/s.
 */
#include "test.h"

#define M 1250U
#define C (100 * MBPS)

struct fifo {
	uint64_t capacity_bps, avail_bps;
	double queue_us; /* work in the queue after the previous packet */
	double sent_us;
	double sent_before_us;
	int have;
};

/* Time at which a packet that leaves at sent_us has crossed the queue. */
static double fifo_pass(struct fifo *f, double sent_us, uint32_t bytes)
{
	double drain = (double)f->avail_bps / (double)f->capacity_bps;

	if (f->have)
		f->queue_us -= (sent_us - f->sent_before_us) * drain;
	if (!f->have || f->queue_us < 0)
		f->queue_us = 0;
	f->have = 1;
	f->sent_before_us = sent_us;
	f->queue_us += bytes * 8e6 / (double)f->capacity_bps;
	return sent_us + f->queue_us;
}

#define FIRST_SEQ 0xfffff000U /* every stream here wraps */
#define CLOCK 0xfffffe00U     /* and so does its clock */

struct through {
	struct imtcp_stream s;
	struct imtcp_judging g;
	struct imtcp_verdict v;
	double sent[IMTCP_STREAM_MAX], arrived[IMTCP_STREAM_MAX];
};

/* Sends a stream of n packets over (low, high), and records departures and arrivals. */
static void send_stream(struct through *t, uint64_t low, uint64_t high, uint32_t n, uint64_t avail)
{
	struct fifo f = {C, avail, 0, 0, 0, 0};
	double now = 0;
	uint32_t j;

	memset(t, 0x5a, sizeof(*t)); /* nothing may rely on zeroed memory */
	imtcp_stream_start(&t->s, low, high, n, FIRST_SEQ);
	for (j = 0; j < n; j++) {
		if (j)
			now += M * 8e6 / (double)imtcp_stream_rate_bps(&t->s, j);
		imtcp_stream_on_sent(&t->s, FIRST_SEQ + (j + 1) * M);
		t->sent[j] = now;
		t->arrived[j] = fifo_pass(&f, now, M) + 15000;
	}
}

/* The ACK of packet j, alone or cumulative. */
static void ack(struct through *t, uint32_t j)
{
	imtcp_stream_on_ack(&t->s, FIRST_SEQ + (j + 1) * M, CLOCK + (uint32_t)(t->sent[j] + 0.5),
			    CLOCK + (uint32_t)(t->arrived[j] + 0.5), C);
}

static struct imtcp_verdict *judge(struct through *t)
{
	imtcp_stream_judge(&t->s, C, 256, &t->g, &t->v);
	return &t->v;
}

static struct imtcp_verdict *through_fifo(struct through *t, uint64_t low, uint64_t high,
					  uint32_t n, uint64_t avail, uint32_t every)
{
	uint32_t j;

	send_stream(t, low, high, n, avail);
	for (j = 0; j < n; j++)
		if ((j + 1) % every == 0 || j == n - 1)
			ack(t, j);
	assert_true(imtcp_stream_done(&t->s));
	return judge(t);
}

/* ---- rates ---- */

/* M/(S(j) - S(j-1)) = 30 + (j-1) · 20/4 for N = 5 packets over the sub-range from 30 to 50. */
static void the_climb_of_a_stream_follows_the_equation_of_im_3_2_3(void **state)
{
	static const uint64_t expected_mbps[] = {35, 40, 45, 50};
	struct imtcp_stream s;
	uint32_t j;

	(void)state;
	imtcp_stream_start(&s, 30 * MBPS, 50 * MBPS, 5, 1);
	for (j = 1; j < 5; j++)
		assert_int_equal(imtcp_stream_rate_bps(&s, j), expected_mbps[j - 1] * MBPS);
}

static void the_last_interval_of_a_stream_has_the_upper_rate_whatever_n_is(void **state)
{
	struct imtcp_stream s;
	uint32_t n, j;

	(void)state;
	for (n = 2; n <= IMTCP_STREAM_MAX; n++) {
		imtcp_stream_start(&s, 7 * MBPS, 11 * MBPS, n, 1);
		assert_int_equal(imtcp_stream_rate_bps(&s, n - 1), 11 * MBPS);
		for (j = 1; j < n; j++)
			assert_true(imtcp_stream_rate_bps(&s, j) > 7 * MBPS);
	}
	imtcp_stream_start(&s, 7 * MBPS, 11 * MBPS, 1000, 1);
	assert_int_equal(s.planned, IMTCP_STREAM_MAX);
	imtcp_stream_start(&s, 7 * MBPS, 11 * MBPS, 0, 1);
	assert_false(imtcp_stream_done(&s));
	assert_int_equal(imtcp_stream_rate_bps(&s, 1), 7 * MBPS); /* no division by N - 1 = -1 */
}

/* ---- the FIFO by hand ---- */

/*
 * C is 100 Mbit/s and A is 40:
 *
 * ── rate ──── ds ──────── dr ──────────────────────
 * 35          285.7 us    285.7 us
 * 40          250.0       250.0
 * 45          222.2       222.2 · 1.05 = 233.3
 * 50          200.0       200.0 · 1.10 = 220.0
 */
static void a_stream_through_a_fifo_arrives_as_worked_by_hand(void **state)
{
	static const double ds[] = {285.71, 250, 222.22, 200}, dr[] = {285.71, 250, 233.33, 220};
	struct through t;
	int j;

	(void)state;
	through_fifo(&t, 30 * MBPS, 50 * MBPS, 5, 40 * MBPS, 1);
	for (j = 1; j < 5; j++) {
		assert_within_pct((uint64_t)((t.sent[j] - t.sent[j - 1]) * 1000),
				  (uint64_t)(ds[j - 1] * 1000), 0.01);
		assert_within_pct((uint64_t)((t.arrived[j] - t.arrived[j - 1]) * 1000),
				  (uint64_t)(dr[j - 1] * 1000), 0.01);
	}
	assert_int_equal(t.v.intervals, 4);
	assert_int_equal(t.v.bunched, 0);
	assert_int_equal(t.v.late, 0);
	/* Two of four intervals rise. PCT says flat and PDT says up, so it is undecided. */
	assert_int_equal(t.v.trend, IMTCP_TREND_UNKNOWN);
	/* line (i) has 35 and 40 */
	assert_within_pct(t.v.avail_bps, 40 * MBPS, 0.5);
	assert_false(t.v.all_strained);
	assert_at_least(t.v.validity_pct, 98);
}

static void a_stream_below_the_available_bandwidth_is_flat(void **state)
{
	struct through t;

	(void)state;
	through_fifo(&t, 20 * MBPS, 40 * MBPS, 8, 40 * MBPS, 1);
	assert_int_equal(t.v.trend, IMTCP_TREND_FLAT);
	assert_int_equal(t.v.intervals, 7);
	through_fifo(&t, 1 * MBPS, 2 * MBPS, 8, 40 * MBPS, 1);
	assert_int_equal(t.v.trend, IMTCP_TREND_FLAT);
}

/* All intervals rise, so Pathload decides. Line (i) is empty, so A is the low end. */
static void a_stream_above_the_available_bandwidth_rises_and_has_no_line_i(void **state)
{
	struct through t;

	(void)state;
	through_fifo(&t, 50 * MBPS, 70 * MBPS, 8, 40 * MBPS, 1);
	assert_int_equal(t.v.trend, IMTCP_TREND_UP);
	assert_true(t.v.all_strained);
	assert_int_equal(t.v.avail_bps, 50 * MBPS);
	assert_at_least(t.v.validity_pct, 98);
}

/* The rates climb by 30/7 Mbit/s. The result is the last rate below A, at most one step below it. A
 * rate just above A strains by less than a clock's tick, hence 2 %. */
static void the_two_lines_part_at_the_available_bandwidth(void **state)
{
	struct through t;
	uint64_t avail;

	(void)state;
	for (avail = 36 * MBPS; avail <= 50 * MBPS; avail += MBPS) {
		through_fifo(&t, 30 * MBPS, 60 * MBPS, 8, avail, 1);
		assert_in_range(t.v.avail_bps, avail - 30 * MBPS / 7 - MBPS / 4,
				avail + avail / 50);
		assert_false(t.v.all_strained);
	}
}

static void available_bandwidth_equal_to_capacity_is_seen_too(void **state)
{
	struct through t;

	(void)state;
	through_fifo(&t, 80 * MBPS, 120 * MBPS, 9, C, 1);
	assert_in_range(t.v.avail_bps, 95 * MBPS - MBPS / 2, 100 * MBPS + MBPS / 2);
	through_fifo(&t, 70 * MBPS, 95 * MBPS, 9, C, 1);
	assert_int_equal(t.v.trend, IMTCP_TREND_FLAT);
	through_fifo(&t, 105 * MBPS, 130 * MBPS, 9, C, 1);
	assert_int_equal(t.v.trend, IMTCP_TREND_UP);
}

/* ---- the two lines alone ---- */

static struct imtcp_intervals lines(const unsigned (*xy)[2], uint32_t n)
{
	struct imtcp_intervals iv;
	uint32_t i;

	memset(&iv, 0, sizeof(iv));
	iv.n = n;
	for (i = 0; i < n; i++) {
		iv.v[i].x = xy[i][0];
		iv.v[i].y = xy[i][1];
	}
	return iv;
}

/* Line (i) is y = x up to 3000, and line (ii) is y = 3000 + (x - 3000)/2. Both are exact, so the
 * cost is 0. */
static void two_exact_lines_are_split_where_they_meet(void **state)
{
	static const unsigned xy[][2] = {{2000, 2000}, {2400, 2400}, {2800, 2800},
					 {3200, 3100}, {3600, 3300}, {4000, 3500}};
	struct imtcp_intervals iv = lines(xy, 6);
	uint64_t cost = 1;

	(void)state;
	assert_int_equal(imtcp_two_lines(&iv, &cost), 3);
	assert_at_most(cost, 6 * 64);
}

static void one_line_alone_is_all_i_or_all_ii(void **state)
{
	static const unsigned same[][2] = {{2000, 2000}, {2400, 2400}, {2800, 2800}, {3200, 3200}};
	static const unsigned below[][2] = {{2000, 1500}, {2400, 1700}, {2800, 1900}, {3200, 2100}};
	struct imtcp_intervals iv = lines(same, 4);
	uint64_t cost = 1;

	(void)state;
	assert_int_equal(imtcp_two_lines(&iv, &cost), 4);
	assert_int_equal(cost, 0);
	iv = lines(below, 4);
	assert_int_equal(imtcp_two_lines(&iv, &cost), 0);
	assert_at_most(cost, 4 * 64);
}

/* The slope is 1, with y 500 below x. Sxx = Sxy, so the slope is not below 1, and it is no line
 * (ii). */
static void line_ii_must_have_a_slope_below_one(void **state)
{
	static const unsigned xy[][2] = {{2000, 1500}, {2400, 1900}, {2800, 2300}, {3200, 2700}};
	struct imtcp_line l = {0, 0, 0, 0, 0, 0};
	int i, gentle = 1;

	(void)state;
	for (i = 0; i < 4; i++)
		imtcp_line_add(&l, xy[i][0], xy[i][1]);
	/* n-fold sums: Sxx = Sxy = Syy = 4 · 800 000 */
	assert_at_most(imtcp_line_cost(&l, &gentle), 3200000 / 100);
	assert_false(gentle);
	/* falling lines are gentle */
	memset(&l, 0, sizeof(l));
	for (i = 0; i < 4; i++)
		imtcp_line_add(&l, xy[i][0], xy[3 - i][1]);
	imtcp_line_cost(&l, &gentle);
	assert_true(gentle);
}

/* Points: (1000, 0) (2000, 300) (3000, 0). The slope is 0 and the mean 100. The residuals are -100,
 * 200, -100. */
static void the_cost_of_a_line_is_its_sum_of_squared_residuals(void **state)
{
	struct imtcp_line l = {0, 0, 0, 0, 0, 0};
	int gentle;

	(void)state;
	imtcp_line_add(&l, 1000, 0);
	imtcp_line_add(&l, 2000, 300);
	imtcp_line_add(&l, 3000, 0);
	assert_int_equal(imtcp_line_cost(&l, &gentle), 60000);
	imtcp_line_add(&l, 4000, 16384);
	imtcp_line_remove(&l, 4000, 16384);
	assert_int_equal(imtcp_line_cost(&l, &gentle), 60000);
}

/* ---- trends ---- */

/* One interval of 1000 us per entry. The entry is the rise of delay in it. */
static uint32_t trend_of(const int *growth_us, uint32_t n)
{
	struct imtcp_judging g;
	uint32_t i;

	memset(&g, 0, sizeof(g));
	for (i = 0; i < n; i++) {
		uint32_t size = (uint32_t)abs(growth_us[i]);

		g.length_us += 1000;
		g.moved_us += size;
		if (growth_us[i] > 0)
			g.up_us += size;
		else
			g.down_us += size;
		g.rises += growth_us[i] > (int)IMTCP_CLOCK_NOISE_US;
	}
	g.intervals.n = n;
	g.least_intervals = IMTCP_STREAM_LEAST_INTERVALS;
	return imtcp_trend(&g);
}
#define TREND(...)                                                                                 \
	trend_of((const int[]){__VA_ARGS__}, sizeof((const int[]){__VA_ARGS__}) / sizeof(int))

static void trends_are_pathloads_two_tests(void **state)
{
	(void)state;
	/* PCT 100 %, PDT 100 % */
	assert_int_equal(TREND(50, 50, 50, 50), IMTCP_TREND_UP);
	/* PCT 75 %, PDT (150 - 30)/180 = 67 %: one dip does not hide the rise */
	assert_int_equal(TREND(50, 50, -30, 50), IMTCP_TREND_UP);
	/* PCT 50 %, PDT 0 */
	assert_int_equal(TREND(50, -50, 50, -50), IMTCP_TREND_FLAT);
	assert_int_equal(TREND(-50, -50, -50, -50), IMTCP_TREND_FLAT);
	assert_int_equal(TREND(0, 0, 0, 0), IMTCP_TREND_FLAT);
	/* PCT 25 % says flat, PDT 100 % says up */
	assert_int_equal(TREND(0, 0, 0, 200), IMTCP_TREND_UNKNOWN);
	/* PCT 60 %, between its two thresholds; PDT (160 - 60)/220 = 45 %, between its own */
	assert_int_equal(TREND(50, -30, 50, -30, 60), IMTCP_TREND_UNKNOWN);
}

static void a_rise_below_what_clocks_can_tell_is_flat(void **state)
{
	uint32_t floor_us = (4000 >> IMTCP_STRAIN_FLOOR_SHIFT) + IMTCP_CLOCK_NOISE_US;
	int step = (int)(floor_us / 4);

	(void)state;
	assert_int_equal(TREND(step, step, step, (int)floor_us - 3 * step), IMTCP_TREND_FLAT);
	assert_int_equal(TREND(step + 8, step + 8, step + 8, step + 8), IMTCP_TREND_UP);
}

static void two_intervals_make_no_trend(void **state)
{
	(void)state;
	assert_true(IMTCP_STREAM_LEAST_INTERVALS > 2);
	assert_int_equal(TREND(50, 50), IMTCP_TREND_UNKNOWN);
}

/* ---- ACKs of every kind ---- */

static void every_second_packet_is_enough(void **state)
{
	struct through t;

	(void)state;
	/* 12 packets with an ACK for each two: five intervals of two packets */
	through_fifo(&t, 30 * MBPS, 50 * MBPS, 12, 40 * MBPS, 2);
	assert_int_equal(t.v.intervals, 5);
	/* an interval of two packets is 2/11 of the range, and half of one may lie above A */
	assert_in_range(t.v.avail_bps, 40 * MBPS - 2 * 20 * MBPS / 11, 40 * MBPS + 20 * MBPS / 11);
	through_fifo(&t, 50 * MBPS, 70 * MBPS, 12, 40 * MBPS, 2);
	assert_int_equal(t.v.trend, IMTCP_TREND_UP);
	assert_true(t.v.all_strained);
	through_fifo(&t, 20 * MBPS, 38 * MBPS, 12, 40 * MBPS, 2);
	assert_int_equal(t.v.trend, IMTCP_TREND_FLAT);
}

static void stretch_acks_leave_too_few_intervals(void **state)
{
	struct through t;

	(void)state;
	through_fifo(&t, 30 * MBPS, 50 * MBPS, 8, 40 * MBPS, 4);
	assert_int_equal(t.v.intervals, 1);
	assert_int_equal(t.v.trend, IMTCP_TREND_UNKNOWN);
	assert_int_equal(t.v.avail_bps, 0);
	assert_int_equal(t.v.validity_pct, 0);
	through_fifo(&t, 30 * MBPS, 50 * MBPS, 8, 40 * MBPS, 8);
	assert_int_equal(t.v.intervals, 0);
}

/* A receiver answers one packet or two. A filter on the way back keeps only the newest of the
 * waiting ACKs. */
static void an_ack_for_more_than_two_packets_took_the_place_of_others(void **state)
{
	struct through t;

	(void)state;
	through_fifo(&t, 30 * MBPS, 50 * MBPS, 12, 40 * MBPS, 1);
	assert_false(t.s.thinned);
	through_fifo(&t, 30 * MBPS, 50 * MBPS, 12, 40 * MBPS, 2);
	assert_false(t.s.thinned);
	send_stream(&t, 30 * MBPS, 50 * MBPS, 12, 40 * MBPS);
	ack(&t, 1);
	ack(&t, 3);
	assert_false(t.s.thinned);
	ack(&t, 7);
	assert_true(t.s.thinned);
	ack(&t, 9);
	ack(&t, 11);
	assert_true(t.s.thinned);
	/* data before the stream is not part of it */
	send_stream(&t, 30 * MBPS, 50 * MBPS, 12, 40 * MBPS);
	imtcp_stream_on_ack(&t.s, FIRST_SEQ + 2 * M, 1, 2, C);
	assert_false(t.s.thinned);
}

/* A is 45 Mbit/s. The lost ACK joins the rates 42.9 and 47.1 into one interval. So the last rate on
 * line (i) is 38.6. */
static void a_lost_ack_makes_one_interval_of_two(void **state)
{
	struct through t;
	uint32_t j;

	(void)state;
	send_stream(&t, 30 * MBPS, 60 * MBPS, 8, 45 * MBPS);
	for (j = 0; j < 8; j++)
		if (j != 3)
			ack(&t, j);
	assert_true(imtcp_stream_done(&t.s));
	judge(&t);
	assert_int_equal(t.v.intervals, 6);
	assert_in_range(t.v.avail_bps, 38500 * KBPS, 46 * MBPS);
}

static void duplicate_and_old_acks_change_nothing(void **state)
{
	struct through t, once;
	uint32_t j, i;

	(void)state;
	through_fifo(&once, 30 * MBPS, 60 * MBPS, 8, 45 * MBPS, 1);
	send_stream(&t, 30 * MBPS, 60 * MBPS, 8, 45 * MBPS);
	for (j = 0; j < 8; j++) {
		ack(&t, j);
		for (i = 0; i <= j; i++) /* again, later */
			imtcp_stream_on_ack(&t.s, FIRST_SEQ + (i + 1) * M, 77, CLOCK + 900000, C);
	}
	judge(&t);
	assert_memory_equal(&t.v, &once.v, sizeof(t.v));
}

static void an_ack_before_the_stream_is_not_of_it(void **state)
{
	struct through t;

	(void)state;
	send_stream(&t, 30 * MBPS, 60 * MBPS, 8, 45 * MBPS);
	imtcp_stream_on_ack(&t.s, FIRST_SEQ - 5000, 1, 2, C);
	imtcp_stream_on_ack(&t.s, FIRST_SEQ, 1, 2, C);
	assert_int_equal(t.s.seen, 0);
	assert_int_equal(t.s.cursor, 0);
	/* one ACK beyond its end completes it without a sample */
	imtcp_stream_on_ack(&t.s, FIRST_SEQ + 9 * M, 1, 2, C);
	assert_int_equal(t.s.seen, 0);
	assert_true(imtcp_stream_done(&t.s));
	judge(&t);
	assert_int_equal(t.v.intervals, 0);
}

/* A chunk has four segments of 1250 bytes, which take 100 us each at capacity. An ACK of the first
 * two shows that its first byte arrived 200 us before. The ACK of the rest is too late to count. */
static void an_ack_within_a_chunk_tells_when_its_first_byte_arrived(void **state)
{
	struct imtcp_stream s;

	(void)state;
	imtcp_stream_start(&s, 10 * MBPS, 20 * MBPS, 4, FIRST_SEQ);
	imtcp_stream_on_sent(&s, FIRST_SEQ + 4 * M);
	imtcp_stream_on_sent(&s, FIRST_SEQ + 8 * M);
	imtcp_stream_on_ack(&s, FIRST_SEQ + 2 * M, 1000, 31000, C);
	assert_int_equal(s.seen, 1);
	assert_int_equal(s.cursor, 0);
	assert_int_equal(s.pkt[0].sent_us, 1000);
	assert_int_equal(s.pkt[0].acked_us, 30800);
	imtcp_stream_on_ack(&s, FIRST_SEQ + 4 * M, 1001, 31260, C);
	assert_int_equal(s.cursor, 1);
	assert_int_equal(s.pkt[0].acked_us, 30800);
	/* unknown capacity: no conversion */
	imtcp_stream_on_ack(&s, FIRST_SEQ + 6 * M, 5000, 36000, 0);
	assert_int_equal(s.pkt[1].acked_us, 36000);
	assert_false(imtcp_stream_done(&s));
	imtcp_stream_on_sent(&s, FIRST_SEQ + 12 * M);
	imtcp_stream_on_sent(&s, FIRST_SEQ + 16 * M);
	/* one ACK for all: only its last packet is a sample */
	imtcp_stream_on_ack(&s, FIRST_SEQ + 16 * M, 6000, 38000, C);
	assert_int_equal(s.seen, 1 | 2 | 8);
	assert_int_equal(s.pkt[3].acked_us, 37600);
	assert_true(imtcp_stream_done(&s));
}

static void times_that_run_backwards_are_not_samples(void **state)
{
	struct through t;
	uint32_t j;

	(void)state;
	through_fifo(&t, 30 * MBPS, 60 * MBPS, 8, 45 * MBPS, 1);
	t.s.pkt[3].acked_us = t.s.pkt[2].acked_us - 50; /* before the previous one */
	judge(&t);
	assert_int_equal(t.v.intervals, 6); /* 2 to 4 are one interval */
	t.s.pkt[5].sent_us = t.s.pkt[4].sent_us;
	judge(&t);
	assert_int_equal(t.v.intervals, 5);
	for (j = 0; j < 8; j++)
		t.s.pkt[j].acked_us = CLOCK - j;
	judge(&t);
	assert_int_equal(t.v.intervals, 0);
	assert_int_equal(t.v.trend, IMTCP_TREND_UNKNOWN);
}

static void acks_in_a_bunch_are_counted(void **state)
{
	struct through t;
	uint32_t j;

	(void)state;
	through_fifo(&t, 30 * MBPS, 60 * MBPS, 8, 45 * MBPS, 1);
	assert_int_equal(t.v.bunched, 0);
	/* the first four are held and come with the fifth, 5 us apart; the least is 100 us */
	for (j = 0; j < 4; j++)
		t.s.pkt[j].acked_us = t.s.pkt[4].acked_us - (4 - j) * 5;
	judge(&t);
	assert_int_equal(t.v.bunched, 4);
}

/* Between 35 and 40 Mbit/s a packet is due after 286 us, at most 333 us. It takes 3 ms. */
static void a_packet_that_leaves_much_later_than_planned_makes_the_stream_late(void **state)
{
	struct through t;
	uint32_t j;

	(void)state;
	through_fifo(&t, 30 * MBPS, 60 * MBPS, 8, 45 * MBPS, 1);
	assert_int_equal(t.v.late, 0);
	for (j = 5; j < 8; j++) {
		t.s.pkt[j].sent_us += 3000;
		t.s.pkt[j].acked_us += 3000;
	}
	judge(&t);
	assert_int_equal(t.v.late, 1);
}

/* Wire bytes are 5/4 of the payload, so every rate is 5/4 of the payload's. */
static void rates_are_of_bytes_on_the_wire(void **state)
{
	struct through t;

	(void)state;
	through_fifo(&t, 20 * MBPS, 40 * MBPS, 5, 40 * MBPS, 1);
	imtcp_stream_judge(&t.s, C, 256, &t.g, &t.v);
	assert_within_pct((uint64_t)t.g.intervals.v[3].x, IMTCP_FIT_ONE, 0.5);
	imtcp_stream_judge(&t.s, C, 320, &t.g, &t.v);
	assert_within_pct((uint64_t)t.g.intervals.v[3].x, IMTCP_FIT_ONE * 5 / 4, 0.5);
	assert_in_range(t.v.avail_bps, 20 * MBPS, 40 * MBPS); /* never outside of the sub-range */
}

static void null_pointers_are_refused(void **state)
{
	struct through t;
	uint64_t cost;

	(void)state;
	memset(&t, 0, sizeof(t));
	assert_int_equal(imtcp_stream_take_ack(NULL, 0, 0, 0, 0), 0);
	assert_int_equal(imtcp_stream_judge(NULL, 0, 0, &t.g, &t.v), 0);
	assert_int_equal(imtcp_two_lines(NULL, &cost), 0);
	assert_int_equal(imtcp_judge_interval(NULL, NULL), 0);
}

SUITE(stream, T(the_climb_of_a_stream_follows_the_equation_of_im_3_2_3),
      T(the_last_interval_of_a_stream_has_the_upper_rate_whatever_n_is),
      T(a_stream_through_a_fifo_arrives_as_worked_by_hand),
      T(a_stream_below_the_available_bandwidth_is_flat),
      T(a_stream_above_the_available_bandwidth_rises_and_has_no_line_i),
      T(the_two_lines_part_at_the_available_bandwidth),
      T(available_bandwidth_equal_to_capacity_is_seen_too),
      T(two_exact_lines_are_split_where_they_meet), T(one_line_alone_is_all_i_or_all_ii),
      T(line_ii_must_have_a_slope_below_one), T(the_cost_of_a_line_is_its_sum_of_squared_residuals),
      T(trends_are_pathloads_two_tests), T(a_rise_below_what_clocks_can_tell_is_flat),
      T(two_intervals_make_no_trend), T(every_second_packet_is_enough),
      T(stretch_acks_leave_too_few_intervals),
      T(an_ack_for_more_than_two_packets_took_the_place_of_others),
      T(a_lost_ack_makes_one_interval_of_two), T(duplicate_and_old_acks_change_nothing),
      T(an_ack_before_the_stream_is_not_of_it),
      T(an_ack_within_a_chunk_tells_when_its_first_byte_arrived),
      T(times_that_run_backwards_are_not_samples), T(acks_in_a_bunch_are_counted),
      T(a_packet_that_leaves_much_later_than_planned_makes_the_stream_late),
      T(rates_are_of_bytes_on_the_wire), T(null_pointers_are_refused))
