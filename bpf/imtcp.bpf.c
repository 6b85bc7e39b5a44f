// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The congestion controls that measure: `imtcp` (Reno and nothing else), `imtcp_bg` (background
 * transfer) and `imtcp_fs` (full speed). They differ in `init` alone: the mode it notes decides
 * the rest (imtcp_adapter.h; the algorithms are in core/include/imtcp).
 *
 * Where a connection's state could not be allocated, or its control was taken away, it goes on
 * as Reno: a measurement that fails never costs more than the measurement.
 */
#include "imtcp_adapter.h"
#include "imtcp_life.h"

char _license[] SEC("license") = "Dual BSD/GPL";

SEC("struct_ops")
void BPF_PROG(imtcp_release, struct sock *sk)
{
	imtcp_end(sk);
}

SEC("struct_ops")
__u32 BPF_PROG(imtcp_min_tso_segs, struct sock *sk)
{
	struct imtcp_conn *conn = imtcp_conn_of(sk);

	return conn ? imtcp_before_send(sk, conn) : 2;
}

SEC("struct_ops")
void BPF_PROG(imtcp_pkts_acked, struct sock *sk, const struct ack_sample *sample)
{
	struct imtcp_conn *conn = imtcp_conn_of(sk);

	if (conn)
		imtcp_on_ack(sk, conn, sample);
}

SEC("struct_ops")
void BPF_PROG(imtcp_cong_avoid, struct sock *sk, __u32 ack, __u32 acked)
{
	struct imtcp_conn *conn = imtcp_conn_of(sk);

	if (conn)
		imtcp_window(sk, conn, acked);
	else
		imtcp_without_state(sk, acked);
}

SEC("struct_ops")
__u32 BPF_PROG(imtcp_ssthresh, struct sock *sk)
{
	struct imtcp_conn *conn = imtcp_conn_of(sk);
	struct tcp_sock *tp = tcp_sk(sk);

	if (!conn)
		return imtcp_reno_ssthresh(tp->snd_cwnd);
	/* The kernel lowers the window to it while the loss is repaired, below a floor too. */
	return imtcp_max(imtcp_ssthresh_segs(conn, tp),
			 imtcp_floor_segs(conn, tp, imtcp_policy_of(conn)));
}

SEC("struct_ops")
__u32 BPF_PROG(imtcp_undo_cwnd, struct sock *sk)
{
	return imtcp_undone_cwnd(sk);
}

SEC("struct_ops")
void BPF_PROG(imtcp_set_state, struct sock *sk, __u8 new_state)
{
	struct imtcp_conn *conn = imtcp_conn_of(sk);
	struct tcp_sock *tp = tcp_sk(sk);

	if (!conn || new_state < TCP_CA_CWR)
		return;
	if (new_state == TCP_CA_Loss)
		conn->reductions_rto++;
	else
		conn->reductions_loss++;
	imtcp_bg_on_loss(&conn->bg);
	if (imtcp_meas_on_loss(&conn->meas, tp->tcp_mstamp, tp->snd_nxt, tp->srtt_us >> 3))
		imtcp_publish(sk, conn);
	imtcp_full_speed_again(conn, tp->tcp_mstamp);
}

/* A control: its `init`, and its table. */
#define IMTCP_MEASURING(ops, mode_number, cc_name)                                                 \
	SEC("struct_ops")                                                                          \
	void BPF_PROG(ops##_init, struct sock *sk)                                                 \
	{                                                                                          \
		imtcp_start(sk, mode_number);                                                      \
	}                                                                                          \
                                                                                                   \
	SEC(".struct_ops")                                                                         \
	struct tcp_congestion_ops ops = {                                                          \
		.flags = TCP_CONG_NON_RESTRICTED,                                                  \
		.ssthresh = (void *)imtcp_ssthresh,                                                \
		.cong_avoid = (void *)imtcp_cong_avoid,                                            \
		.set_state = (void *)imtcp_set_state,                                              \
		.undo_cwnd = (void *)imtcp_undo_cwnd,                                              \
		.pkts_acked = (void *)imtcp_pkts_acked,                                            \
		.min_tso_segs = (void *)imtcp_min_tso_segs,                                        \
		.init = (void *)ops##_init,                                                        \
		.release = (void *)imtcp_release,                                                  \
		.name = cc_name,                                                                   \
	}

/* clang-format off */
IMTCP_MEASURING(imtcp,    IMTCP_MODE_MEASURE, IMTCP_CC_MEASURE);
IMTCP_MEASURING(imtcp_bg, IMTCP_MODE_BG,      IMTCP_CC_BG);
IMTCP_MEASURING(imtcp_fs, IMTCP_MODE_FS,      IMTCP_CC_FS);
/* clang-format on */
