// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "../steps.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct bytes in = {data, size};

	MUST(!steps_paper(&in));
	return 0;
}
