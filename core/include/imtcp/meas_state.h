/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * State of the inline measurement (meas.h): constants, events, results, what begins and ends
 * a measurement. Both units of [IM §3.3] work on it: meas_send.h and meas_ack.h.
 */
#ifndef IMTCP_MEAS_STATE_H
#define IMTCP_MEAS_STATE_H

#include "control.h"
#include "filter.h"
#include "gap.h"
#include "params.h"

/* k, sub-ranges of one measurement. ours: 4 cut a range of 20 % into steps of 5 %. Four streams of
 * 1 ms gaps fit into one round trip of 30 ms. A power of two: a mask. */
#define IMTCP_SUB_RANGES 4U
#define IMTCP_SUB_RANGE_MASK (IMTCP_SUB_RANGES - 1U)
/* F: measurements in a row that succeed before m falls by one [IM §3.4.1]. */
#define IMTCP_GOOD_BEFORE_LESS 2U
/* And before what is held beyond m falls by one. ours: each failure raises it by one, and with F of
 * them a third of the measurements failed. */
#define IMTCP_GOOD_BEFORE_LESS_SPARE 16U
/* Streams of one measurement that may fail to be filled. ours: as many as there are streams. */
#define IMTCP_TRIES_MOST 4U
/* Packets held beyond what a stream should use. ours: more only lengthens the silence. */
#define IMTCP_SPARE_MOST 2U
/* Weight of D_RTT in the storing time T = M(N-1)/A + 4·D_RTT [IM §3.4.2]. */
#define IMTCP_T_DEVIATIONS 4U
/* B_m, least width of the range: A/5, at least C/16. ours: below that, cross traffic's packets
 * (one more or less within a stream) decide the trends. */
#define IMTCP_WIDTH_DIV 5U
#define IMTCP_WIDTH_CAPACITY_DIV 16U
/* Where streams are judged by gaps, the middle of the next range lies three quarters of the way from A to
 * C. The range is half as wide as that distance. ours: beside bursts a stream just above A lets the queue
 * run empty between them, so its strain exceeds x - A. A stream at C would not be, but then a wrong C would
 * count for more. */
#define IMTCP_GAP_ABOVE_QUARTERS 3U
#define IMTCP_GAP_WIDTH_DIV 4U
/* The capacity is believed while trains exceed it by at most a 32nd, on the mean of the last 32. Cross
 * traffic makes a train longer, never shorter. Jitter does both. ours: cross traffic alone shows 0 to 1 %,
 * jitter of 100 us in trains of 1 ms 5 % (core/tests/test_meas.c). */
#define IMTCP_EXCESS_DIV 32U
#define IMTCP_EXCESS_MOST_DIV 32U
/* Lowest B_l and B_u as shares of capacity. ours: below, a stream lasts longer than the network
 * stays the same, and the estimate starves. */
#define IMTCP_LOW_CAPACITY_DIV 32U
#define IMTCP_HIGH_CAPACITY_DIV 8U
/* 1.96 standard errors, 95 % [IM §3.2.6], scale 100. */
#define IMTCP_Z95_Q100 196U
/* Rate of EMPTY against the ordinary one, scale 256. ours: 1.5; at 2 the backlog of a hold makes a
 * queue that the next stream mistakes for its own. */
#define IMTCP_EMPTY_GAIN_Q8 384U
/* Two packets left back to back if less than this lies between them. ours: a sender needs less for
 * ten segments, and paced large buffers are 1 ms apart. */
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
/* Measurements in a row that a tight window could not fill. Each doubles the pause to the next.
 * ours: such a window stays for many round trips. 2^4 is near IMTCP_PAUSE_RTTS. */
#define IMTCP_UNFILLED_MOST 4U
/* Rounds in a row with a standing queue that make a path congested. ours: two measurements. */
#define IMTCP_CONGESTED_ROUNDS 8U
/* A round has a standing queue if its least RTT exceeds RTTmin by a quarter and by 2 ms. ours: a quarter is
 * just above delta of [BG], and hosts on a LAN vary by less than 2 ms. */
#define IMTCP_STANDING_DIV 4U
#define IMTCP_STANDING_US 2000U
/* Share of bunched intervals that spoils a stream: a third. ours. */
#define IMTCP_BUNCHED_DIV 3U
/* Departures so far apart tell whether their ACKs were squeezed, if there are so many in a round
 * trip. ours: two hosts jitter by less. */
#define IMTCP_SQUEEZE_APART_US 100U
#define IMTCP_SQUEEZE_PAIRS 4U
/* After bunched ACKs capacity counts up to eight times what was delivered. ours: a window that
 * can carry streams delivers an eighth of most paths. */
#define IMTCP_BUNCHED_TRUST 8U
/* Least validity. ours: an RMS distance of half the rate leaves no line to see. */
#define IMTCP_VALID_LEAST_PCT 50U
/* A result over 3/2 of what a queue-building flow got delivered is no bandwidth that can be
 * had for longer (token bucket). ours. */
#define IMTCP_SUSTAINED_NUM 3U
#define IMTCP_SUSTAINED_DEN 2U
/* How far a range and a result may be above the capacity: an eighth, since it is itself an estimate.
 * ours. */
#define IMTCP_ABOVE_CAPACITY_DIV 8U
/* A train met a queue if its RTT, and the least of its round, exceed RTTmin by an eighth and by 2 ms. ours:
 * imtcp_bg makes such a queue when its cap is an eighth too high. A round of fewer samples shows a delayed
 * ACK. */
#define IMTCP_QUEUED_DIV 8U
#define IMTCP_QUEUED_SAMPLES 4U
/* A capacity that a queue proved counts alone for a minute. ours: a flow that yields may meet no queue for
 * that long, and behind a token bucket trains show the bucket's rate. After two seconds without a queue
 * each measurement without strain raises the capacity by a 64th, up to an eighth above what the queue
 * showed. So a value that was a little too low holds nobody back. Behind a bucket a rate that is too high
 * soon meets a queue. */
#define IMTCP_QUEUED_DOUBT_US (2 * IMTCP_USEC_PER_SEC)
#define IMTCP_QUEUED_DOUBT_DIV 64U
#define IMTCP_QUEUED_AGE_US (60 * IMTCP_USEC_PER_SEC)
/* ACKs of the last stream that have not come after this many srtt will not come. ours. */
#define IMTCP_PASS_TIMEOUT_SRTTS 4U

/* Round trips below 1 ms are too short to measure in. ours: TCP puts a millisecond of data into one
 * buffer, and more on a shorter path (tcp_tso_autosize). A window that is right there does not hold
 * two of them: lab/notes/0012-round-trips-of-a-lan.md. */
#define IMTCP_SHORT_RTT_US 1000U

IMTCP_INLINE int imtcp_too_short(imtcp_u32 rtt_us)
{
	return rtt_us < IMTCP_SHORT_RTT_US;
}

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

/* All of the search range was free: A is the range's end, or anything more. */
IMTCP_INLINE int imtcp_above_range(const struct imtcp_result *r)
{
	return r->outcome == IMTCP_OUT_OF_RANGE && !r->sub_range;
}

/* Faults of the streams judged so far in this measurement, each a count of streams. */
struct imtcp_tally {
	imtcp_u32 unknown; /* no trend */
	imtcp_u32 few;	   /* too few intervals */
	imtcp_u32 bunched; /* a third of the intervals or more */
	imtcp_u32 late;	   /* not filled in time, or slower than its sub-range */
	imtcp_u32 thinned; /* an ACK answered too much */
	imtcp_u32 _pad;
};

struct imtcp_meas {
	/* Measurement unit */
	imtcp_u64 low_bps;  /* B_l */
	imtcp_u64 high_bps; /* B_u; 0: no range yet */
	imtcp_u64 capacity_bps;
	imtcp_u64 queued_at_us; /* when a train met a queue last; 0: none did */
	imtcp_u64 queued_bps;	/* the capacity then */
	imtcp_u64 delivery_bps; /* delivered in the newest round */
	imtcp_u64 twice_bps;	/* and in the one before it, the lower of the two */
	struct imtcp_store store;
	struct imtcp_result result; /* of the newest measurement */
	imtcp_u64 avail_bps;	    /* newest valid one; 0: none yet */
	imtcp_u64 avail_at_us;
	/* the smoothed estimate (estimate.h) */
	imtcp_u64 smoothed_bps;	 /* A_s; 0: none yet */
	imtcp_u64 deviation_bps; /* mean distance of a result from A_s before it */
	imtcp_u64 far_bps;	 /* the result before, where it was far from A_s; 0: it was not */
	imtcp_u64
		counted_at_us; /* when a result counted, or the first range was known; 0: neither */
	imtcp_u32 unclear_q8;  /* share of the newest results that ACKs could not tell; scale 256 */
	imtcp_u32 doubted;     /* nothing steers by the estimate until it is renewed */
	imtcp_u64 started, completed;
	imtcp_u64 ends;	 /* measurements that ended, however */
	imtcp_u64 heard; /* results that went into the estimate */
	imtcp_u64 invalid[IMTCP_OUTCOMES];
	/* the train that is arriving */
	imtcp_u64 train_sent_us;
	imtcp_u64 train_first_us, train_last_us;
	imtcp_u32 train_first_una, train_last_una;
	/* bunched ACKs */
	imtcp_u64 prev_sent_us, prev_acked_us; /* of the ACK before */
	imtcp_u32 pairs, squeezed;	       /* in this round trip */
	imtcp_u32 bunching;		       /* of the round before: ACKs come in bunches */
	imtcp_u32 unfilled;	 /* measurements in a row that a tight window did not fill */
	imtcp_u32 tight;	 /* half of the window was less than the newest stream needs */
	imtcp_u32 train_queued;	 /* the train that is arriving met a queue */
	imtcp_u32 train_span_us; /* between the departures of its first packet and its newest */
	imtcp_u32 excess_q16;	 /* mean of what trains show above the capacity, its share */
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
	imtcp_u32 backlog;	/* held packets have not all left yet */
	imtcp_u32 pause_rtts;
	imtcp_u32 standing_rounds; /* in a row, with a standing queue */
	imtcp_u32 blocked_seq;	   /* no stream before this is acknowledged [IM §3.5.3] */
	imtcp_u32 blocked;
	imtcp_u32 ack_ratio_q8; /* segments per ACK */
	imtcp_u32 wire_q8;
	imtcp_u64 resume_us;	 /* the pause is over */
	imtcp_u64 sent_us;	 /* when the newest stream packet left */
	imtcp_u64 next_bps;	 /* answer: rate of the gap after the packet that leaves next */
	imtcp_u32 burst_segs;	 /* answer: segments to let leave at once, 0: as usual */
	imtcp_u32 hold_us;	 /* how long the first packet of the newest stream is held */
	imtcp_u32 t_us;		 /* T where it was chosen; 0: adapts */
	imtcp_u32 joined;	 /* the streams of this measurement are judged together (gap.h) */
	imtcp_u32 whole_pause;	 /* a pause lasts as it began */
	imtcp_u32 pause_plus1;	 /* the pause where it was chosen; 0: it follows congestion */
	imtcp_u32 store_packets; /* m where it was chosen; 0: adapts */
	imtcp_u32 pause_before_rtts; /* before the newest loss, */
	imtcp_u64 resume_before_us;  /* as this */
	struct imtcp_tally tally;
	struct imtcp_verdict verdict[IMTCP_SUB_RANGES];
	struct imtcp_gap gap; /* scratch, as this is: */
	struct imtcp_judging judging;
	struct imtcp_stream stream[IMTCP_SUB_RANGES];
};

/* N packets to a stream, and m that adapts begins there [IM §3.4.1]. */
IMTCP_INLINE void imtcp_meas_set_n(struct imtcp_meas *m, imtcp_u32 n)
{
	m->n = n;
	m->m = n;
	if (m->store_packets)
		m->m = (imtcp_u32)imtcp_min(m->store_packets, n);
}

/* N for the ACKs of this receiver: half as many packets more where one answers several [IM §3.5.1]. */
IMTCP_INLINE imtcp_u32 imtcp_meas_n_for(const struct imtcp_meas *m, imtcp_u32 n,
					imtcp_u32 chunk_segs)
{
	return (m->ack_ratio_q8 + 64) / 256 > chunk_segs ? imtcp_delack_packets(n) : n;
}

/* Learns from every ACK: how many segments one answers, and their size on the wire. */
IMTCP_INLINE void imtcp_meas_note_ack(struct imtcp_meas *m, const struct imtcp_sample *s)
{
	imtcp_u32 segs = (imtcp_u32)imtcp_min(imtcp_div(s->snd_una - s->prior_una, s->mss_bytes),
					      64);

	m->wire_q8 = s->wire_q8;
	if (segs)
		m->ack_ratio_q8 = (imtcp_u32)imtcp_ewma(m->ack_ratio_q8, segs * 256);
}

/* 1.96 S / sqrt(q) of the stored results, half the width of the next range [IM §3.2.6]; the root to a sixteenth. */
IMTCP_INLINE imtcp_u64 imtcp_meas_interval_bps(const struct imtcp_meas *m)
{
	imtcp_u64 bps = imtcp_scale(imtcp_store_deviation_bps(&m->store), IMTCP_Z95_Q100, 100);

	return imtcp_div(bps * 16, imtcp_isqrt(m->store.count * 256ULL));
}

/* A stream was not filled in time: m grows by a packet, to N [IM §3.4.1]. */
IMTCP_INLINE void imtcp_meas_store_more(struct imtcp_meas *m)
{
	if (!m->store_packets && m->m < m->n)
		m->m++;
}

/* Good measurements: m falls by a packet [IM §3.4.1]. */
IMTCP_INLINE void imtcp_meas_store_less(struct imtcp_meas *m)
{
	if (!m->store_packets && m->m > IMTCP_STORE_PACKETS_LEAST)
		m->m--;
}

IMTCP_INLINE void imtcp_meas_init(struct imtcp_meas *m, const struct imtcp_params *p,
				  imtcp_u32 snd_nxt)
{
	m->store_packets = p->store_packets;
	imtcp_meas_set_n(m, p->stream_packets);
	m->ack_ratio_q8 = 256;
	m->wire_q8 = 256;
	m->t_us = p->t_us;
	m->pause_plus1 = p->pause_plus1;
	m->whole_pause = !!m->pause_plus1;
	m->last_nxt = snd_nxt;
}

/* An RTT above the least one by more than 1/div, and by more than noise. */
IMTCP_INLINE int imtcp_over_least(imtcp_u32 rtt_us, imtcp_u32 min_rtt_us, imtcp_u32 div)
{
	return rtt_us > min_rtt_us + min_rtt_us / div && rtt_us > min_rtt_us + IMTCP_STANDING_US;
}

/* Are streams to be judged together? Their strain is in proportion to the capacity, which trains have to agree
 * on. And not where the window could not carry the last ones: those near the capacity are the fastest. */
IMTCP_INLINE int imtcp_meas_asks_gaps(const struct imtcp_meas *m)
{
	return m->capacity_bps && !m->unfilled && m->excess_q16 < 65536 / IMTCP_EXCESS_MOST_DIV;
}

/* The most that the capacity lets be true. */
IMTCP_INLINE imtcp_u64 imtcp_meas_top_bps(const struct imtcp_meas *m)
{
	imtcp_u64 c = m->capacity_bps;

	return c ? c + c / IMTCP_ABOVE_CAPACITY_DIV : IMTCP_U64_MAX;
}

/* A queue showed the capacity lately. */
IMTCP_INLINE int imtcp_meas_queued(const struct imtcp_meas *m, imtcp_u64 now_us)
{
	return m->queued_at_us && now_us - m->queued_at_us < IMTCP_QUEUED_AGE_US;
}

/* B_l and B_u within what the path can have. */
IMTCP_INLINE void imtcp_meas_set_range(struct imtcp_meas *m, imtcp_u64 low_bps, imtcp_u64 high_bps)
{
	imtcp_u64 c = m->capacity_bps;
	imtcp_u64 top = imtcp_meas_top_bps(m); /* A <= C always */
	imtcp_u64 bottom = imtcp_max(c / IMTCP_LOW_CAPACITY_DIV, 1000);

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

/* Round trips to the next measurement. On a free path there are none, unless somebody chose a
 * number [IM §4.5]. There are some where far more is available than the connection uses, because of
 * its application, its ceiling or slow start. There are some where the window could not carry the last
 * streams: each hold in vain costs about its own length. */
IMTCP_INLINE imtcp_u32 imtcp_meas_pause_rtts(const struct imtcp_meas *m)
{
	if (m->pause_plus1)
		return m->pause_plus1 - 1;
	if (!m->pause_rtts && m->result.outcome == IMTCP_OK &&
	    m->avail_bps / IMTCP_UNUSED_FACTOR > m->delivery_bps)
		return IMTCP_PAUSE_UNUSED_RTTS;
	if (m->unfilled)
		return (imtcp_u32)imtcp_max(m->pause_rtts, 1U << m->unfilled);
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
	if (outcome != IMTCP_NOT_FILLED || !m->tight)
		m->unfilled = 0;
	else if (m->unfilled < IMTCP_UNFILLED_MOST)
		m->unfilled++;
	if (outcome == IMTCP_OK) {
		m->completed++;
		m->avail_bps = m->result.avail_bps;
		m->avail_at_us = now_us;
		m->good_runs++;
		if (m->good_runs % IMTCP_GOOD_BEFORE_LESS == 0)
			imtcp_meas_store_less(m);
		if (m->good_runs >= IMTCP_GOOD_BEFORE_LESS_SPARE) {
			m->spare -= m->spare != 0;
			m->good_runs = 0;
		}
	} else {
		m->good_runs = 0;
	}
	m->resume_us = now_us + (imtcp_u64)imtcp_meas_pause_rtts(m) * srtt_us;
	/* A hold comes back a round trip later as a silence of ACKs. Where that is when the next
	 * stream leaves, none is ever filled: start somewhere else in the round trip. */
	if (outcome == IMTCP_NOT_FILLED)
		m->resume_us += (imtcp_u64)srtt_us * (now_us % 64) / 128;
	m->failures = 0;
	m->tally = (struct imtcp_tally){0, 0, 0, 0, 0, 0};
	m->planned = 0;
	m->sending = 0;
	m->judged = 0;
	m->held = 0;
	m->unit = IMTCP_EMPTY;
	m->emptied_segs = 0;
}

/* The window that a measurement needs, segments: a stream, and one on each side of it. */
IMTCP_INLINE imtcp_u32 imtcp_meas_least_window_segs(const struct imtcp_meas *m)
{
	return m->n + 2;
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
	m->resume_us = now_us + (imtcp_u64)imtcp_meas_pause_rtts(m) * srtt_us;
	return imtcp_meas_abandon(m, now_us, srtt_us, IMTCP_RETRANSMITTED);
}

/* The next measurement begins at once, also while the window is small: for a control that only grows by results. */
IMTCP_INLINE void imtcp_meas_again(struct imtcp_meas *m, imtcp_u64 now_us)
{
	m->pause_rtts = 0;
	m->unfilled = 0;
	m->resume_us = now_us;
}

/* A loss, before anything is done for it: a timeout may follow it, and imtcp_meas_on_loss be called twice. */
IMTCP_INLINE void imtcp_meas_before_loss(struct imtcp_meas *m)
{
	m->pause_before_rtts = m->pause_rtts;
	m->resume_before_us = m->resume_us;
}

/* The newest loss was none: the pause is what it was. */
IMTCP_INLINE void imtcp_meas_on_undo(struct imtcp_meas *m)
{
	m->pause_rtts = m->pause_before_rtts;
	m->resume_us = m->resume_before_us;
}

#endif
