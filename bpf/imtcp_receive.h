/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Connections whose offered window imtcp steers, and how one gets it back. */
#ifndef IMTCP_RECEIVE_STATE_H
#define IMTCP_RECEIVE_STATE_H

#include "imtcp_kernel.h"
#include <imtcp/receive.h>

/* uapi/linux/tcp.h */
#define TCP_WINDOW_CLAMP 10

struct imtcp_receiver {
	__u64 seen_bytes;    /* tp->bytes_received at the newest arrival */
	__u64 noted_quarter; /* in which it was counted for its policy, */
	__u64 noted_second;  /* and for its host */
	__u32 neighbours;    /* from the same host, with this one, */
	__u32 of_policy;     /* and of the same policy */
	__u32 offered_bytes; /* the window's bound that was set last; 0: none was */
	__u32 _pad;
	struct imtcp_receive state;
};

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct imtcp_receiver);
} imtcp_receivers SEC(".maps");

/* The bound is all of the buffer, as TCP sets it when it enlarges a buffer. */
static __always_inline void imtcp_let_receive_freely(struct tcp_sock *tp)
{
	struct imtcp_receiver *receiver = bpf_sk_storage_get(&imtcp_receivers, tp, NULL, 0);
	int bytes = tp->inet_conn.icsk_inet.sk.sk_rcvbuf;

	if (!receiver)
		return;
	if (receiver->offered_bytes)
		bpf_setsockopt(tp, SOL_TCP, TCP_WINDOW_CLAMP, &bytes, sizeof(bytes));
	bpf_sk_storage_delete(&imtcp_receivers, tp);
}

#endif
