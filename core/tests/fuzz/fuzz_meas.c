// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "fuzz.h"
#include "drive.h"

static uint64_t fuzz_next(void *of)
{
	return take_any(of);
}

static int fuzz_more(void *of)
{
	return ((struct bytes *)of)->left > 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct bytes in = {data, size};
	struct drive_source src = {fuzz_next, fuzz_more, &in};
	static struct drive d;

	MUST(drive_run(&d, &src) == NULL);
	return 0;
}
