/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The record of a connection that user space reads. It is made on demand, so it costs the
 * connection nothing.
 */
#ifndef IMTCP_RECORD_H
#define IMTCP_RECORD_H

#include "imtcp_conn.h"

#define IMTCP_NS_PER_US 1000ULL

/* Fills the fields from the connection's state and its tcp_sock. The caller fills addresses,
 * inodes, now_ns, and the parameters at the end. */
static __always_inline void imtcp_record_fill(struct imtcp_record *rec, struct imtcp_conn *conn,
					      struct tcp_sock *tp)
{
	struct imtcp_facts *f = &conn->flow.facts;
	struct imtcp_meas *m = &conn->flow.meas;
	int i;

	rec->abi = IMTCP_ABI_VERSION;
	rec->mode = (__u8)conn->mode;
	if (conn->mode == IMTCP_MODE_LPECN && !conn->own.lp.by_marks)
		rec->mode = IMTCP_MODE_LP; /* without ECN it behaves as TCP-LP */
	rec->policy = conn->policy;
	rec->cookie = conn->cookie;
	rec->started_ns = conn->started_us * IMTCP_NS_PER_US;

	rec->avail_last_bps = m->avail_bps;
	rec->avail_smoothed_bps = m->smoothed_bps;
	rec->avail_at_ns = m->avail_at_us * IMTCP_NS_PER_US;
	rec->range_low_bps = m->low_bps;
	rec->range_high_bps = m->high_bps;
	rec->capacity_bps = m->capacity_bps;
	rec->validity_pct = m->result.validity_pct;
	rec->last_outcome = (__u8)m->result.outcome;
	rec->unit_state = (__u8)m->unit;
	rec->stream_packets = (__u8)m->n;
	rec->store_packets = (__u8)m->m;
	rec->pause_rtts = imtcp_meas_pause_rtts(m);
	rec->ack_ratio_q8 = m->ack_ratio_q8;
	rec->meas_started = m->started;
	rec->meas_completed = m->completed;
	for (i = 0; i < IMTCP_INVALID_REASONS; i++)
		rec->meas_invalid[i] = i ? m->invalid[i] : 0;

	rec->cwnd_segs = imtcp_whole_segs(&conn->flow, tp->snd_cwnd);
	rec->cap_segs = f->cap_segs;
	rec->ssthresh_segs = tp->snd_ssthresh;
	rec->mss_bytes = tp->mss_cache;
	rec->srtt_us = tp->srtt_us >> 3;
	rec->min_rtt_us = imtcp_told_min_rtt_us(f);
	rec->inflight_segs = tp->packets_out - (tp->sacked_out + tp->lost_out) + tp->retrans_out;
	rec->pacing_bps = (__u64)((struct sock *)tp)->sk_pacing_rate * IMTCP_BITS_PER_BYTE;
	rec->delivery_bps = f->round.delivery_bps;
	rec->reductions[IMTCP_RED_LOSS] = f->reductions_loss;
	rec->reductions[IMTCP_RED_RTO] = f->reductions_rto;
	rec->reductions[IMTCP_RED_RTT] = f->reductions_rtt;
	rec->reductions[IMTCP_RED_CAP] = f->reductions_cap;
	rec->bytes_acked = tp->bytes_acked;
	rec->bytes_acked_before = conn->acked_before;
	rec->bytes_sent = tp->bytes_sent;
	rec->bytes_retrans = tp->bytes_retrans;
	rec->busy_us = f->busy_us;
	rec->yielding_us = f->yielding_us;
	rec->bytes_received = tp->bytes_received - conn->received_before;
}

#endif
