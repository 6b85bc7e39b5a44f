/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * ImTCP's inline measurement of available bandwidth: the Control unit (when packets leave) and
 * the Measurement unit (what their ACKs say).
 *
 * One measurement [IM §3.2]: a search range (B_l, B_u) is cut into k sub-ranges, the highest
 * first; one stream per sub-range (stream.h); the trends choose a sub-range, its two lines the
 * value; past values set the next range. The first range is (A_c/2, A_c), A_c the dispersion
 * rate of packets that left back to back (Cprobe).
 *
 * Control unit [IM §3.3, fig. 5]
 *
 *                   m packets held                      last stream of a measurement
 *        ┌─────────┐─────────────▶┌────────┐──────────────────────────▶┌────────┐
 *   ┌───▶│  STORE  │              │  SEND  │                           │  PASS  │──┐
 *   │    └─────────┘◀─────────────└────────┘                           └────────┘  │
 *   │         │      m still held      │ other streams                             │
 *   │         │ T over, cwnd < N       ▼                                           │
 *   │         ▼    ┌──────────────────────────┐                                    │
 *   └──────────────│          EMPTY           │     all ACKs are in, pause over    │
 *   ▲              └──────────────────────────┘                                    │
 *   └──────────────────────────────────────────────────────────────────────────────┘
 *
 * The unit owns no buffer and no timer. It answers one question, asked before each departure:
 * at which rate is the gap *after* the packet that leaves now? The caller's pacing timer does
 * the holding: a packet is held by a long gap after the one before it, never longer than T, and
 * a stream is a row of computed gaps. So nothing waits for an event that might not come.
 * imtcp_meas_on_send may be asked any number of times before a packet really leaves; it moves
 * on only when snd_nxt has.
 *
 * References: [IM] throughout; [BG §3.1].
 *
 * Differences from the paper
 *  1. Held packets are counted as room in the window (cwnd - flight) with data waiting, since
 *     that is what a buffer below TCP would have collected.
 *  2. After a stream that leaves m packets held, the next one follows at once. Else the room
 *     is filled at IMTCP_EMPTY_GAIN_Q8 times the ordinary rate, not in one burst.
 *  3. A not-found sub-range ("below" against "lowest") is told by the fit: the tie of the sums
 *     for a = k and a = k + 1 is "below" if every interval of stream k is strained. Other
 *     ties go to the higher sub-range.
 *     If every interval of stream a is strained, A is read from the next lower stream.
 *  4. For a = 0, A := B_u and for a = k + 1, A := B_l: the paper prints the two exchanged.
 *  5. A failed store raises m (the paper prints "decrement").
 *  6. Results carry validity; bunched ACKs and results above the sustained rate are rejected.
 *  7. The pause between measurements follows congestion (left open in [IM §4.5]).
 */
#ifndef IMTCP_MEAS_H
#define IMTCP_MEAS_H

#include "filter.h"
#include "stream.h"

/* k, sub-ranges of one measurement. ours: 4 cut a range of 20 % into steps of 5 %, and four
 * streams of 1 ms gaps fit into one round trip of 30 ms. A power of two: a mask. */
#define IMTCP_SUB_RANGES 4U
#define IMTCP_SUB_RANGE_MASK (IMTCP_SUB_RANGES - 1U)
/* N where every packet has its own ACK. [IM §4.1.1] finds 5 enough in simulation and more
 * accuracy in more; ours: 8, seven intervals, where real cross traffic comes in packets too. */
#define IMTCP_STREAM_N 8U
/* N where an ACK answers several packets [IM §3.5.1]: ours: 12, six intervals at two each. */
#define IMTCP_STREAM_N_DELACK 12U
/* F: measurements in a row that succeed before m falls by one [IM §3.4.1]. */
#define IMTCP_GOOD_BEFORE_LESS 2U
/* Streams of one measurement that may fail to be filled. ours: as many as there are streams. */
#define IMTCP_TRIES_MOST 4U
/* Packets held beyond what a stream should use. ours: more only lengthens the silence. */
#define IMTCP_SPARE_MOST 2U
/* Least m [IM §3.4.1]. */
#define IMTCP_STORE_LEAST 2U
/* Weight of D_RTT in the storing time T = M(N-1)/A + 4·D_RTT [IM §3.4.2]. */
#define IMTCP_T_DEVIATIONS 4U
/* Bound of T whatever D_RTT says. ours: a quarter of the least delayed-ACK and RTO times of
 * common stacks (200 ms), so that no hold can cause a spurious timeout. */
#define IMTCP_T_MAX_US 50000U
/* B_m, least width of the range: A/5, at least C/16. ours: below that, cross traffic's packets
 * (one more or less within a stream) decide the trends. */
#define IMTCP_WIDTH_DIV 5U
#define IMTCP_WIDTH_CAPACITY_DIV 16U
/* Lowest B_l and B_u as shares of capacity. ours: below, a stream lasts longer than the network
 * stays the same, and the estimate starves. */
#define IMTCP_LOW_CAPACITY_DIV 32U
#define IMTCP_HIGH_CAPACITY_DIV 8U
/* 1.96 standard errors, 95 % [IM §3.2.6], scale 100. */
#define IMTCP_Z95_Q100 196U
/* Rate of EMPTY against the ordinary one, scale 256. ours: 1.5; at 2 the backlog of a hold makes a
 * queue that the next stream mistakes for its own. */
#define IMTCP_EMPTY_GAIN_Q8 384U
/* Two packets left back to back if less than this lies between them. ours: above the time
 * that a sender needs for ten segments, below the 1 ms between paced large buffers. */
#define IMTCP_BURST_GAP_US 250U
/* Least segments of a train for a first range. ours: n >= 5 as in [IM §3.2.1] with N = 5. */
#define IMTCP_TRAIN_SEGS 5U
/* Rounds without a train after which the rate of delivery gives the first range. ours: slow start
 * is over by then. */
#define IMTCP_TRAIN_ROUNDS 8U
/* Rounds between measurements while the path is congested [IM §4.5: level with Reno at 20]. */
#define IMTCP_PAUSE_RTTS 20U
/* Rounds between measurements while four times what is delivered is available. ours: often enough to
 * see it fall before it matters. */
#define IMTCP_PAUSE_UNUSED_RTTS 8U
#define IMTCP_UNUSED_FACTOR 4U
/* Rounds in a row with a standing queue that make a path congested. ours: two measurements. */
#define IMTCP_CONGESTED_ROUNDS 8U
/* A standing queue: a round whose least RTT is over 5/4 of RTTmin, and 2 ms. ours: just over
 * delta = 1.2 of [BG]; 2 ms keeps a LAN's noise out. */
#define IMTCP_STANDING_US 2000U
/* Share of bunched intervals that spoils a stream: a third. ours. */
#define IMTCP_BUNCHED_DIV 3U
/* Departures at least so far apart tell whether their ACKs were squeezed, and so many of them in a
 * round trip. ours: above the jitter of two hosts; fewer tell nothing. */
#define IMTCP_SQUEEZE_APART_US 100U
#define IMTCP_SQUEEZE_PAIRS 4U
/* More segments per ACK than three packets have, scale 256: ACKs are thinned, and the times of those
 * that come are the filter's. ours: delayed ACKs answer two. */
#define IMTCP_THINNED_Q8 768U
/* After bunched ACKs capacity counts up to eight times what was delivered. ours: a window that
 * can carry streams delivers an eighth of most paths. */
#define IMTCP_BUNCHED_TRUST 8U
/* Least validity. ours: an RMS distance of half the rate leaves no line to see. */
#define IMTCP_VALID_LEAST_PCT 50U
/* A result over 3/2 of what a queue-building flow got delivered is no bandwidth that can be
 * had for longer (token bucket). ours. */
#define IMTCP_SUSTAINED_NUM 3U
#define IMTCP_SUSTAINED_DEN 2U
/* ACKs of the last stream that have not come after this many srtt will not come. ours. */
#define IMTCP_PASS_TIMEOUT_SRTTS 4U

/* Control unit [IM fig. 5]; OFF before the first range is known. Values as in the records. */
enum imtcp_unit {
	IMTCP_OFF = 0,
	IMTCP_STORE = 1,
	IMTCP_SEND = 2,
	IMTCP_EMPTY = 3,
	IMTCP_PASS = 4,
};

/* Outcome of a measurement. Values as in the records. */
enum imtcp_outcome {
	IMTCP_OK = 0,
	IMTCP_NOT_FILLED = 1,
	IMTCP_RETRANSMITTED = 2,
	IMTCP_BUNCHED = 3,
	IMTCP_NO_STRAIN = 4,
	IMTCP_FEW_ACKS = 5,
	IMTCP_POOR_FIT = 6,
	IMTCP_OUT_OF_RANGE = 7,
	IMTCP_TIMED_OUT = 8,
	IMTCP_OUTCOMES = 9,
};

/* What the packet that leaves next is. */
enum imtcp_plan {
	IMTCP_PLAN_PLAIN = 0,
	IMTCP_PLAN_TRAIN = 1,	 /* a Cprobe train, one large burst */
	IMTCP_PLAN_HOLD = 2,	 /* the last before a hold */
	IMTCP_PLAN_STREAM = 3,	 /* a packet of a stream */
	IMTCP_PLAN_UNFILLED = 4, /* the hold is over and m were not collected */
};

/* Asked before a departure. */
struct imtcp_send_event {
	imtcp_u64 now_us;
	imtcp_u64 base_bps; /* ordinary pacing rate, on the wire */
	imtcp_u32 snd_nxt;
	imtcp_u32 cwnd_segs;
	imtcp_u32 flight_segs;
	imtcp_u32 unsent_bytes; /* written by the application, not yet sent */
	imtcp_u32 mss_bytes;
	imtcp_u32 chunk_segs; /* segments that the stack sends at one instant at base_bps */
	imtcp_u32 rtt_dev_us; /* D_RTT */
	imtcp_u32 srtt_us;
	imtcp_u32 recovering; /* loss recovery goes on */
	imtcp_u32 _pad;
};

/* An ACK that moved snd_una. */
struct imtcp_ack_event {
	imtcp_u64 now_us;
	imtcp_u32 snd_una;
	imtcp_u32 prior_una;
	imtcp_u32 snd_nxt;
	imtcp_s32 rtt_us; /* of the newest segment acknowledged; <= 0: none (retransmitted) */
	imtcp_u32 mss_bytes;
	imtcp_u32 wire_q8; /* wire bytes per payload byte, scale 256 */
	imtcp_u32 srtt_us;
	imtcp_u32 min_rtt_us;
};

/* One result, valid or not. */
struct imtcp_result {
	imtcp_u64 at_us;
	imtcp_u64 avail_bps; /* the estimate, also where the outcome is not OK */
	imtcp_u64 low_bps;   /* range that was searched */
	imtcp_u64 high_bps;
	imtcp_u32 outcome; /* enum imtcp_outcome */
	imtcp_u32 validity_pct;
	imtcp_u32 sub_range; /* a */
	imtcp_u32 streams;
};

/* Faults of the streams judged so far in this measurement, each a count of streams. */
struct imtcp_tally {
	imtcp_u32 unknown; /* no trend */
	imtcp_u32 few;	   /* too few intervals */
	imtcp_u32 bunched; /* a third of the intervals or more */
	imtcp_u32 late;	   /* not filled in time, or slower than its sub-range */
};

struct imtcp_meas {
	/* Measurement unit */
	imtcp_u64 low_bps;  /* B_l */
	imtcp_u64 high_bps; /* B_u; 0: no range yet */
	imtcp_u64 capacity_bps;
	imtcp_u64 link_bps; /* of the sender's own link where known, else 0: bound of B_u */
	struct imtcp_store store;
	struct imtcp_round round;
	struct imtcp_result result; /* of the newest measurement */
	imtcp_u64 avail_bps;	    /* newest valid one; 0: none yet */
	imtcp_u64 avail_at_us;
	imtcp_u64 started, completed;
	imtcp_u64 ends; /* measurements that ended, however */
	imtcp_u64 invalid[IMTCP_OUTCOMES];
	/* the train that is arriving */
	imtcp_u64 train_sent_us;
	imtcp_u64 train_first_us, train_last_us;
	imtcp_u32 train_first_una, train_last_una;
	/* bunched ACKs */
	imtcp_u64 prev_sent_us, prev_acked_us; /* of the ACK before */
	imtcp_u32 pairs, squeezed;	       /* in this round trip */
	imtcp_u32 bunching;		       /* of the round before: ACKs come in bunches */
	imtcp_u32 _pad1;
	/* Control unit */
	imtcp_u32 unit; /* enum imtcp_unit */
	imtcp_u32 plan; /* enum imtcp_plan, of the packet that leaves next */
	imtcp_u32 last_nxt;
	imtcp_u32 sending;	/* stream being sent, 0...k-1 */
	imtcp_u32 judged;	/* streams judged */
	imtcp_u32 planned;	/* streams of this measurement */
	imtcp_u32 chunk_segs;	/* segments of a packet */
	imtcp_u32 n;		/* N */
	imtcp_u32 m;		/* m */
	imtcp_u32 spare;	/* packets held beyond what a stream should use */
	imtcp_u32 good_runs;	/* of the F */
	imtcp_u32 held;		/* the hold of this stream was made */
	imtcp_u32 failures;	/* streams of this measurement that were not filled */
	imtcp_u32 emptied_segs; /* let go in EMPTY */
	imtcp_u32 backlog;	/* what was kept back has not all left */
	imtcp_u32 pause_rtts;
	imtcp_u32 congested_rounds;
	imtcp_u32 standing_rounds; /* in a row, with a standing queue */
	imtcp_u32 blocked_seq;	   /* no stream before this is acknowledged [IM §3.5.3] */
	imtcp_u32 blocked;
	imtcp_u32 ack_ratio_q8; /* segments per ACK */
	imtcp_u32 wire_q8;
	imtcp_u64 resume_us;  /* the pause is over */
	imtcp_u64 sent_us;    /* when the newest stream packet left */
	imtcp_u64 next_bps;   /* answer: rate of the gap after the packet that leaves next */
	imtcp_u32 burst_segs; /* answer: segments to let leave at once, 0: as usual */
	imtcp_u32 hold_us;    /* length of the newest hold */
	struct imtcp_tally tally;
	struct imtcp_verdict verdict[IMTCP_SUB_RANGES];
	struct imtcp_judging judging; /* scratch */
	struct imtcp_stream stream[IMTCP_SUB_RANGES];
};

IMTCP_INLINE void imtcp_meas_init(struct imtcp_meas *m, imtcp_u32 snd_nxt)
{
	m->n = IMTCP_STREAM_N;
	m->m = IMTCP_STREAM_N;
	m->ack_ratio_q8 = 256;
	m->wire_q8 = 256;
	m->last_nxt = snd_nxt;
}

/* B_l and B_u within what the path and the link can have. */
IMTCP_INLINE void imtcp_meas_set_range(struct imtcp_meas *m, imtcp_u64 low_bps, imtcp_u64 high_bps)
{
	imtcp_u64 c = m->capacity_bps;
	/* A <= C always; an eighth more, since C itself is an estimate */
	imtcp_u64 top = c ? c + c / 8 : IMTCP_U64_MAX;
	imtcp_u64 bottom = imtcp_max(c / IMTCP_LOW_CAPACITY_DIV, 1000);

	if (m->link_bps)
		top = imtcp_min(top, m->link_bps);
	high_bps = imtcp_clamp(high_bps, imtcp_max(c / IMTCP_HIGH_CAPACITY_DIV, bottom * 2), top);
	low_bps = imtcp_clamp(low_bps, bottom, high_bps / 2 + high_bps / 4 + high_bps / 8);
	m->low_bps = low_bps;
	m->high_bps = high_bps;
}

/* Sub-range i of k, the highest first: its ends [IM §3.2.2]. */
IMTCP_INLINE imtcp_u64 imtcp_meas_edge_bps(const struct imtcp_meas *m, imtcp_u32 i)
{
	return m->high_bps - imtcp_sub(m->high_bps, m->low_bps) * i / IMTCP_SUB_RANGES;
}

/* Round trips to the next measurement: on a free path none [IM §4.5], unless what is available is far
 * more than the connection uses (its application, its ceiling or slow start limits it). */
IMTCP_INLINE imtcp_u32 imtcp_meas_pause_rtts(const struct imtcp_meas *m)
{
	if (!m->pause_rtts && m->result.outcome == IMTCP_OK &&
	    m->avail_bps / IMTCP_UNUSED_FACTOR > m->round.delivery_bps)
		return IMTCP_PAUSE_UNUSED_RTTS;
	return m->pause_rtts;
}

/* Counts the measurement that ends, and starts the pause before the next. */
IMTCP_INLINE void imtcp_meas_end(struct imtcp_meas *m, imtcp_u64 now_us, imtcp_u32 srtt_us,
				 imtcp_u32 outcome)
{
	m->ends++;
	m->result.at_us = now_us;
	m->result.outcome = outcome;
	m->result.low_bps = m->low_bps;
	m->result.high_bps = m->high_bps;
	m->result.streams = m->judged;
	if (outcome < IMTCP_OUTCOMES)
		m->invalid[outcome]++;
	if (outcome == IMTCP_OK) {
		m->completed++;
		m->avail_bps = m->result.avail_bps;
		m->avail_at_us = now_us;
		if (++m->good_runs >= IMTCP_GOOD_BEFORE_LESS && m->m > IMTCP_STORE_LEAST) {
			m->m--;
			m->spare -= m->spare != 0;
			m->good_runs = 0;
		}
	} else {
		m->good_runs = 0;
	}
	m->resume_us = now_us + (imtcp_u64)imtcp_meas_pause_rtts(m) * srtt_us;
	m->failures = 0;
	m->tally = (struct imtcp_tally){0, 0, 0, 0};
	m->planned = 0;
	m->sending = 0;
	m->judged = 0;
	m->held = 0;
	m->unit = IMTCP_EMPTY;
	m->emptied_segs = 0;
}

/* Gives up the measurement that goes on, if one does. Returns 1 if there was one. */
IMTCP_INLINE int imtcp_meas_abandon(struct imtcp_meas *m, imtcp_u64 now_us, imtcp_u32 srtt_us,
				    imtcp_u32 outcome)
{
	int had = m->planned != 0;

	if (had) {
		m->result.avail_bps = 0;
		m->result.validity_pct = 0;
		m->result.sub_range = 0;
		imtcp_meas_end(m, now_us, srtt_us, outcome);
	}
	m->plan = IMTCP_PLAN_PLAIN;
	return had;
}

/*
 * A loss was found or a timeout fired: everything held goes, and no stream is sent before what
 * is in flight now is acknowledged [IM §3.5.3]. A congested path is measured less often.
 * Returns 1 if it ended a measurement.
 */
IMTCP_INLINE int imtcp_meas_on_loss(struct imtcp_meas *m, imtcp_u64 now_us, imtcp_u32 snd_nxt,
				    imtcp_u32 srtt_us)
{
	m->blocked = 1;
	m->blocked_seq = snd_nxt;
	m->pause_rtts = IMTCP_PAUSE_RTTS;
	m->resume_us = now_us + (imtcp_u64)m->pause_rtts * srtt_us;
	return imtcp_meas_abandon(m, now_us, srtt_us, IMTCP_RETRANSMITTED);
}

/*
 * The stream was not filled in time: everything held goes, and the next try waits for one packet
 * more [IM §3.4.1]. After IMTCP_TRIES_MOST failures the measurement is given up.
 */
IMTCP_INLINE void imtcp_meas_not_filled(struct imtcp_meas *m, imtcp_u64 now_us, imtcp_u32 srtt_us)
{
	if (m->m < m->n)
		m->m++;
	m->good_runs = 0;
	m->held = 0;
	m->backlog = 1;
	m->emptied_segs = 0;
	m->unit = IMTCP_EMPTY;
	if (++m->failures >= IMTCP_TRIES_MOST)
		imtcp_meas_abandon(m, now_us, srtt_us, IMTCP_NOT_FILLED);
}

/* The first stream of a measurement is tried. */
IMTCP_INLINE void imtcp_meas_begin(struct imtcp_meas *m)
{
	if (m->planned)
		return;
	m->planned = IMTCP_SUB_RANGES;
	m->started++;
}

/*
 * Segments of room that start a stream: m packets, but no more than it will use up. While a stream
 * of N packets leaves at x, ACKs bring room at flight/srtt = r, so N (1 - r/x) packets, the first,
 * and what one ACK brings at a time have to be there; holding more would only leave the path idle.
 * Each failure adds one packet (spare), and F good measurements take it back. At most half of the
 * window: a longer hold makes a silence of ACKs in which the stream starves.
 */
IMTCP_INLINE imtcp_u32 imtcp_meas_want_segs(const struct imtcp_meas *m,
					    const struct imtcp_send_event *ev)
{
	imtcp_u64 wire = (imtcp_u64)ev->mss_bytes * m->wire_q8 / 256;
	imtcp_u64 r_bps = imtcp_rate_bps(ev->flight_segs * wire, ev->srtt_us);
	imtcp_u64 x_bps = imtcp_meas_edge_bps(m, m->sending);
	imtcp_u64 all = (imtcp_u64)m->n * ev->chunk_segs;
	imtcp_u64 need = imtcp_scale(all, imtcp_sub(x_bps, r_bps), x_bps);

	need += (1 + m->spare) * (imtcp_u64)ev->chunk_segs;
	if (m->ack_ratio_q8 / 256 > ev->chunk_segs)
		need += m->ack_ratio_q8 / 256;
	need = imtcp_max(need, IMTCP_STORE_LEAST * (imtcp_u64)ev->chunk_segs);
	return (imtcp_u32)imtcp_min(imtcp_min(need, (imtcp_u64)m->m * ev->chunk_segs),
				    ev->cwnd_segs / 2);
}

/* A packet has really left: [last_nxt, snd_nxt), as it was planned. */
IMTCP_INLINE void imtcp_meas_commit(struct imtcp_meas *m, const struct imtcp_send_event *ev)
{
	struct imtcp_stream *s = &m->stream[m->sending & IMTCP_SUB_RANGE_MASK];

	switch (m->plan) {
	case IMTCP_PLAN_HOLD:
		m->held = 1;
		break;
	case IMTCP_PLAN_UNFILLED:
		imtcp_meas_begin(m);
		imtcp_meas_not_filled(m, ev->now_us, ev->srtt_us);
		break;
	case IMTCP_PLAN_STREAM:
		if (m->unit != IMTCP_SEND) {
			imtcp_meas_begin(m);
			imtcp_stream_start(s, imtcp_meas_edge_bps(m, m->sending + 1),
					   imtcp_meas_edge_bps(m, m->sending), m->n, m->last_nxt);
			m->unit = IMTCP_SEND;
			m->held = 0;
		}
		imtcp_stream_on_sent(s, ev->snd_nxt);
		m->sent_us = ev->now_us;
		if (s->sent >= s->planned) {
			m->backlog = 1;
			m->sending++;
			m->emptied_segs = 0;
			m->unit = m->sending < m->planned ? IMTCP_EMPTY : IMTCP_PASS;
			/* what the next stream needs is still held */
			if (m->unit == IMTCP_EMPTY &&
			    ev->cwnd_segs >= ev->flight_segs + imtcp_meas_want_segs(m, ev))
				m->unit = IMTCP_STORE;
		}
		break;
	default:
		if (m->unit == IMTCP_EMPTY)
			m->emptied_segs += imtcp_div(ev->snd_nxt - m->last_nxt, ev->mss_bytes);
		break;
	}
	m->plan = IMTCP_PLAN_PLAIN;
	m->last_nxt = ev->snd_nxt;
}

/* T, the longest time that a packet may be held, microseconds [IM §3.4.2]. */
IMTCP_INLINE imtcp_u32 imtcp_meas_hold_limit_us(const struct imtcp_meas *m,
						const struct imtcp_send_event *ev,
						imtcp_u64 rate_bps)
{
	imtcp_u64 bytes = (imtcp_u64)(m->n - 1) * ev->chunk_segs * ev->mss_bytes * m->wire_q8 / 256;
	imtcp_u64 t = imtcp_time_us(bytes, rate_bps) +
		      (imtcp_u64)IMTCP_T_DEVIATIONS * ev->rtt_dev_us;

	return imtcp_to_u32(imtcp_min(t, IMTCP_T_MAX_US));
}

/* May a measurement begin or go on? */
IMTCP_INLINE int imtcp_meas_may_store(const struct imtcp_meas *m, const struct imtcp_send_event *ev)
{
	if (!m->high_bps || ev->recovering || m->blocked)
		return 0;
	/* the window must carry a stream [IM §3.3]: all of it, or what is in flight at once where
	 * a round trip is shorter than a stream, at least two packets; two more segments, or
	 * nothing would be left to ACK */
	if (ev->cwnd_segs < imtcp_min(m->n, 2) * ev->chunk_segs + 2)
		return 0;
	if (!m->planned && ev->now_us < m->resume_us)
		return 0;
	return ev->unsent_bytes >= imtcp_meas_want_segs(m, ev) * ev->mss_bytes;
}

/* STORE: what the packet that leaves next is, and the rate of the gap after it. */
IMTCP_INLINE void imtcp_meas_store(struct imtcp_meas *m, const struct imtcp_send_event *ev)
{
	imtcp_u32 room = (imtcp_u32)imtcp_sub(ev->cwnd_segs, ev->flight_segs);
	imtcp_u32 want = imtcp_meas_want_segs(m, ev);
	imtcp_u64 low = imtcp_meas_edge_bps(m, m->sending + 1);
	imtcp_u64 high = imtcp_meas_edge_bps(m, m->sending);

	/* The hold is over: fewer than m will do if it is two, for the others come while these
	 * leave; whether they came in time is seen by what really left. */
	if (m->held)
		want = (imtcp_u32)imtcp_min(want, IMTCP_STORE_LEAST * ev->chunk_segs);
	if (room >= want) {
		m->plan = IMTCP_PLAN_STREAM;
		m->next_bps = low + imtcp_div(imtcp_sub(high, low), m->n - 1);
	} else if (!m->held) {
		/* ACKs bring room at the rate at which what is in flight arrives */
		imtcp_u64 wire = (imtcp_u64)ev->mss_bytes * m->wire_q8 / 256;
		imtcp_u64 rate = imtcp_rate_bps(ev->flight_segs * wire, ev->srtt_us);
		/* one packet more: the one that leaves now */
		imtcp_u64 bytes = (want - room + ev->chunk_segs) * wire;
		imtcp_u64 us = imtcp_min(imtcp_time_us(bytes, rate),
					 imtcp_meas_hold_limit_us(m, ev, rate));

		m->plan = IMTCP_PLAN_HOLD;
		m->hold_us = imtcp_to_u32(us);
		bytes = imtcp_max(imtcp_min(room, ev->chunk_segs), 1) * wire;
		/* no time at all is no rate: one microsecond, or the gap would have no end */
		m->next_bps = imtcp_min(imtcp_max(imtcp_rate_bps(bytes, imtcp_max(us, 1)), 1),
					ev->base_bps);
	} else {
		m->plan = IMTCP_PLAN_UNFILLED;
	}
}

/*
 * Before a departure. Sets m->next_bps, the pacing rate on the wire for the gap after the packet
 * that leaves next, and m->burst_segs. Returns 1 if a measurement ended (m->result).
 */
IMTCP_GLOBAL int imtcp_meas_on_send(struct imtcp_meas *m, const struct imtcp_send_event *ev)
{
	imtcp_u64 ended;
	imtcp_u32 j;

	if (!m || !ev)
		return 0;
	ended = m->ends;
	m->chunk_segs = ev->chunk_segs;
	if (ev->snd_nxt != m->last_nxt)
		imtcp_meas_commit(m, ev);
	m->next_bps = ev->base_bps;
	m->burst_segs = 0;
	m->plan = IMTCP_PLAN_PLAIN;
	/* what a hold and a stream kept back goes until the window is full once */
	if (ev->flight_segs + ev->chunk_segs >= ev->cwnd_segs)
		m->backlog = 0;
	if (m->backlog)
		m->next_bps = imtcp_scale(ev->base_bps, IMTCP_EMPTY_GAIN_Q8, 256);

	if (m->unit == IMTCP_SEND) {
		struct imtcp_stream *s = &m->stream[m->sending & IMTCP_SUB_RANGE_MASK];

		j = s->sent;
		imtcp_u64 bytes = (imtcp_u64)ev->chunk_segs * ev->mss_bytes * m->wire_q8 / 256;

		if (ev->now_us - m->sent_us >
		    IMTCP_T_MAX_US + 2 * imtcp_time_us(bytes, s->low_bps)) {
			/* the application or the receiver's window stopped it */
			imtcp_meas_not_filled(m, ev->now_us, ev->srtt_us);
		} else {
			m->plan = IMTCP_PLAN_STREAM;
			if (j + 1 < s->planned)
				m->next_bps = imtcp_stream_rate_bps(s, j + 1);
		}
	} else if (m->unit == IMTCP_PASS) {
		if (ev->now_us - m->sent_us >
		    (imtcp_u64)IMTCP_PASS_TIMEOUT_SRTTS * ev->srtt_us + IMTCP_T_MAX_US)
			imtcp_meas_abandon(m, ev->now_us, ev->srtt_us, IMTCP_TIMED_OUT);
	} else {
		if (m->unit == IMTCP_EMPTY) {
			if (!m->backlog || m->emptied_segs >= m->n * ev->chunk_segs)
				m->unit = IMTCP_STORE;
		}
		if (m->unit != IMTCP_EMPTY) {
			if (imtcp_meas_may_store(m, ev)) {
				m->unit = IMTCP_STORE;
				imtcp_meas_store(m, ev);
			} else if (m->planned) {
				/* the application is slow, or the window fell */
				if (ev->now_us - m->sent_us > 2ULL * ev->srtt_us + IMTCP_T_MAX_US)
					imtcp_meas_not_filled(m, ev->now_us, ev->srtt_us);
			} else if (!m->high_bps) {
				m->unit = IMTCP_OFF;
				/* no train at the start: make one when there is room */
				if (ev->unsent_bytes >= 2 * IMTCP_TRAIN_SEGS * ev->mss_bytes &&
				    ev->cwnd_segs >= ev->flight_segs + 2 * IMTCP_TRAIN_SEGS) {
					m->plan = IMTCP_PLAN_TRAIN;
					m->burst_segs = 2 * IMTCP_TRAIN_SEGS;
				}
			}
		}
	}
	return m->ends != ended;
}

/*
 * Packets that left back to back: capacity from the dispersion of each train that is over (its
 * whole length, the longest base against noise), the first range from the first [IM §3.2.1].
 */
IMTCP_INLINE void imtcp_meas_train(struct imtcp_meas *m, const struct imtcp_ack_event *ev)
{
	imtcp_u64 sent_us = ev->now_us - (imtcp_u32)ev->rtt_us;
	int same = m->train_last_una && sent_us - m->train_sent_us < IMTCP_BURST_GAP_US;
	imtcp_u64 bytes, rate;

	if (!same) {
		bytes = (imtcp_u32)(m->train_last_una - m->train_first_una);
		rate = imtcp_rate_bps(bytes * ev->wire_q8 / 256,
				      m->train_last_us - m->train_first_us);
		/* less than a segment measures the clock */
		if (bytes >= ev->mss_bytes && rate && !m->bunching)
			m->capacity_bps = imtcp_capacity_update(m->capacity_bps, rate);
		m->train_sent_us = sent_us;
		m->train_first_us = ev->now_us;
		m->train_first_una = ev->snd_una;
	}
	m->train_last_us = ev->now_us;
	m->train_last_una = ev->snd_una;
	bytes = (imtcp_u32)(ev->snd_una - m->train_first_una);
	rate = imtcp_rate_bps(bytes * ev->wire_q8 / 256, ev->now_us - m->train_first_us);
	if (!m->high_bps && bytes >= (imtcp_u64)IMTCP_TRAIN_SEGS * ev->mss_bytes && rate) {
		m->capacity_bps = imtcp_max(m->capacity_bps, rate);
		imtcp_meas_set_range(m, rate / 2, rate);
	}
}

/*
 * Are ACKs bunched on this path? Two whose packets left apart, but which came together, are
 * squeezed; a third of them in one round trip, and neither streams nor trains can be believed.
 */
IMTCP_INLINE void imtcp_meas_squeeze(struct imtcp_meas *m, const struct imtcp_ack_event *ev)
{
	imtcp_u64 sent_us = ev->now_us - (imtcp_u32)ev->rtt_us;
	imtcp_u64 apart_us = imtcp_sub(sent_us, m->prev_sent_us);

	if (m->prev_sent_us && apart_us >= IMTCP_SQUEEZE_APART_US) {
		m->pairs++;
		m->squeezed += (ev->now_us - m->prev_acked_us) * 8 < apart_us;
	}
	m->prev_sent_us = sent_us;
	m->prev_acked_us = ev->now_us;
}

/* Once per round trip: how congested the path is, hence the pause. */
IMTCP_INLINE void imtcp_meas_round(struct imtcp_meas *m, imtcp_u32 min_rtt_us)
{
	imtcp_u32 rtt = m->round.last_least_rtt_us;

	if (m->pairs >= IMTCP_SQUEEZE_PAIRS)
		m->bunching = m->squeezed * IMTCP_BUNCHED_DIV > m->pairs;
	m->pairs = 0;
	m->squeezed = 0;
	/* no train came in IMTCP_TRAIN_ROUNDS: thinned ACKs, or an application that sends little */
	if (!m->high_bps && m->round.count >= IMTCP_TRAIN_ROUNDS && m->round.delivery_bps)
		imtcp_meas_set_range(m, m->round.delivery_bps / 2, 2 * m->round.delivery_bps);
	if (rtt > min_rtt_us + min_rtt_us / 4 && rtt > min_rtt_us + IMTCP_STANDING_US) {
		m->standing_rounds++;
		if (m->standing_rounds >= IMTCP_CONGESTED_ROUNDS)
			m->pause_rtts = IMTCP_PAUSE_RTTS;
	} else {
		m->standing_rounds = 0;
		/* a free path: halve the pause, 0 after five rounds */
		m->pause_rtts /= 2;
	}
}

/* a of [IM §3.2.4]: 0 above the range, 1...k a sub-range, k + 1 below. */
IMTCP_GLOBAL imtcp_u32 imtcp_meas_choose(const struct imtcp_meas *m)
{
	imtcp_u32 a, i, best = 0;
	/* the sum for a = 0 is -T(1) - ... ; offset by k to stay unsigned */
	imtcp_u32 sum = IMTCP_SUB_RANGES, best_sum;

	if (!m)
		return 0;
	for (i = 0; i < IMTCP_SUB_RANGES; i++) {
		imtcp_u32 t = i < m->judged ? m->verdict[i].trend : (imtcp_u32)IMTCP_TREND_FLAT;

		sum += t == IMTCP_TREND_FLAT;
		sum -= t == IMTCP_TREND_UP;
	}
	best_sum = sum;
	for (a = 1; a <= IMTCP_SUB_RANGES; a++) {
		imtcp_u32 t = a <= m->judged ? m->verdict[a - 1].trend
					     : (imtcp_u32)IMTCP_TREND_FLAT;

		/* moving T(a) from the second sum to the first changes it by 2 T(a) */
		sum += 2 * (t == IMTCP_TREND_UP);
		sum -= 2 * (t == IMTCP_TREND_FLAT);
		/* ties: the highest sub-range rather than "above", which must be earned */
		if (sum > best_sum || (sum == best_sum && !best)) {
			best_sum = sum;
			best = a;
		}
	}
	if (best == IMTCP_SUB_RANGES && m->verdict[IMTCP_SUB_RANGES - 1].all_strained)
		best = IMTCP_SUB_RANGES + 1;
	return best;
}

/* All streams are judged: the result and the next range [IM §3.2.5, §3.2.6]. */
IMTCP_GLOBAL int imtcp_meas_conclude(struct imtcp_meas *m, const struct imtcp_ack_event *ev)
{
	imtcp_u64 half, avail, width, least;
	imtcp_u32 a, outcome = IMTCP_OK;

	if (!m || !ev)
		return 0;
	width = imtcp_sub(m->high_bps, m->low_bps);
	least = imtcp_max(width / 2, 1);
	a = imtcp_meas_choose(m);
	m->result.sub_range = a;
	m->result.validity_pct = 100;
	avail = m->high_bps;
	if (a > IMTCP_SUB_RANGES) {
		avail = m->low_bps;
	} else if (a) {
		const struct imtcp_verdict *v = &m->verdict[(a - 1) & IMTCP_SUB_RANGE_MASK];

		/* strained from its first interval on: A lies in the next lower sub-range */
		if (v->all_strained && a < m->judged)
			v = &m->verdict[a & IMTCP_SUB_RANGE_MASK];
		avail = v->avail_bps;
		m->result.validity_pct = v->validity_pct;
	}
	m->result.avail_bps = avail;

	if (m->bunching || m->tally.bunched * 2 > m->judged)
		outcome = IMTCP_BUNCHED;
	else if (m->tally.late * 2 >= m->judged)
		outcome = IMTCP_NOT_FILLED;
	else if (m->tally.few * 2 > m->judged ||
		 m->ack_ratio_q8 > IMTCP_THINNED_Q8 * imtcp_max(m->chunk_segs, 1))
		outcome = IMTCP_FEW_ACKS;
	else if (m->tally.unknown * 2 > m->judged || m->result.validity_pct < IMTCP_VALID_LEAST_PCT)
		outcome = IMTCP_POOR_FIT;
	else if (m->standing_rounds >= 2 && m->round.delivery_bps &&
		 avail > m->round.delivery_bps / IMTCP_SUSTAINED_DEN * IMTCP_SUSTAINED_NUM)
		outcome = IMTCP_NO_STRAIN;
	else if (a == 0 || a > IMTCP_SUB_RANGES)
		outcome = IMTCP_OUT_OF_RANGE;
	if (outcome == IMTCP_NOT_FILLED) {
		m->m += m->m < m->n;
		m->spare += m->spare < IMTCP_SPARE_MOST;
	}

	imtcp_meas_end(m, ev->now_us, ev->srtt_us, outcome);
	if (outcome == IMTCP_OK) {
		imtcp_store_add(&m->store, avail);
		half = imtcp_scale(imtcp_store_deviation_bps(&m->store), IMTCP_Z95_Q100, 100);
		/* the root of q to a sixteenth */
		half = imtcp_div(half * 16, imtcp_isqrt(m->store.count * 256ULL));
		half = imtcp_max(half, imtcp_max(avail / IMTCP_WIDTH_DIV,
						 m->capacity_bps / IMTCP_WIDTH_CAPACITY_DIV) /
					       2);
		/* with nothing stored before, the last width again */
		if (m->store.count == 1)
			half = imtcp_max(half, width / 2);
		imtcp_meas_set_range(m, imtcp_sub(avail, half), avail + half);
	} else if (outcome == IMTCP_BUNCHED) {
		/* the dispersion of bunched ACKs shows no capacity either */
		if (m->round.delivery_bps)
			m->capacity_bps = imtcp_min(
				m->capacity_bps,
				imtcp_mul(m->round.delivery_bps, IMTCP_BUNCHED_TRUST));
		if (m->capacity_bps)
			imtcp_meas_set_range(m, m->capacity_bps / 2, m->capacity_bps);
	} else if (outcome == IMTCP_NOT_FILLED) {
		/* the window cannot carry streams so fast: first what it will need next */
		if (m->round.delivery_bps && m->high_bps / 2 > m->round.delivery_bps)
			imtcp_meas_set_range(m, m->round.delivery_bps, 2 * m->round.delivery_bps);
	} else if (outcome == IMTCP_OUT_OF_RANGE) {
		imtcp_store_clear(&m->store);
		/* what leaves no strain is within capacity: above it, the trains were wrong */
		if (a == 0) {
			if (m->capacity_bps && m->high_bps > m->capacity_bps)
				m->capacity_bps = m->high_bps + least;
			imtcp_meas_set_range(m, m->low_bps, m->high_bps + least);
		} else {
			imtcp_meas_set_range(m, imtcp_sub(m->low_bps, least), m->high_bps);
		}
	}
	/* what was delivered without a queue is available: from a first train that was held up
	 * somewhere the range would else climb by half widths */
	if (!m->standing_rounds && m->round.delivery_bps > m->high_bps + m->high_bps / 4) {
		m->capacity_bps = imtcp_max(m->capacity_bps, m->round.delivery_bps);
		imtcp_store_clear(&m->store);
		imtcp_meas_set_range(m, m->round.delivery_bps / 2, 2 * m->round.delivery_bps);
	}
	return 0;
}

/* Stream i has all its ACKs: its verdict, and its faults in the tally. */
IMTCP_INLINE void imtcp_meas_judge(struct imtcp_meas *m, imtcp_u32 i)
{
	struct imtcp_verdict *v = &m->verdict[i & IMTCP_SUB_RANGE_MASK];

	imtcp_stream_judge(&m->stream[i & IMTCP_SUB_RANGE_MASK], m->capacity_bps, m->wire_q8,
			   &m->judging, v);
	m->judged = i + 1;
	m->tally.unknown += v->trend == IMTCP_TREND_UNKNOWN;
	m->tally.few += v->intervals < IMTCP_STREAM_LEAST_INTERVALS;
	m->tally.bunched += v->bunched * IMTCP_BUNCHED_DIV > v->intervals;
	m->tally.late += v->slow || v->late * 2 > v->intervals;
}

/*
 * An ACK that moved snd_una. Returns 1 if a measurement ended (m->result), 2 at the end of a
 * round trip, 3 for both.
 */
IMTCP_GLOBAL int imtcp_meas_on_ack(struct imtcp_meas *m, const struct imtcp_ack_event *ev)
{
	imtcp_u32 i, segs;
	imtcp_u64 ended, payload_bps;
	int round;

	if (!m || !ev)
		return 0;
	ended = m->ends;
	m->wire_q8 = ev->wire_q8;
	segs = (imtcp_u32)imtcp_min(imtcp_div(ev->snd_una - ev->prior_una, ev->mss_bytes), 64);
	if (segs)
		m->ack_ratio_q8 = (imtcp_u32)imtcp_ewma(m->ack_ratio_q8, segs * 256);
	round = imtcp_round_on_ack(&m->round, ev->now_us, ev->snd_una, ev->snd_nxt, ev->rtt_us,
				   ev->wire_q8);
	if (round)
		imtcp_meas_round(m, ev->min_rtt_us);
	if (m->blocked && !imtcp_seq_before(ev->snd_una, m->blocked_seq))
		m->blocked = 0;
	if (ev->rtt_us <= 0)
		return round * 2;
	imtcp_meas_train(m, ev);
	imtcp_meas_squeeze(m, ev);
	if (!m->planned)
		return round * 2;

	payload_bps = imtcp_scale(m->capacity_bps, 256, ev->wire_q8);
	for (i = 0; i < IMTCP_SUB_RANGES; i++) {
		struct imtcp_stream *s = &m->stream[i];

		if (i < m->judged)
			continue;
		if (i > m->sending || !s->sent || (i == m->sending && m->unit != IMTCP_SEND))
			break;
		if (!imtcp_seq_before(s->first_seq, ev->snd_una))
			break;
		imtcp_stream_on_ack(s, ev->snd_una, (imtcp_u32)(ev->now_us - (imtcp_u32)ev->rtt_us),
				    (imtcp_u32)ev->now_us, payload_bps);
		if (!imtcp_stream_done(s))
			break;
		imtcp_meas_judge(m, i);
	}
	/* two streams in a row that show nothing: the lower ones will not either [IM §3.2.3] */
	i = m->judged;
	if (i >= 2 && i <= IMTCP_SUB_RANGES && i < m->planned &&
	    m->verdict[(i - 1) & IMTCP_SUB_RANGE_MASK].trend == IMTCP_TREND_FLAT &&
	    m->verdict[(i - 2) & IMTCP_SUB_RANGE_MASK].trend == IMTCP_TREND_FLAT)
		m->planned = i;
	if (m->planned && m->judged >= m->planned)
		imtcp_meas_conclude(m, ev);
	return (m->ends != ended) | round * 2;
}

/* N and the segments of one packet for the ACKs that this receiver sends [IM §3.5.1]. Between
 * measurements only: a stream keeps its N. */
IMTCP_INLINE void imtcp_meas_adapt_n(struct imtcp_meas *m, imtcp_u32 chunk_segs)
{
	imtcp_u32 n = (m->ack_ratio_q8 + 64) / 256 > chunk_segs ? IMTCP_STREAM_N_DELACK
								: IMTCP_STREAM_N;

	if (m->planned || m->n == n)
		return;
	m->n = n;
	m->m = n;
}

#endif
