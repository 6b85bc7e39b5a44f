// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "fuzz.h"
#include <imtcp/cc_bg.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct bytes in = {data, size};
	static struct imtcp_flow c;
	struct imtcp_bg b;
	struct imtcp_window w = {1 + (uint32_t)take_any(&in) % 1000000, (uint32_t)take_any(&in), 0,
				 0};
	struct imtcp_sample s;

	memset(&c, 0, sizeof(c));
	memset(&b, 0, sizeof(b));
	memset(&s, 0, sizeof(s));
	take_params(&in, &c.params);
	while (in.left) {
		uint64_t v = take_any(&in);
		struct imtcp_decision d = {0};
		uint32_t before = w.cwnd_segs, target;
		struct imtcp_result result;

		s.now_us += take_any(&in) >> 34;
		switch (take8(&in) % 5) {
		case 0:
			memset(&result, 0, sizeof(result));
			result.at_us = s.now_us;
			result.avail_bps = v;
			result.outcome = take8(&in) % IMTCP_OUTCOMES;
			imtcp_estimate_on_result(&c.meas, &c.params, &result, take8(&in) & 1);
			break;
		case 1:
			imtcp_minrtt_on_sample(&c.facts.minrtt, s.now_us, (int32_t)v);
			s.min_rtt_us = c.facts.minrtt.base_us;
			imtcp_bg_on_rtt(&b, s.min_rtt_us, s.now_us, (int32_t)v);
			/* the queue is never longer than the newest RTT */
			MUST((int32_t)v <= 0 || !s.min_rtt_us || b.queue_us <= (uint32_t)v);
			break;
		case 2:
			c.meas.high_bps = v >> 8;
			c.meas.low_bps = c.meas.high_bps / 2;
			break;
		case 3:
			s.cwnd_segs = before;
			s.lost = take8(&in) & 1;
			s.timed_out = take8(&in) & 1;
			s.lost_segs = (uint32_t)v;
			target = imtcp_bg_target(&c, &b, &s);
			MUST(target <= imtcp_max(before, 2) && target >= 2);
			MUST(s.lost || target == imtcp_reno_ssthresh(before));
			imtcp_bg_reduced(&c, &b, &s);
			w.ssthresh_segs = target;
			w.cwnd_segs = take8(&in) & 1 ? 1 : target;
			break;
		default:
			s.acked_segs = (uint32_t)v % 100000;
			s.limit_segs = 2 + (uint32_t)(v >> 32) % 2000000;
			s.pkt_bytes = 1 + (uint32_t)take_any(&in) % 9200;
			s.full = take8(&in) & 1;
			s.round_over = take8(&in) & 1;
			s.round_full = s.full;
			s.delivered_segs = (uint32_t)take_any(&in);
			s.delivered_in_us = (uint32_t)take_any(&in);
			c.facts.acked_at_us = s.now_us;
			c.facts.neighbours = take8(&in);
			c.facts.round.last_least_rtt_us = (uint32_t)take_any(&in);
			if (s.round_over)
				imtcp_bg_bound(&c, &s);
			d.w = w;
			imtcp_bg_decide(&c, &b, &s, &d);
			/* never faster than slow start, never above the cap; a pace below two has a
			 * window of four */
			MUST(c.facts.trickle_q16 ||
			     d.w.cwnd_segs <= before + (uint64_t)s.acked_segs);
			if (c.facts.minrtt.base_us && !b.draining) {
				MUST(b.window_q16 >= imtcp_bg_least_q16(c.facts.neighbours));
				MUST(c.facts.trickle_q16 < 2 << 16);
				MUST(c.facts.trickle_q16 ? d.w.cwnd_segs == IMTCP_TRICKLE_CWND_SEGS
							 : d.w.cwnd_segs <= s.limit_segs);
				MUST(!c.facts.cap_segs || c.facts.trickle_q16 ||
				     d.w.cwnd_segs <= c.facts.cap_segs);
			}
			w = d.w;
			break;
		}
		MUST(w.cwnd_segs >= 1);
	}
	return 0;
}
