/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Downloads that yield: the window that a receiver offers is the control (RFC 9840).
 *
 * The sender may be anybody's, with any control: it has no more in flight than the receiver offers. The law that moves
 * the window of imtcp_bg moves the offered window W here: (3), (4) and (5) of cc_bg.h, without an estimate. An arrival
 * tells a receiver what an ACK tells a sender:
 *
 *   sender                    receiver
 *   ───────────────────────   ──────────────────────────────────────────────────────────────
 *   RTT of a segment          time since our ACK that the segment answers: it carries our timestamp back
 *   segments acknowledged     segments that arrived in order
 *   a round trip of numbers   a round trip by the clock: nothing numbers what answers an ACK
 *   the window was full       not known: the sender may want less. So W is at most twice what arrives
 *
 * A sender without timestamps is not held back: nothing tells its RTT.
 *
 *      ┌────────────┐  q >= q0       ┌──────────┐  RTTmin unseen for 10 s   ┌───────┐
 *      │ slow start │ ─────────────▶ │ (4), (5) │ ────────────────────────▶ │ drain │ W <= 4
 *      └────────────┘  W = carried   └──────────┘ ◀──────────────────────── └───────┘ (filter.h)
 *                                                   two round trips
 *
 * Walk: imtcp_receive_learn takes the RTT into q and RTTmin, and asks whether a round trip ended. imtcp_receive_reduce halves W
 * for a loss or a mark. imtcp_receive_on_arrival then has the law move W, and imtcp_receive_bound keeps it within bounds.
 *
 * References: RFC 9840 §4 (the window), §5 (RTT from timestamps); [BG §3.2] by cc_bg.h.
 *
 * Difference from RFC 9840: its law is LEDBAT++'s, with a queue of 60 ms. Mode ledbatpp has that one here
 * (imtcp_receive_by_ledbatpp), the others have imtcp_bg's.
 */
#ifndef IMTCP_RECEIVE_H
#define IMTCP_RECEIVE_H

#include "cc_bg.h"
#include "cc_ledbatpp.h"

/* The least window: two segments, so that each ACK is still at once (RFC 9840 §4.2 has two, too). */
#define IMTCP_RECEIVE_LEAST_SEGS 2U
/* The first window: ten segments, with which a sender may begin (RFC 6928), and what slow start makes of them. */
#define IMTCP_RECEIVE_FIRST_SEGS 20U
/* W is at most so many times what arrives in a round trip, and the first window. ours: slow start doubles, and must not wait for
 * W. */
#define IMTCP_RECEIVE_AHEAD 2U
/* W grows by a twelfth in a round trip. ours: no estimate bounds W, and with the half of imtcp_bg it harmed
 * others twice as much (lab/notes/0033-downloads.md). */
#define IMTCP_RECEIVE_GROWTH_DIV 12U

/* Data that arrived since the last look. bytes is 0 if none came in order. */
struct imtcp_arrival {
	imtcp_u64 now_us;
	imtcp_s32 rtt_us;     /* since our ACK that the newest segment answers; <= 0: none */
	imtcp_u32 bytes;      /* in order */
	imtcp_u32 mss_bytes;  /* of the sender's segments */
	imtcp_u32 early_segs; /* that came before a missing one, of the connection so far */
	imtcp_u32
		marked; /* a router marked a segment, and the sender has not said yet that it knows (RFC 3168) */
	imtcp_u32 left_bytes;	      /* left of the window that was offered last */
	imtcp_u32 delta_q8;	      /* params.h */
	imtcp_u32 ledbatpp_target_us; /* the same; 0: the law is that of imtcp_bg */
	imtcp_u32 neighbours;	      /* connections from the same host, with this one */
	imtcp_u64 floor_bps;   /* this connection's share of the floor, of payload; 0: none */
	imtcp_u64 ceiling_bps; /* and of the ceiling; 0: none */
};

struct imtcp_receive {
	struct imtcp_facts facts;
	struct imtcp_bg bg;
	struct imtcp_ledbatpp ledbatpp;
	struct imtcp_sample told; /* to the law: what an arrival cannot know stays 0 */
	struct imtcp_window w;	  /* W, segments */
	imtcp_u64 hole_us;	  /* since when a segment is missing; 0: none is */
	imtcp_u64 silent_us;	  /* since when the sender was silent, by its own will, */
	imtcp_u64 resumed_us;	  /* and when it went on */
	imtcp_u64 round_us;	  /* when this round trip began; 0: none did */
	imtcp_u64 round_bytes;	  /* that arrived in it */
	imtcp_u64 last_bytes;	  /* and in the one before, */
	imtcp_u64 last_us;	  /* and how long that was */
	imtcp_u32 rest_bytes;	  /* that arrived, less than a segment */
	imtcp_u32 least_rtt_us;	  /* in this round trip; 0: no sample yet */
	imtcp_u32 rtt_us;	  /* RTTmin and q; 0: unknown */
	imtcp_u32 mss_bytes;	  /* of the newest arrival */
	imtcp_u32 early_segs;	  /* as told last */
	imtcp_u32 lost_segs;	  /* so far */
	imtcp_u32 marked;	  /* as told last */
	imtcp_u32 _pad;
};

IMTCP_INLINE void imtcp_receive_begin(struct imtcp_receive *r, imtcp_u64 now_us)
{
	r->facts.acked_at_us = r->silent_us = r->resumed_us = now_us;
	r->w.cwnd_segs = IMTCP_RECEIVE_FIRST_SEGS;
	r->w.ssthresh_segs = IMTCP_U32_MAX;
}

/*
 * The RTT of this arrival, or 0. A sender that had nothing to send answers late: its segment carries the timestamp of the newest
 * ACK, which came long before. So after a silence of more than a round trip, in which the window did not hold the
 * sender back, a segment that answers the last ACK before the silence does not count. A segment that answers an earlier
 * ACK counts: it was under way already, as in a window that comes in one burst.
 */
IMTCP_INLINE imtcp_s32 imtcp_receive_rtt_us(struct imtcp_receive *r, const struct imtcp_arrival *a)
{
	imtcp_u64 before_us = r->facts.acked_at_us, answered_us;

	if (a->now_us - before_us > (imtcp_u64)r->rtt_us + IMTCP_BG_STRETCH_MOST_US &&
	    a->left_bytes >= IMTCP_RECEIVE_LEAST_SEGS * (imtcp_u64)a->mss_bytes) {
		r->silent_us = before_us;
		r->resumed_us = a->now_us;
	}
	if (a->rtt_us <= 0)
		return 0;
	answered_us = a->now_us - (imtcp_u32)a->rtt_us;
	if (answered_us + IMTCP_TICK_US >= r->silent_us && answered_us < r->resumed_us)
		return 0;
	return a->rtt_us;
}

/* Returns 1 where a round trip ended. */
IMTCP_INLINE int imtcp_receive_round(struct imtcp_receive *r, const struct imtcp_arrival *a)
{
	imtcp_u64 took_us = a->now_us - r->round_us;

	r->round_bytes += a->bytes;
	if (r->round_us && (!r->rtt_us || took_us < r->rtt_us))
		return 0;
	r->last_us = r->round_us ? took_us : 0;
	r->last_bytes = r->round_bytes;
	r->round_bytes = 0;
	r->round_us = a->now_us;
	return r->last_us != 0;
}

/* Whole segments of payload that a rate has in flight; 0 without one, or where the RTT is unknown. */
IMTCP_INLINE imtcp_u32 imtcp_receive_segs_for(const struct imtcp_receive *r, imtcp_u64 bps)
{
	imtcp_u64 bytes = imtcp_bytes_in(bps, r->rtt_us);

	return bytes ? imtcp_to_u32(imtcp_max(imtcp_div(bytes, r->mss_bytes), 1)) : 0;
}

/* W is this from now on. */
IMTCP_INLINE void imtcp_receive_set(struct imtcp_receive *r, imtcp_u64 segs)
{
	r->bg.window_q16 = r->bg.share_q16 = segs << 16;
	r->bg.written_segs = r->w.cwnd_segs = (imtcp_u32)segs;
}

/* W within what it may be: two segments and the floor at least; the ceiling, and twice what arrives, at most. */
IMTCP_INLINE void imtcp_receive_bound(struct imtcp_receive *r, const struct imtcp_arrival *a)
{
	imtcp_u64 arrived_segs = imtcp_div(imtcp_max(r->last_bytes, r->round_bytes), r->mss_bytes);
	imtcp_u64 least = imtcp_max(imtcp_receive_segs_for(r, a->floor_bps),
				    IMTCP_RECEIVE_LEAST_SEGS);
	imtcp_u64 most = IMTCP_RECEIVE_AHEAD * arrived_segs + IMTCP_RECEIVE_FIRST_SEGS;
	imtcp_u32 ceiling = imtcp_receive_segs_for(r, a->ceiling_bps);
	imtcp_u64 segs;

	/* without timestamps nothing is known of the path, and nothing is held back */
	if (!r->rtt_us)
		return;
	most = imtcp_max(most, least);
	if (ceiling)
		most = imtcp_min(most, imtcp_max(ceiling, IMTCP_RECEIVE_LEAST_SEGS));
	segs = imtcp_clamp(r->facts.trickle_q16 ? 0 : r->w.cwnd_segs, least, most);
	if (r->facts.trickle_q16 || segs != r->w.cwnd_segs)
		imtcp_receive_set(r, imtcp_to_u32(segs));
	r->facts.trickle_q16 = 0;
}

/* Learns what this arrival tells about the path. */
IMTCP_INLINE void imtcp_receive_learn(struct imtcp_receive *r, const struct imtcp_arrival *a)
{
	struct imtcp_facts *f = &r->facts;
	struct imtcp_sample *s = &r->told;
	imtcp_u64 bytes = (imtcp_u64)r->rest_bytes + a->bytes;

	s->now_us = a->now_us;
	s->rtt_us = imtcp_receive_rtt_us(r, a);
	s->limit_segs = IMTCP_U32_MAX;
	s->full = s->round_full = 1;
	f->neighbours = a->neighbours;
	/* a late answer is no shorter than the path */
	imtcp_minrtt_on_sample(&f->minrtt, a->now_us, a->rtt_us);
	imtcp_bg_on_rtt(&r->bg, f->minrtt.base_us, a->now_us, s->rtt_us);
	imtcp_facts_busy(f, s);
	f->yields = 0;
	r->rtt_us = f->minrtt.base_us + r->bg.queue_us;
	/* G of (4), which B / RTTmin makes smaller on a long path */
	r->bg.uncapped_q16 = (imtcp_u32)imtcp_min(
		65536 / IMTCP_BG_GROWTH_DIV,
		imtcp_scale(65536 / IMTCP_RECEIVE_GROWTH_DIV, f->minrtt.base_us,
			    imtcp_bg_reference_us(f->minrtt.base_us)));
	if (s->rtt_us > 0 && (!r->least_rtt_us || (imtcp_u32)s->rtt_us < r->least_rtt_us))
		r->least_rtt_us = (imtcp_u32)s->rtt_us;
	r->mss_bytes = a->mss_bytes;
	s->acked_segs = imtcp_to_u32(imtcp_div(bytes, a->mss_bytes));
	r->rest_bytes = (imtcp_u32)(bytes - (imtcp_u64)s->acked_segs * a->mss_bytes);
	r->bg.since_segs = imtcp_to_u32((imtcp_u64)r->bg.since_segs + s->acked_segs);
	s->round_over = (imtcp_u32)imtcp_receive_round(r, a);
	s->delivered_segs = imtcp_to_u32(imtcp_div(r->last_bytes, a->mss_bytes));
	s->delivered_in_us = imtcp_to_u32(r->last_us);
}

/* Was a segment lost? It was missing for half of an RTT, then: others may overtake it, but are not so much faster. */
IMTCP_INLINE int imtcp_receive_has_lost(struct imtcp_receive *r, const struct imtcp_arrival *a)
{
	int lost;

	if (a->early_segs != r->early_segs && !r->hole_us)
		r->hole_us = a->now_us;
	r->early_segs = a->early_segs;
	if (!a->bytes || !r->hole_us)
		return 0;
	lost = a->now_us - r->hole_us >= r->facts.minrtt.base_us / 2;
	r->hole_us = 0;
	r->lost_segs += (imtcp_u32)lost;
	return lost;
}

/* Is a mark a new one? A sender says that it knows once in a round trip. */
IMTCP_INLINE int imtcp_receive_is_marked(struct imtcp_receive *r, const struct imtcp_arrival *a)
{
	int is_new = a->marked && !r->marked;

	r->marked = a->marked;
	return is_new;
}

/* Half of the window for a mark, and for a loss that is no noise. The sender's own control may take less, or nothing. */
IMTCP_INLINE void imtcp_receive_reduce(struct imtcp_receive *r, int lost)
{
	imtcp_u32 base_us = r->facts.minrtt.base_us;
	struct imtcp_sample *s = &r->told;

	s->lost = (imtcp_u32)lost;
	s->lost_segs = r->lost_segs;
	if (!imtcp_bg_is_noise(&r->bg, base_us, s)) {
		imtcp_receive_set(r, imtcp_max(r->w.cwnd_segs / 2, IMTCP_RECEIVE_LEAST_SEGS));
		r->w.ssthresh_segs = r->w.cwnd_segs;
		r->facts.yields = 1;
	}
	imtcp_bg_on_loss(&r->bg, base_us, s);
}

/* By LEDBAT++'s law instead, as RFC 9840 has it: each loss halves the window. */
IMTCP_INLINE imtcp_u32 imtcp_receive_by_ledbatpp(struct imtcp_receive *r,
						 const struct imtcp_arrival *a)
{
	struct imtcp_ledbatpp *l = &r->ledbatpp;
	struct imtcp_sample *s = &r->told;

	l->target_us = a->ledbatpp_target_us;
	if (s->rtt_us > 0)
		imtcp_ledbatpp_on_delay(l, a->now_us, (imtcp_u32)s->rtt_us);
	if (imtcp_receive_is_marked(r, a) | imtcp_receive_has_lost(r, a))
		r->w.ssthresh_segs = r->w.cwnd_segs = imtcp_reno_ssthresh(r->w.cwnd_segs);
	imtcp_ledbatpp_on_ack(l, &r->w, a->now_us, r->rtt_us, s->acked_segs, 1, IMTCP_U32_MAX);
	r->facts.yields = l->phase == IMTCP_LEDBATPP_FROZEN || l->phase == IMTCP_LEDBATPP_RAMP;
	imtcp_receive_bound(r, a);
	return r->w.cwnd_segs;
}

/* A packet arrived. Returns the window to offer now, segments. Without data in it only a missing segment is noted. */
IMTCP_INLINE imtcp_u32 imtcp_receive_on_arrival(struct imtcp_receive *r,
						const struct imtcp_arrival *a)
{
	struct imtcp_facts *f = &r->facts;
	struct imtcp_sample *s = &r->told;
	struct imtcp_bg *b = &r->bg;

	if (!a->bytes) {
		imtcp_receive_has_lost(r, a);
		return r->w.cwnd_segs;
	}
	imtcp_receive_learn(r, a);
	if (a->ledbatpp_target_us)
		return imtcp_receive_by_ledbatpp(r, a);
	if (imtcp_receive_is_marked(r, a))
		imtcp_receive_reduce(r, 0);
	if (imtcp_receive_has_lost(r, a))
		imtcp_receive_reduce(r, 1);
	if (s->round_over)
		imtcp_bg_on_round(b, f, s, &r->w);
	if (b->draining) {
		f->yields = 1;
		r->w.cwnd_segs = (imtcp_u32)imtcp_min(r->w.cwnd_segs, IMTCP_MEASURING_LEAST_SEGS);
		return r->w.cwnd_segs;
	}
	f->yields |= (imtcp_u32)imtcp_bg_steer(b, f, a->delta_q8, &r->w, s);
	imtcp_receive_bound(r, a);
	if (!s->round_over)
		return r->w.cwnd_segs;
	if (f->yields && r->w.cwnd_segs <= IMTCP_BG_PAIR_SEGS)
		imtcp_bg_on_least_window(b, f, &r->w, r->least_rtt_us);
	r->least_rtt_us = 0;
	return r->w.cwnd_segs;
}

#endif
