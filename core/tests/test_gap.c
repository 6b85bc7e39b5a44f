// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The joint result of streams, worked from A = x - C (R/S - 1). C = 100 Mbit/s; a packet of 1250 bytes
 * takes 100 us of it.
 */
#include "test.h"

#define M 1250U
#define C (100 * MBPS)

/* A stream of rate x that left so much to think free. */
static struct imtcp_verdict stream(uint64_t rate_mbps, uint64_t free_mbps)
{
	struct imtcp_verdict v;

	memset(&v, 0, sizeof(v));
	v.rate_bps = rate_mbps * MBPS;
	v.free_bps = free_mbps * MBPS;
	return v;
}

static struct imtcp_gap join(const struct imtcp_verdict *v, uint32_t n)
{
	struct imtcp_gap g;
	uint32_t i;

	memset(&g, 0x5a, sizeof(g)); /* nothing may rely on zeroed memory */
	g.n = 0;
	for (i = 0; i < n; i++)
		imtcp_gap_add(&g, &v[i], C);
	imtcp_gap_join(&g);
	return g;
}

static uint64_t avail_bps(const struct imtcp_gap *g)
{
	return imtcp_scale(C, g->avail, IMTCP_FIT_ONE);
}

static void strained_streams_agree_on_what_is_available(void **state)
{
	struct imtcp_verdict v[] = {stream(95, 58), stream(85, 58)};
	struct imtcp_gap g = join(v, 2);

	(void)state;
	assert_within_pct(avail_bps(&g), 58 * MBPS, 0.1);
	assert_int_equal(g.strained, 2);
	assert_int_equal(g.validity_pct, 100);
}

static void a_stream_below_it_is_not_strained_and_does_not_count(void **state)
{
	struct imtcp_verdict v[] = {stream(75, 60), stream(55, 55)};
	struct imtcp_gap g = join(v, 2);

	(void)state;
	assert_within_pct(avail_bps(&g), 60 * MBPS, 0.1);
	assert_int_equal(g.strained, 1);
}

static void without_any_strain_it_is_above_all(void **state)
{
	/* the second let a queue of before drain */
	struct imtcp_verdict v[] = {stream(75, 75), stream(65, 80)};
	struct imtcp_gap g = join(v, 2);

	(void)state;
	assert_int_equal(g.strained, 0);
	assert_int_equal(g.validity_pct, 100);
}

/* 58 and 38: the mean is 48, and both are 10 of 100 Mbit/s away. */
static void streams_that_disagree_are_worth_less(void **state)
{
	struct imtcp_verdict v[] = {stream(95, 58), stream(85, 38)};
	struct imtcp_gap g = join(v, 2);

	(void)state;
	assert_within_pct(avail_bps(&g), 48 * MBPS, 0.1);
	assert_in_range(g.validity_pct, 90, 91);
}

static void a_stream_of_too_few_intervals_is_left_out_and_no_stream_says_nothing(void **state)
{
	struct imtcp_verdict v[] = {stream(0, 0), stream(75, 58)};
	struct imtcp_gap g = join(v, 2);

	(void)state;
	assert_int_equal(g.n, 1);
	assert_within_pct(avail_bps(&g), 58 * MBPS, 0.1);
	g = join(v, 1);
	assert_int_equal(g.strained, 0);
	assert_int_equal(g.validity_pct, 0);
}

/* A stream of eight packets at 80 Mbit/s, 125 us apart, and a burst of four packets of others, 400 us of
 * work, before packet `before` of it: seven intervals of 125 us become longer by what of the burst had
 * not been sent in the 25 us that each interval has to spare. */
static uint64_t left_after_a_burst(uint32_t before)
{
	struct imtcp_stream s;
	struct imtcp_judging g;
	struct imtcp_verdict v;
	uint32_t j, queue_us = 0;

	memset(&s, 0, sizeof(s));
	imtcp_stream_start(&s, 79 * MBPS, 81 * MBPS, 8, 0);
	for (j = 0; j < 8; j++) {
		imtcp_stream_on_sent(&s, (j + 1) * M);
		queue_us = (uint32_t)imtcp_sub(queue_us, 25) + (j == before ? 400 : 0);
		s.pkt[j].sent_us = 1000 + j * 125;
		s.pkt[j].acked_us = 2000 + j * 125 + queue_us;
	}
	s.seen = 0xff;
	imtcp_stream_judge(&s, C, 256, &g, &v);
	assert_within_pct(v.rate_bps, 80 * MBPS, 0.1);
	return v.free_bps;
}

/* Rise of 400 us less 25 for each later packet, of 875: with the burst before the last packet
 * 80 - 100 * 400/875 = 34.3, before the fourth 80 - 100 * 300/875 = 45.7. */
static void a_burst_strains_a_stream_in_whichever_interval_it_comes(void **state)
{
	(void)state;
	assert_within_pct(left_after_a_burst(7), 34.286e6, 0.1);
	assert_within_pct(left_after_a_burst(3), 45.714e6, 0.1);
	/* none within it: after its first packet there is only the queue that drains */
	assert_at_least(left_after_a_burst(0), 80 * MBPS);
}

SUITE(gap, T(strained_streams_agree_on_what_is_available),
      T(a_stream_below_it_is_not_strained_and_does_not_count),
      T(without_any_strain_it_is_above_all), T(streams_that_disagree_are_worth_less),
      T(a_stream_of_too_few_intervals_is_left_out_and_no_stream_says_nothing),
      T(a_burst_strains_a_stream_in_whichever_interval_it_comes))
