/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The numbers of the papers that a user may choose for a connection: their defaults, their ranges
 * and nothing else. Who needs one is given the structure; a connection that nobody chose anything
 * for has the defaults.
 *
 * The structure is also what user space writes for a run and reads of a connection
 * (bpf/imtcp_shared.h), so its rules hold: fields are appended, 0 is "not chosen".
 * docs/parameters.md tells users what each does.
 */
#ifndef IMTCP_PARAMS_H
#define IMTCP_PARAMS_H

#include "types.h"

/* gamma, the weight of a new result in the smoothed available bandwidth, scale 65536: 1/8
 * [BG §4.1.1], as RFC 6298 §2.3. ours: at least 0.01, or a step of the path takes minutes. */
#define IMTCP_GAMMA_Q16 8192U
#define IMTCP_GAMMA_LEAST_Q16 655U
#define IMTCP_GAMMA_MOST_Q16 65536U

/* delta, the ratio of RTT to RTTmin that is congestion, scale 256: 1.2 [BG §4.1.2]. ours: at
 * least 1.05, which the noise of a common path stays below; beyond 4 the rule rules nothing. */
#define IMTCP_DELTA_Q8 307U
#define IMTCP_DELTA_LEAST_Q8 269U
#define IMTCP_DELTA_MOST_Q8 1024U

/* g, the share of the available bandwidth that the background takes, 0 < g <= 1, scale 256
 * [IM §5.1]. ours: 1 by default, what [BG eq. 2] has; at least a twentieth, or little more than
 * the measuring itself is left. */
#define IMTCP_G_Q8 256U
#define IMTCP_G_LEAST_Q8 13U
#define IMTCP_G_MOST_Q8 256U

/* h, the segments that full speed adds in a round trip far below the available bandwidth: 100
 * [IM §5.2, fig. 16]; 1 is Reno. ours: at most 1000, a window that most buffers cannot take. */
#define IMTCP_H_SEGS 100U
#define IMTCP_H_LEAST_SEGS 1U
#define IMTCP_H_MOST_SEGS 1000U

/* N, the packets of a stream where each has its own ACK; half as many more where an ACK answers
 * several [IM §3.5.1]: six intervals of two, for 8. [IM §4.1.1] finds 5 enough in simulation and
 * more accuracy in more; ours: 8, seven intervals, where real cross traffic comes in packets too.
 * At most 10: with 15 a stream still fits into IMTCP_STREAM_MAX. */
#define IMTCP_STREAM_PACKETS 8U
#define IMTCP_STREAM_PACKETS_LEAST 5U
#define IMTCP_STREAM_PACKETS_MOST 10U

struct imtcp_params {
	imtcp_u32 gamma_q16;
	imtcp_u32 delta_q8;
	imtcp_u32 h_segs;
	imtcp_u32 stream_packets; /* N */
	imtcp_u32 g_q8;
	imtcp_u32 _pad;
};

IMTCP_INLINE void imtcp_params_init(struct imtcp_params *p)
{
	p->gamma_q16 = IMTCP_GAMMA_Q16;
	p->delta_q8 = IMTCP_DELTA_Q8;
	p->h_segs = IMTCP_H_SEGS;
	p->stream_packets = IMTCP_STREAM_PACKETS;
	p->g_q8 = IMTCP_G_Q8;
	p->_pad = 0;
}

/* What was chosen, within its range; what was not stays as it is. */
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
}

/* N where an ACK answers several packets. */
IMTCP_INLINE imtcp_u32 imtcp_params_stream_packets_delack(const struct imtcp_params *p)
{
	return p->stream_packets + p->stream_packets / 2;
}

#endif
