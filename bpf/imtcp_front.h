/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * This host's own foreground, by the way that it takes (core/include/imtcp/front.h).
 *
 * Two connections take the same way if they leave by the same device to the same gateway. A host on the same network
 * has no gateway: a server's traffic to its neighbours passes no bottleneck of the backup to the Internet.
 */
#ifndef IMTCP_BPF_FRONT_H
#define IMTCP_BPF_FRONT_H

#include "imtcp_kernel.h"

#define IMTCP_RTF_GATEWAY 0x0002U /* RTF_GATEWAY of uapi/linux/route.h */

struct imtcp_way {
	__u64 gateway[2]; /* IPv4 in the first bytes */
	__u32 netns;
	__u32 device;
};

/* Bytes that the foreground sent by each way. The ways that were unused for the longest time make room. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 256);
	__type(key, struct imtcp_way);
	__type(value, __u64);
} imtcp_fronts SEC(".maps");

/* The way of a connection. Returns 0 if it has no gateway, or no route yet. */
static __always_inline int imtcp_way_of(const struct tcp_sock *tp, struct imtcp_way *way)
{
	const struct sock *sk = &tp->inet_conn.icsk_inet.sk;
	const struct dst_entry *dst = sk->sk_dst_cache;
	const struct rtable *v4 = (const struct rtable *)dst;
	const struct rt6_info *v6 = (const struct rt6_info *)dst;

	__builtin_memset(way, 0, sizeof(*way));
	if (!dst)
		return 0;
	way->netns = sk->__sk_common.skc_net.net->ns.inum;
	way->device = (__u32)dst->dev->ifindex;
	if (sk->__sk_common.skc_family == AF_INET6 &&
	    tp->inet_conn.icsk_af_ops->net_header_len != 20 /* of IPv4 */) {
		if (!(BPF_CORE_READ(v6, rt6i_flags) & IMTCP_RTF_GATEWAY))
			return 0;
		bpf_core_read(way->gateway, sizeof(way->gateway), &v6->rt6i_gateway);
		return 1;
	}
	switch (BPF_CORE_READ(v4, rt_gw_family)) {
	case AF_INET:
		bpf_core_read(way->gateway, sizeof(__be32), &v4->rt_gw4);
		return 1;
	case AF_INET6:
		bpf_core_read(way->gateway, sizeof(way->gateway), &v4->rt_gw6);
		return 1;
	default:
		return 0;
	}
}

#endif
