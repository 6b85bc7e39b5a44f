/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * One measurement stream: departures, arrivals, the trend of the delay, and the two lines [IM
 * §3.2.3].
 *
 * Model. N packets leave so that the rate climbs from the lower end B(i+1) of the sub-range to its
 * upper end B(i):
 *
 *      M / (S(j) - S(j-1)) = B(i+1) + (j-1) (B(i) - B(i+1)) / (N-1)        j = 2...N
 *
 * Below the available bandwidth A, the delay D(j) = R(j) - S(j) is constant. Above A, a FIFO
 * bottleneck of capacity C falls behind by (x - A)/C of each interval.
 *
 *      arrival rate y                          x(j) = M/(S(j)-S(j-1))
 *        │        line (i)  ╱ · · ·            y(j) = M/(R(j)-R(j-1))
 *        │               ╱──────  line (ii)
 *        │            ╱
 *        └────────────┴─────────▶ sending rate x      [IM fig. 3]
 *                     A
 *
 * References: [IM §3.2.3-3.2.5]. Trends: M. Jain, C. Dovrolis, "Pathload: a measurement tool for
 * end-to-end available bandwidth", PAM 2002 (PCT, PDT and their thresholds).
 *
 * Differences from the paper
 *  1. A "packet" is all that leaves at one instant: one segment, or the segments of one large
 *     buffer (TSO, GSO). M is its size. It arrives with its last segment.
 *  2. Only packets with an ACK of their own are samples. So delayed ACKs give intervals of two
 *     packets without further rules [IM §3.5.1].
 *  3. S and R are those of a packet's first byte. R is the ACK's time less the time of the bytes
 *     between at capacity. The gap behind a packet is proportional to its size, and sizes vary at
 *     the end of a large buffer. So x is the size of the packet *before* the gap over the gap. With
 *     last bytes, x and y would belong to two different packets. An ACK that ends inside a packet
 *     also serves.
 *  4. Line (i) is fixed at y = x, which FIFO makes exact. Two to four noisy points cannot give a
 *     slope.
 *  5. Pathload's medians of groups are absent. N <= 16 packets have no groups.
 *  6. An interval is left out if the window or the application delayed the stream in it.
 *  7. A rise of delay within the clocks' resolution is none (IMTCP_STRAIN_FLOOR_SHIFT).
 *  8. A stream is invalid if one ACK answers more packets than a receiver combines. That ACK
 *     replaced others, so the remaining ACKs show the pace of the way back.
 */
#ifndef IMTCP_STREAM_H
#define IMTCP_STREAM_H

#include "fixed.h"

/* Most packets of one stream. ours: N = 10 with delayed ACKs gives four clean intervals. 16 leaves
 * room for more, and is a mask for the verifier. */
#define IMTCP_STREAM_MAX 16U
#define IMTCP_STREAM_MASK (IMTCP_STREAM_MAX - 1U)

/* Pathload's thresholds, percent (PAM 2002 §3; program pathload 1.x). Delay increases above the
 * upper threshold, and does not below the lower. In between the test is undecided. */
#define IMTCP_PCT_UP_PCT 66U
#define IMTCP_PCT_DOWN_PCT 54U
#define IMTCP_PDT_UP_PCT 55U
#define IMTCP_PDT_DOWN_PCT 45U
/* Least intervals for a trend or a fit. ours: Two points always lie on a line. */
#define IMTCP_STREAM_LEAST_INTERVALS 3U
/* A rise of delay below 1/128 of the stream's length is none, because clocks tick in microseconds.
 * ours: In the middle of a narrow sub-range the FIFO rises by slightly more. */
#define IMTCP_STRAIN_FLOOR_SHIFT 7
/* Most packets that one ACK of a receiver answers: it acknowledges at least every second one [RFC
 * 5681 §4.2]. */
#define IMTCP_STREAM_PKTS_PER_ACK 2U
/* Resolution of the clocks on both ways, microseconds. ours: a step of one tick each. */
#define IMTCP_CLOCK_NOISE_US 2U

/* Least delay that makes a departure late, beside half of the planned gap. ours: twice the timer's
 * own slack of 50 us. */
#define IMTCP_LATE_US 100U

enum imtcp_trend { IMTCP_TREND_UNKNOWN = 0, IMTCP_TREND_UP = 1, IMTCP_TREND_FLAT = 2 };

struct imtcp_stream_pkt {
	imtcp_u32 start_seq;
	imtcp_u32 end_seq;  /* first sequence number after the packet */
	imtcp_u32 sent_us;  /* S, low 32 bits of the clock */
	imtcp_u32 acked_us; /* R of the first byte */
};

struct imtcp_stream {
	imtcp_u64 low_bps;	   /* B(i+1) */
	imtcp_u64 high_bps;	   /* B(i) */
	imtcp_u32 first_seq;	   /* of the first packet */
	imtcp_u32 seen;		   /* bit j: packet j has S and R */
	imtcp_u32 planned;	   /* N */
	imtcp_u32 sent;		   /* packets that left */
	imtcp_u32 cursor;	   /* packets that are acknowledged completely */
	imtcp_u32 next_seq;	   /* start of the next packet */
	imtcp_u32 least_intervals; /* for a verdict */
	imtcp_u32 thinned;	   /* one ACK answered more packets than receivers combine */
	struct imtcp_stream_pkt pkt[IMTCP_STREAM_MAX];
};

/* The verdict on one stream. */
struct imtcp_verdict {
	imtcp_u64 avail_bps;	/* greatest x on line (i); low_bps if every interval is strained */
	imtcp_u64 rate_bps;	/* x of the whole stream; 0: too few intervals */
	imtcp_u64 free_bps;	/* x less the strain of the stream (gap.h) */
	imtcp_u32 trend;	/* enum imtcp_trend */
	imtcp_u32 validity_pct; /* 100 less the relative RMS error of the two lines */
	imtcp_u32 intervals;	/* usable intervals */
	imtcp_u32 bunched;	/* intervals faster than the bottleneck can deliver */
	imtcp_u32 all_strained; /* line (i) is empty */
	imtcp_u32 late;		/* intervals left out, because a packet left too late */
	imtcp_u32 slow;		/* not filled: the mean rate did not reach the sub-range */
};

/* Starts a stream of n packets over the sub-range (low, high). The first leaves at first_seq. */
IMTCP_INLINE void imtcp_stream_start(struct imtcp_stream *s, imtcp_u64 low_bps, imtcp_u64 high_bps,
				     imtcp_u32 n, imtcp_u32 first_seq)
{
	s->low_bps = low_bps;
	s->high_bps = high_bps;
	s->first_seq = first_seq;
	s->next_seq = first_seq;
	s->seen = 0;
	s->planned = n > IMTCP_STREAM_MAX ? IMTCP_STREAM_MAX : n;
	s->sent = 0;
	s->cursor = 0;
	s->least_intervals = IMTCP_STREAM_LEAST_INTERVALS;
	s->thinned = 0;
}

/* Rate of the interval that ends with packet j (1...N-1, the paper's j - 1) [IM §3.2.3]. */
IMTCP_INLINE imtcp_u64 imtcp_stream_rate_bps(const struct imtcp_stream *s, imtcp_u32 j)
{
	imtcp_u64 width = imtcp_sub(s->high_bps, s->low_bps);

	return s->low_bps + imtcp_div(imtcp_mul(width, j), imtcp_sub(s->planned, 1));
}

IMTCP_INLINE void imtcp_stream_on_sent(struct imtcp_stream *s, imtcp_u32 end_seq)
{
	imtcp_u32 j = s->sent;

	if (j >= IMTCP_STREAM_MAX)
		return;
	s->pkt[j & IMTCP_STREAM_MASK].start_seq = s->next_seq;
	s->pkt[j & IMTCP_STREAM_MASK].end_seq = end_seq;
	s->next_seq = end_seq;
	s->sent = j + 1;
}

/*
 * Takes a cumulative ACK up to una that arrived at now_us. The newest segment that it covers left
 * at sent_us.
 *
 * capacity_bps (of payload; 0: unknown) converts the arrival to that of the packet's first byte.
 * Only the first ACK within a packet counts, because its conversion is the shortest.
 */
IMTCP_GLOBAL int imtcp_stream_take_ack(struct imtcp_stream *s, imtcp_u32 una, imtcp_u32 sent_us,
				       imtcp_u32 now_us, imtcp_u64 capacity_bps)
{
	imtcp_u32 j;

	if (!s)
		return 0;
	for (j = 0; j < IMTCP_STREAM_MAX; j++) {
		struct imtcp_stream_pkt *p = &s->pkt[j];

		if (j >= s->sent || !imtcp_seq_before(p->start_seq, una))
			break;
		if (j < s->cursor)
			continue;
		if (!imtcp_seq_before(una, p->end_seq))
			s->cursor = j + 1;
		if (!imtcp_seq_before(p->end_seq, una)) {
			imtcp_u64 into = imtcp_time_us(una - p->start_seq, capacity_bps);

			if (!(s->seen & (1U << j))) {
				p->sent_us = sent_us;
				p->acked_us = now_us - imtcp_to_u32(into);
				s->seen |= 1U << j;
			}
			break;
		}
	}
	return 0;
}

/* The same, and detects an ACK that answers too many packets. It is separate from
 * imtcp_stream_take_ack, or the verifier would follow every path of that loop again. */
IMTCP_INLINE void imtcp_stream_on_ack(struct imtcp_stream *s, imtcp_u32 una, imtcp_u32 sent_us,
				      imtcp_u32 now_us, imtcp_u64 capacity_bps)
{
	imtcp_u32 before = s->cursor;

	imtcp_stream_take_ack(s, una, sent_us, now_us, capacity_bps);
	if (s->cursor - before > IMTCP_STREAM_PKTS_PER_ACK)
		s->thinned = 1;
}

/* Has every packet left, and is it acknowledged? */
IMTCP_INLINE int imtcp_stream_done(const struct imtcp_stream *s)
{
	return s->planned && s->sent >= s->planned && s->cursor >= s->planned;
}

/* Unit of x and y in an interval: 1/4096 of the stream's highest rate. */
#define IMTCP_FIT_ONE 4096U
/* Bound of x and y: four times the highest rate. Squares of 16 of them stay below 2^33. */
#define IMTCP_FIT_MAX (4U * IMTCP_FIT_ONE)

struct imtcp_interval {
	imtcp_u32 x;
	imtcp_u32 y;
};

/* The intervals of one stream, in sending order. */
struct imtcp_intervals {
	imtcp_u32 n;
	imtcp_u32 _pad;
	struct imtcp_interval v[IMTCP_STREAM_MAX];
};

/* Sums over the intervals of one line. */
struct imtcp_line {
	imtcp_u64 n, x, y, xx, xy, yy;
};

IMTCP_INLINE void imtcp_line_add(struct imtcp_line *l, imtcp_u64 x, imtcp_u64 y)
{
	l->n++;
	l->x += x;
	l->y += y;
	l->xx += x * x;
	l->xy += x * y;
	l->yy += y * y;
}

IMTCP_INLINE void imtcp_line_remove(struct imtcp_line *l, imtcp_u64 x, imtcp_u64 y)
{
	l->n--;
	l->x -= x;
	l->y -= y;
	l->xx -= x * x;
	l->xy -= x * y;
	l->yy -= y * y;
}

/*
 * Sum of squared residuals of the least-squares line through l. *gentle: its slope is below 1.
 *
 * With n-fold sums Sxx = n·Σxx - (Σx)² and so on, the sum is (Syy - Sxy²/Sxx)/n. All values are
 * unsigned, so Sxy is split into sign and size.
 */
IMTCP_INLINE imtcp_u64 imtcp_line_cost(const struct imtcp_line *l, int *gentle)
{
	imtcp_u64 sxx = l->n * l->xx - l->x * l->x;
	imtcp_u64 syy = l->n * l->yy - l->y * l->y;
	imtcp_u64 nxy = l->n * l->xy, xy = l->x * l->y;
	int rising = nxy > xy;
	imtcp_u64 sxy = rising ? nxy - xy : xy - nxy;
	imtcp_u64 explained;

	*gentle = !rising || sxy < sxx;
	/* Sxy²/Sxx without overflow: Sxy <= 2^37 here, so scale down before squaring. */
	explained = imtcp_div((sxy >> 6) * (sxy >> 6), sxx >> 12 ? sxx >> 12 : 1);
	return imtcp_div(imtcp_sub(syy, explained), l->n);
}

/* Splits of a stream's intervals into line (i) and line (ii). */
struct imtcp_split {
	struct imtcp_line rest; /* line (ii) */
	imtcp_u64 first_cost;	/* cost of line (i) */
	imtcp_u64 best_cost;	/* least cost of both lines so far; U64_MAX: no valid split */
	imtcp_u32 best;		/* intervals on line (i) in that split */
	imtcp_u32 _pad;
};

/* Tries the split with `first` intervals on line (i), and keeps it if it is the best. It is a
 * global function, so the verifier follows its paths only once. */
IMTCP_GLOBAL int imtcp_split_try(struct imtcp_split *s, imtcp_u32 first)
{
	imtcp_u64 cost;
	int gentle = 0;

	if (!s)
		return 0;
	cost = s->first_cost;
	if (s->rest.n >= 2) {
		cost += imtcp_line_cost(&s->rest, &gentle);
		/* The middle of line (ii) must lie below y = x, or it shows no strain. */
		if (!gentle || s->rest.y >= s->rest.x)
			return 0;
	} else if (s->rest.n) {
		return 0;
	}
	if (cost < s->best_cost) {
		s->best_cost = cost;
		s->best = first;
	}
	return 0;
}

/*
 * Best split of n intervals into line (i), y = x, and line (ii), least squares with a slope below 1
 * [IM §3.2.5]. Returns the number of intervals on line (i). *cost is the sum of squares.
 */
IMTCP_GLOBAL imtcp_u32 imtcp_two_lines(const struct imtcp_intervals *iv, imtcp_u64 *cost)
{
	struct imtcp_split s = {{0, 0, 0, 0, 0, 0}, 0, IMTCP_U64_MAX, 0, 0};
	imtcp_u32 i, n;

	if (!iv || !cost)
		return 0;
	n = iv->n > IMTCP_STREAM_MAX ? IMTCP_STREAM_MAX : iv->n;
	for (i = 0; i < IMTCP_STREAM_MAX; i++) {
		if (i >= n)
			break;
		imtcp_line_add(&s.rest, iv->v[i].x, iv->v[i].y);
	}
	for (i = 0; i <= IMTCP_STREAM_MAX; i++) {
		imtcp_u64 x, y, d;

		/* intervals 0...i-1 on line (i), the others on line (ii) */
		if (i > n)
			break;
		imtcp_split_try(&s, i);
		if (i >= n || i >= IMTCP_STREAM_MAX)
			break;
		x = iv->v[i].x;
		y = iv->v[i].y;
		d = x > y ? x - y : y - x;
		s.first_cost += d * d;
		imtcp_line_remove(&s.rest, x, y);
	}
	*cost = s.best_cost;
	return s.best;
}

/* Working state while a stream is judged. The caller provides it, because the BPF stack is too
 * small. */
struct imtcp_judging {
	struct imtcp_intervals intervals;
	imtcp_u64 length_us;  /* S(N) - S(1) */
	imtcp_u64 sent_bytes; /* sent in length_us, on the wire */
	imtcp_u64 moved_us;   /* sum of |D(j) - D(j-1)| */
	imtcp_u64 up_us;      /* sum of the rises of delay */
	imtcp_u64 down_us;    /* sum of its falls; D(N) - D(1) = up - down */
	imtcp_u64 wire_q8;    /* wire bytes per payload byte, scale 256 */
	imtcp_u64 capacity_bps;
	imtcp_u64 low_bps, high_bps;
	imtcp_u32 rises; /* intervals with a rise of delay */
	imtcp_u32 bunched;
	imtcp_u32 late; /* intervals left out */
	imtcp_u32 have; /* there is a previous packet */
	struct imtcp_stream_pkt prev;
	imtcp_u32 least_intervals; /* for a verdict */
};

/* Did delay rise from the stream's first packet to its last? */
IMTCP_INLINE int imtcp_delay_rises(const struct imtcp_judging *g)
{
	return imtcp_sub(g->up_us, g->down_us) >
	       (g->length_us >> IMTCP_STRAIN_FLOOR_SHIFT) + IMTCP_CLOCK_NOISE_US;
}

/* Pathload's two tests together. The trend is unknown if they disagree. */
IMTCP_INLINE imtcp_u32 imtcp_trend(const struct imtcp_judging *g)
{
	imtcp_u64 rise_us = imtcp_sub(g->up_us, g->down_us);
	imtcp_u64 pct, pdt;
	int up = 0, flat = 0;

	if (g->intervals.n < g->least_intervals)
		return IMTCP_TREND_UNKNOWN;
	if (!imtcp_delay_rises(g))
		return IMTCP_TREND_FLAT;
	pct = imtcp_div((imtcp_u64)g->rises * 100, g->intervals.n);
	pdt = imtcp_div(rise_us * 100, g->moved_us);
	up += pct > IMTCP_PCT_UP_PCT;
	up += pdt > IMTCP_PDT_UP_PCT;
	flat += pct < IMTCP_PCT_DOWN_PCT;
	flat += pdt < IMTCP_PDT_DOWN_PCT;
	if (up && !flat)
		return IMTCP_TREND_UP;
	if (flat && !up)
		return IMTCP_TREND_FLAT;
	return IMTCP_TREND_UNKNOWN;
}

/* x or y of an interval, in units of 1/4096 of top_bps, bounded. */
IMTCP_INLINE imtcp_u32 imtcp_fit_units(imtcp_u64 bytes, imtcp_u32 us, imtcp_u64 top_bps)
{
	if (!us)
		return IMTCP_FIT_MAX;
	return (imtcp_u32)imtcp_min(imtcp_scale(imtcp_rate_bps(bytes, us), IMTCP_FIT_ONE, top_bps),
				    IMTCP_FIT_MAX);
}

/* Adds the interval from the previous packet to p. */
IMTCP_GLOBAL int imtcp_judge_interval(struct imtcp_judging *g, const struct imtcp_stream_pkt *p)
{
	imtcp_u32 ds, dr, n;
	imtcp_u64 bytes, planned_us, least_us;

	if (!g || !p)
		return 0;
	ds = p->sent_us - g->prev.sent_us;
	dr = p->acked_us - g->prev.acked_us;
	bytes = (imtcp_u64)(imtcp_u32)(p->start_seq - g->prev.start_seq) * g->wire_q8 / 256;
	if (!g->have) {
		g->have = 1;
		g->prev = *p;
		return 0;
	}
	/* Times run backwards: reordered packets, or a dishonest peer. */
	if ((imtcp_s32)ds <= 0 || (imtcp_s32)dr < 0)
		return 0;
	g->prev = *p;
	/* The gap exceeds the slowest planned one by more than half: the window or the application
	 * delayed the packet. The interval is left out, and the next begins anew. */
	planned_us = imtcp_time_us(bytes, g->low_bps);
	if (ds > planned_us + planned_us / 2 + IMTCP_LATE_US) {
		g->late++;
		return 0;
	}
	/* Faster than twice the capacity. Bunched ACKs may have given a wrong capacity, so eight
	 * times the sending rate also counts. */
	least_us = imtcp_max(imtcp_time_us(bytes, g->capacity_bps) / 2, ds / 8);
	g->bunched += dr < least_us;
	g->length_us += ds;
	g->sent_bytes += bytes;
	if (dr > ds) {
		g->up_us += dr - ds;
		g->moved_us += dr - ds;
		g->rises += dr - ds > IMTCP_CLOCK_NOISE_US;
	} else {
		g->down_us += ds - dr;
		g->moved_us += ds - dr;
	}
	n = g->intervals.n;
	g->intervals.v[n & IMTCP_STREAM_MASK].x = imtcp_fit_units(bytes, ds, g->high_bps);
	g->intervals.v[n & IMTCP_STREAM_MASK].y = imtcp_fit_units(bytes, dr, g->high_bps);
	g->intervals.n = n + 1;
	return 0;
}

/* The greatest x on line (i), bit/s, within the sub-range. The low end if the line is empty. */
IMTCP_INLINE imtcp_u64 imtcp_greatest_x_bps(const struct imtcp_judging *g, imtcp_u32 split)
{
	imtcp_u64 best = g->low_bps;
	imtcp_u32 j;

	for (j = 0; j < IMTCP_STREAM_MAX; j++) {
		if (j >= split)
			break;
		best = imtcp_max(best, g->intervals.v[j].x * (g->high_bps / IMTCP_FIT_ONE));
	}
	return imtcp_min(best, g->high_bps);
}

/*
 * x - C (R/S - 1), bit/s: the rate x of the stream less its strain (gap.h). S and R are its lengths
 * at departure and at arrival. It is x if delay does not rise, and more if delay falls.
 */
IMTCP_INLINE imtcp_u64 imtcp_free_bps(const struct imtcp_judging *g, imtcp_u64 rate_bps)
{
	imtcp_u64 up_us = imtcp_sub(g->up_us, g->down_us),
		  down_us = imtcp_sub(g->down_us, g->up_us);

	if (!imtcp_delay_rises(g))
		up_us = 0;
	return imtcp_sub(rate_bps + imtcp_scale(g->capacity_bps, down_us, g->length_us),
			 imtcp_scale(g->capacity_bps, up_us, g->length_us));
}

/*
 * Judges a stream with all its ACKs. wire_q8 is wire bytes per payload byte, scale 256.
 * capacity_bps is 0 if unknown. g is scratch.
 */
IMTCP_GLOBAL int imtcp_stream_judge(const struct imtcp_stream *s, imtcp_u64 capacity_bps,
				    imtcp_u32 wire_q8, struct imtcp_judging *g,
				    struct imtcp_verdict *out)
{
	imtcp_u32 j, split;
	imtcp_u64 cost = 0, rms;

	if (!s || !g || !out)
		return 0;
	g->intervals.n = 0;
	g->length_us = g->moved_us = g->up_us = g->down_us = 0;
	g->sent_bytes = 0;
	g->rises = g->bunched = g->late = g->have = 0;
	g->wire_q8 = wire_q8;
	g->capacity_bps = capacity_bps;
	g->least_intervals = s->least_intervals;
	g->low_bps = s->low_bps;
	g->high_bps = s->high_bps;
	for (j = 0; j < IMTCP_STREAM_MAX; j++) {
		if (j >= s->sent)
			break;
		if (s->seen & (1U << j))
			imtcp_judge_interval(g, &s->pkt[j]);
	}
	out->intervals = g->intervals.n;
	out->bunched = g->bunched;
	out->late = g->late;
	out->rate_bps = imtcp_rate_bps(g->sent_bytes, g->length_us);
	out->slow = out->rate_bps < s->low_bps;
	out->free_bps = imtcp_free_bps(g, out->rate_bps);
	out->trend = IMTCP_TREND_UNKNOWN;
	out->avail_bps = 0;
	out->validity_pct = 0;
	out->all_strained = 0;
	if (g->intervals.n < g->least_intervals) {
		out->rate_bps = out->free_bps = 0;
		return 0;
	}
	out->trend = imtcp_trend(g);
	split = imtcp_two_lines(&g->intervals, &cost);
	out->all_strained = split == 0;
	out->avail_bps = imtcp_greatest_x_bps(g, split);
	rms = imtcp_isqrt(imtcp_div(cost, g->intervals.n)) * 100 / IMTCP_FIT_ONE;
	out->validity_pct = rms >= 100 ? 0 : 100 - (imtcp_u32)rms;
	return 0;
}

#endif
