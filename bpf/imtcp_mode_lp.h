/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * TCP-LP by delay and by marks (cc_lp.h): the mode says which. By marks on a connection whose ends
 * did not agree on ECN would be Reno, so that is TCP-LP by delay, and its records say so. It asks
 * for ECN as any connection does (net.ipv4.tcp_ecn = 1): TCP_CONG_NEEDS_ECN would set ECT on the
 * SYN, which ordinary receivers refuse, and on connections without ECN.
 */
#ifndef IMTCP_MODE_LP_H
#define IMTCP_MODE_LP_H

#include "imtcp_modes.h"

static __always_inline void lp_begin(struct imtcp_conn *conn, const struct imtcp_window *w)
{
	imtcp_lp_begin(&conn->lp, &conn->params, w);
}

static __always_inline void lp_delay(struct imtcp_conn *conn, const struct imtcp_mode_ack *a)
{
	if (!a->ecn)
		conn->mode = IMTCP_MODE_LP;
	imtcp_lp_on_delay(&conn->lp, a->now_us, a->rtt_us, a->stamp, (int)a->stamped);
}

static __always_inline void lp_window(struct imtcp_conn *conn, const struct imtcp_mode_ack *a,
				      struct imtcp_window *w)
{
	if (a->round_over)
		imtcp_lp_on_round(&conn->lp, w, (int)a->round_full);
	if (conn->mode == IMTCP_MODE_LP && conn->lp.early &&
	    imtcp_lp_on_early(&conn->lp, w, a->now_us, a->srtt_us))
		conn->bg.reductions_rtt++;
	else if (a->full)
		imtcp_lp_grow(&conn->lp, w, a->now_us, a->acked_segs, a->limit_segs);
	conn->bg.yields = (__u32)imtcp_lp_in_inference(&conn->lp, a->now_us);
}

static __always_inline __u32 lp_ssthresh(const struct imtcp_conn *conn,
					 const struct imtcp_mode_ack *a, __u32 cwnd, int lost)
{
	if (conn->mode == IMTCP_MODE_LPECN && !lost)
		return imtcp_lp_reduced_segs(&conn->lp, cwnd, a->now_us);
	return imtcp_reno_ssthresh(cwnd);
}

static __always_inline void lp_reduced(struct imtcp_conn *conn, const struct imtcp_mode_ack *a,
				       __u32 cwnd, int lost)
{
	if (conn->mode == IMTCP_MODE_LPECN && !lost)
		imtcp_lp_on_mark(&conn->lp, cwnd, a->now_us, a->srtt_us);
	else
		imtcp_lp_on_loss(&conn->lp, a->now_us);
}

static __always_inline __u32 lp_rtts_per_segment(const struct imtcp_conn *conn)
{
	return imtcp_lp_rtts_per_segment(&conn->lp);
}

#endif
