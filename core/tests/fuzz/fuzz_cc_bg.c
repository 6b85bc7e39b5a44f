// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "fuzz.h"
#include <imtcp/cc_bg.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct bytes in = {data, size};
	static struct imtcp_meas m;
	struct imtcp_facts f;
	struct imtcp_bg b;
	struct imtcp_window w = {1 + (uint32_t)take_any(&in) % 1000000, (uint32_t)take_any(&in), 0,
				 0};
	struct imtcp_params p;
	uint64_t now = 0;

	memset(&m, 0, sizeof(m));
	memset(&b, 0, sizeof(b));
	memset(&f, 0, sizeof(f));
	take_params(&in, &p);
	while (in.left) {
		uint64_t v = take_any(&in);
		uint32_t floor_segs = take8(&in), before = w.cwnd_segs;
		struct imtcp_result result;
		struct imtcp_bg_round_end end;
		struct imtcp_estimate e;

		switch (take8(&in) % 5) {
		case 0:
			memset(&result, 0, sizeof(result));
			result.at_us = now;
			result.avail_bps = v;
			result.outcome = take8(&in) % IMTCP_OUTCOMES;
			imtcp_bg_on_result(&b, &m, &p, &result);
			imtcp_bg_note_age(&b, &result);
			break;
		case 1:
			imtcp_minrtt_on_sample(&f.minrtt, now, (int32_t)v);
			imtcp_bg_on_rtt(&b, f.minrtt.base_us, now, (int32_t)v);
			break;
		case 2:
			m.high_bps = v >> 8;
			m.low_bps = m.high_bps / 2;
			e = imtcp_estimate_now(&m);
			imtcp_bg_set_cap(&b, &f, &p, &e, 1 + (uint32_t)take_any(&in) % 9200,
					 floor_segs);
			/* no RTTmin, no rate: no new cap */
			if (!f.minrtt.base_us || !(m.smoothed_bps || m.high_bps > 1))
				break;
			if (b.cap_lapsed || imtcp_too_short(f.minrtt.base_us))
				MUST(!f.cap_segs);
			else
				MUST(f.cap_segs >= floor_segs && f.cap_segs >= IMTCP_BG_LEAST_SEGS);
			break;
		case 3:
			memset(&f.round, 0, sizeof(f.round));
			now += take_any(&in) >> 34;
			f.round.last_least_rtt_us = (uint32_t)v;
			f.round.last_samples = take8(&in);
			end.now_us = now;
			end.floor_segs = floor_segs;
			end.busy = take8(&in) & 1;
			imtcp_bg_lapse(&b, &m, &p, now);
			imtcp_bg_on_round(&b, &f, &p, &w, &end);
			MUST(w.cwnd_segs <= before);
			MUST(w.cwnd_segs == before || w.cwnd_segs >= IMTCP_BG_LEAST_SEGS);
			MUST(b.draining || w.cwnd_segs == before || w.cwnd_segs >= floor_segs);
			break;
		default:
			imtcp_bg_apply_cap(&b, &f, &w, floor_segs);
			MUST(w.cwnd_segs <= before);
			MUST(!f.cap_segs || w.cwnd_segs <= imtcp_max(f.cap_segs, floor_segs));
			break;
		}
		MUST(w.cwnd_segs >= 1);
	}
	return 0;
}
