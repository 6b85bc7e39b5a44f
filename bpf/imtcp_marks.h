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
#define SOL_SOCKET 1
#define SO_PRIORITY 12

/*
 * IPv4 goes by IP_TOS, on an IPv6 socket, too. Some kernels take that from BPF on IPv4 sockets only. IP_TOS also sets the
 * socket's priority: the program's is put back. `sk` is what the helpers of the program at hand take. Returns 0 where it is
 * done.
 */
#define imtcp_set_tos(sk, is_ipv6, tos)                                                            \
	({                                                                                         \
		int _priority = 0;                                                                 \
		int _is_known = !bpf_getsockopt(sk, SOL_SOCKET, SO_PRIORITY, &_priority,           \
						sizeof(_priority));                                \
		long _failed = bpf_setsockopt(sk, (is_ipv6) ? SOL_IPV6 : SOL_IP,                   \
					      (is_ipv6) ? IPV6_TCLASS : IP_TOS, tos,               \
					      sizeof(*(tos)));                                     \
		if (_is_known)                                                                     \
			bpf_setsockopt(sk, SOL_SOCKET, SO_PRIORITY, &_priority,                    \
				       sizeof(_priority));                                         \
		_failed;                                                                           \
	})

#define DSCP_SHIFT 2 /* the low two bits of the byte are ECN's */

/* Is the address ::ffff:a.b.c.d, IPv4 on an IPv6 socket? */
#define imtcp_is_mapped(address)                                                                   \
	(!(address)[0] && !(address)[1] && (address)[2] == bpf_htonl(0xffff))

/* Marks a connection that nobody has marked, and notes what it had. `sk` as above. Returns 0 where it is done. */
#define imtcp_mark(sk, is_ipv6, tag, dscp)                                                         \
	({                                                                                         \
		int _tos = (int)((dscp) << DSCP_SHIFT), _before = 0;                               \
		__u32 _mark = (is_ipv6) ? IMTCP_MARKED_TCLASS : IMTCP_MARKED_TOS;                  \
		long _unmarked;                                                                    \
		bpf_getsockopt(sk, (is_ipv6) ? SOL_IPV6 : SOL_IP,                                  \
			       (is_ipv6) ? IPV6_TCLASS : IP_TOS, &_before, sizeof(_before));       \
		_unmarked = imtcp_set_tos(sk, is_ipv6, &_tos);                                     \
		if (!_unmarked && !((tag)->marked & _mark)) {                                      \
			if (is_ipv6)                                                               \
				(tag)->tclass_before = (__u16)_before;                             \
			else                                                                       \
				(tag)->tos_before = (__u16)_before;                                \
			(tag)->marked |= _mark;                                                    \
		}                                                                                  \
		_unmarked;                                                                         \
	})

/* A connection that was open before its policy. */
static __always_inline void imtcp_mark_open(struct sock *sk, struct imtcp_tag *tag, __u32 dscp)
{
	__u32 address[4] = {};

	bpf_core_read(address, sizeof(address), &sk->__sk_common.skc_v6_daddr);
	if (sk->__sk_common.skc_family == AF_INET6 && !imtcp_is_mapped(address))
		imtcp_mark(sk, 1, tag, dscp);
	else
		imtcp_mark(sk, 0, tag, dscp);
}

/* Its packets are marked as before its policy. */
static __always_inline void imtcp_give_back_tos(struct sock *sk, const struct imtcp_tag *tag)
{
	int tos = tag->tos_before, tclass = tag->tclass_before;

	if (tag->marked & IMTCP_MARKED_TOS)
		imtcp_set_tos(sk, 0, &tos);
	if (tag->marked & IMTCP_MARKED_TCLASS)
		imtcp_set_tos(sk, 1, &tclass);
}

#endif
