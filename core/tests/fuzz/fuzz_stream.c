// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "fuzz.h"
#include <imtcp/stream.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct bytes in = {data, size};
	uint64_t low = take_any(&in) >> 5, high = take_any(&in) >> 5, capacity = take_any(&in),
		 cost = 0;
	uint32_t first = (uint32_t)take_any(&in), seq = first, n = take8(&in) % 20, j;
	static struct imtcp_judging g;
	struct imtcp_verdict v;
	struct imtcp_stream s;

	memset(&s, 0xa5, sizeof(s));
	imtcp_stream_start(&s, low, high, n, first);
	MUST(s.planned <= IMTCP_STREAM_MAX);
	for (j = 0; j < IMTCP_STREAM_MAX; j++)
		MUST(high < low || j >= s.planned || imtcp_stream_rate_bps(&s, j) >= low);
	while (in.left) {
		uint8_t what = take8(&in);

		if (what & 1) {
			seq += (uint32_t)take_any(&in);
			imtcp_stream_on_sent(&s, seq);
		} else {
			imtcp_stream_on_ack(&s,
					    what & 2 ? (uint32_t)take_any(&in)
						     : first + (uint32_t)take_any(&in),
					    (uint32_t)take_any(&in), (uint32_t)take_any(&in),
					    capacity);
		}
		MUST(s.sent <= IMTCP_STREAM_MAX && s.cursor <= s.sent);
		MUST(!(s.seen >> s.sent));
	}
	imtcp_stream_judge(&s, capacity, 256 + (uint32_t)(capacity & 0xffff), &g, &v);
	MUST(v.validity_pct <= 100 && v.intervals < IMTCP_STREAM_MAX);
	MUST(v.bunched <= v.intervals && v.trend <= IMTCP_TREND_FLAT);
	if (v.intervals >= IMTCP_STREAM_LEAST_INTERVALS && low <= high)
		MUST(v.avail_bps >= low && v.avail_bps <= high);
	MUST(imtcp_two_lines(&g.intervals, &cost) <= g.intervals.n);
	return 0;
}
