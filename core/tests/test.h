/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Shared by all test files: cmocka, suites, seeded random numbers, comparisons in percent.
 */
#ifndef IMTCP_TEST_H
#define IMTCP_TEST_H

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <imtcp/cc_bg.h>

#define KBPS 1000ULL
#define MBPS 1000000ULL
#define GBPS 1000000000ULL
#define MSEC 1000ULL

/* A suite is a function that runs its tests, adds their number and returns how many failed. */
#define SUITE(name, ...)                                                                           \
	int suite_##name(int *count)                                                               \
	{                                                                                          \
		const struct CMUnitTest tests[] = {__VA_ARGS__};                                   \
		*count += (int)(sizeof(tests) / sizeof(tests[0]));                                 \
		return cmocka_run_group_tests_name(#name, tests, NULL, NULL);                      \
	}
#define T(fn) cmocka_unit_test(fn)

/* xorshift64*: the same numbers everywhere. */
static inline uint64_t rnd(uint64_t *state)
{
	*state ^= *state >> 12;
	*state ^= *state << 25;
	*state ^= *state >> 27;
	return *state * 2685821657736338717ULL;
}

/* Uniform in low...high. */
static inline uint64_t rnd_in(uint64_t *state, uint64_t low, uint64_t high)
{
	return low + rnd(state) % (high - low + 1);
}

/* A number of any magnitude: the exponent is uniform. */
static inline uint64_t rnd_any(uint64_t *state)
{
	uint64_t v = rnd(state);

	return v >> (rnd(state) & 63);
}

/* A connection with all defaults. */
static inline const struct imtcp_params *defaults(void)
{
	static struct imtcp_params p;

	imtcp_params_init(&p);
	return &p;
}

/* An ACK, of which the connection knows whether it ended a round trip. */
static inline int meas_on_ack(struct imtcp_meas *m, struct imtcp_round *r, struct imtcp_sample *s)
{
	s->round_over = (uint32_t)imtcp_round_on_ack(r, s->now_us, s->snd_una, s->snd_nxt,
						     s->rtt_us, s->wire_q8);
	return imtcp_meas_on_ack(m, r, s);
}

#define assert_within_pct(value, expected, pct)                                                    \
	do {                                                                                       \
		uint64_t v_ = (value), e_ = (expected), d_ = v_ > e_ ? v_ - e_ : e_ - v_;          \
                                                                                                   \
		if ((double)d_ * 100.0 > (double)e_ * (pct))                                       \
			fail_msg("%s = %llu, not within %g %% of %llu", #value,                    \
				 (unsigned long long)v_, (double)(pct), (unsigned long long)e_);   \
	} while (0)

#define assert_at_most(value, most)                                                                \
	do {                                                                                       \
		uint64_t v_ = (value), m_ = (most);                                                \
                                                                                                   \
		if (v_ > m_)                                                                       \
			fail_msg("%s = %llu, over %llu", #value, (unsigned long long)v_,           \
				 (unsigned long long)m_);                                          \
	} while (0)

#define assert_at_least(value, least)                                                              \
	do {                                                                                       \
		uint64_t v_ = (value), l_ = (least);                                               \
                                                                                                   \
		if (v_ < l_)                                                                       \
			fail_msg("%s = %llu, under %llu", #value, (unsigned long long)v_,          \
				 (unsigned long long)l_);                                          \
	} while (0)

#endif
