// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Streams, worked by hand through a fluid FIFO: capacity C, cross traffic C - A. A packet that
 * leaves ds after the one before arrives dr after it:
 *
 *	dr = ds                        while x = M/ds <= A
 *	dr = ds (1 + (x - A)/C)        above
 *
 * Numbers: M = 1250 bytes = 10 000 bits, so M/(100 Mbit/s) = 100 us.
 */
#include "test.h"

#define M 1250U
#define C (100 * MBPS)

struct fifo {
	uint64_t capacity_bps, avail_bps;
	double queue_us; /* work in the queue after the packet before */
	double sent_us;
	double sent_before_us;
	int have;
};

/* When a packet that leaves at sent_us has crossed the queue. */
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

#define FIRST_SEQ 0xfffff000U /* every stream here wraps around */
#define CLOCK 0xfffffe00U     /* and so does its clock */

struct through {
	struct imtcp_stream s;
	struct imtcp_judging g;
	struct imtcp_verdict v;
	double sent[IMTCP_STREAM_MAX], arrived[IMTCP_STREAM_MAX];
};

/* Sends a stream of n packets over (low, high) and notes when each left and arrived. */
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

/* The ACK of packet j alone, or of all up to it. */
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

/* B(i+1) = 30, B(i) = 50, N = 5: M/(S(j) - S(j-1)) = 30 + (j-1) · 20/4, j = 2...5. */
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
 * C = 100, A = 40 Mbit/s; rates 35 40 45 50:
 *	ds = 285.7  250.0  222.2  200.0 us
 *	dr = 285.7  250.0  222.2 · 1.05 = 233.3   200.0 · 1.10 = 220.0 us
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
	/* two of four intervals rise: PCT says flat, PDT says up: undecided */
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

/* Pathload decides here: all intervals rise. Line (i) is empty, so the low end it is. */
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

/* Rates climb by 30/7 Mbit/s: the answer is the last rate below A, at most one step below it. A
 * rate just above A (38.6 against 38) strains by less than a clock's tick, hence 2 %. */
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

/* Line (i): y = x up to 3000. Line (ii): y = 3000 + (x - 3000)/2. Both exact: no cost. */
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

/* Slope 1 but 500 below: Sxx = Sxy, the slope is not below 1, so it is no line (ii). */
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
	/* and falling lines are gentle */
	memset(&l, 0, sizeof(l));
	for (i = 0; i < 4; i++)
		imtcp_line_add(&l, xy[i][0], xy[3 - i][1]);
	imtcp_line_cost(&l, &gentle);
	assert_true(gentle);
}

/* Points (1000, 0) (2000, 300) (3000, 0): slope 0, mean 100, residuals -100, 200, -100. */
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

/* One interval of 1000 us for each entry: how much later than sent it arrives. */
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
	/* PCT 75 %, PDT (150 - 30)/180 = 67 %: one dip does not hide it */
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
	/* 12 packets, ACKs after 2, 4 ... 12: five intervals of two packets */
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

/* A receiver answers one packet or two. A filter on the way back leaves the newest of those that wait for the link. */
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
	/* packets before the stream do not belong to it */
	send_stream(&t, 30 * MBPS, 50 * MBPS, 12, 40 * MBPS);
	imtcp_stream_on_ack(&t.s, FIRST_SEQ + 2 * M, 1, 2, C);
	assert_false(t.s.thinned);
}

/* Rates 34.3 38.6 42.9 47.1 51.4 ...; 42.9 and 47.1 become one interval, with A = 45 within it:
 * the last rate on line (i) is 38.6. */
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
		for (i = 0; i <= j; i++) /* again, at a later time */
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
	/* one ACK beyond its end completes it without a single sample */
	imtcp_stream_on_ack(&t.s, FIRST_SEQ + 9 * M, 1, 2, C);
	assert_int_equal(t.s.seen, 0);
	assert_true(imtcp_stream_done(&t.s));
	judge(&t);
	assert_int_equal(t.v.intervals, 0);
}

/* A chunk of four segments of 1250 bytes, 100 us each at 100 Mbit/s: an ACK of the first two says
 * that its first byte was there 200 us before. The ACK of the rest comes too late to count. */
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
	/* unknown capacity: at once */
	imtcp_stream_on_ack(&s, FIRST_SEQ + 6 * M, 5000, 36000, 0);
	assert_int_equal(s.pkt[1].acked_us, 36000);
	assert_false(imtcp_stream_done(&s));
	imtcp_stream_on_sent(&s, FIRST_SEQ + 12 * M);
	imtcp_stream_on_sent(&s, FIRST_SEQ + 16 * M);
	/* one ACK for all: only the packet that it ends in is a sample */
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
	t.s.pkt[3].acked_us = t.s.pkt[2].acked_us - 50; /* before the one before */
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
	/* the first four are held and come with the fifth, 5 us apart: 100 us is the least */
	for (j = 0; j < 4; j++)
		t.s.pkt[j].acked_us = t.s.pkt[4].acked_us - (4 - j) * 5;
	judge(&t);
	assert_int_equal(t.v.bunched, 4);
}

/* Between 35 and 40 Mbit/s one packet is to follow after 286 us at most 333; it takes 3 ms. */
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

/* Wire bytes are 5/4 of the payload: every rate is 5/4 of what payload alone would say. */
static void rates_are_of_bytes_on_the_wire(void **state)
{
	struct through t;

	(void)state;
	through_fifo(&t, 20 * MBPS, 40 * MBPS, 5, 40 * MBPS, 1);
	imtcp_stream_judge(&t.s, C, 256, &t.g, &t.v);
	assert_within_pct((uint64_t)t.g.intervals.v[3].x, IMTCP_FIT_ONE, 0.5);
	imtcp_stream_judge(&t.s, C, 320, &t.g, &t.v);
	assert_within_pct((uint64_t)t.g.intervals.v[3].x, IMTCP_FIT_ONE * 5 / 4, 0.5);
	assert_in_range(t.v.avail_bps, 20 * MBPS, 40 * MBPS); /* never out of the sub-range */
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
