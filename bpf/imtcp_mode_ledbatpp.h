/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* LEDBAT++ (cc_ledbatpp.h). */
#ifndef IMTCP_MODE_LEDBATPP_H
#define IMTCP_MODE_LEDBATPP_H

#include "imtcp_modes.h"

static __always_inline void ledbatpp_begin(struct imtcp_conn *conn, const struct imtcp_window *w)
{
	imtcp_ledbatpp_begin(&conn->ledbatpp, &conn->params);
}

static __always_inline void ledbatpp_delay(struct imtcp_conn *conn, const struct imtcp_mode_ack *a)
{
	imtcp_ledbatpp_on_delay(&conn->ledbatpp, a->now_us, a->rtt_us);
}

static __always_inline void ledbatpp_window(struct imtcp_conn *conn, const struct imtcp_mode_ack *a,
					    struct imtcp_window *w)
{
	__u32 phase;

	imtcp_ledbatpp_on_ack(&conn->ledbatpp, w, a->now_us, a->srtt_us, a->acked_segs,
			      (int)a->full, a->limit_segs);
	phase = conn->ledbatpp.phase;
	conn->bg.yields = phase == IMTCP_LEDBATPP_FROZEN || phase == IMTCP_LEDBATPP_RAMP;
}

#define ledbatpp_ssthresh imtcp_halve
#define ledbatpp_reduced imtcp_no_reduced
#define ledbatpp_rtts_per_segment imtcp_no_trickle

#endif
