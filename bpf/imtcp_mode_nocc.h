/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * No congestion control (cc_nocc.h). Flow control, retransmission and the retransmission timer are
 * the kernel's: while a loss is repaired it sends what was delivered (PRR, RFC 6937), up to the
 * receiver's window, which ssthresh asks for; after a timeout slow start leads back there, since
 * what is in flight is not known.
 */
#ifndef IMTCP_MODE_NOCC_H
#define IMTCP_MODE_NOCC_H

#include "imtcp_modes.h"
#include <imtcp/cc_nocc.h>

static __always_inline void nocc_delay(struct imtcp_conn *conn, const struct imtcp_mode_ack *a)
{
}

static __always_inline void nocc_window(struct imtcp_conn *conn, const struct imtcp_mode_ack *a,
					struct imtcp_window *w)
{
	__u32 window = imtcp_nocc_window_segs(a->receiver_bytes, a->mss_bytes, a->limit_segs);

	if (a->timed_out)
		imtcp_reno_grow(w, a->acked_segs, window);
	else
		w->cwnd_segs = window;
}

static __always_inline __u32 nocc_ssthresh(const struct imtcp_conn *conn,
					   const struct imtcp_mode_ack *a, __u32 cwnd, int lost)
{
	return imtcp_nocc_window_segs(a->receiver_bytes, a->mss_bytes, a->limit_segs);
}

#define nocc_begin imtcp_no_begin
#define nocc_reduced imtcp_no_reduced
#define nocc_rtts_per_segment imtcp_no_trickle

#endif
