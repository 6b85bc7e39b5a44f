/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Packet delays for the controls that judge a queue by them: the one-way delay from TCP timestamps,
 * and LEDBAT's histories of delays.
 *
 * One-way delay. A packet leaves at s (our clock, microseconds). Its ACK carries v, the peer's
 * clock at its arrival, in ticks of q microseconds:
 *
 *   d = (v - v_0)·q - (s - s_0) + a constant
 *
 * The clocks need to be steady, not right. Differences of d are differences of the forward delay
 * alone. Two clocks drift apart, by 3 ms per minute at 50 ppm. So a user of d resets from time to
 * time what it derives from d.
 *
 * The peer's tick. RFC 7323 §5.4 allows ticks from 1 ms to 1 s, and 1 ms is common today. q begins
 * at 1 ms. Each quarter of a second q is measured: elapsed time per tick, rounded to the nearest
 * tick that systems use. Without rounding, an error of q would multiply into every delay.
 *
 *        first ACK           ticks do not fit             no timestamps
 *      ─────────────▶ OK ◀──────────────────▶ UNKNOWN    NONE
 *                      └──── a tick anew: epoch + 1 ────┘
 *
 * References: [LP §III-A]; RFC 7323 §5; RFC 6817 §2.4.2, §3.4.
 *
 * Differences from the papers
 *  1. [LP §III-A] subtracts two timestamps. Here the RTT sample gives the departure to the
 *     microsecond, so only the peer's half is coarse.
 */
#ifndef IMTCP_DELAY_H
#define IMTCP_DELAY_H

#include "filter.h"

/* ---- which packets' delays can be compared ---- */

/* Small segments count after so many in a row without a full one. ours: A TLS handshake or an HTTP
 * request has fewer. A stream of small segments reaches it soon. */
#define IMTCP_SMALL_SEGS_MOST 32U

/* Is the delay of this ACK comparable with others? A small segment crosses each link sooner than a
 * full one. A base delay from a small segment would make full segments look queued for ever, and
 * most connections begin with a small one. small_segs counts small segments in a row. */
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

/* Interval over which the peer's tick is measured. ours: It is long compared with jitter, so a tick
 * is never mistaken for its neighbour, which differs by a factor of two or more. */
#define IMTCP_OWD_TICK_US (IMTCP_USEC_PER_SEC / 4)
/* Delay of the first packet. A large offset keeps smaller delays from wrapping. ours: 18
 * minutes. */
#define IMTCP_OWD_ORIGIN_US (1U << 30)
/* The tick until it is measured, microseconds: that of Linux, BSD, Windows and macOS. */
#define IMTCP_OWD_USUAL_TICK_US 1000U

enum imtcp_owd_clock {
	IMTCP_OWD_NONE = 0,    /* no timestamps on this connection */
	IMTCP_OWD_OK = 1,      /* tick_us is valid */
	IMTCP_OWD_UNKNOWN = 2, /* the timestamps fit no known tick */
};

struct imtcp_owd {
	imtcp_u64 sent0_us;    /* s_0 */
	imtcp_u64 measured_us; /* arrival of the ACK at the start of the interval */
	imtcp_u32 value0;      /* v_0 */
	imtcp_u32 measured;    /* timestamp of that ACK */
	imtcp_u32 tick_us;     /* q */
	imtcp_u32 clock;       /* enum imtcp_owd_clock */
	imtcp_u32 epoch;       /* changes when earlier and later delays are not comparable */
	imtcp_u32 delay_us;    /* d of the newest packet */
};

/* The common tick nearest to a measured one; 0: none is near. */
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

/* Measures the peer's tick at the end of an interval. */
IMTCP_INLINE void imtcp_owd_measure_tick(struct imtcp_owd *o, imtcp_u64 now_us, imtcp_u64 sent_us,
					 imtcp_u32 value)
{
	imtcp_u64 elapsed_us = now_us - o->measured_us;
	imtcp_u32 ticks = value - o->measured, tick_us;

	if (elapsed_us < IMTCP_OWD_TICK_US)
		return;
	/* A clock of seconds may not have moved yet: wait for two of its ticks. */
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
 * An ACK arrived at now_us for a packet that left at sent_us, with the peer's timestamp. Returns 1
 * if delay_us is that packet's delay.
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
	/* Modulo 2^32, as both clocks are. The offset keeps the result away from the wrap. */
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
	imtcp_u64 minute_us; /* start of the present minute; 0: no sample yet */
	imtcp_u32
		base_us[IMTCP_BASE_HISTORY]; /* least delay of each minute, the present one first */
	imtcp_u32 last_us[IMTCP_CURRENT_FILTER];
	imtcp_u32 samples; /* count of samples; indexes last_us */
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

/* The delay without a queue, which is the least of the history; 0 before the first sample. */
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
