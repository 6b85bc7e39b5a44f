/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The numbers of the papers that a user may choose for a connection: their defaults, their ranges
 * and nothing else. A connection for which nobody chose anything has the defaults. User space writes
 * this structure for a run and reads it of a connection (bpf/imtcp_shared.h). So fields are only
 * appended, and 0 is "not chosen". docs/reference/parameters.md tells users what each does. */
#ifndef IMTCP_PARAMS_H
#define IMTCP_PARAMS_H

#include "types.h"

/* gamma, the weight of a new result in the smoothed available bandwidth, scale 65536: 1/8 [BG §4.1.1].
 * ours: with less than 0.01 it would follow a step of the path only in minutes. */
#define IMTCP_GAMMA_Q16 8192U
#define IMTCP_GAMMA_LEAST_Q16 655U
#define IMTCP_GAMMA_MOST_Q16 65536U

/* delta, the ratio of RTT to RTTmin that is congestion, scale 256: 1.2 [BG §4.1.2]. ours: 1.05 to
 * 4. Noise of a common path stays below 1.05, and no path reaches 4. */
#define IMTCP_DELTA_Q8 307U
#define IMTCP_DELTA_LEAST_Q8 269U
#define IMTCP_DELTA_MOST_Q8 1024U

/* g, the share of the available bandwidth that the background takes, scale 256 [IM §5.1]. ours: all of it
 * by default, as in [BG eq. 2]. Below a twentieth the measurement would take most of it. */
#define IMTCP_G_Q8 256U
#define IMTCP_G_LEAST_Q8 13U
#define IMTCP_G_MOST_Q8 256U

/* h, the segments that full speed adds in a round trip far below the available bandwidth: 100 [IM §5.2,
 * fig. 16]; 1 is Reno. ours: more than 1000 fits into few buffers. */
#define IMTCP_H_SEGS 100U
#define IMTCP_H_LEAST_SEGS 1U
#define IMTCP_H_MOST_SEGS 1000U

/* N, the packets of a stream where each has its own ACK. N is half as large again where an ACK answers
 * several packets [IM §3.5.1]. ours: 8; the paper's 5 is enough in simulation [IM §4.1.1], but real cross
 * traffic comes in packets too. At most 10: with 15 a stream still fits into IMTCP_STREAM_MAX. */
#define IMTCP_STREAM_PACKETS 8U
#define IMTCP_STREAM_PACKETS_LEAST 5U
#define IMTCP_STREAM_PACKETS_MOST 10U

/* m, the packets that are held before a stream leaves. By default it adapts [IM §3.4.1]: it is N
 * less what ACKs bring meanwhile (imtcp_meas_need_segs). A chosen one does not adapt, as in [IM
 * §4.1.2, table 1], which has 2 to N. It is at most what N is with delayed ACKs, and N where that is
 * less. */
#define IMTCP_STORE_PACKETS_LEAST 2U
#define IMTCP_STORE_PACKETS_MOST 15U

/* T, the longest time that a packet may be held, microseconds. By default it adapts to the stream
 * and to the deviation of the RTT [IM §3.4.2] (IMTCP_T_DEVIATIONS). A chosen one does not adapt, as in
 * [IM §4.1.3, table 2]. ours: at least 1 ms, the gap between paced large buffers. At most
 * IMTCP_T_MAX_US, a quarter of the least delayed-ACK and RTO times of common stacks (200 ms): no hold
 * can cause a spurious timeout. */
#define IMTCP_T_LEAST_US 1000U
#define IMTCP_T_MAX_US 50000U

/* The pause between two measurements, round trips, plus one: 0 is "not chosen". By default it follows
 * congestion (IMTCP_PAUSE_RTTS, meas_state.h). A chosen one does not adapt, as in [IM §4.5, fig. 13]. ours:
 * at most 100, some seconds on a common path. */
#define IMTCP_PAUSE_LEAST_PLUS1 1U
#define IMTCP_PAUSE_MOST_PLUS1 101U

/* TCP-LP's delta, the share of the delays' range above which they are congestion, percent: 0.15 [LP
 * §III-D]. ours: 0.01 to 0.99. Any delay is above 0, and none is above 1 [LP eq. 2]. */
#define IMTCP_LP_DELTA_PCT 15U
#define IMTCP_LP_DELTA_LEAST_PCT 1U
#define IMTCP_LP_DELTA_MOST_PCT 99U

/* itt, the inference phase, round trips: 3 [LP §III-D]. ours: at least 1, because a second
 * indication comes a round trip after the first. At most 100, which are seconds on a common path: a
 * later one says nothing of the first. */
#define IMTCP_LP_ITT_RTTS 3U
#define IMTCP_LP_ITT_LEAST_RTTS 1U
#define IMTCP_LP_ITT_MOST_RTTS 100U

/* Nice's t, the share of the range of RTTs above which a packet is late, percent: 0.1. And f, the
 * share of a round's packets that may be late: 0.5 [NICE §4]. ours: 0.01 to 0.99. At 1 no packet is
 * late, or no round has too many [NICE §3]. */
#define IMTCP_NICE_T_PCT 10U
#define IMTCP_NICE_T_LEAST_PCT 1U
#define IMTCP_NICE_T_MOST_PCT 99U
#define IMTCP_NICE_F_PCT 50U
#define IMTCP_NICE_F_LEAST_PCT 1U
#define IMTCP_NICE_F_MOST_PCT 99U

/* LEDBAT's TARGET, the queue that it keeps, microseconds: 100 ms, the most that is allowed
 * (RFC 6817 §2.5). ours: at least 5 ms, five ticks of the peer's clock (IMTCP_OWD_USUAL_TICK_US). */
#define IMTCP_LEDBAT_TARGET_US 100000U
#define IMTCP_LEDBAT_TARGET_LEAST_US 5000U
#define IMTCP_LEDBAT_TARGET_MOST_US 100000U

/* LEDBAT's GAIN, scale 256: the greatest that RFC 6817 §2.5 allows. ours: at least that of LEDBAT++ [L++
 * §4.2]. */
#define IMTCP_LEDBAT_GAIN_Q8 256U
#define IMTCP_LEDBAT_GAIN_LEAST_Q8 16U
#define IMTCP_LEDBAT_GAIN_MOST_Q8 256U

/* LEDBAT++'s TARGET, microseconds: 60 ms [L++ §4.5]. ours: LEDBAT's range. */
#define IMTCP_LEDBATPP_TARGET_US 60000U
#define IMTCP_LEDBATPP_TARGET_LEAST_US IMTCP_LEDBAT_TARGET_LEAST_US
#define IMTCP_LEDBATPP_TARGET_MOST_US IMTCP_LEDBAT_TARGET_MOST_US

/* N of the papers' controls: 5 [IM §4.1.1], which has 3 as well, and finds it far off. */
#define IMTCP_PAPER_STREAM_PACKETS 5U
#define IMTCP_PAPER_STREAM_PACKETS_LEAST 3U
#define IMTCP_PAPER_STREAM_PACKETS_MOST IMTCP_STREAM_PACKETS_MOST

/* RTT of [BG eq. 3, 4], and when they are judged (cc_paper_bg.h). */
#define IMTCP_PAPER_RTT_SRTT 1U
#define IMTCP_PAPER_RTT_SRTT_ACK 2U
#define IMTCP_PAPER_RTT_NEWEST 3U

struct imtcp_params {
	imtcp_u32 gamma_q16;
	imtcp_u32 delta_q8;
	imtcp_u32 h_segs;
	imtcp_u32 stream_packets; /* N */
	imtcp_u32 g_q8;
	imtcp_u32 lp_delta_pct;
	imtcp_u32 lp_itt_rtts;
	imtcp_u32 nice_t_pct;
	imtcp_u32 nice_f_pct;
	imtcp_u32 ledbat_target_us;
	imtcp_u32 ledbat_gain_q8;
	imtcp_u32 ledbatpp_target_us;
	imtcp_u32 t_us;			/* T; 0: adapts */
	imtcp_u32 pause_plus1;		/* 0: follows congestion */
	imtcp_u32 store_packets;	/* m; 0: adapts */
	imtcp_u32 paper_stream_packets; /* N of the papers' controls */
	imtcp_u32 paper_rtt;		/* RTT of [BG eq. 3] */
	imtcp_u32 _pad;			/* a record ends with these, and is of whole words */
};

IMTCP_INLINE void imtcp_params_init(struct imtcp_params *p)
{
	p->gamma_q16 = IMTCP_GAMMA_Q16;
	p->delta_q8 = IMTCP_DELTA_Q8;
	p->h_segs = IMTCP_H_SEGS;
	p->stream_packets = IMTCP_STREAM_PACKETS;
	p->g_q8 = IMTCP_G_Q8;
	p->lp_delta_pct = IMTCP_LP_DELTA_PCT;
	p->lp_itt_rtts = IMTCP_LP_ITT_RTTS;
	p->nice_t_pct = IMTCP_NICE_T_PCT;
	p->nice_f_pct = IMTCP_NICE_F_PCT;
	p->ledbat_target_us = IMTCP_LEDBAT_TARGET_US;
	p->ledbat_gain_q8 = IMTCP_LEDBAT_GAIN_Q8;
	p->ledbatpp_target_us = IMTCP_LEDBATPP_TARGET_US;
	p->t_us = 0;
	p->pause_plus1 = 0;
	p->store_packets = 0;
	p->paper_stream_packets = IMTCP_PAPER_STREAM_PACKETS;
	p->paper_rtt = IMTCP_PAPER_RTT_SRTT;
	p->_pad = 0;
}

/* Takes the chosen parameters, each within its range. The others stay. */
IMTCP_INLINE void imtcp_params_choose_one(imtcp_u32 *value, imtcp_u32 chosen, imtcp_u32 least,
					  imtcp_u32 most)
{
	if (!chosen)
		return;
	*value = chosen < least ? least : chosen > most ? most : chosen;
}

IMTCP_INLINE void imtcp_params_choose(struct imtcp_params *p, const struct imtcp_params *chosen)
{
	imtcp_params_choose_one(&p->gamma_q16, chosen->gamma_q16, IMTCP_GAMMA_LEAST_Q16,
				IMTCP_GAMMA_MOST_Q16);
	imtcp_params_choose_one(&p->delta_q8, chosen->delta_q8, IMTCP_DELTA_LEAST_Q8,
				IMTCP_DELTA_MOST_Q8);
	imtcp_params_choose_one(&p->h_segs, chosen->h_segs, IMTCP_H_LEAST_SEGS, IMTCP_H_MOST_SEGS);
	imtcp_params_choose_one(&p->stream_packets, chosen->stream_packets,
				IMTCP_STREAM_PACKETS_LEAST, IMTCP_STREAM_PACKETS_MOST);
	imtcp_params_choose_one(&p->g_q8, chosen->g_q8, IMTCP_G_LEAST_Q8, IMTCP_G_MOST_Q8);
	imtcp_params_choose_one(&p->lp_delta_pct, chosen->lp_delta_pct, IMTCP_LP_DELTA_LEAST_PCT,
				IMTCP_LP_DELTA_MOST_PCT);
	imtcp_params_choose_one(&p->lp_itt_rtts, chosen->lp_itt_rtts, IMTCP_LP_ITT_LEAST_RTTS,
				IMTCP_LP_ITT_MOST_RTTS);
	imtcp_params_choose_one(&p->nice_t_pct, chosen->nice_t_pct, IMTCP_NICE_T_LEAST_PCT,
				IMTCP_NICE_T_MOST_PCT);
	imtcp_params_choose_one(&p->nice_f_pct, chosen->nice_f_pct, IMTCP_NICE_F_LEAST_PCT,
				IMTCP_NICE_F_MOST_PCT);
	imtcp_params_choose_one(&p->ledbat_target_us, chosen->ledbat_target_us,
				IMTCP_LEDBAT_TARGET_LEAST_US, IMTCP_LEDBAT_TARGET_MOST_US);
	imtcp_params_choose_one(&p->ledbat_gain_q8, chosen->ledbat_gain_q8,
				IMTCP_LEDBAT_GAIN_LEAST_Q8, IMTCP_LEDBAT_GAIN_MOST_Q8);
	imtcp_params_choose_one(&p->ledbatpp_target_us, chosen->ledbatpp_target_us,
				IMTCP_LEDBATPP_TARGET_LEAST_US, IMTCP_LEDBATPP_TARGET_MOST_US);
	imtcp_params_choose_one(&p->t_us, chosen->t_us, IMTCP_T_LEAST_US, IMTCP_T_MAX_US);
	imtcp_params_choose_one(&p->pause_plus1, chosen->pause_plus1, IMTCP_PAUSE_LEAST_PLUS1,
				IMTCP_PAUSE_MOST_PLUS1);
	imtcp_params_choose_one(&p->store_packets, chosen->store_packets, IMTCP_STORE_PACKETS_LEAST,
				IMTCP_STORE_PACKETS_MOST);
	imtcp_params_choose_one(&p->paper_stream_packets, chosen->paper_stream_packets,
				IMTCP_PAPER_STREAM_PACKETS_LEAST, IMTCP_PAPER_STREAM_PACKETS_MOST);
	imtcp_params_choose_one(&p->paper_rtt, chosen->paper_rtt, IMTCP_PAPER_RTT_SRTT,
				IMTCP_PAPER_RTT_NEWEST);
}

/* N packets where an ACK answers several. */
IMTCP_INLINE imtcp_u32 imtcp_delack_packets(imtcp_u32 n)
{
	return n + n / 2;
}

#endif
