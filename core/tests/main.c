// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* tests [suite [pattern]]: runs all suites, one suite, or the tests of it that match. */
#include "test.h"

#define SUITES(X)                                                                                  \
	X(fixed)                                                                                   \
	X(filter)                                                                                  \
	X(stream)                                                                                  \
	X(gap)                                                                                     \
	X(neighbours)                                                                              \
	X(front)                                                                                   \
	X(choice)                                                                                  \
	X(params)                                                                                  \
	X(facts)                                                                                   \
	X(flow)                                                                                    \
	X(control)                                                                                 \
	X(meas)                                                                                    \
	X(cc_reno)                                                                                 \
	X(cc_bg)                                                                                   \
	X(delay)                                                                                   \
	X(cc_lp)                                                                                   \
	X(cc_nice)                                                                                 \
	X(cc_ledbat)                                                                               \
	X(cc_ledbatpp)                                                                             \
	X(cc_fs)                                                                                   \
	X(paper)                                                                                   \
	X(receive)                                                                                 \
	X(steps)                                                                                   \
	X(property)

#define DECLARE(name) int suite_##name(int *count);
SUITES(DECLARE)

#define ROW(name) {#name, suite_##name},
static const struct {
	const char *name;
	int (*run)(int *count);
} suites[] = {SUITES(ROW)};

int main(int argc, char **argv)
{
	int count = 0, failed = 0;
	size_t i;

	if (argc > 2)
		cmocka_set_test_filter(argv[2]);
	for (i = 0; i < sizeof(suites) / sizeof(suites[0]); i++) {
		if (argc > 1 && strcmp(argv[1], suites[i].name))
			continue;
		failed += suites[i].run(&count);
	}
	fflush(stderr);
	if (argc > 2) /* the filter does not report how many it took */
		printf("%d failed\n", failed);
	else
		printf("%d passed, %d failed\n", count - failed, failed);
	return failed || !count;
}
