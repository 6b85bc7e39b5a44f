/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Facts about a connection that hold under any control: base RTT, round trips and the data that they delivered. Also
 * the time with data under way, and the part of it in which others came first.
 *
 * A control reads these. It writes only what it alone can know: that it yields, the most that it
 * lets the window be, and a window below two segments.
 */
#ifndef IMTCP_FACTS_H
#define IMTCP_FACTS_H

#include "control.h"
#include "delay.h"

/* Busy time counts gaps between ACKs up to this: longer ones are idle or stalled. */
#define IMTCP_BUSY_GAP_US IMTCP_USEC_PER_SEC

struct imtcp_facts {
	struct imtcp_minrtt minrtt; /* RTTmin */
	struct imtcp_round round;   /* and what a round trip delivered */
	imtcp_u64 acked_at_us;	    /* of the ACK before */
	imtcp_u64 busy_us;
	imtcp_u64 yielding_us; /* the part of it in which others came first */
	imtcp_u64 reductions_loss;
	imtcp_u64 reductions_rto;
	imtcp_u64 reductions_rtt; /* for a queue */
	imtcp_u64 reductions_cap; /* to cap_segs */
	imtcp_u32 last_una;
	imtcp_u32 small_segs;	/* of imtcp_delay_counts */
	imtcp_u32 small_rtt_us; /* least round trip of those that do not count; 0: none */
	imtcp_u32 round_over;	/* a round trip ended and the window rules have not seen it yet */
	imtcp_u32 full;		/* the window was full in this round trip */
	imtcp_u32 yields;	/* the control held the window back in this round trip */
	imtcp_u32 cap_segs;	/* the most that the control lets the window be; 0: no such bound */
	imtcp_u32 trickle_q16;	/* a window below two segments, scale 65536; 0: two or more */
	imtcp_u32 neighbours;	/* connections to the same host, with this one; 0: not counted */
	imtcp_u32 pathless;	/* the control's window says nothing of the path */
	imtcp_u32 undone;	/* the newest loss was none: TCP took its window back */
};

/* The least round trip as it is told: of small segments alone where there were no others. 0: none. */
IMTCP_INLINE imtcp_u32 imtcp_told_min_rtt_us(const struct imtcp_facts *f)
{
	return f->minrtt.base_us ? f->minrtt.base_us : f->small_rtt_us;
}

/* Time with data under way since the ACK before, and of it the time held back by the control. */
IMTCP_INLINE void imtcp_facts_busy(struct imtcp_facts *f, const struct imtcp_sample *s)
{
	imtcp_u64 gap_us = s->now_us - f->acked_at_us;

	if (gap_us > IMTCP_BUSY_GAP_US)
		gap_us = 0;
	f->acked_at_us = s->now_us;
	f->busy_us += gap_us;
	if (f->yields || (f->cap_segs && s->cwnd_segs >= f->cap_segs))
		f->yielding_us += gap_us;
}

/* An ACK: fills prior_una, acked_bytes, delay_us and min_rtt_us of the sample. ever_bytes is all that
 * was acknowledged since the connection began. */
IMTCP_INLINE void imtcp_facts_on_ack(struct imtcp_facts *f, struct imtcp_sample *s,
				     imtcp_u64 ever_bytes)
{
	s->prior_una = f->last_una;
	f->last_una = s->snd_una;
	s->acked_bytes = s->snd_una - s->prior_una;
	/* A control chosen before the handshake began saw no initial sequence number: more than
	 * was ever acknowledged is that number, not data. */
	if (s->acked_bytes > ever_bytes)
		s->acked_bytes = 0;
	s->delay_us = s->rtt_us > 0 ? (imtcp_u32)s->rtt_us : 0;
	if (!imtcp_delay_counts(&f->small_segs, s->acked_bytes, s->acked_segs, s->mss_bytes)) {
		if (s->delay_us && (!f->small_rtt_us || s->delay_us < f->small_rtt_us))
			f->small_rtt_us = s->delay_us;
		s->delay_us = 0;
	}
	imtcp_minrtt_on_sample(&f->minrtt, s->now_us, (imtcp_s32)s->delay_us);
	s->min_rtt_us = f->minrtt.base_us;
	s->round_over = 0;
	if (!s->acked_bytes)
		return;
	imtcp_facts_busy(f, s);
	s->round_over = (imtcp_u32)imtcp_round_on_ack(&f->round, s->now_us, s->snd_una, s->snd_nxt,
						      s->rtt_us, s->wire_q8);
	f->round_over |= s->round_over;
}

/* The window may grow: fills full and what the sample says of the round trip that ended. */
IMTCP_INLINE void imtcp_facts_on_window(struct imtcp_facts *f, struct imtcp_sample *s)
{
	/* our own pacing is what limits */
	s->full |= f->trickle_q16 != 0;
	f->full |= s->full;
	if (!f->round_over)
		return;
	s->round_over = 1;
	s->round_full = f->full;
	s->round_rtt_us = f->round.last_least_rtt_us;
	f->round_over = 0;
	f->full = 0;
	f->yields = 0;
}

#endif
