/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* TCP Nice (cc_nice.h). */
#ifndef IMTCP_MODE_NICE_H
#define IMTCP_MODE_NICE_H

#include "imtcp_modes.h"

static __always_inline void nice_begin(struct imtcp_conn *conn, const struct imtcp_window *w)
{
	imtcp_nice_begin(&conn->nice, &conn->params);
}

static __always_inline void nice_delay(struct imtcp_conn *conn, const struct imtcp_mode_ack *a)
{
	imtcp_nice_on_ack(&conn->nice, a->rtt_us, a->acked_segs);
}

static __always_inline void nice_window(struct imtcp_conn *conn, const struct imtcp_mode_ack *a,
					struct imtcp_window *w)
{
	if (a->round_over && imtcp_nice_on_round(&conn->nice, w, a->round_rtt_us,
						 (int)a->round_full, a->limit_segs)) {
		conn->bg.reductions_rtt++;
		conn->bg.yields = 1;
	} else if (a->full) {
		imtcp_nice_grow(&conn->nice, w, a->acked_segs, a->limit_segs);
	}
}

static __always_inline __u32 nice_rtts_per_segment(const struct imtcp_conn *conn)
{
	return imtcp_nice_rtts_per_segment(&conn->nice);
}

#define nice_ssthresh imtcp_halve
#define nice_reduced imtcp_no_reduced

#endif
