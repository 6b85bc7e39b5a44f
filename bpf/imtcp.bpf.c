// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The congestion controls `imtcp` (Reno that measures available bandwidth) and `imtcp_bg`
 * (background transfer). They differ in `init` alone: the mode it notes decides the rest
 * (imtcp_adapter.h; the algorithms are in core/include/imtcp).
 *
 * Where a connection's state could not be allocated, or its control was taken away, it goes on
 * as Reno: a measurement that fails never costs more than the measurement.
 */
#include "imtcp_adapter.h"

char _license[] SEC("license") = "Dual BSD/GPL";

static __always_inline void imtcp_start(struct sock *sk, __u32 mode)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct imtcp_totals *totals = imtcp_totals_of();
	struct imtcp_tag *tag;
	struct imtcp_conn *conn;

	conn = bpf_sk_storage_get(&imtcp_conns, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);
	if (!conn)
		return;
	tag = bpf_sk_storage_get(&imtcp_tags, sk, 0, 0);
	conn->policy = tag ? tag->policy : 0;
	conn->mode = mode;
	conn->started_us = tp->tcp_mstamp;
	conn->acked_at_us = tp->tcp_mstamp;
	conn->last_una = tp->snd_una;
	conn->ip_header_bytes = sk->__sk_common.skc_family == AF_INET6 ? IMTCP_IPV6_HEADER_BYTES
								       : IMTCP_IPV4_HEADER_BYTES;
	imtcp_meas_init(&conn->meas, tp->snd_nxt);
	sk->sk_pacing_status = SK_PACING_NEEDED;
	if (totals)
		imtcp_count(&totals->connections_started);
}

SEC("struct_ops")
void BPF_PROG(imtcp_init, struct sock *sk)
{
	imtcp_start(sk, IMTCP_MODE_MEASURE);
}

SEC("struct_ops")
void BPF_PROG(imtcp_bg_init, struct sock *sk)
{
	imtcp_start(sk, IMTCP_MODE_BG);
}

SEC("struct_ops")
void BPF_PROG(imtcp_release, struct sock *sk)
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
		imtcp_on_ack(sk, conn, sample->rtt_us);
}

SEC("struct_ops")
void BPF_PROG(imtcp_cong_avoid, struct sock *sk, __u32 ack, __u32 acked)
{
	struct imtcp_conn *conn = imtcp_conn_of(sk);

	if (conn)
		imtcp_window(sk, conn, acked);
}

SEC("struct_ops")
__u32 BPF_PROG(imtcp_ssthresh, struct sock *sk)
{
	return imtcp_reno_ssthresh(tcp_sk(sk)->snd_cwnd);
}

SEC("struct_ops")
__u32 BPF_PROG(imtcp_undo_cwnd, struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);

	return tp->snd_cwnd > tp->prior_cwnd ? tp->snd_cwnd : tp->prior_cwnd;
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
}

SEC(".struct_ops")
struct tcp_congestion_ops imtcp = {
	.flags = TCP_CONG_NON_RESTRICTED,
	.ssthresh = (void *)imtcp_ssthresh,
	.cong_avoid = (void *)imtcp_cong_avoid,
	.set_state = (void *)imtcp_set_state,
	.undo_cwnd = (void *)imtcp_undo_cwnd,
	.pkts_acked = (void *)imtcp_pkts_acked,
	.min_tso_segs = (void *)imtcp_min_tso_segs,
	.init = (void *)imtcp_init,
	.release = (void *)imtcp_release,
	.name = IMTCP_CC_MEASURE,
};

SEC(".struct_ops")
struct tcp_congestion_ops imtcp_bg = {
	.flags = TCP_CONG_NON_RESTRICTED,
	.ssthresh = (void *)imtcp_ssthresh,
	.cong_avoid = (void *)imtcp_cong_avoid,
	.set_state = (void *)imtcp_set_state,
	.undo_cwnd = (void *)imtcp_undo_cwnd,
	.pkts_acked = (void *)imtcp_pkts_acked,
	.min_tso_segs = (void *)imtcp_min_tso_segs,
	.init = (void *)imtcp_bg_init,
	.release = (void *)imtcp_release,
	.name = IMTCP_CC_BG,
};
