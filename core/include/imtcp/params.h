/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Parameters from the papers that a user may choose for a connection, with their defaults and
 * ranges.
 *
 * User space writes this structure for a run and reads it for a connection (bpf/imtcp_shared.h). So
 * fields are only appended, and 0 is "not chosen". docs/reference/parameters.md describes each
 * parameter to users.
 */
#ifndef IMTCP_PARAMS_H
#define IMTCP_PARAMS_H

#include "types.h"

/* gamma, the weight of a new result in the smoothed available bandwidth, scale 65536. Default: 1/8
 * [BG §4.1.1], as in RFC 6298. ours: At least 0.01. A lower weight would need minutes to follow a
 * step of the path. */
#define IMTCP_GAMMA_Q16 8192U
#define IMTCP_GAMMA_LEAST_Q16 655U
#define IMTCP_GAMMA_MOST_Q16 65536U

/* delta, the ratio of RTT to RTTmin that is congestion, scale 256. Default: 1.2 [BG §4.1.2]. ours:
 * Between 1.05 and 4. Noise of a common path stays below 1.05, and no path reaches 4. */
#define IMTCP_DELTA_Q8 307U
#define IMTCP_DELTA_LEAST_Q8 269U
#define IMTCP_DELTA_MOST_Q8 1024U

/* g, the share of the available bandwidth that the background takes, scale 256. It is above 0 and
 * at most 1 [IM §5.1]. ours: 1 by default, as in [BG eq. 2]. At least a twentieth, or the
 * measurement would take most of it. */
#define IMTCP_G_Q8 256U
#define IMTCP_G_LEAST_Q8 13U
#define IMTCP_G_MOST_Q8 256U

/* h, the segments that full speed adds per round trip far below the available bandwidth. Default:
 * 100 [IM §5.2, fig. 16]. With 1 it is Reno. ours: At most 1000. Most buffers cannot take that
 * many. */
#define IMTCP_H_SEGS 100U
#define IMTCP_H_LEAST_SEGS 1U
#define IMTCP_H_MOST_SEGS 1000U

/*
 * N, the packets of a stream if each has its own ACK. If an ACK answers several packets, a stream
 * has half as many more [IM §3.5.1].
 *
 * In simulation 5 packets are enough, and more of them are more accurate [IM §4.1.1]. ours: 8,
 * because real cross traffic comes in packets too. At most 10, because half as many more still fit
 * into IMTCP_STREAM_MAX.
 */
#define IMTCP_STREAM_PACKETS 8U
#define IMTCP_STREAM_PACKETS_LEAST 5U
#define IMTCP_STREAM_PACKETS_MOST 10U

/*
 * m, the packets that are held before a stream leaves. By default it adapts [IM §3.4.1]: it is N
 * less the packets that ACKs allow meanwhile (imtcp_meas_need_segs).
 *
 * A chosen m does not adapt, as in [IM §4.1.2, table 1]. A connection uses at most its own N.
 * The range ends at the largest N with delayed ACKs.
 */
#define IMTCP_STORE_PACKETS_LEAST 2U
#define IMTCP_STORE_PACKETS_MOST 15U

/*
 * T, the longest time that a packet may be held, microseconds. By default it adapts to the stream
 * and to the deviation of the RTT [IM §3.4.2] (IMTCP_T_DEVIATIONS). A chosen T does not adapt, as
 * in [IM §4.1.3, table 2].
 *
 * ours: at least 1 ms, the gap between paced large buffers. At most IMTCP_T_MAX_US, a quarter of
 * the least RTO of common stacks (200 ms), so no hold causes a spurious timeout.
 */
#define IMTCP_T_LEAST_US 1000U
#define IMTCP_T_MAX_US 50000U

/*
 * The pause between two measurements, round trips, plus one, because 0 is "not chosen". By default
 * it follows congestion (IMTCP_PAUSE_RTTS, meas_state.h). A chosen pause does not, as in [IM §4.5,
 * fig. 13].
 *
 * ours: at most 100, some seconds on a common path.
 */
#define IMTCP_PAUSE_LEAST_PLUS1 1U
#define IMTCP_PAUSE_MOST_PLUS1 101U

/* TCP-LP's delta, percent. A delay above this share of the delays' range is congestion. Default:
 * 0.15 [LP §III-D]. ours: Between 0.01 and 0.99, because every delay is above 0 and none is above 1
 * [LP eq. 2]. */
#define IMTCP_LP_DELTA_PCT 15U
#define IMTCP_LP_DELTA_LEAST_PCT 1U
#define IMTCP_LP_DELTA_MOST_PCT 99U

/* itt, the inference phase, round trips. Default: 3 [LP §III-D]. ours: At least 1, because a second
 * indication comes a round trip after the first. At most 100, because a later indication is
 * unrelated to the first. */
#define IMTCP_LP_ITT_RTTS 3U
#define IMTCP_LP_ITT_LEAST_RTTS 1U
#define IMTCP_LP_ITT_MOST_RTTS 100U

/* Nice's t and f, percent. A packet is late above the share t of the range of RTTs. A round is
 * congested if more than the share f of its packets is late. Defaults: 0.1 and 0.5 [NICE §4]. ours:
 * Between 0.01 and 0.99. At 1 no packet is late, or no round has too many [NICE §3]. */
#define IMTCP_NICE_T_PCT 10U
#define IMTCP_NICE_T_LEAST_PCT 1U
#define IMTCP_NICE_T_MOST_PCT 99U
#define IMTCP_NICE_F_PCT 50U
#define IMTCP_NICE_F_LEAST_PCT 1U
#define IMTCP_NICE_F_MOST_PCT 99U

/* LEDBAT's TARGET, the queueing delay that it keeps, microseconds. Default: 100 ms, the maximum of
 * RFC 6817 §2.5. ours: At least five ticks of the peer's clock (IMTCP_OWD_USUAL_TICK_US). */
#define IMTCP_LEDBAT_TARGET_US 100000U
#define IMTCP_LEDBAT_TARGET_LEAST_US 5000U
#define IMTCP_LEDBAT_TARGET_MOST_US 100000U

/* LEDBAT's GAIN, scale 256. Default: 1, the maximum of RFC 6817 §2.5. ours: At least 1/16, the
 * minimum of LEDBAT++ [L++ §4.2]. */
#define IMTCP_LEDBAT_GAIN_Q8 256U
#define IMTCP_LEDBAT_GAIN_LEAST_Q8 16U
#define IMTCP_LEDBAT_GAIN_MOST_Q8 256U

/* LEDBAT++'s TARGET, microseconds: 60 ms [L++ §4.5]. ours: LEDBAT's range. */
#define IMTCP_LEDBATPP_TARGET_US 60000U
#define IMTCP_LEDBATPP_TARGET_LEAST_US IMTCP_LEDBAT_TARGET_LEAST_US
#define IMTCP_LEDBATPP_TARGET_MOST_US IMTCP_LEDBAT_TARGET_MOST_US

/* N of the papers' controls: 5 [IM §4.1.1]. The paper also tries 3, and finds it inaccurate. */
#define IMTCP_PAPER_STREAM_PACKETS 5U
#define IMTCP_PAPER_STREAM_PACKETS_LEAST 3U
#define IMTCP_PAPER_STREAM_PACKETS_MOST IMTCP_STREAM_PACKETS_MOST

/* The RTT in [BG eq. 3, 4], and when the control applies them (cc_paper_bg.h). */
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
	imtcp_u32 _pad; /* records end with this structure, and have whole 64-bit words */
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

/* Takes the chosen value, within its range. 0 leaves the default. */
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

/* N if an ACK answers several packets. */
IMTCP_INLINE imtcp_u32 imtcp_delack_packets(imtcp_u32 n)
{
	return n + n / 2;
}

#endif
