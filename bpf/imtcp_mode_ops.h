/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The programs that the kernel calls, made from an adapter's functions (imtcp_modes.h): one set for
 * each row of an object's table.
 *
 * Where a connection's state could not be allocated it goes on as Reno.
 */
#ifndef IMTCP_MODE_OPS_H
#define IMTCP_MODE_OPS_H

#include "imtcp_modes.h"

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
 * The programs of a control: `prefix` names its adapter's functions, `mode_number` what is noted in
 * the connection, `cc_flags` who may choose it. set_state comes after the window's target was set: CWR without a loss is a mark.
 */
#define IMTCP_MODE(ops, prefix, mode_number, cc_name, cc_flags)                                    \
	SEC("struct_ops")                                                                          \
	void BPF_PROG(ops##_init, struct sock *sk)                                                 \
	{                                                                                          \
		struct imtcp_window w = {                                                          \
			.cwnd_segs = tcp_sk(sk)->snd_cwnd,                                         \
			.ssthresh_segs = tcp_sk(sk)->snd_ssthresh,                                 \
		};                                                                                 \
		struct imtcp_conn *conn;                                                           \
                                                                                                   \
		conn = imtcp_start(sk, mode_number);                                               \
		if (conn)                                                                          \
			prefix##_begin(conn, &w);                                                  \
	}                                                                                          \
                                                                                                   \
	SEC("struct_ops")                                                                          \
	__u32 BPF_PROG(ops##_min_tso_segs, struct sock *sk)                                        \
	{                                                                                          \
		struct imtcp_conn *conn = imtcp_conn_of(sk);                                       \
                                                                                                   \
		return conn ? imtcp_mode_send(sk, conn, prefix##_rtts_per_segment(conn)) : 2;      \
	}                                                                                          \
                                                                                                   \
	SEC("struct_ops")                                                                          \
	void BPF_PROG(ops##_pkts_acked, struct sock *sk, const struct ack_sample *sample)          \
	{                                                                                          \
		struct imtcp_conn *conn = imtcp_conn_of(sk);                                       \
		struct imtcp_mode_ack ack = {};                                                    \
                                                                                                   \
		if (conn && imtcp_mode_acked(sk, conn, sample, &ack))                              \
			prefix##_delay(conn, &ack);                                                \
	}                                                                                          \
                                                                                                   \
	SEC("struct_ops")                                                                          \
	void BPF_PROG(ops##_cong_avoid, struct sock *sk, __u32 seq, __u32 acked)                   \
	{                                                                                          \
		struct imtcp_conn *conn = imtcp_conn_of(sk);                                       \
		struct imtcp_mode_ack ack = {};                                                    \
		struct imtcp_window w = {};                                                        \
                                                                                                   \
		if (!conn) {                                                                       \
			imtcp_without_state(sk, acked);                                            \
			return;                                                                    \
		}                                                                                  \
		imtcp_mode_window(sk, conn, acked, prefix##_rtts_per_segment(conn), &ack, &w);     \
		prefix##_window(conn, &ack, &w);                                                   \
		imtcp_mode_write(sk, conn, &w, prefix##_rtts_per_segment(conn));                   \
	}                                                                                          \
                                                                                                   \
	SEC("struct_ops")                                                                          \
	__u32 BPF_PROG(ops##_ssthresh, struct sock *sk)                                            \
	{                                                                                          \
		struct imtcp_conn *conn = imtcp_conn_of(sk);                                       \
		struct imtcp_mode_ack ack = {};                                                    \
		struct tcp_sock *tp = tcp_sk(sk);                                                  \
                                                                                                   \
		if (!conn)                                                                         \
			return imtcp_reno_ssthresh(tp->snd_cwnd);                                  \
		imtcp_mode_read(sk, &ack);                                                         \
		return imtcp_max(                                                                  \
			prefix##_ssthresh(conn, &ack, tp->snd_cwnd, tp->lost_out != 0),            \
			imtcp_floor_segs(                                                          \
				conn, tp,                                                          \
				imtcp_policy_of(conn))); /* while a loss is repaired, too */       \
	}                                                                                          \
                                                                                                   \
	SEC("struct_ops")                                                                          \
	void BPF_PROG(ops##_set_state, struct sock *sk, __u8 new_state)                            \
	{                                                                                          \
		struct imtcp_conn *conn = imtcp_conn_of(sk);                                       \
		struct imtcp_mode_ack ack = {};                                                    \
                                                                                                   \
		if (!conn || new_state < TCP_CA_CWR)                                               \
			return;                                                                    \
		imtcp_mode_read(sk, &ack);                                                         \
		prefix##_reduced(conn, &ack, tcp_sk(sk)->prior_cwnd, new_state != TCP_CA_CWR);     \
		if (new_state == TCP_CA_Loss)                                                      \
			conn->reductions_rto++;                                                    \
		else                                                                               \
			conn->reductions_loss++;                                                   \
	}                                                                                          \
                                                                                                   \
	SEC(".struct_ops")                                                                         \
	struct tcp_congestion_ops ops = {                                                          \
		.flags = cc_flags,                                                                 \
		.ssthresh = (void *)ops##_ssthresh,                                                \
		.cong_avoid = (void *)ops##_cong_avoid,                                            \
		.set_state = (void *)ops##_set_state,                                              \
		.undo_cwnd = (void *)mode_undo_cwnd,                                               \
		.pkts_acked = (void *)ops##_pkts_acked,                                            \
		.min_tso_segs = (void *)ops##_min_tso_segs,                                        \
		.init = (void *)ops##_init,                                                        \
		.release = (void *)mode_release,                                                   \
		.name = cc_name,                                                                   \
	}

#endif
