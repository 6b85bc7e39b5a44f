// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "fuzz.h"
#include <imtcp/cc_reno.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct bytes in = {data, size};
	struct imtcp_window w = {1 + (uint32_t)take_any(&in) % 1000000, (uint32_t)take_any(&in), 0,
				 0};

	while (in.left) {
		uint32_t acked = (uint32_t)take_any(&in), limit = 1 + (uint32_t)take_any(&in) / 2;
		uint32_t before = w.cwnd_segs;
		int slow = imtcp_in_slow_start(&w);

		if (take8(&in) & 1) {
			w.ssthresh_segs = imtcp_reno_ssthresh(w.cwnd_segs);
			MUST(w.ssthresh_segs >= IMTCP_RENO_LEAST_SEGS);
			MUST(w.ssthresh_segs <= imtcp_max(w.cwnd_segs, IMTCP_RENO_LEAST_SEGS));
			continue;
		}
		imtcp_reno_grow(&w, acked, limit);
		MUST(w.cwnd_segs <= limit && w.cwnd_segs >= 1);
		MUST(w.cwnd_segs <= (uint64_t)before + acked + 1);
		if (!slow)
			MUST(w.cwnd_segs <= (uint64_t)before + 1);
		if (!acked)
			MUST(w.cwnd_segs <= before);
	}
	return 0;
}
