/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The DSCP of a socket, as set by BPF, and what it was before. */
#ifndef IMTCP_MARKS_H
#define IMTCP_MARKS_H

#include "imtcp_kernel.h"
#include "imtcp_shared.h"
#include <bpf/bpf_endian.h>

#define SOL_IP 0
#define IP_TOS 1
#define SOL_IPV6 41
#define IPV6_TCLASS 67

/* IPv4 goes by IP_TOS, on an IPv6 socket, too. Some kernels take that from BPF on IPv4 sockets only. `sk` is what the helpers of
 * the program at hand take. Returns 0 where it is done. */
#define imtcp_set_tos(sk, is_ipv6, tos)                                                            \
	bpf_setsockopt(sk, (is_ipv6) ? SOL_IPV6 : SOL_IP, (is_ipv6) ? IPV6_TCLASS : IP_TOS, tos,   \
		       sizeof(*(tos)))

/* An address ::ffff:a.b.c.d: IPv4 on an IPv6 socket. */
static __always_inline int imtcp_is_mapped(const __u32 *address)
{
	return !address[0] && !address[1] && address[2] == bpf_htonl(0xffff);
}

/* Its packets are marked as before its policy. */
static __always_inline void imtcp_give_back_tos(struct sock *sk, const struct imtcp_tag *tag)
{
	int tos = (int)tag->tos_before, is_ipv6;
	__u32 address[4] = {};

	if (!tag->has_dscp)
		return;
	bpf_core_read(address, sizeof(address), &sk->__sk_common.skc_v6_daddr);
	is_ipv6 = BPF_CORE_READ(sk, __sk_common.skc_family) == AF_INET6 &&
		  !imtcp_is_mapped(address);
	imtcp_set_tos(sk, is_ipv6, &tos);
}

#endif
