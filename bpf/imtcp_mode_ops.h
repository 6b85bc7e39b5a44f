/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The programs that the kernel calls, made from a control's functions (core/include/imtcp/flow.h).
 * Each row of an object's table gives one set.
 *
 * Without its state a connection continues as Reno. A failed measurement costs only the
 * measurement.
 */
#ifndef IMTCP_MODE_OPS_H
#define IMTCP_MODE_OPS_H

#include "imtcp_adapter.h"
#include "imtcp_life.h"

SEC("struct_ops")
void BPF_PROG(mode_release, struct sock *sk)
{
	imtcp_end(sk);
}

SEC("struct_ops")
__u32 BPF_PROG(mode_undo_cwnd, struct sock *sk)
{
	return imtcp_undone_cwnd(sk);
}

/*
 * The programs of a control. set_state comes after the window's target was set.
 *
 *   ── argument ── meaning ────────────────────────────────────────────────────
 *   control       prefix of its functions
 *   mode_number   the mode in the connection's state
 *   cc_flags      whether any user may choose it
 *   publish       reports a result to user space, or does nothing
 */
#define IMTCP_MODE(ops, control, mode_number, cc_name, cc_flags, publish)                            \
	SEC("struct_ops")                                                                            \
	void BPF_PROG(ops##_init, struct sock *sk)                                                   \
	{                                                                                            \
		struct imtcp_window w = imtcp_read_window(tcp_sk(sk), tcp_sk(sk)->snd_cwnd);         \
		struct imtcp_conn *conn = imtcp_start(sk, mode_number);                              \
                                                                                                     \
		if (conn)                                                                            \
			imtcp_##control##_start(&conn->flow, (void *)&conn->own, &w);                \
	}                                                                                            \
                                                                                                     \
	SEC("struct_ops")                                                                            \
	__u32 BPF_PROG(ops##_min_tso_segs, struct sock *sk)                                          \
	{                                                                                            \
		struct imtcp_conn *conn = imtcp_conn_of(sk);                                         \
		struct imtcp_departure dep = {};                                                     \
		struct imtcp_decision d = {};                                                        \
		struct imtcp_policy *policy;                                                         \
                                                                                                     \
		if (!conn)                                                                           \
			return IMTCP_USUAL_SEGS;                                                     \
		policy = imtcp_policy_of(conn);                                                      \
		if (!imtcp_read_departure(sk, conn, policy, &dep))                                   \
			return IMTCP_USUAL_SEGS;                                                     \
		imtcp_##control##_space(&conn->flow, (void *)&conn->own, &dep, &d);                  \
		return imtcp_write_pace(sk, conn, policy, &dep, &d);                                 \
	}                                                                                            \
                                                                                                     \
	SEC("struct_ops")                                                                            \
	void BPF_PROG(ops##_pkts_acked, struct sock *sk, const struct ack_sample *told)              \
	{                                                                                            \
		struct imtcp_conn *conn = imtcp_conn_of(sk);                                         \
                                                                                                     \
		if (!conn)                                                                           \
			return;                                                                      \
		imtcp_read_ack(sk, conn, told, &conn->newest);                                       \
		imtcp_##control##_learn(&conn->flow, (void *)&conn->own, &conn->newest);             \
		publish(sk, conn);                                                                   \
	}                                                                                            \
                                                                                                     \
	SEC("struct_ops")                                                                            \
	void BPF_PROG(ops##_cong_avoid, struct sock *sk, __u32 seq, __u32 acked)                     \
	{                                                                                            \
		struct imtcp_conn *conn = imtcp_conn_of(sk);                                         \
		struct imtcp_sample s = {};                                                          \
		struct imtcp_decision d = {};                                                        \
                                                                                                     \
		if (!conn) {                                                                         \
			imtcp_without_state(sk, acked);                                              \
			return;                                                                      \
		}                                                                                    \
		imtcp_before_decision(sk, conn, acked, &s, &d);                                      \
		imtcp_##control##_decide(&conn->flow, (void *)&conn->own, &s, &d);                   \
		imtcp_write_window(sk, conn, &s, &d);                                                \
	}                                                                                            \
                                                                                                     \
	SEC("struct_ops")                                                                            \
	__u32 BPF_PROG(ops##_ssthresh, struct sock *sk)                                              \
	{                                                                                            \
		struct imtcp_conn *conn = imtcp_conn_of(sk);                                         \
		struct imtcp_sample s = {};                                                          \
                                                                                                     \
		if (!conn)                                                                           \
			return imtcp_reno_ssthresh(tcp_sk(sk)->snd_cwnd);                            \
		imtcp_read_loss(sk, conn, &s);                                                       \
		imtcp_hold_on_loss(&conn->flow, s.cwnd_segs);                                        \
		/* In loss recovery the kernel lowers the window to it, also below the floor of    \
		 * a run. */ \
		return imtcp_max(imtcp_##control##_target(&conn->flow, (void *)&conn->own, &s),      \
				 s.floor_segs);                                                      \
	}                                                                                            \
                                                                                                     \
	SEC("struct_ops")                                                                            \
	void BPF_PROG(ops##_set_state, struct sock *sk, __u8 new_state)                              \
	{                                                                                            \
		struct imtcp_conn *conn = imtcp_conn_of(sk);                                         \
		struct imtcp_sample s = {};                                                          \
                                                                                                     \
		if (!conn || new_state < TCP_CA_CWR)                                                 \
			return;                                                                      \
		imtcp_read_reduction(sk, conn, new_state, &s);                                       \
		imtcp_##control##_reduced(&conn->flow, (void *)&conn->own, &s);                      \
	}                                                                                            \
                                                                                                     \
	SEC(".struct_ops")                                                                           \
	struct tcp_congestion_ops ops = {                                                            \
		.flags = cc_flags,                                                                   \
		.ssthresh = (void *)ops##_ssthresh,                                                  \
		.cong_avoid = (void *)ops##_cong_avoid,                                              \
		.set_state = (void *)ops##_set_state,                                                \
		.undo_cwnd = (void *)mode_undo_cwnd,                                                 \
		.pkts_acked = (void *)ops##_pkts_acked,                                              \
		.min_tso_segs = (void *)ops##_min_tso_segs,                                          \
		.init = (void *)ops##_init,                                                          \
		.release = (void *)mode_release,                                                     \
		.name = cc_name,                                                                     \
	}

#endif
