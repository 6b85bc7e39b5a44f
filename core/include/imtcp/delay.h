/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Delays of packets, for the controls that judge the queue by them: the one-way delay from TCP
 * timestamps, and LEDBAT's histories of delays.
 *
 * One-way delay
 *   A packet leaves at s (our clock, microseconds) and its ACK carries the peer's clock at its
 *   arrival, v, in ticks of q microseconds:
 *
 *        d = (v - v_0)·q - (s - s_0) + a constant
 *
 *   Neither clock need be right, only steady. Differences of d are those of the way forward.
 *   What happens on the way back is not in them. Two clocks drift apart, 50 ppm are 3 ms in a
 *   minute: who uses d resets what he derives from it now and then.
 *
 * The peer's tick
 *   RFC 7323 §5.4 allows any tick from 1 ms to 1 s; 1 ms is today's. It is taken as 1 ms at
 *   first and measured over each quarter of a second: elapsed time by ticks, rounded to the
 *   nearest tick that systems use. A ratio of two clocks' readings that is divided to an integer
 *   and then used as a factor would put any error of it into every delay.
 *
 *        first ACK           ticks do not fit             no timestamps
 *      ─────────────▶ OK ◀──────────────────▶ UNKNOWN    NONE
 *                      └──── a tick anew: epoch + 1 ────┘
 *
 * Reference: [LP §III-A]; RFC 7323 §5; RFC 6817 §2.4.2, §3.4.
 *
 * Differences from the papers
 *  1. [LP §III-A] subtracts two timestamps; here the departure is known to the microsecond (from
 *     the RTT sample), so only the peer's half is coarse.
 */
#ifndef IMTCP_DELAY_H
#define IMTCP_DELAY_H

#include "filter.h"

/* ---- which packets' delays can be compared ---- */

/* Small segments in a row, without a full one, from which on their delays count. ours: a handshake
 * of TLS or a request of HTTP has fewer. A stream of nothing but small ones reaches it at once. */
#define IMTCP_SMALL_SEGS_MOST 32U

/* A segment that is not full is sooner across each link, by up to 3 ms at 4 Mbit/s, and most
 * connections begin with one. A base taken from it is a queue that never ends: such a LEDBAT++ flow
 * kept a third of its share. Does an ACK of acked_bytes in acked_segs segments tell a delay that
 * counts? small_segs: the small ones in a row. */
IMTCP_INLINE int imtcp_delay_counts(imtcp_u32 *small_segs, imtcp_u32 acked_bytes,
				    imtcp_u32 acked_segs, imtcp_u32 mss_bytes)
{
	if (acked_bytes >= imtcp_mul(acked_segs, mss_bytes)) {
		*small_segs = 0;
		return 1;
	}
	*small_segs = imtcp_to_u32((imtcp_u64)*small_segs + acked_segs);
	return *small_segs > IMTCP_SMALL_SEGS_MOST;
}

/* ---- one-way delay ---- */

/* The peer's clock tick is measured over this interval. ours: it is long against the jitter of a path, so
 * one tick is never mistaken for another. Ticks differ by a factor of two or more. */
#define IMTCP_OWD_TICK_US (IMTCP_USEC_PER_SEC / 4)
/* Where the delay of the first packet lies: delays below it must not wrap. ours: 18 minutes. */
#define IMTCP_OWD_ORIGIN_US (1U << 30)
/* The tick taken for granted until it is measured, microseconds: Linux, BSD, Windows, macOS. */
#define IMTCP_OWD_USUAL_TICK_US 1000U

enum imtcp_owd_clock {
	IMTCP_OWD_NONE = 0,    /* no timestamps on this connection */
	IMTCP_OWD_OK = 1,      /* tick_us holds */
	IMTCP_OWD_UNKNOWN = 2, /* the timestamps tick like no clock that is known */
};

struct imtcp_owd {
	imtcp_u64 sent0_us;    /* s_0 */
	imtcp_u64 measured_us; /* arrival of the ACK that began the interval */
	imtcp_u32 value0;      /* v_0 */
	imtcp_u32 measured;    /* its timestamp */
	imtcp_u32 tick_us;     /* q */
	imtcp_u32 clock;       /* enum imtcp_owd_clock */
	imtcp_u32 epoch;       /* changes when delays before and after cannot be compared */
	imtcp_u32 delay_us;    /* d of the newest packet */
};

/* The tick that systems use next to a measured one; 0: none is near. */
IMTCP_INLINE imtcp_u32 imtcp_owd_nearest_tick_us(imtcp_u64 tick_us)
{
	if (tick_us <= 2)
		return 1; /* Linux with TCP_USEC_TS */
	if (tick_us >= 500 && tick_us <= 2000)
		return 1000;
	if (tick_us > 2000 && tick_us <= 6300)
		return 4000;
	if (tick_us > 6300 && tick_us <= 31600)
		return 10000;
	if (tick_us > 31600 && tick_us <= 316000)
		return 100000;
	if (tick_us > 316000 && tick_us <= 3160000)
		return 1000000;
	return 0;
}

IMTCP_INLINE void imtcp_owd_restart(struct imtcp_owd *o, imtcp_u64 sent_us, imtcp_u32 value)
{
	o->sent0_us = sent_us;
	o->value0 = value;
	o->epoch++;
}

/* The interval is over: what does the peer's clock tick at? */
IMTCP_INLINE void imtcp_owd_measure_tick(struct imtcp_owd *o, imtcp_u64 now_us, imtcp_u64 sent_us,
					 imtcp_u32 value)
{
	imtcp_u64 elapsed_us = now_us - o->measured_us;
	imtcp_u32 ticks = value - o->measured, tick_us;

	if (elapsed_us < IMTCP_OWD_TICK_US)
		return;
	/* A clock of seconds may not have moved yet: wait for two ticks of it. */
	if (ticks < 2 && elapsed_us < 3 * IMTCP_USEC_PER_SEC)
		return;
	o->measured_us = now_us;
	o->measured = value;
	tick_us = imtcp_owd_nearest_tick_us(imtcp_div(elapsed_us, ticks));
	if (!tick_us) {
		o->clock = IMTCP_OWD_UNKNOWN;
		return;
	}
	if (o->clock != IMTCP_OWD_OK || tick_us != o->tick_us) {
		o->tick_us = tick_us;
		imtcp_owd_restart(o, sent_us, value);
	}
	o->clock = IMTCP_OWD_OK;
}

/*
 * An ACK arrived at now_us for a packet that left at sent_us, with the peer's timestamp. Returns
 * 1 where delay_us is that packet's.
 */
IMTCP_INLINE int imtcp_owd_on_ack(struct imtcp_owd *o, imtcp_u64 now_us, imtcp_u64 sent_us,
				  imtcp_u32 value)
{
	if (o->clock == IMTCP_OWD_NONE) {
		o->clock = IMTCP_OWD_OK;
		o->tick_us = IMTCP_OWD_USUAL_TICK_US;
		o->measured_us = now_us;
		o->measured = value;
		imtcp_owd_restart(o, sent_us, value);
	}
	imtcp_owd_measure_tick(o, now_us, sent_us, value);
	if (o->clock != IMTCP_OWD_OK)
		return 0;
	/* modulo 2^32, as both clocks are: the constant keeps the result away from the wrap */
	o->delay_us = IMTCP_OWD_ORIGIN_US + (value - o->value0) * o->tick_us -
		      (imtcp_u32)(sent_us - o->sent0_us);
	return 1;
}

/* ---- LEDBAT's delays (RFC 6817 §3.4) ---- */

/* BASE_HISTORY, minutes (RFC 6817 §2.5: 10). */
#define IMTCP_BASE_HISTORY 10U
#define IMTCP_BASE_MINUTE_US (60 * IMTCP_USEC_PER_SEC)
/* CURRENT_FILTER, samples: the least of the last four (RFC 6817 §3.4.2, §4.2). */
#define IMTCP_CURRENT_FILTER 4U

struct imtcp_delays {
	imtcp_u64 minute_us;		       /* when the present minute began; 0: no sample yet */
	imtcp_u32 base_us[IMTCP_BASE_HISTORY]; /* least of each minute, the present one first */
	imtcp_u32 last_us[IMTCP_CURRENT_FILTER];
	imtcp_u32 samples; /* of last_us */
	imtcp_u32 _pad;
};

IMTCP_INLINE void imtcp_delays_clear(struct imtcp_delays *d)
{
	d->minute_us = 0;
	d->samples = 0;
}

IMTCP_INLINE void imtcp_delays_on_sample(struct imtcp_delays *d, imtcp_u64 now_us,
					 imtcp_u32 delay_us)
{
	imtcp_u32 i;

	if (!d->minute_us) {
		d->minute_us = now_us;
		for (i = 0; i < IMTCP_BASE_HISTORY; i++)
			d->base_us[i] = delay_us;
		for (i = 0; i < IMTCP_CURRENT_FILTER; i++)
			d->last_us[i] = delay_us;
	}
	if (now_us - d->minute_us >= IMTCP_BASE_MINUTE_US) {
		for (i = IMTCP_BASE_HISTORY - 1; i > 0; i--)
			d->base_us[i] = d->base_us[i - 1];
		d->base_us[0] = delay_us;
		d->minute_us = now_us;
	}
	if (delay_us < d->base_us[0])
		d->base_us[0] = delay_us;
	d->last_us[d->samples++ % IMTCP_CURRENT_FILTER] = delay_us;
}

/* The delay without a queue; 0 before the first sample. */
IMTCP_GLOBAL imtcp_u32 imtcp_delays_base_us(const struct imtcp_delays *d)
{
	imtcp_u32 i, least;

	if (!d || !d->minute_us)
		return 0;
	least = d->base_us[0];
	for (i = 1; i < IMTCP_BASE_HISTORY; i++)
		least = d->base_us[i] < least ? d->base_us[i] : least;
	return least;
}

/* queuing_delay = FILTER(current delays) - MIN(base delays) (RFC 6817 §2.4.2). */
IMTCP_INLINE imtcp_u32 imtcp_delays_queue_us(const struct imtcp_delays *d)
{
	imtcp_u32 i, least = d->last_us[0];

	if (!d->minute_us)
		return 0;
	for (i = 1; i < IMTCP_CURRENT_FILTER; i++)
		least = d->last_us[i] < least ? d->last_us[i] : least;
	return (imtcp_u32)imtcp_sub(least, imtcp_delays_base_us(d));
}

#endif
