/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A connection's state from its congestion control's `init` to its `release`, the same for every
 * control. Switching a connection from one of ours to another ends the one state and begins the
 * other.
 */
#ifndef IMTCP_LIFE_H
#define IMTCP_LIFE_H

#include "imtcp_adapter.h"

static __always_inline struct imtcp_conn *imtcp_start(struct sock *sk, __u32 mode)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct imtcp_totals *totals = imtcp_totals_of();
	struct imtcp_policy *policy;
	struct imtcp_tag *tag;
	struct imtcp_conn *conn;

	conn = bpf_sk_storage_get(&imtcp_conns, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);
	if (!conn)
		return NULL;
	tag = bpf_sk_storage_get(&imtcp_tags, sk, 0, 0);
	conn->policy = tag ? tag->policy : 0;
	conn->mode = mode;
	conn->started_us = tp->tcp_mstamp;
	conn->acked_at_us = tp->tcp_mstamp;
	conn->last_una = tp->snd_una;
	conn->ip_header_bytes = sk->__sk_common.skc_family == AF_INET6 ? IMTCP_IPV6_HEADER_BYTES
								       : IMTCP_IPV4_HEADER_BYTES;
	imtcp_params_init(&conn->params);
	policy = imtcp_policy_of(conn);
	if (policy)
		imtcp_params_choose(&conn->params, &policy->params);
	imtcp_meas_init(&conn->meas, &conn->params, tp->snd_nxt);
	sk->sk_pacing_status = SK_PACING_NEEDED;
	if (totals)
		imtcp_count(&totals->connections_started);
	return conn;
}

static __always_inline void imtcp_end(struct sock *sk)
{
	struct imtcp_conn *conn = imtcp_conn_of(sk);
	struct imtcp_totals *totals = imtcp_totals_of();
	__u64 acked = tcp_sk(sk)->bytes_acked;

	if (!conn)
		return;
	imtcp_policy_on_end(conn, acked);
	if (totals) {
		imtcp_count(&totals->connections_ended);
		__sync_fetch_and_add(&totals->bytes_acked_ended, acked);
	}
	bpf_sk_storage_delete(&imtcp_conns, sk);
}

/* cong_avoid of a connection whose state could not be allocated: Reno. */
static __always_inline void imtcp_without_state(struct sock *sk, __u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct imtcp_window w = {
		.cwnd_segs = tp->snd_cwnd,
		.ssthresh_segs = tp->snd_ssthresh,
		.credit_segs = tp->snd_cwnd_cnt,
	};

	if (!imtcp_window_full(tp))
		return;
	imtcp_reno_grow(&w, acked, tp->snd_cwnd_clamp);
	tp->snd_cwnd = w.cwnd_segs;
	tp->snd_cwnd_cnt = w.credit_segs;
}

/* A loss that was none: the window before it, as tcp_reno_undo_cwnd. */
static __always_inline __u32 imtcp_undone_cwnd(struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);

	return tp->snd_cwnd > tp->prior_cwnd ? tp->snd_cwnd : tp->prior_cwnd;
}

#endif
