/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * This host's own foreground: the data that it sends by a device and that does not yield.
 *
 * A sender hears of a queue a round trip late. But a host knows at once what it sends itself. All of it passes the same
 * bottleneck if the device leads there. So a window may leave room for the foreground before a queue forms.
 *
 *      (1) F <- F (1 - dt/RTT) + newly sent bytes        at each ACK, dt after the last one
 *
 * A steady foreground has F = rate · RTT: its share of the path. A burst counts at once, and fades in a round trip.
 */
#ifndef IMTCP_FRONT_H
#define IMTCP_FRONT_H

#include "fixed.h"

struct imtcp_front {
	imtcp_u64 sent_bytes;	/* by the foreground until the last look */
	imtcp_u64 looked_us;	/* time of that look; 0: none yet */
	imtcp_u64 flight_bytes; /* F */
};

/* F after (1), bytes. sent_bytes is all that the foreground sent so far, rtt_us the base RTT of the connection that asks. */
IMTCP_INLINE imtcp_u64 imtcp_front_flight_bytes(struct imtcp_front *f, imtcp_u64 now_us,
						imtcp_u32 rtt_us, imtcp_u64 sent_bytes)
{
	imtcp_u64 passed_us = now_us - f->looked_us, more_bytes = sent_bytes - f->sent_bytes;
	/* a counter that made room for others begins at 0 again */
	int known = f->looked_us && rtt_us && sent_bytes >= f->sent_bytes;

	f->looked_us = now_us;
	f->sent_bytes = sent_bytes;
	if (!known)
		return 0;
	if (passed_us < rtt_us)
		f->flight_bytes = imtcp_scale(f->flight_bytes, rtt_us - passed_us, rtt_us) +
				  more_bytes;
	else
		f->flight_bytes = imtcp_scale(more_bytes, rtt_us, passed_us);
	return f->flight_bytes;
}

#endif
