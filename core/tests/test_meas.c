// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Whole connections on simulated paths. IMTCP_SHOW=1 prints the results of each. */
#include "path_sim.h"

#define SEC 1000000ULL
#define START (1 * SEC) /* the simulator's first instant */

static struct sim s;

static struct sim_cfg path(const char *name)
{
	struct sim_cfg c;

	memset(&c, 0, sizeof(c));
	c.name = name;
	c.capacity_bps = 100 * MBPS;
	c.rtt_us = 30000;
	return c;
}

/* ---- start ---- */

static void after_the_first_train_the_range_is_half_of_its_rate_to_all_of_it(void **state)
{
	struct sim_cfg c = path("first range");

	(void)state;
	sim_init(&s, &c);
	while (!s.flow.meas.high_bps && s.now_ns < 3000000000ULL)
		sim_run(&s, sim_us(&s) + 100);
	/* ten segments back to back: A_c = C on a free path */
	assert_within_pct(s.flow.meas.high_bps, 100 * MBPS, 2);
	assert_within_pct(s.flow.meas.low_bps, s.flow.meas.high_bps / 2, 1);
	/* within the first round trip and the train's length */
	assert_at_most(sim_us(&s) - START, 30000 + 2 * 10 * 120 + 100);
}

/* ---- accuracy, fluid cross traffic ---- */

static void available_bandwidth_is_found_within_a_few_percent(void **state)
{
	static const struct {
		const char *name;
		uint64_t cross_mbps;
		uint32_t acks_every, max_chunk;
	} table[] = {
		{"A = C", 0, 1, 1},
		{"A = 0.7 C", 30, 1, 1},
		{"A = 0.4 C", 60, 1, 1},
		{"A = C, delayed ACKs", 0, 2, 1},
		{"A = 0.7 C, delayed ACKs", 30, 2, 1},
		{"A = 0.4 C, delayed ACKs", 60, 2, 1},
		{"A = C, chunks", 0, 2, 0},
		{"A = 0.7 C, chunks", 30, 2, 0},
		{"A = 0.4 C, chunks", 60, 2, 0},
	};
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		struct sim_cfg c = path(table[i].name);
		struct sim_summary r;

		c.cross_bps = table[i].cross_mbps * MBPS;
		c.acks_every = table[i].acks_every;
		c.max_chunk = table[i].max_chunk;
		r = sim_over(&s, &c, 8, 2 * SEC);
		/* at least one valid result in five round trips */
		if (r.count[IMTCP_OK] < 40 || r.error_p90_pct > 8)
			fail_msg("%s: %u valid of %u, median %llu, p90 of the error %.1f %%",
				 table[i].name, r.count[IMTCP_OK], r.results,
				 (unsigned long long)r.median_bps, r.error_p90_pct);
	}
}

/* Cross traffic in packets of 1500 bytes, almost regular or Poisson. One packet more or less in a
 * stream scatters single results. Their median must be near. */
static void cross_traffic_in_packets_does_not_bias_the_estimate(void **state)
{
	static const struct {
		const char *name;
		uint64_t cross_mbps;
		int kind;
		double p50_pct;
	} table[] = {
		{"regular packets, 30 %", 30, 1, 12},
		{"regular packets, 60 %", 60, 1, 20},
		{"Poisson packets, 30 %", 30, 2, 20},
		{"Poisson packets, 60 %", 60, 2, 40},
	};
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		struct sim_cfg c = path(table[i].name);
		struct sim_summary r;

		c.cross_bps = table[i].cross_mbps * MBPS;
		c.cross_in_packets = table[i].kind;
		c.acks_every = 2;
		r = sim_over(&s, &c, 20, 3 * SEC);
		assert_at_least(r.count[IMTCP_OK], 50);
		if (r.error_p50_pct > table[i].p50_pct)
			fail_msg("%s: median %llu, error p50 %.1f %%", table[i].name,
				 (unsigned long long)r.median_bps, r.error_p50_pct);
	}
}

/* The same judged by gaps: correct with bursts and without. */
static void judged_by_gaps_bursts_do_not_bias_the_estimate(void **state)
{
	static const struct {
		const char *name;
		uint64_t cross_mbps;
		uint32_t packets;
		int kind;
	} table[] = {
		{"gaps, fluid, 60 %", 60, 0, 0},
		{"gaps, idle", 0, 0, 0},
		{"gaps, regular packets, 42 %", 42, 1, 1},
		{"gaps, Poisson packets, 42 %", 42, 1, 2},
		{"gaps, regular bursts of 2, 42 %", 42, 2, 1},
		{"gaps, regular bursts of 6, 42 %", 42, 6, 1},
		{"gaps, regular bursts of 6, 20 %", 20, 6, 1},
	};
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		struct sim_cfg c = path(table[i].name);
		struct sim_summary r;

		c.cross_bps = table[i].cross_mbps * MBPS;
		c.cross_in_packets = table[i].kind;
		c.cross_burst = table[i].packets;
		c.acks_every = 2;
		r = sim_over(&s, &c, 20, 3 * SEC);
		assert_at_least(r.count[IMTCP_OK], 100);
		assert_within_pct(r.median_bps, sim_avail_bps(&s), 5);
	}
}

/* Goodput beside bursts, over four samples of each pattern. It never exceeds the available
 * bandwidth, and is about 9/10 of it on average. */
static void beside_bursts_no_more_is_taken_than_is_there(void **state)
{
	static const struct {
		const char *name;
		uint32_t packets;
		int kind;
	} table[] = {
		{"regular bursts of 2, 42 %", 2, 1},   {"regular bursts of 6, 42 %", 6, 1},
		{"regular bursts of 12, 42 %", 12, 1}, {"Poisson bursts of 2, 42 %", 2, 2},
		{"Poisson bursts of 6, 42 %", 6, 2},
	};
	uint64_t sum = 0, samples = 0;
	size_t i, seed;

	(void)state;
	for (i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		for (seed = 1; seed <= 4; seed++) {
			struct sim_cfg c = path(table[i].name);

			c.cross_bps = 42 * MBPS;
			c.cross_in_packets = table[i].kind;
			c.cross_burst = table[i].packets;
			c.acks_every = 2;
			c.seed = seed * 7919;
			sim_over(&s, &c, 20, 3 * SEC);
			assert_at_most((uint64_t)sim_goodput_bps(&s, 20), 58 * MBPS);
			sum += (uint64_t)sim_goodput_bps(&s, 20);
			samples++;
		}
	}
	assert_at_least(sum / samples, 58 * MBPS * 9 / 10);
}

static void the_estimate_follows_a_step_down_and_up(void **state)
{
	static const struct {
		const char *name;
		uint64_t before, after;
	} table[] = {{"step down", 10, 60}, {"step up", 60, 10}};
	size_t i;

	(void)state;
	for (i = 0; i < 2; i++) {
		struct sim_cfg c = path(table[i].name);
		uint64_t truth, found_us = 0;
		struct sim_summary r;
		uint32_t j;

		c.cross_bps = table[i].before * MBPS;
		c.cross_after_bps = table[i].after * MBPS;
		c.step_at_us = START + 5 * SEC;
		r = sim_over(&s, &c, 12, 9 * SEC);
		truth = (100 - table[i].after) * MBPS;
		assert_at_least(r.count[IMTCP_OK], 10);
		if (r.error_p90_pct > 10)
			fail_msg("%s: p90 of the error %.1f %%", table[i].name, r.error_p90_pct);
		for (j = 0; j < s.n_results && !found_us; j++)
			if (s.results[j].at_us > c.step_at_us && s.results[j].outcome == IMTCP_OK &&
			    s.results[j].avail_bps > truth * 9 / 10 &&
			    s.results[j].avail_bps < truth * 11 / 10)
				found_us = s.results[j].at_us - c.step_at_us;
		if (getenv("IMTCP_SHOW"))
			printf("   found after %.0f ms\n", (double)found_us / 1e3);
		/* includes a pause of 20 RTT, and time to search */
		assert_true(found_us > 0);
		assert_at_most(found_us, 2 * SEC);
	}
}

static void paths_of_every_size_are_measured(void **state)
{
	static const struct {
		const char *name;
		uint64_t kbps;
		uint32_t rtt_us;
	} table[] = {
		{"2 Mbit/s, 50 ms", 2000, 50000},     {"10 Mbit/s, 20 ms", 10000, 20000},
		{"10 Mbit/s, 300 ms", 10000, 300000}, {"50 Mbit/s, 100 ms", 50000, 100000},
		{"1 Gbit/s, 5 ms", 1000000, 5000},    {"1 Gbit/s, 30 ms", 1000000, 30000},
	};
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		struct sim_cfg c = path(table[i].name);
		struct sim_summary r;

		c.capacity_bps = table[i].kbps * KBPS;
		c.cross_bps = c.capacity_bps * 3 / 10;
		c.rtt_us = table[i].rtt_us;
		c.acks_every = 2;
		r = sim_over(&s, &c, 20, 5 * SEC);
		/* A window of nine packets carries few streams, so some results are of another
		 * range. */
		if (!r.count[IMTCP_OK] || r.error_p50_pct > 15 || (i && r.error_p90_pct > 15))
			fail_msg("%s: %u valid of %u, median %llu of %llu, p90 %.1f %%",
				 table[i].name, r.count[IMTCP_OK], r.results,
				 (unsigned long long)r.median_bps,
				 (unsigned long long)sim_avail_bps(&s), r.error_p90_pct);
	}
}

/* ---- receivers ---- */

static void every_second_packet_acknowledged_chooses_the_larger_n(void **state)
{
	struct sim_cfg c = path("single segments, delayed ACKs");
	struct sim_summary r;

	(void)state;
	c.acks_every = 2;
	c.max_chunk = 1;
	r = sim_over(&s, &c, 6, 2 * SEC);
	assert_int_equal(s.flow.meas.n, 12);
	assert_at_least(r.count[IMTCP_OK], 20);
	c.name = "single segments, an ACK each";
	c.acks_every = 1;
	sim_over(&s, &c, 6, 2 * SEC);
	assert_int_equal(s.flow.meas.n, 8);
}

/*
 * ACKs wait for the next multiple of some milliseconds, as with Wi-Fi aggregation. A stream with
 * intervals of that length looks undisturbed. At most a tenth of the results may be valid, over
 * eleven rates of cross traffic.
 */
static void bunched_acks_are_rejected_not_averaged_in(void **state)
{
	static const uint32_t bunch_us[] = {3000, 5000, 10000};
	size_t i;
	int filter;

	(void)state;
	for (i = 0; i < sizeof(bunch_us) / sizeof(bunch_us[0]); i++) {
		for (filter = 0; filter < 2; filter++) {
			struct sim_cfg c = path(filter ? "ACK filter" : "bunched ACKs");
			uint32_t k, wild = 0, results = 0, valid = 0;
			uint64_t avail_bps;

			c.bunch_us = bunch_us[i];
			c.ack_filter = filter;
			c.max_chunk = 2;
			for (c.cross_bps = 30 * MBPS; c.cross_bps <= 70 * MBPS;
			     c.cross_bps += 4 * MBPS) {
				struct sim_summary r = sim_over(&s, &c, 10, 2 * SEC);

				results += r.results;
				valid += r.count[IMTCP_OK];
				avail_bps = sim_avail_bps(&s);
				for (k = 0; k < s.n_results; k++)
					wild += s.results[k].at_us > START + 2 * SEC &&
						s.results[k].outcome == IMTCP_OK &&
						(s.results[k].avail_bps > avail_bps * 3 / 2 ||
						 s.results[k].avail_bps < avail_bps / 2);
			}
			if (wild * 10 > results)
				fail_msg("%s %u us: %u of %u results are called valid and are "
					 "wrong by half",
					 c.name, bunch_us[i], wild, results);
			assert_true(results > valid);
		}
	}
}

static void gro_at_the_receiver_leaves_the_estimate(void **state)
{
	struct sim_cfg c = path("GRO");
	struct sim_summary r;

	(void)state;
	c.cross_bps = 40 * MBPS;
	c.gro = 1;
	r = sim_over(&s, &c, 8, 2 * SEC);
	assert_at_least(r.count[IMTCP_OK], 20);
	if (r.error_p90_pct > 10)
		fail_msg("p90 of the error %.1f %%", r.error_p90_pct);
}

static void jitter_on_the_way_back_costs_accuracy_not_sanity(void **state)
{
	struct sim_cfg c = path("jitter 300 us");
	struct sim_summary r;

	(void)state;
	c.cross_bps = 40 * MBPS;
	c.jitter_us = 300;
	r = sim_over(&s, &c, 10, 2 * SEC);
	assert_at_least(r.count[IMTCP_OK], 10);
	if (r.error_p50_pct > 20)
		fail_msg("error p50 %.1f %%", r.error_p50_pct);
}

/* ---- token bucket ---- */

/* A bucket of 64 KB with 20 Mbit/s on a link of 100 Mbit/s: 43 packets pass without strain. */
static void behind_a_token_bucket_the_sustained_rate_is_found(void **state)
{
	struct sim_cfg c = path("token bucket 20 Mbit/s, 64 KB");
	struct sim_summary r;

	(void)state;
	c.bucket_bps = 20 * MBPS;
	c.bucket_bytes = 65536;
	sim_init(&s, &c);
	sim_run(&s, START + 20 * SEC);
	r = sim_summary(&s, START + 3 * SEC, 20 * MBPS);
	assert_at_least(r.count[IMTCP_OK], 50);
	assert_at_most(r.most_bps, 20 * MBPS * 115 / 100);
	if (r.error_p90_pct > 10)
		fail_msg("p90 of the error %.1f %%", r.error_p90_pct);
	assert_at_most(s.flow.meas.smoothed_bps, 20 * MBPS * 115 / 100);
	assert_at_least((uint64_t)sim_goodput_bps(&s, 20), 19 * MBPS);
}

/* ---- the connection that measures ---- */

static void a_hold_lasts_no_longer_than_t(void **state)
{
	static const uint64_t mbps[] = {1, 5, 20, 100, 1000};
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(mbps) / sizeof(mbps[0]); i++) {
		struct sim_cfg c = path("holds");

		c.capacity_bps = mbps[i] * MBPS;
		c.cross_bps = c.capacity_bps / 4;
		c.cross_in_packets = 1;
		c.acks_every = 2;
		sim_over(&s, &c, 6, SEC);
		/* wire bytes per payload byte are in 1/256: an error below 1 % */
		assert_at_most(s.longest_hold_us, IMTCP_T_MAX_US * 101 / 100);
	}
}

static void measuring_leaves_an_idle_path_nearly_full(void **state)
{
	struct sim_cfg c = path("alone, bg");

	(void)state;
	c.acks_every = 2;
	sim_over(&s, &c, 10, 2 * SEC);
	if (sim_goodput_bps(&s, 10) < 90e6)
		fail_msg("goodput %.1f of 100 Mbit/s", sim_goodput_bps(&s, 10) / 1e6);
	/* and with a short queue of at most 12 packets */
	assert_at_most(s.queue_sum_us / s.queue_samples, 12 * 120);
}

static void bg_takes_what_is_free_and_builds_no_queue(void **state)
{
	struct sim_cfg c = path("beside 50 %, bg");

	(void)state;
	c.cross_bps = 50 * MBPS;
	c.acks_every = 2;
	sim_over(&s, &c, 10, 2 * SEC);
	if (sim_goodput_bps(&s, 10) < 42e6 || sim_goodput_bps(&s, 10) > 51e6)
		fail_msg("goodput %.1f of 50 Mbit/s", sim_goodput_bps(&s, 10) / 1e6);
	assert_at_most(s.queue_sum_us / s.queue_samples, 30 * 120);
}

static void asking_many_times_before_each_departure_changes_no_result(void **state)
{
	static struct sim once;
	struct sim_cfg c = path("asked once");
	uint32_t i;

	(void)state;
	c.cross_bps = 30 * MBPS;
	c.cross_in_packets = 1;
	c.acks_every = 2;
	sim_over(&s, &c, 5, SEC);
	once = s;
	c.name = "asked six times";
	c.idempotence = 1;
	sim_over(&s, &c, 5, SEC);
	assert_int_equal(s.n_results, once.n_results);
	assert_true(s.n_results > 10);
	for (i = 0; i < s.n_results; i++)
		assert_memory_equal(&s.results[i], &once.results[i], sizeof(s.results[i]));
	assert_int_equal(s.bytes_acked, once.bytes_acked);
}

static void two_runs_are_equal(void **state)
{
	static struct sim first;
	struct sim_cfg c = path("again");

	(void)state;
	c.cross_bps = 50 * MBPS;
	c.cross_in_packets = 1;
	c.jitter_us = 100;
	sim_over(&s, &c, 3, SEC);
	first = s;
	sim_over(&s, &c, 3, SEC);
	assert_memory_equal(&first, &s, sizeof(s));
}

/* Two streams in a row are below A, so the others are not sent [IM §3.2.3]. */
static void two_flat_streams_end_a_measurement_early(void **state)
{
	struct sim_cfg c = path("a step up");
	uint32_t i, early = 0;

	(void)state;
	c.cross_bps = 70 * MBPS;
	c.cross_after_bps = 0;
	c.step_at_us = START + 4 * SEC;
	sim_over(&s, &c, 8, SEC);
	for (i = 0; i < s.n_results; i++) {
		const struct sim_result *r = &s.results[i];

		if (r->outcome != IMTCP_OUT_OF_RANGE || r->sub_range)
			continue;
		/* above the range: never more than two streams */
		early += r->streams == 2;
		assert_true(r->next_high_bps > r->high_bps ||
			    r->high_bps >=
				    s.flow.meas.capacity_bps); /* or the capacity limits it */
	}
	assert_true(early > 0);
}

static void misses_widen(struct sim_cfg c)
{
	uint32_t i, above = 0, below = 0;
	int up;

	for (up = 0; up < 2; up++) {
		c.cross_bps = up ? 70 * MBPS : 0;
		c.cross_after_bps = up ? 10 * MBPS : 75 * MBPS;
		c.step_at_us = START + 4 * SEC;
		sim_over(&s, &c, 8, SEC);
		for (i = 0; i < s.n_results; i++) {
			const struct sim_result *r = &s.results[i];
			uint64_t width = r->high_bps - r->low_bps;

			if (r->outcome != IMTCP_OUT_OF_RANGE)
				continue;
			if (r->sub_range == 0 &&
			    r->high_bps + width / 2 < s.flow.meas.capacity_bps) {
				assert_within_pct(r->next_high_bps, r->high_bps + width / 2, 0.1);
				above++;
			} else if (r->sub_range > IMTCP_SUB_RANGES &&
				   r->low_bps > width / 2 + s.flow.meas.capacity_bps /
								    IMTCP_LOW_CAPACITY_DIV) {
				assert_within_pct(r->next_low_bps, r->low_bps - width / 2, 0.1);
				below++;
			}
		}
	}
	assert_true(above > 0);
	assert_true(below > 0);
}

/* As in the paper. Judged by gaps, a result below the range needs no search. */
static void misses_widen_the_range_by_half_of_its_width(void **state)
{
	struct sim_cfg c = path("misses");

	(void)state;
	c.control = &control_paper;
	misses_widen(c);
}

static void a_free_path_is_measured_without_pause_and_a_congested_one_with(void **state)
{
	struct sim_cfg c = path("free");

	(void)state;
	sim_over(&s, &c, 6, SEC);
	assert_int_equal(s.flow.meas.pause_rtts, 0);
	/* a measurement every few round trips */
	assert_at_least(s.n_results, 6 * SEC / 30000 / 8);
	/* Reno with a window of three times the path keeps a queue. */
	c.name = "congested";
	c.reno = 1;
	c.cwnd_segs = 750;
	sim_over(&s, &c, 10, SEC);
	assert_at_least(s.flow.meas.pause_rtts, 20);
	assert_at_most(s.n_results, 10 * SEC / 30000 / 8);
}

/* ---- adverse conditions ---- */

/* A token bucket passed the first train at 3 Gbit/s, and slow start waits for that range. Later
 * trains show 50 Mbit/s. */
static void a_range_that_the_capacity_rules_out_is_left(void **state)
{
	struct imtcp_round round = {0};
	struct imtcp_meas m;
	struct imtcp_sample ev = {.now_us = 1000000, .min_rtt_us = 50, .wire_q8 = 256};

	(void)state;
	memset(&m, 0, sizeof(m));
	imtcp_meas_set_range(&m, 1500000000, 3000000000);
	m.capacity_bps = 50000000;
	imtcp_meas_round(&m, &round, &ev);
	assert_int_equal(m.low_bps, 25000000);
	assert_int_equal(m.high_bps, 50000000);
	/* Not while its streams are under way, and not for a range that overlaps. */
	imtcp_meas_set_range(&m, 25000000, 56000000);
	m.capacity_bps = 23000000;
	imtcp_meas_round(&m, &round, &ev);
	assert_int_equal(m.low_bps, 25000000);
	m.planned = IMTCP_SUB_RANGES;
	m.capacity_bps = 20000000;
	imtcp_meas_round(&m, &round, &ev);
	assert_int_equal(m.low_bps, 25000000);
}

/* The ACKs of the first train stop for half a second, so its rate is wrong. The connection must not
 * stay at that rate. */
static void a_stalled_first_train_does_not_starve_the_connection(void **state)
{
	static const uint64_t stall_at[] = {30500, 30900, 33000};
	size_t i;

	(void)state;
	for (i = 0; i < 3; i++) {
		struct sim_cfg c = path("stalled first train");

		c.stall_at_us = START + stall_at[i];
		c.stall_us = 500000;
		sim_over(&s, &c, 20, 5 * SEC);
		if (sim_goodput_bps(&s, 20) < 50e6)
			fail_msg("goodput %.2f of 100 Mbit/s; range %llu to %llu, capacity %llu",
				 sim_goodput_bps(&s, 20) / 1e6,
				 (unsigned long long)s.flow.meas.low_bps,
				 (unsigned long long)s.flow.meas.high_bps,
				 (unsigned long long)s.flow.meas.capacity_bps);
	}
}

static void a_stall_in_the_middle_is_forgotten(void **state)
{
	struct sim_cfg c = path("stall in the middle");
	struct sim_summary r;

	(void)state;
	c.cross_bps = 30 * MBPS;
	c.stall_at_us = START + 4 * SEC;
	c.stall_us = 300000;
	r = sim_over(&s, &c, 12, 8 * SEC);
	assert_at_least(r.count[IMTCP_OK], 10);
	if (r.error_p90_pct > 10)
		fail_msg("p90 of the error %.1f %%", r.error_p90_pct);
}

static void a_pacing_ceiling_below_the_range_harms_nothing(void **state)
{
	struct sim_cfg c = path("ceiling 10 Mbit/s");

	(void)state;
	c.max_bps = 10 * MBPS;
	c.acks_every = 2;
	sim_over(&s, &c, 10, 2 * SEC);
	if (sim_goodput_bps(&s, 10) < 8.5e6 || sim_goodput_bps(&s, 10) > 10.5e6)
		fail_msg("goodput %.2f of 10 Mbit/s", sim_goodput_bps(&s, 10) / 1e6);
}

static void a_short_transfer_ends_as_fast_as_without_measuring(void **state)
{
	struct sim_cfg c = path("300 KB");
	uint64_t at_us = 0;

	(void)state;
	c.app_bytes = 300000;
	sim_init(&s, &c);
	while (s.bytes_acked < c.app_bytes && at_us < 3 * SEC)
		sim_run(&s, START + (at_us += 1000));
	/* slow start from 10 to 160 segments: five round trips, and their sending */
	assert_at_most(at_us, 6 * 30000 + 50000);
}

static void a_tiny_window_and_a_tiny_path_go_on(void **state)
{
	struct sim_cfg c = path("window of 3");

	(void)state;
	c.cwnd_segs = 3;
	c.acks_every = 2;
	sim_over(&s, &c, 5, SEC);
	assert_true(sim_goodput_bps(&s, 5) > 0.8 * 3 * 12000 / 0.070); /* delayed ACKs cost 40 ms */
	c.name = "64 kbit/s";
	c.capacity_bps = 64 * KBPS;
	c.cwnd_segs = 0;
	sim_over(&s, &c, 60, 10 * SEC);
	if (sim_goodput_bps(&s, 60) < 0.7 * 64e3)
		fail_msg("goodput %.1f of 64 kbit/s", sim_goodput_bps(&s, 60) / 1e3);
}

/* ---- a share of the bandwidth [IM §5.1] ---- */

static void with_a_share_the_whole_is_still_measured_and_the_share_is_taken(void **state)
{
	static const uint32_t shares_q8[] = {64, 128, 192, 230};
	size_t i;
	uint32_t every;

	(void)state;
	for (i = 0; i < sizeof(shares_q8) / sizeof(shares_q8[0]); i++)
		for (every = 1; every <= 2; every++) {
			struct sim_cfg c = path("a share");
			double share = shares_q8[i] / 256.0;

			c.acks_every = every;
			sim_init(&s, &c);
			s.flow.params.g_q8 = shares_q8[i];
			sim_run(&s, START + 10 * SEC);
			assert_within_pct(s.flow.meas.smoothed_bps, 100 * MBPS, 8);
			/* Holds cost more of a smaller window. The cap is a 20th above the
			 * estimate, in whole segments. */
			assert_at_least((uint64_t)sim_goodput_bps(&s, 10),
					(uint64_t)(share * 85 * MBPS));
			assert_at_most((uint64_t)sim_goodput_bps(&s, 10),
				       (uint64_t)(share * 106 * MBPS));
		}
}

/* ---- outdated estimates ---- */

/* Goodput in bit/s of imtcp_bg between from_s and until_s, on 50 Mbit/s or more. */
static double goodput_bps(const struct sim_cfg *c, uint64_t from_s, uint64_t until_s)
{
	uint64_t start_us, before;

	sim_init(&s, c);
	start_us = sim_us(&s);
	sim_run(&s, start_us + from_s * IMTCP_USEC_PER_SEC);
	before = s.bytes_acked;
	sim_run(&s, start_us + until_s * IMTCP_USEC_PER_SEC);
	s.bytes_acked -= before;
	return sim_goodput_bps(&s, until_s - from_s);
}

static struct sim_cfg path_of_30_ms(uint64_t capacity_bps)
{
	struct sim_cfg c = {.capacity_bps = capacity_bps, .rtt_us = 30000, .acks_every = 2};

	return c;
}

/* At most 16 KB are unsent, so no stream is ever filled. */
static void a_program_that_writes_little_takes_what_becomes_free(void **state)
{
	struct sim_cfg c = path_of_30_ms(100 * MBPS);

	(void)state;
	c.unsent_bytes = 16384;
	c.cross_in_packets = 1;
	c.cross_bps = 80 * MBPS;
	c.step_at_us = 11 * IMTCP_USEC_PER_SEC;
	assert_true(goodput_bps(&c, 20, 30) > 0.9 * 100e6);
}

/* Wi-Fi sends only the newest ACK, each 8 ms. */
static void where_acks_are_thinned_an_idle_path_is_used(void **state)
{
	struct sim_cfg c = path_of_30_ms(100 * MBPS);

	(void)state;
	c.ack_filter = 1;
	c.bunch_us = 8000;
	assert_true(goodput_bps(&c, 10, 20) > 0.85 * 100e6);
	c.bunch_us = 4000;
	assert_true(goodput_bps(&c, 30, 40) > 0.75 * 100e6);
}

static void a_path_that_becomes_longer_is_used_again_after_seconds(void **state)
{
	struct sim_cfg c = path_of_30_ms(50 * MBPS);

	(void)state;
	c.step_at_us = 11 * IMTCP_USEC_PER_SEC;
	c.rtt_after_us = 90000;
	/* five seconds until the path counts as another, and slow start */
	assert_true(goodput_bps(&c, 18, 22) > 0.75 * 50e6);
	assert_true(goodput_bps(&c, 22, 24) > 0.9 * 50e6);
	c.jitter_us = 4000;
	assert_true(goodput_bps(&c, 18, 22) > 0.7 * 50e6);
	assert_true(goodput_bps(&c, 22, 30) > 0.75 * 50e6);
	/* Less than the tolerated queue: learned after two drains. */
	c.jitter_us = 0;
	c.rtt_after_us = 35000;
	assert_true(goodput_bps(&c, 32, 40) > 0.95 * 50e6);
}

/* Two machines behind one address: the other's connections have half of this path's RTT, and report
 * it each second. */
static void who_hears_of_a_shorter_way_that_is_not_ones_own_gives_it_up_after_seconds(void **state)
{
	struct sim_cfg c = path_of_30_ms(50 * MBPS);
	uint64_t before = 0, start_us;

	(void)state;
	sim_init(&s, &c);
	start_us = sim_us(&s);
	for (uint64_t i = 1; i <= 20; i++) {
		sim_run(&s, start_us + i * IMTCP_USEC_PER_SEC);
		imtcp_minrtt_hear(&s.flow.facts.minrtt, 15000);
		if (i == 15)
			before = s.bytes_acked;
	}
	s.bytes_acked -= before;
	assert_at_least(s.flow.facts.minrtt.base_us, 30000);
	assert_true(sim_goodput_bps(&s, 5) > 0.9 * 50e6);
}

/* For three minutes a foreign queue of 100 to 200 ms never empties. Half of the capacity would be
 * free. */
static void beside_a_queue_that_never_empties_it_goes_on_yielding(void **state)
{
	struct sim_cfg c = path_of_30_ms(50 * MBPS);

	(void)state;
	c.others_us = 200000;
	c.others_period_us = 20000000;
	assert_true(goodput_bps(&c, 10, 180) < 0.02 * 50e6);
}

SUITE(meas, T(a_program_that_writes_little_takes_what_becomes_free),
      T(where_acks_are_thinned_an_idle_path_is_used),
      T(a_path_that_becomes_longer_is_used_again_after_seconds),
      T(who_hears_of_a_shorter_way_that_is_not_ones_own_gives_it_up_after_seconds),
      T(beside_a_queue_that_never_empties_it_goes_on_yielding),
      T(after_the_first_train_the_range_is_half_of_its_rate_to_all_of_it),
      T(available_bandwidth_is_found_within_a_few_percent),
      T(cross_traffic_in_packets_does_not_bias_the_estimate),
      T(judged_by_gaps_bursts_do_not_bias_the_estimate),
      T(beside_bursts_no_more_is_taken_than_is_there), T(the_estimate_follows_a_step_down_and_up),
      T(paths_of_every_size_are_measured), T(every_second_packet_acknowledged_chooses_the_larger_n),
      T(bunched_acks_are_rejected_not_averaged_in), T(gro_at_the_receiver_leaves_the_estimate),
      T(jitter_on_the_way_back_costs_accuracy_not_sanity),
      T(behind_a_token_bucket_the_sustained_rate_is_found), T(a_hold_lasts_no_longer_than_t),
      T(measuring_leaves_an_idle_path_nearly_full), T(bg_takes_what_is_free_and_builds_no_queue),
      T(asking_many_times_before_each_departure_changes_no_result), T(two_runs_are_equal),
      T(two_flat_streams_end_a_measurement_early), T(misses_widen_the_range_by_half_of_its_width),
      T(a_free_path_is_measured_without_pause_and_a_congested_one_with),
      T(a_range_that_the_capacity_rules_out_is_left),
      T(a_stalled_first_train_does_not_starve_the_connection),
      T(a_stall_in_the_middle_is_forgotten), T(a_pacing_ceiling_below_the_range_harms_nothing),
      T(a_short_transfer_ends_as_fast_as_without_measuring), T(a_tiny_window_and_a_tiny_path_go_on),
      T(with_a_share_the_whole_is_still_measured_and_the_share_is_taken))
