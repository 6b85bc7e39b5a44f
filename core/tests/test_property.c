// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Invariants for every input. Cases come from seeds. A failure prints its seed, and IMTCP_SEED=n
 * runs that case alone.
 */
#include "path_sim.h"
#include "drive.h"

#define CASES 4000U
#define STEPS 1500U

struct random_steps {
	uint64_t seed;
	uint32_t left;
};

static uint64_t random_next(void *of)
{
	return rnd(&((struct random_steps *)of)->seed);
}

static int random_more(void *of)
{
	struct random_steps *r = of;

	return r->left && r->left--;
}

/* The seeds to run: 1 to cases, or the chosen one. */
static void seeds(uint64_t *from, uint64_t *to, uint64_t cases)
{
	const char *only = getenv("IMTCP_SEED");

	*from = only ? strtoull(only, NULL, 0) : 1;
	*to = only ? *from : cases;
}

static void a_peer_that_lies_gains_nothing_and_breaks_nothing(void **state)
{
	static struct drive d;
	uint64_t i, to, results = 0, valid = 0;

	(void)state;
	for (seeds(&i, &to, CASES); i <= to; i++) {
		struct random_steps r = {i * 2654435761ULL + 1, STEPS};
		struct drive_source src = {random_next, random_more, &r};
		const char *why = drive_run(&d, &src);

		if (why)
			fail_msg("IMTCP_SEED=%llu after %u steps: %s", (unsigned long long)i,
				 STEPS - r.left, why);
		results += d.m.started;
		valid += d.m.completed;
	}
	if (getenv("IMTCP_SHOW"))
		printf("%llu started, %llu valid\n", (unsigned long long)results,
		       (unsigned long long)valid);
	if (!getenv("IMTCP_SEED"))
		assert_true(results > CASES && valid > 0); /* the inputs reach the core */
}

/* Any path, cross traffic and receiver: the invariants of path_sim.h, and some more. */
static void connections_over_random_paths_keep_their_bounds(void **state)
{
	static struct sim s;
	uint64_t i, to;

	(void)state;
	for (seeds(&i, &to, 300); i <= to; i++) {
		uint64_t seed = i * 0x9e3779b97f4a7c15ULL + 1;
		struct sim_cfg c;

		memset(&c, 0, sizeof(c));
		c.seed = seed;
		c.capacity_bps = rnd_in(&seed, 200 * KBPS, 300 * MBPS);
		c.cross_bps = rnd_in(&seed, 0, c.capacity_bps * 9 / 10);
		c.cross_in_packets = (int)rnd_in(&seed, 0, 2);
		c.rtt_us = (uint32_t)rnd_in(&seed, 200, 200000);
		c.acks_every = (uint32_t)rnd_in(&seed, 1, 4);
		c.max_chunk = rnd(&seed) & 1 ? (uint32_t)rnd_in(&seed, 1, 45) : 0;
		c.jitter_us = rnd(&seed) & 3 ? 0 : (uint32_t)rnd_in(&seed, 1, 5000);
		c.bunch_us = rnd(&seed) & 3 ? 0 : (uint32_t)rnd_in(&seed, 100, 20000);
		c.ack_filter = rnd(&seed) & 1;
		c.gro = rnd(&seed) & 1;
		c.max_bps = rnd(&seed) & 7 ? 0 : rnd_in(&seed, 50 * KBPS, 300 * MBPS);
		c.cwnd_segs = rnd(&seed) & 3 ? 0 : (uint32_t)rnd_in(&seed, 2, 300);
		c.step_at_us = 2500000;
		c.cross_after_bps = rnd_in(&seed, 0, c.capacity_bps * 9 / 10);
		c.idempotence = rnd(&seed) & 1;
		if (!(rnd(&seed) & 3)) {
			c.bucket_bps = rnd_in(&seed, 100 * KBPS, c.capacity_bps);
			c.bucket_bytes = rnd_in(&seed, 3000, 200000);
		}
		sim_init(&s, &c);
		sim_run(&s, 5000000);
		/* progress: data arrives, the window is not zero, holds end */
		if (!s.bytes_acked || (!c.cwnd_segs && !s.w.cwnd_segs) ||
		    s.longest_hold_us > IMTCP_T_MAX_US * 101 / 100)
			fail_msg("IMTCP_SEED=%llu: %llu bytes, window %u, longest hold %llu us",
				 (unsigned long long)i, (unsigned long long)s.bytes_acked,
				 s.w.cwnd_segs, (unsigned long long)s.longest_hold_us);
	}
}

/* Any stream, any ACKs, any clock. */
static void verdicts_stay_within_their_sub_range(void **state)
{
	static struct imtcp_judging g;
	uint64_t i, to;

	(void)state;
	for (seeds(&i, &to, 20000); i <= to; i++) {
		uint64_t seed = i * 0x9e3779b97f4a7c15ULL + 1;
		uint64_t low = rnd_any(&seed) >> 16, high = low + (rnd_any(&seed) >> 16);
		uint32_t first = (uint32_t)rnd(&seed), seq = first, j;
		uint32_t n = (uint32_t)rnd_in(&seed, 0, IMTCP_STREAM_MAX + 2);
		uint64_t capacity = rnd(&seed) & 3 ? rnd_any(&seed) : 0;
		struct imtcp_verdict v;
		struct imtcp_stream st;

		imtcp_stream_start(&st, low, high, n, first);
		for (j = 0; j < n; j++)
			imtcp_stream_on_sent(&st, seq += (uint32_t)rnd_in(&seed, 1, 70000));
		for (j = 0; j < 40; j++)
			imtcp_stream_on_ack(&st, first + (uint32_t)rnd_in(&seed, 0, seq - first),
					    (uint32_t)rnd_any(&seed), (uint32_t)rnd_any(&seed),
					    capacity);
		imtcp_stream_judge(&st, capacity, (uint32_t)rnd_in(&seed, 256, 10000), &g, &v);
		if (v.validity_pct > 100 || v.intervals >= IMTCP_STREAM_MAX ||
		    v.bunched > v.intervals || v.trend > IMTCP_TREND_FLAT ||
		    (v.intervals >= IMTCP_STREAM_LEAST_INTERVALS &&
		     (v.avail_bps < low || v.avail_bps > high)))
			fail_msg("IMTCP_SEED=%llu: %llu not in %llu...%llu, validity %u, %u "
				 "intervals",
				 (unsigned long long)i, (unsigned long long)v.avail_bps,
				 (unsigned long long)low, (unsigned long long)high, v.validity_pct,
				 v.intervals);
	}
}

/* For any points the split lies within them, and costs no more than all on line (i). */
static void the_best_split_costs_at_most_one_line(void **state)
{
	uint64_t i, to;

	(void)state;
	for (seeds(&i, &to, 20000); i <= to; i++) {
		uint64_t seed = i * 0x9e3779b97f4a7c15ULL + 1, cost, one = 0;
		struct imtcp_intervals iv;
		uint32_t j, split;

		iv.n = (uint32_t)rnd_in(&seed, 1, IMTCP_STREAM_MAX);
		for (j = 0; j < iv.n; j++) {
			uint32_t d;

			iv.v[j].x = (uint32_t)rnd_in(&seed, 0, IMTCP_FIT_MAX);
			iv.v[j].y = (uint32_t)rnd_in(&seed, 0, IMTCP_FIT_MAX);
			d = iv.v[j].x > iv.v[j].y ? iv.v[j].x - iv.v[j].y : iv.v[j].y - iv.v[j].x;
			one += (uint64_t)d * d;
		}
		split = imtcp_two_lines(&iv, &cost);
		if (split > iv.n || cost > one)
			fail_msg("IMTCP_SEED=%llu: split %u of %u, cost %llu of %llu",
				 (unsigned long long)i, split, iv.n, (unsigned long long)cost,
				 (unsigned long long)one);
	}
}

static void the_deviation_is_that_of_floating_point(void **state)
{
	uint64_t i, to;

	(void)state;
	for (seeds(&i, &to, 5000); i <= to; i++) {
		uint64_t seed = i * 0x9e3779b97f4a7c15ULL + 1, root, deviation;
		uint32_t n = (uint32_t)rnd_in(&seed, 2, IMTCP_STORE_MAX), j;
		double sum = 0, sumsq = 0, variance, slack;
		struct imtcp_store st = {0, 0, 0, 0};

		for (j = 0; j < n; j++) {
			uint64_t v = rnd_in(&seed, 100 * KBPS, 10 * GBPS);

			imtcp_store_add(&st, v);
			sum += (double)(v / 1000);
			sumsq += (double)(v / 1000) * (double)(v / 1000);
		}
		variance = sumsq / n - sum / n * (sum / n);
		deviation = imtcp_store_deviation_bps(&st) / 1000;
		root = deviation * deviation;
		/* mean and mean square are rounded down, which may change the variance by two
		 * means */
		slack = 2 * sum / n + 2 * (double)deviation + 2;
		if ((double)root > variance + slack || (double)root < variance - slack)
			fail_msg("IMTCP_SEED=%llu: variance %g, here %llu", (unsigned long long)i,
				 variance, (unsigned long long)root);
	}
}

SUITE(property, T(a_peer_that_lies_gains_nothing_and_breaks_nothing),
      T(connections_over_random_paths_keep_their_bounds), T(verdicts_stay_within_their_sub_range),
      T(the_best_split_costs_at_most_one_line), T(the_deviation_is_that_of_floating_point))
