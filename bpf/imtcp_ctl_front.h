/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Counts this host's own foreground: TCP packets that leave and do not yield (imtcp_front.h). */
#ifndef IMTCP_CTL_FRONT_H
#define IMTCP_CTL_FRONT_H

#include "imtcp_conn.h"
#include "imtcp_packet.h"

/* Always returns 1: the packet may leave. A packet is up to 64 KB here: the device makes segments of it later. */
SEC("cgroup_skb/egress")
int imtcp_count_front(struct __sk_buff *skb)
{
	struct bpf_sock *sk = skb->sk;
	struct imtcp_conn *conn;
	struct tcp_sock *tp;
	struct imtcp_way way;
	__u64 *bytes, first;

	if (sk)
		sk = bpf_sk_fullsock(sk);
	if (!sk || sk->protocol != IPPROTO_TCP)
		return 1;
	conn = bpf_sk_storage_get(&imtcp_conns, sk, NULL, 0);
	if (conn && conn->mode < IMTCP_MODES && IMTCP_MODES_THAT_YIELD >> conn->mode & 1)
		return 1;
	tp = bpf_skc_to_tcp_sock(sk);
	if (!tp || !imtcp_way_of(tp, &way))
		return 1;
	bytes = bpf_map_lookup_elem(&imtcp_fronts, &way);
	if (bytes) {
		__sync_fetch_and_add(bytes, skb->len);
		return 1;
	}
	first = skb->len;
	bpf_map_update_elem(&imtcp_fronts, &way, &first, 0);
	return 1;
}

#endif
