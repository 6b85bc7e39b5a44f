/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A connection's state from its congestion control's `init` to its `release`, the same for every
 * control. Switching a connection from one of ours to another ends the one state and begins the
 * other. Window and ssthresh, which are the kernel's, carry on what was learned of the path.
 *
 * A connection counts once, and its bytes once, however often it changes. `release` cannot know
 * what comes next. It counts the connection as ended and leaves its state behind, marked. The
 * `init` of ours that finds the state takes that back. Until then nobody sees it.
 */
#ifndef IMTCP_LIFE_H
#define IMTCP_LIFE_H

#include "imtcp_adapter.h"
#include "imtcp_marks.h"

/* The name of a control. CO-RE places it: libbpf matches struct tcp_congestion_ops by its size, too. */
struct tcp_congestion_ops___name {
	char name[TCP_CA_NAME_MAX];
} IMTCP_CORE;

/*
 * A listener keeps its tag and control after its run has ended, and the connections that it accepts inherit both. This
 * gives such a connection the default control of its namespace instead, unless the kernel refuses that.
 */
static __always_inline int imtcp_gave_back(struct sock *sk, const struct imtcp_tag *tag)
{
	const struct tcp_congestion_ops *usual =
		sk->__sk_common.skc_net.net->ipv4.tcp_congestion_control;
	const struct tcp_congestion_ops___name *named = (const void *)usual;
	struct imtcp_policy *policy;
	__u64 name[TCP_CA_NAME_MAX / sizeof(__u64)];
	__u64 id;

	if (!tag || !tag->policy)
		return 0;
	id = tag->policy;
	policy = bpf_map_lookup_elem(&imtcp_policies, &id);
	if (policy && policy->mode != IMTCP_MODE_NONE)
		return 0;
	imtcp_give_back_tos(sk, tag);
	bpf_sk_storage_delete(&imtcp_tags, sk);
	if (!usual || usual == tcp_sk(sk)->inet_conn.icsk_ca_ops)
		return 0;
	name[0] = *(const __u64 *)&named->name[0];
	name[1] = *(const __u64 *)&named->name[8];
	return !bpf_setsockopt(sk, SOL_TCP, TCP_CONGESTION, name, sizeof(name));
}

/* The state that this connection had under another control of ours, if it had one. Returns what
 * imtcp_policy_on_return() says of it. */
static __always_inline __u32 imtcp_forget_former(struct sock *sk, __u64 policy,
						 struct imtcp_totals *totals)
{
	struct imtcp_conn *former = imtcp_conn_of(sk);
	__u32 went;

	if (!former) {
		if (totals)
			imtcp_count(&totals->connections_started);
		return 0;
	}
	if (totals)
		__sync_fetch_and_add(&totals->connections_ended, -1);
	went = imtcp_policy_on_return(former, policy, tcp_sk(sk));
	bpf_sk_storage_delete(&imtcp_conns, sk);
	return went;
}

/* No more of the window than the path carried in a least round trip: D·RTTmin of cc_fs.h. */
static __always_inline void imtcp_keep_what_was_carried(struct tcp_sock *tp)
{
	__u32 segs = imtcp_carried_segs(tp->rate_delivered, tp->rate_interval_us,
					tp->rtt_min.s[0].v);

	if (!segs)
		return;
	segs = imtcp_max(segs, IMTCP_RENO_LEAST_SEGS);
	tp->snd_cwnd = imtcp_min(tp->snd_cwnd, segs);
	tp->snd_ssthresh = imtcp_min(tp->snd_ssthresh, segs);
}

static __always_inline struct imtcp_conn *imtcp_start(struct sock *sk, __u32 mode)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct imtcp_tag *tag = bpf_sk_storage_get(&imtcp_tags, sk, 0, 0);
	struct imtcp_policy *policy;
	struct imtcp_conn *conn;
	__u64 policy_id;
	__u32 went;

	if (imtcp_gave_back(sk, tag))
		return NULL;
	tag = bpf_sk_storage_get(&imtcp_tags, sk, 0, 0);
	policy_id = tag ? tag->policy : 0;
	went = imtcp_forget_former(sk, policy_id, imtcp_totals_of());
	conn = bpf_sk_storage_get(&imtcp_conns, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);
	if (!conn) {
		/* more than net.core.optmem_max */
		policy = policy_id ? bpf_map_lookup_elem(&imtcp_policies, &policy_id) : NULL;
		if (policy)
			imtcp_count(&policy->no_room_conns);
		return NULL;
	}
	conn->policy = policy_id;
	conn->mode = mode;
	conn->went = went;
	conn->started_us = tp->tcp_mstamp;
	conn->acked_before = tp->bytes_acked;
	conn->received_before = tp->bytes_received;
	conn->charged_bytes = tp->bytes_sent;
	conn->spaced_nxt = tp->snd_nxt;
	conn->ip_header_bytes = tp->inet_conn.icsk_af_ops->net_header_len;
	imtcp_params_init(&conn->flow.params);
	policy = imtcp_policy_of(conn);
	if (policy) {
		if (tag && policy->dscp_plus1 && !tag->marked)
			imtcp_mark_open(sk, tag, policy->dscp_plus1 - 1);
		imtcp_params_choose(&conn->flow.params, &policy->params);
		/* before a connection's first packet TCP's own clock has not been read */
		imtcp_policy_look_at_others(policy, conn, bpf_ktime_get_ns() / 1000);
	}
	imtcp_flow_begin(&conn->flow, tp->tcp_mstamp, tp->snd_una, tp->snd_nxt);
	conn->pacing = sk->sk_pacing_status;
	sk->sk_pacing_status = SK_PACING_NEEDED;
	return conn;
}

static __always_inline void imtcp_end(struct sock *sk)
{
	struct imtcp_conn *conn = imtcp_conn_of(sk);
	struct imtcp_totals *totals = imtcp_totals_of();
	struct tcp_sock *tp = tcp_sk(sk);
	__u64 acked;
	int closed;

	if (!conn || conn->left)
		return;
	if (conn->flow.hold.held_segs)
		tp->snd_cwnd = imtcp_whole_segs(&conn->flow, tp->snd_cwnd);
	acked = tp->bytes_acked - conn->acked_before;
	closed = sk->__sk_common.skc_state == TCP_CLOSE;
	/* a short connection may never have been asked since it sent */
	imtcp_policy_charge(imtcp_policy_of(conn), conn, tp, imtcp_pkt_bytes(conn, tp));
	imtcp_policy_on_end(conn, acked, tp->bytes_received - conn->received_before, !closed);
	if (totals) {
		imtcp_count(&totals->connections_ended);
		__sync_fetch_and_add(&totals->bytes_acked_ended, acked);
	}
	if (closed) {
		bpf_sk_storage_delete(&imtcp_conns, sk);
		return;
	}
	conn->left = 1;
	if (sk->sk_pacing_status != SK_PACING_FQ)
		sk->sk_pacing_status = imtcp_pacing_without_us(sk, conn);
	if (conn->flow.facts.pathless)
		imtcp_keep_what_was_carried(tp);
}

/* cong_avoid of a connection whose state could not be allocated: Reno. */
static __always_inline void imtcp_without_state(struct sock *sk, __u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct imtcp_window w = imtcp_read_window(tp, tp->snd_cwnd);

	if (!imtcp_window_full(tp, tp->snd_cwnd))
		return;
	imtcp_reno_grow(&w, acked, tp->snd_cwnd_clamp);
	tp->snd_cwnd = w.cwnd_segs;
	tp->snd_cwnd_cnt = w.credit_segs;
}

/* A loss that was none: the window before it, as tcp_reno_undo_cwnd. */
static __always_inline __u32 imtcp_undone_cwnd(struct sock *sk)
{
	struct imtcp_conn *conn = imtcp_conn_of(sk);
	struct tcp_sock *tp = tcp_sk(sk);

	if (conn)
		imtcp_flow_undo(&conn->flow);
	return imtcp_max(tp->snd_cwnd, conn ? imtcp_undone_segs(conn, tp) : tp->prior_cwnd);
}

#endif
