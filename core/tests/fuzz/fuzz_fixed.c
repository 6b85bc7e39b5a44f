// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "fuzz.h"
#include <imtcp/fixed.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct bytes in = {data, size};
	uint64_t a = take_any(&in), b = take_any(&in), c = take_any(&in), r;
	unsigned __int128 wide = (unsigned __int128)a * b;

	MUST(imtcp_mul(a, b) == (wide > IMTCP_U64_MAX ? IMTCP_U64_MAX : (uint64_t)wide));
	MUST(imtcp_div(a, b) == (b ? a / b : 0));
	MUST(imtcp_sub(a, b) + imtcp_min(a, b) == a);
	MUST(imtcp_clamp(a, b, c) <= c);
	r = imtcp_isqrt(a);
	MUST(r <= IMTCP_U32_MAX);
	MUST(r * r <= a);
	MUST((unsigned __int128)(r + 1) * (r + 1) > a);
	/* the round trip never gives more */
	if (a < 1ULL << 40 && b && b < 1ULL << 40)
		MUST(imtcp_bytes_in(imtcp_rate_bps(a, b), b) <= a);
	MUST(imtcp_to_u32(a) <= a);
	MUST(imtcp_scale(a, b, 0) == 0);
	MUST(!imtcp_seq_before((uint32_t)a, (uint32_t)b) ||
	     !imtcp_seq_before((uint32_t)b, (uint32_t)a) || (uint32_t)a - (uint32_t)b == 1U << 31);
	imtcp_time_us(a, b);
	return 0;
}
