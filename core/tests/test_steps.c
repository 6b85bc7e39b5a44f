// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Invariants for every input (steps.h), over random ones. A failure prints its seed, and
 * IMTCP_SEED=n runs that case alone.
 */
#include "test.h"
#include "steps.h"

#define CASES 3000U
#define LENGTH 4096U

static void over_random_steps(const char *(*steps)(struct bytes *in))
{
	const char *only = getenv("IMTCP_SEED");
	uint64_t i = only ? strtoull(only, NULL, 0) : 1, to = only ? i : CASES;

	for (; i <= to; i++) {
		uint64_t seed = i * 0x9e3779b97f4a7c15ULL + 1, word;
		static uint8_t data[LENGTH];
		struct bytes in = {data, sizeof(data)};
		const char *why;
		size_t at;

		for (at = 0; at < sizeof(data); at += sizeof(word)) {
			word = rnd(&seed);
			memcpy(data + at, &word, sizeof(word));
		}
		why = steps(&in);
		if (why)
			fail_msg("IMTCP_SEED=%llu: %s", (unsigned long long)i, why);
	}
}

#define HOLDS_ALWAYS(name)                                                                         \
	static void name##_holds_always(void **state)                                              \
	{                                                                                          \
		(void)state;                                                                       \
		over_random_steps(steps_##name);                                                   \
	}

HOLDS_ALWAYS(delay)
HOLDS_ALWAYS(lp)
HOLDS_ALWAYS(nice)
HOLDS_ALWAYS(ledbat)
HOLDS_ALWAYS(ledbatpp)
HOLDS_ALWAYS(fs)
HOLDS_ALWAYS(paper)

SUITE(steps, T(delay_holds_always), T(lp_holds_always), T(nice_holds_always),
      T(ledbat_holds_always), T(ledbatpp_holds_always), T(fs_holds_always), T(paper_holds_always))
