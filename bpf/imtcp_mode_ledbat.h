/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* LEDBAT (cc_ledbat.h). */
#ifndef IMTCP_MODE_LEDBAT_H
#define IMTCP_MODE_LEDBAT_H

#include "imtcp_modes.h"

static __always_inline void ledbat_begin(struct imtcp_conn *conn, const struct imtcp_window *w)
{
	imtcp_ledbat_begin(&conn->ledbat, &conn->params);
}

static __always_inline void ledbat_delay(struct imtcp_conn *conn, const struct imtcp_mode_ack *a)
{
	imtcp_ledbat_on_delay(&conn->ledbat, a->now_us, a->rtt_us, a->stamp, (int)a->stamped);
}

static __always_inline void ledbat_window(struct imtcp_conn *conn, const struct imtcp_mode_ack *a,
					  struct imtcp_window *w)
{
	imtcp_ledbat_on_ack(&conn->ledbat, w, a->acked_segs, a->flight_segs, (int)a->full,
			    a->limit_segs);
	conn->bg.yields = imtcp_delays_queue_us(&conn->ledbat.delays) >= conn->ledbat.target_us;
}

#define ledbat_ssthresh imtcp_halve
#define ledbat_reduced imtcp_no_reduced
#define ledbat_rtts_per_segment imtcp_no_trickle

#endif
