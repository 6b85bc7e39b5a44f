/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Downloads of a run or attachment yield: the window that this host offers follows core/include/imtcp/receive.h.
 *
 *   imtcp_receive
 *     a connection is established         asks the kernel for a call before each packet that leaves
 *     before such a packet, data came     arrival ──▶ imtcp_receive_on_arrival ──▶ TCP_WINDOW_CLAMP
 *   imtcp_ask_of_open                     asks the same of connections that are open
 *   imtcp_let_receive                     takes the windows back: the program's buffer bounds them again
 *
 * The kernel chooses a packet's window after that call (__tcp_transmit_skb: tcp_established_options, then
 * tcp_select_window). So each ACK has the window that its own arrivals led to. What was offered is never withdrawn: that is
 * the kernel's rule.
 */
#ifndef IMTCP_CTL_RECEIVE_H
#define IMTCP_CTL_RECEIVE_H

#include "imtcp_neighbours.h"
#include "imtcp_receive.h"

/* uapi/linux/bpf.h */
#define BPF_SOCK_OPS_HDR_OPT_LEN_CB 14
#define BPF_SOCK_OPS_WRITE_HDR_OPT_CB_FLAG (1 << 6)
#define TCP_BPF_SOCK_OPS_CB_FLAGS 1008 /* an option of bpf_setsockopt since Linux 6.12 */

/* Connections of a policy that receive are counted as those to a host are, in places that no mode has. */
#define RECEIVING_FROM_HOST IMTCP_MODES
#define RECEIVING_FOR_POLICY (IMTCP_MODES + 1)
#define ECN_DEMAND_CWR 0x04U /* TCP_ECN_DEMAND_CWR */
#define QUARTER_US (IMTCP_USEC_PER_SEC / 4)
/* Two segments of Ethernet, with timestamps. A peer that has sent small messages may send such segments next, and waits for its
 * persist timer where the window is less than one. */
#define WINDOW_LEAST_BYTES (2U * 1448)
#define WINDOW_MOST_BYTES (1U << 30) /* of TCP (RFC 7323 §2.3) */

/* Since our ACK that the newest segment answers, microseconds; 0: it has no timestamp. Linux's tick is a millisecond or, on
 * routes that ask for it, a microsecond. */
static __always_inline __s32 echoed_rtt_us(struct tcp_sock *tp)
{
	struct tcp_options_received *options = &tp->rx_opt;
	__u32 echo = options->rcv_tsecr;
	__u64 now_us = tp->tcp_mstamp;

	if (!BPF_CORE_READ_BITFIELD(options, saw_tstamp))
		return 0;
	if (bpf_core_field_exists(tp->tcp_usec_ts) && BPF_CORE_READ_BITFIELD(tp, tcp_usec_ts))
		return (__s32)((__u32)now_us - echo);
	return (__s32)(((__u32)(now_us / IMTCP_TICK_US) - echo) * IMTCP_TICK_US +
		       (__u32)(now_us % IMTCP_TICK_US));
}

/* How many there are from that host, once a second; and how many the policy has, in each quarter of a second. */
static __always_inline void count_receivers(struct tcp_sock *tp, struct imtcp_receiver *receiver,
					    __u64 now_us)
{
	__u64 second = now_us / IMTCP_USEC_PER_SEC, quarter = now_us / QUARTER_US;
	struct imtcp_host place;
	struct imtcp_minrtt none = {};

	if (receiver->noted_quarter == quarter)
		return;
	receiver->noted_quarter = quarter;
	__builtin_memset(&place, 0, sizeof(place));
	place.address[0] = cfg.policy;
	place.mode = RECEIVING_FOR_POLICY;
	receiver->of_policy = imtcp_note_at(&place, quarter, &none);
	if (receiver->noted_second == second)
		return;
	receiver->noted_second = second;
	place = imtcp_host_of((struct sock *)tp, RECEIVING_FROM_HOST);
	receiver->neighbours = imtcp_note_at(&place, second, &receiver->state.facts.minrtt);
}

/* This connection's share of a rate, in payload: bps is for all connections, on the wire. 0 if there is no
 * such rate. */
static __always_inline __u64 share_bps(const struct tcp_sock *tp,
				       const struct imtcp_receiver *receiver, __u64 bps)
{
	__u32 mss = tp->inet_conn.icsk_ack.rcv_mss;
	__u32 header = tp->tcp_header_len + tp->inet_conn.icsk_af_ops->net_header_len;

	return imtcp_scale(bps / imtcp_max(receiver->of_policy, 1), mss, mss + header);
}

static __always_inline struct imtcp_receiver *receiver_of(struct bpf_sock *sk, struct tcp_sock *tp)
{
	struct imtcp_receiver *receiver = bpf_sk_storage_get(&imtcp_receivers, sk, NULL, 0);

	if (receiver || !tp->bytes_received)
		return receiver;
	receiver = bpf_sk_storage_get(&imtcp_receivers, sk, NULL, BPF_SK_STORAGE_GET_F_CREATE);
	if (receiver)
		imtcp_receive_begin(&receiver->state, tp->tcp_mstamp);
	return receiver;
}

/* Reads what arrived since the last packet that left. */
static __always_inline void read_arrival(struct tcp_sock *tp, struct imtcp_receiver *receiver,
					 const struct imtcp_policy *policy, struct imtcp_arrival *a)
{
	a->now_us = tp->tcp_mstamp;
	a->rtt_us = echoed_rtt_us(tp);
	a->bytes = (__u32)(tp->bytes_received - receiver->seen_bytes);
	a->mss_bytes = tp->inet_conn.icsk_ack.rcv_mss;
	a->early_segs = tp->rcv_ooopack;
	a->marked = tp->ecn_flags & ECN_DEMAND_CWR;
	a->left_bytes = tp->rcv_wup + tp->rcv_wnd - tp->rcv_nxt;
	a->delta_q8 = policy->params.delta_q8 ? policy->params.delta_q8 : IMTCP_DELTA_Q8;
	if (policy->mode == IMTCP_MODE_LEDBATPP)
		a->ledbatpp_target_us = policy->params.ledbatpp_target_us
						? policy->params.ledbatpp_target_us
						: IMTCP_LEDBATPP_TARGET_US;
	count_receivers(tp, receiver, a->now_us);
	a->neighbours = receiver->neighbours;
	a->floor_bps = share_bps(tp, receiver, policy->min_bps);
	a->ceiling_bps = share_bps(tp, receiver, policy->max_bps);
	receiver->seen_bytes = tp->bytes_received;
}

static __always_inline void offer(struct bpf_sock_ops *ctx, struct bpf_sock *sk,
				  struct imtcp_policy *policy)
{
	struct tcp_sock *tp = bpf_skc_to_tcp_sock(sk);
	struct imtcp_receiver *receiver;
	struct imtcp_arrival a = {};
	__u64 busy_us, yielding_us;
	int window_bytes;

	if (!tp)
		return;
	receiver = receiver_of(sk, tp);
	if (!receiver || (tp->bytes_received == receiver->seen_bytes &&
			  tp->rcv_ooopack == receiver->state.early_segs))
		return;
	read_arrival(tp, receiver, policy, &a);
	busy_us = receiver->state.facts.busy_us;
	yielding_us = receiver->state.facts.yielding_us;
	window_bytes = (int)imtcp_clamp((__u64)imtcp_receive_on_arrival(&receiver->state, &a) *
						a.mss_bytes,
					WINDOW_LEAST_BYTES, WINDOW_MOST_BYTES);
	if (!receiver->state.rtt_us)
		return;
	__sync_fetch_and_add(&policy->received_busy_us, receiver->state.facts.busy_us - busy_us);
	__sync_fetch_and_add(&policy->received_yielding_us,
			     receiver->state.facts.yielding_us - yielding_us);
	if ((__u32)window_bytes != tp->window_clamp &&
	    !bpf_setsockopt(ctx, SOL_TCP, TCP_WINDOW_CLAMP, &window_bytes, sizeof(window_bytes)))
		receiver->offered_bytes = (__u32)window_bytes;
}

/* The kernel is to call before each packet that leaves, but for those of multipath connections: their window is one of all paths. */
static __always_inline void ask(struct bpf_sock_ops *ctx, struct bpf_sock *sk)
{
	struct tcp_sock *tp = bpf_skc_to_tcp_sock(sk);

	if (!tp || (bpf_core_field_exists(tp->is_mptcp) && tp->is_mptcp))
		return;
	bpf_sock_ops_cb_flags_set(ctx,
				  ctx->bpf_sock_ops_cb_flags | BPF_SOCK_OPS_WRITE_HDR_OPT_CB_FLAG);
}

/* Always returns 1, as imtcp_sockops does, which runs before it and gives the connection its tag. */
SEC("sockops")
int imtcp_receive(struct bpf_sock_ops *ctx)
{
	struct imtcp_policy *policy;
	struct imtcp_tag *tag;
	struct bpf_sock *sk;
	__u64 id = cfg.policy;

	if (ctx->op != BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB &&
	    ctx->op != BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB &&
	    ctx->op != BPF_SOCK_OPS_HDR_OPT_LEN_CB)
		return 1;
	sk = ctx->sk;
	if (!sk)
		return 1;
	tag = bpf_sk_storage_get(&imtcp_tags, sk, NULL, 0);
	policy = bpf_map_lookup_elem(&imtcp_policies, &id);
	if (!tag || tag->policy != id || !policy || !policy->receives)
		return 1;
	if (ctx->op == BPF_SOCK_OPS_HDR_OPT_LEN_CB)
		offer(ctx, sk, policy);
	else
		ask(ctx, sk);
	return 1;
}

/* A connection of cfg.policy. */
static __always_inline struct tcp_sock *own_connection(struct sock_common *skc)
{
	struct imtcp_tag *tag;
	struct tcp_sock *tp;

	if (!skc || skc->skc_state == TCP_LISTEN)
		return NULL;
	tp = bpf_skc_to_tcp_sock(skc); /* not those in TIME_WAIT, nor requests */
	if (!tp)
		return NULL;
	tag = bpf_sk_storage_get(&imtcp_tags, tp, NULL, 0);
	return tag && tag->policy == cfg.policy ? tp : NULL;
}

/* In one network namespace. Prints a word for each that the kernel refuses it. */
SEC("iter/tcp")
int imtcp_ask_of_open(struct bpf_iter__tcp *ctx)
{
	struct tcp_sock *tp = own_connection(ctx->sk_common);
	__u64 refused = 1;
	int flags;

	if (!tp || (bpf_core_field_exists(tp->is_mptcp) && tp->is_mptcp))
		return 0;
	flags = tp->bpf_sock_ops_cb_flags | BPF_SOCK_OPS_WRITE_HDR_OPT_CB_FLAG;
	if (bpf_setsockopt(tp, SOL_TCP, TCP_BPF_SOCK_OPS_CB_FLAGS, &flags, sizeof(flags)))
		bpf_seq_write(ctx->meta->seq, &refused, sizeof(refused));
	return 0;
}

/* In one network namespace. */
SEC("iter/tcp")
int imtcp_let_receive(struct bpf_iter__tcp *ctx)
{
	struct tcp_sock *tp = own_connection(ctx->sk_common);

	if (tp)
		imtcp_let_receive_freely(tp);
	return 0;
}

#endif
