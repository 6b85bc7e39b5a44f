// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "fuzz.h"
#include <imtcp/receive.h>

/* A sender that says anything: clocks that jump, segments of any size, losses, limits. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct bytes in = {data, size};
	static struct imtcp_receive r;
	struct imtcp_arrival a = {0};

	memset(&r, 0, sizeof(r));
	a.now_us = take_any(&in) >> 20;
	imtcp_receive_begin(&r, a.now_us);
	while (in.left) {
		uint32_t segs, ceiling;

		a.now_us += take_any(&in) >> 40;
		a.rtt_us = (int32_t)take_any(&in);
		a.bytes = (uint32_t)take_any(&in);
		a.mss_bytes = (uint16_t)take_any(&in);
		a.early_segs += take8(&in) & 1;
		a.marked = take8(&in) & 4;
		a.left_bytes = (uint32_t)take_any(&in);
		a.delta_q8 = IMTCP_DELTA_LEAST_Q8 + take8(&in);
		a.ledbatpp_target_us = take8(&in) & 1 ? IMTCP_LEDBATPP_TARGET_US : 0;
		a.neighbours = take8(&in);
		a.floor_bps = take_any(&in) >> 16;
		a.ceiling_bps = take_any(&in) >> 16;
		segs = imtcp_receive_on_arrival(&r, &a);
		MUST(segs >= 1);
		ceiling = r.mss_bytes ? imtcp_receive_segs_for(&r, a.ceiling_bps) : 0;
		/* a lie makes nobody faster than the ceiling at the round trip that it pretends; a new ceiling holds
		 * from the next byte on */
		MUST(!a.bytes || !ceiling ||
		     segs <= imtcp_max(ceiling, IMTCP_MEASURING_LEAST_SEGS));
		MUST(r.facts.yielding_us <= r.facts.busy_us);
	}
	return 0;
}
