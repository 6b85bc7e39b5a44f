/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * State of the inline measurement (meas.h): constants, results, and the start and end of a
 * measurement. Both units of [IM §3.3] use it: meas_send.h and meas_ack.h.
 */
#ifndef IMTCP_MEAS_STATE_H
#define IMTCP_MEAS_STATE_H

#include "control.h"
#include "filter.h"
#include "gap.h"
#include "params.h"

/* k, the sub-ranges of one measurement. A power of two, because it is a mask. ours: Four steps of 5
 * % cover a range of 20 %. Four streams of 1 ms gaps fit into a round trip of 30 ms. */
#define IMTCP_SUB_RANGES 4U
#define IMTCP_SUB_RANGE_MASK (IMTCP_SUB_RANGES - 1U)
/* F: after so many successful measurements in a row, m falls by one [IM §3.4.1]. */
#define IMTCP_GOOD_BEFORE_LESS 2U
/* After so many successful measurements in a row, spare falls by one. ours: With F, a third of the
 * measurements would fail. */
#define IMTCP_GOOD_BEFORE_LESS_SPARE 16U
/* Failed streams that end a measurement. ours: as many as it has streams. */
#define IMTCP_TRIES_MOST 4U
/* Most packets held beyond the need of a stream. ours: More only lengthens the silence. */
#define IMTCP_SPARE_MOST 2U
/* Weight of D_RTT in the longest hold, T = M(N-1)/A + 4·D_RTT [IM §3.4.2]. */
#define IMTCP_T_DEVIATIONS 4U
/* B_m, the least width of the range: A/5, and at least C/16. ours: In a narrower range a single
 * packet of cross traffic decides the trends. */
#define IMTCP_WIDTH_DIV 5U
#define IMTCP_WIDTH_CAPACITY_DIV 16U
/* Next range of streams that are judged by gaps. Its middle lies three quarters of the way from A
 * to C, and it is half as wide as that way. ours: Streams just above A show too much strain,
 * because the queue runs empty between two bursts of cross traffic. A stream at C would not, but an
 * error of C would matter more there. */
#define IMTCP_GAP_ABOVE_QUARTERS 3U
#define IMTCP_GAP_WIDTH_DIV 4U
/* Excess is what trains show above the capacity. It averages 32 trains. The capacity is trusted
 * below an excess of a 32nd. ours: Cross traffic only lengthens a train, and jitter also shortens
 * it. Cross traffic alone gives far less (core/tests/test_meas.c). */
#define IMTCP_EXCESS_DIV 32U
#define IMTCP_EXCESS_MOST_DIV 32U
/* Least B_l and B_u as shares of the capacity. ours: Slower streams last longer than the network
 * stays the same, and results become rare. */
#define IMTCP_LOW_CAPACITY_DIV 32U
#define IMTCP_HIGH_CAPACITY_DIV 8U
/* A 95 % interval is 1.96 standard errors [IM §3.2.6], scale 100. */
#define IMTCP_Z95_Q100 196U
/* Rate in EMPTY relative to the ordinary rate, scale 256. ours: 1.5. At 2 the backlog of a hold
 * makes a queue that the next stream takes for its own. */
#define IMTCP_EMPTY_GAIN_Q8 384U
/* Packets less than this apart left back to back. ours: A sender needs less for ten segments, and
 * paced large buffers are 1 ms apart. */
#define IMTCP_BURST_GAP_US 250U
/* Least segments of a train that gives the first range. ours: n >= 5 as in [IM §3.2.1] with N =
 * 5. */
#define IMTCP_TRAIN_SEGS 5U
/* After so many rounds without a train, the delivery rate gives the first range. ours: Slow start
 * is over by then. */
#define IMTCP_TRAIN_ROUNDS 8U
/* Pause between measurements on a congested path, round trips. At 20 the flow is level with Reno
 * [IM §4.5]. */
#define IMTCP_PAUSE_RTTS 20U
/* Pause if four times the delivery rate is available, round trips. ours: It is short enough to see
 * the available bandwidth fall in time. */
#define IMTCP_PAUSE_UNUSED_RTTS 8U
#define IMTCP_UNUSED_FACTOR 4U
/* Limit for the count of measurements in a row that a tight window could not fill. Each doubles the
 * pause. ours: A tight window lasts for many round trips. 2^4 is near IMTCP_PAUSE_RTTS. */
#define IMTCP_UNFILLED_MOST 4U
/* A path is congested after so many rounds in a row with a standing queue. ours: two
 * measurements. */
#define IMTCP_CONGESTED_ROUNDS 8U
/* A queue stands if the least RTT of a round exceeds RTTmin by a quarter, and by 2 ms. ours: A
 * quarter is just above delta of [BG]. Hosts on a LAN vary by less than 2 ms. */
#define IMTCP_STANDING_DIV 4U
#define IMTCP_STANDING_US 2000U
/* A stream is spoilt if this share of its intervals is bunched, a third. ours. */
#define IMTCP_BUNCHED_DIV 3U
/* A pair of packets this far apart shows whether ACKs are squeezed. A round trip needs so many
 * pairs. ours: Two hosts jitter by less. */
#define IMTCP_SQUEEZE_APART_US 100U
#define IMTCP_SQUEEZE_PAIRS 4U
/* With bunched ACKs the capacity is at most eight times the delivery rate. ours: A window that can
 * carry streams delivers an eighth of most paths. */
#define IMTCP_BUNCHED_TRUST 8U
/* Least validity of a result. ours: With an RMS error of half the rate no line is visible. */
#define IMTCP_VALID_LEAST_PCT 50U
/* Behind a standing queue, a result above 3/2 of the delivery rate is not sustainable (token
 * bucket). ours. */
#define IMTCP_SUSTAINED_NUM 3U
#define IMTCP_SUSTAINED_DEN 2U
/* A range and a result may exceed the capacity by this share, an eighth, because the capacity is an
 * estimate. ours. */
#define IMTCP_ABOVE_CAPACITY_DIV 8U
/* A train met a queue if its RTT and the least RTT of its round exceed RTTmin by an eighth, and by
 * 2 ms. The round needs so many samples, because fewer may show a delayed ACK. ours: imtcp_bg makes
 * such a queue if its cap is an eighth too high. */
#define IMTCP_QUEUED_DIV 8U
#define IMTCP_QUEUED_SAMPLES 4U
/*
 * For a minute after a train met a queue, only such trains set the capacity. ours: Behind a token
 * bucket other trains show the rate of the link in front of it. It is a minute,
 * because a flow that yields may meet no queue for that long.
 *
 * The capacity from a queue may be slightly too low, which would hold the flow back. So after two
 * seconds without a queue each measurement without strain raises it by a 64th, to at most an eighth
 * above it. Behind a bucket a capacity that is too high soon makes a queue.
 */
#define IMTCP_QUEUED_DOUBT_US (2 * IMTCP_USEC_PER_SEC)
#define IMTCP_QUEUED_DOUBT_DIV 64U
#define IMTCP_QUEUED_AGE_US (60 * IMTCP_USEC_PER_SEC)
/* Missing ACKs of the last stream are given up after so many srtt. ours. */
#define IMTCP_PASS_TIMEOUT_SRTTS 4U

/* Below an RTT of 1 ms nothing is measured. ours: TCP puts a millisecond of data or more into one
 * buffer there (tcp_tso_autosize), and a suitable window does not hold two of them
 * (lab/notes/0012-round-trips-of-a-lan.md). */
#define IMTCP_SHORT_RTT_US 1000U

IMTCP_INLINE int imtcp_too_short(imtcp_u32 rtt_us)
{
	return rtt_us < IMTCP_SHORT_RTT_US;
}

/* States of the Control unit [IM fig. 5]. OFF lasts until the first range is known. Records contain
 * these values. */
enum imtcp_unit {
	IMTCP_OFF = 0,
	IMTCP_STORE = 1,
	IMTCP_SEND = 2,
	IMTCP_EMPTY = 3,
	IMTCP_PASS = 4,
};

/* Outcome of a measurement. Records contain these values. */
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
	imtcp_u64 avail_bps; /* the estimate, also if the outcome is not OK */
	imtcp_u64 low_bps;   /* the range that was searched */
	imtcp_u64 high_bps;
	imtcp_u32 outcome; /* enum imtcp_outcome */
	imtcp_u32 validity_pct;
	imtcp_u32 sub_range; /* a */
	imtcp_u32 streams;
};

/* Was the whole range free? Then A is the range's end or more. */
IMTCP_INLINE int imtcp_above_range(const struct imtcp_result *r)
{
	return r->outcome == IMTCP_OUT_OF_RANGE && !r->sub_range;
}

/* Faults of the streams in this measurement, as counts of streams. */
struct imtcp_tally {
	imtcp_u32 unknown; /* no trend */
	imtcp_u32 few;	   /* too few intervals */
	imtcp_u32 bunched; /* a third of the intervals or more are bunched */
	imtcp_u32 late;	   /* not filled in time, or slower than its sub-range */
	imtcp_u32 thinned; /* one ACK answered too many packets */
	imtcp_u32 _pad;
};

struct imtcp_meas {
	/* Measurement unit */
	imtcp_u64 low_bps;  /* B_l */
	imtcp_u64 high_bps; /* B_u; 0: no range yet */
	imtcp_u64 capacity_bps;
	imtcp_u64 queued_at_us; /* when a train last met a queue; 0: never */
	imtcp_u64 queued_bps;	/* the capacity at that time */
	imtcp_u64 delivery_bps; /* delivery rate of the newest round */
	imtcp_u64 twice_bps;	/* the lower delivery rate of the newest two rounds */
	struct imtcp_store store;
	struct imtcp_result result; /* of the newest measurement */
	imtcp_u64 avail_bps;	    /* newest valid result; 0: none yet */
	imtcp_u64 avail_at_us;
	/* the estimate (estimate.h) */
	imtcp_u64 smoothed_bps;	 /* A_s; 0: none yet */
	imtcp_u64 deviation_bps; /* mean distance between a result and the A_s before it */
	imtcp_u64 far_bps;	 /* the previous result if it was far from A_s; else 0 */
	imtcp_u64
		counted_at_us; /* when a result last counted, or the first range began; 0: neither */
	imtcp_u32 unclear_q8;  /* share of newest measurements that ACKs spoiled, scale 256 */
	imtcp_u32 doubted;     /* the estimate is not trusted until a result renews it */
	imtcp_u64 started, completed;
	imtcp_u64 ends;	 /* measurements that ended, with any outcome */
	imtcp_u64 heard; /* the part of ends that the estimate has seen */
	imtcp_u64 invalid[IMTCP_OUTCOMES];
	/* the train whose ACKs are arriving */
	imtcp_u64 train_sent_us;
	imtcp_u64 train_first_us, train_last_us;
	imtcp_u32 train_first_una, train_last_una;
	/* bunched ACKs */
	imtcp_u64 prev_sent_us, prev_acked_us; /* of the previous ACK */
	imtcp_u32 pairs, squeezed;	       /* in this round trip */
	imtcp_u32 bunching;		       /* ACKs were bunched in the previous round */
	imtcp_u32 unfilled;	 /* measurements in a row that a tight window could not fill */
	imtcp_u32 tight;	 /* half of the window was less than the newest stream's need */
	imtcp_u32 train_queued;	 /* this train met a queue */
	imtcp_u32 train_span_us; /* from the departure of its first packet to that of its newest */
	imtcp_u32 excess_q16;	 /* mean excess of trains over the capacity, as a share of it */
	/* Control unit */
	imtcp_u32 unit; /* enum imtcp_unit */
	imtcp_u32 plan; /* enum imtcp_plan, of the packet that leaves next */
	imtcp_u32 last_nxt;
	imtcp_u32 sending;	/* the stream under way, 0...k-1 */
	imtcp_u32 judged;	/* streams judged */
	imtcp_u32 planned;	/* streams of this measurement */
	imtcp_u32 chunk_segs;	/* segments per packet */
	imtcp_u32 n;		/* N */
	imtcp_u32 m;		/* m */
	imtcp_u32 spare;	/* packets held beyond the need of a stream */
	imtcp_u32 good_runs;	/* successful measurements in a row */
	imtcp_u32 held;		/* the hold of this stream is done */
	imtcp_u32 failures;	/* failed streams of this measurement */
	imtcp_u32 emptied_segs; /* sent in EMPTY */
	imtcp_u32 backlog;	/* held packets have not all left */
	imtcp_u32 pause_rtts;
	imtcp_u32 standing_rounds; /* rounds in a row with a standing queue */
	imtcp_u32 blocked_seq;	   /* no stream before an ACK of this [IM §3.5.3] */
	imtcp_u32 blocked;
	imtcp_u32 ack_ratio_q8; /* segments per ACK */
	imtcp_u32 wire_q8;
	imtcp_u64 resume_us;	     /* end of the pause */
	imtcp_u64 sent_us;	     /* departure of the newest stream packet */
	imtcp_u64 next_bps;	     /* answer: rate of the gap after the next packet */
	imtcp_u32 burst_segs;	     /* answer: segments that leave at once; 0: the usual number */
	imtcp_u32 hold_us;	     /* hold of the newest stream's first packet */
	imtcp_u32 t_us;		     /* chosen T; 0: adapts */
	imtcp_u32 joined;	     /* gap.h judges the streams of this measurement together */
	imtcp_u32 whole_pause;	     /* a pause keeps its length */
	imtcp_u32 pause_plus1;	     /* chosen pause plus one; 0: it follows congestion */
	imtcp_u32 store_packets;     /* chosen m; 0: adapts */
	imtcp_u32 pause_before_rtts; /* pause_rtts before the newest loss */
	imtcp_u64 resume_before_us;  /* resume_us before the newest loss */
	struct imtcp_tally tally;
	struct imtcp_verdict verdict[IMTCP_SUB_RANGES];
	struct imtcp_gap gap; /* scratch, also judging */
	struct imtcp_judging judging;
	struct imtcp_stream stream[IMTCP_SUB_RANGES];
};

/* Sets N. An m that adapts starts at N [IM §3.4.1]. */
IMTCP_INLINE void imtcp_meas_set_n(struct imtcp_meas *m, imtcp_u32 n)
{
	m->n = n;
	m->m = n;
	if (m->store_packets)
		m->m = (imtcp_u32)imtcp_min(m->store_packets, n);
}

/* N for this receiver: half as many packets more if an ACK answers several [IM §3.5.1]. */
IMTCP_INLINE imtcp_u32 imtcp_meas_n_for(const struct imtcp_meas *m, imtcp_u32 n,
					imtcp_u32 chunk_segs)
{
	return (m->ack_ratio_q8 + 64) / 256 > chunk_segs ? imtcp_delack_packets(n) : n;
}

/* Takes from each ACK the segments that it answers, and their overhead on the wire. */
IMTCP_INLINE void imtcp_meas_note_ack(struct imtcp_meas *m, const struct imtcp_sample *s)
{
	imtcp_u32 segs = (imtcp_u32)imtcp_min(imtcp_div(s->snd_una - s->prior_una, s->mss_bytes),
					      64);

	m->wire_q8 = s->wire_q8;
	if (segs)
		m->ack_ratio_q8 = (imtcp_u32)imtcp_ewma(m->ack_ratio_q8, segs * 256);
}

/* 1.96 S / sqrt(q) of the stored results, half the width of the next range [IM §3.2.6]. The root
 * has a resolution of 1/16. */
IMTCP_INLINE imtcp_u64 imtcp_meas_interval_bps(const struct imtcp_meas *m)
{
	imtcp_u64 bps = imtcp_scale(imtcp_store_deviation_bps(&m->store), IMTCP_Z95_Q100, 100);

	return imtcp_div(bps * 16, imtcp_isqrt(m->store.count * 256ULL));
}

/* After a stream that was not filled in time, m grows by a packet, up to N [IM §3.4.1]. */
IMTCP_INLINE void imtcp_meas_store_more(struct imtcp_meas *m)
{
	if (!m->store_packets && m->m < m->n)
		m->m++;
}

/* After successful measurements, m falls by a packet [IM §3.4.1]. */
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

/* Does an RTT exceed the least one by more than 1/div, and by more than noise? */
IMTCP_INLINE int imtcp_over_least(imtcp_u32 rtt_us, imtcp_u32 min_rtt_us, imtcp_u32 div)
{
	return rtt_us > min_rtt_us + min_rtt_us / div && rtt_us > min_rtt_us + IMTCP_STANDING_US;
}

/* Are streams judged together? That needs a capacity on which trains agree, because strain is
 * proportional to it. It also needs a window that carried the last streams, because streams near
 * the capacity are the fastest. */
IMTCP_INLINE int imtcp_meas_asks_gaps(const struct imtcp_meas *m)
{
	return m->capacity_bps && !m->unfilled && m->excess_q16 < 65536 / IMTCP_EXCESS_MOST_DIV;
}

/* Upper limit for a range or a result, from the capacity. */
IMTCP_INLINE imtcp_u64 imtcp_meas_top_bps(const struct imtcp_meas *m)
{
	imtcp_u64 c = m->capacity_bps;

	return c ? c + c / IMTCP_ABOVE_CAPACITY_DIV : IMTCP_U64_MAX;
}

/* Did a queue show the capacity in the last minute? */
IMTCP_INLINE int imtcp_meas_queued(const struct imtcp_meas *m, imtcp_u64 now_us)
{
	return m->queued_at_us && now_us - m->queued_at_us < IMTCP_QUEUED_AGE_US;
}

/* Sets B_l and B_u, within the limits of the path. */
IMTCP_INLINE void imtcp_meas_set_range(struct imtcp_meas *m, imtcp_u64 low_bps, imtcp_u64 high_bps)
{
	imtcp_u64 c = m->capacity_bps;
	imtcp_u64 top = imtcp_meas_top_bps(m); /* always A <= C */
	imtcp_u64 bottom = imtcp_max(c / IMTCP_LOW_CAPACITY_DIV, 1000);

	high_bps = imtcp_clamp(high_bps, imtcp_max(c / IMTCP_HIGH_CAPACITY_DIV, bottom * 2), top);
	low_bps = imtcp_clamp(low_bps, bottom, high_bps / 2 + high_bps / 4 + high_bps / 8);
	m->low_bps = low_bps;
	m->high_bps = high_bps;
}

/* Upper end of sub-range i (0...k-1), the highest first; i = k gives B_l [IM §3.2.2]. */
IMTCP_INLINE imtcp_u64 imtcp_meas_edge_bps(const struct imtcp_meas *m, imtcp_u32 i)
{
	return m->high_bps - imtcp_sub(m->high_bps, m->low_bps) * i / IMTCP_SUB_RANGES;
}

/*
 * Round trips until the next measurement. On a free path there is no pause, unless somebody chose
 * one [IM §4.5].
 *
 * - If the connection uses far less than what is available, there is a pause. The application, a
 *   ceiling or slow start may be the reason.
 * - If the window could not carry the last streams, there is a pause. A hold in vain costs about
 *   its own length.
 */
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

/* Ends and counts a measurement, and begins the pause. */
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
	/* A hold returns a round trip later as a silence of ACKs. If the next stream coincided with
	 * it each time, no stream would ever be filled. So the next measurement begins at another
	 * point of the round trip. */
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

/* Least window for a measurement, segments: a stream, and one segment on each side. */
IMTCP_INLINE imtcp_u32 imtcp_meas_least_window_segs(const struct imtcp_meas *m)
{
	return m->n + 2;
}

/* Gives up the present measurement. Returns 1 if there was one. */
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
 * A loss or a timeout ends the hold. No stream leaves before the present flight is acknowledged [IM
 * §3.5.3], and the pause becomes that of a congested path. Returns 1 if it ended a measurement.
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

/* Begins the next measurement at once, also with a small window: for a control that grows only by
 * results. */
IMTCP_INLINE void imtcp_meas_again(struct imtcp_meas *m, imtcp_u64 now_us)
{
	m->pause_rtts = 0;
	m->unfilled = 0;
	m->resume_us = now_us;
}

/* Saves the pause at a loss. It is separate, because a timeout after the loss calls
 * imtcp_meas_on_loss again. */
IMTCP_INLINE void imtcp_meas_before_loss(struct imtcp_meas *m)
{
	m->pause_before_rtts = m->pause_rtts;
	m->resume_before_us = m->resume_us;
}

/* The newest loss was spurious: restores the pause. */
IMTCP_INLINE void imtcp_meas_on_undo(struct imtcp_meas *m)
{
	m->pause_rtts = m->pause_before_rtts;
	m->resume_us = m->resume_before_us;
}

#endif
