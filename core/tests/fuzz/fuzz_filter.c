// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "fuzz.h"
#include <imtcp/filter.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct bytes in = {data, size};
	struct imtcp_store store = {0, 0, 0, 0};
	struct imtcp_round round;
	struct imtcp_minrtt minrtt;
	uint64_t capacity = 0, avg = 0, now = 0;
	uint32_t una = (uint32_t)take(&in);

	memset(&round, 0, sizeof(round));
	memset(&minrtt, 0, sizeof(minrtt));
	while (in.left) {
		uint64_t v = take_any(&in), before;
		uint32_t base, count;

		switch (take8(&in) % 6) {
		case 0:
			before = avg;
			avg = imtcp_ewma_by(avg, v, 1 + (uint32_t)take_any(&in) % 65536);
			MUST(avg <= imtcp_max(before, v));
			break;
		case 1:
			imtcp_store_add(&store, v);
			MUST(store.count && store.count <= IMTCP_STORE_MAX);
			MUST(imtcp_store_deviation_bps(&store) <= (1ULL << 30) * 1000);
			break;
		case 2:
			before = capacity;
			capacity = imtcp_capacity_update(capacity, v);
			MUST(!before || capacity <= before || capacity - before <= before / 8);
			break;
		case 3:
			now += v >> 20;
			una += (uint32_t)take_any(&in);
			count = round.count;
			imtcp_round_on_ack(&round, now, una, una + (uint32_t)take_any(&in),
					   (int32_t)take_any(&in), 256 + take8(&in));
			MUST(round.count - count <= 1);
			break;
		case 4:
			/* the second sample may show that the first was an outlier */
			base = minrtt.second_us ? minrtt.base_us : 0;
			imtcp_minrtt_on_sample(&minrtt, now, (int32_t)v);
			MUST(!base || minrtt.base_us <= base);
			break;
		default:
			now += v >> 34;
			imtcp_minrtt_on_round(&minrtt, now, take8(&in) & 1,
					      (uint32_t)take_any(&in));
			MUST(minrtt.drain_rounds <= IMTCP_MINRTT_DRAIN_ROUNDS + 1);
			break;
		}
	}
	return 0;
}
