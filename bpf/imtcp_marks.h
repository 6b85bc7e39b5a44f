/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Sets the DSCP of a socket from BPF, and saves the old one. */
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
 * Sets the TOS byte or traffic class. Returns 0 on success. `sk` is the socket in the type that the
 * helpers of the program take.
 *
 * IPv4 uses IP_TOS, also on an IPv6 socket. Some kernels accept that from BPF only on IPv4 sockets.
 * IP_TOS also sets the socket's priority, so this restores it.
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

#define DSCP_SHIFT 2 /* the low two bits of the byte are ECN */

/* Is an address ::ffff:a.b.c.d, IPv4 on an IPv6 socket? */
#define imtcp_is_mapped(address)                                                                   \
	(!(address)[0] && !(address)[1] && (address)[2] == bpf_htonl(0xffff))

/* Marks a connection without a mark, and saves its old DSCP. `sk` as above. Returns 0 on
 * success. */
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

/* Marks a connection that was open before its policy. */
static __always_inline void imtcp_mark_open(struct sock *sk, struct imtcp_tag *tag, __u32 dscp)
{
	__u32 address[4] = {};

	bpf_core_read(address, sizeof(address), &sk->__sk_common.skc_v6_daddr);
	if (sk->__sk_common.skc_family == AF_INET6 && !imtcp_is_mapped(address))
		imtcp_mark(sk, 1, tag, dscp);
	else
		imtcp_mark(sk, 0, tag, dscp);
}

/* Restores the marks from before the policy. */
static __always_inline void imtcp_give_back_tos(struct sock *sk, const struct imtcp_tag *tag)
{
	int tos = tag->tos_before, tclass = tag->tclass_before;

	if (tag->marked & IMTCP_MARKED_TOS)
		imtcp_set_tos(sk, 0, &tos);
	if (tag->marked & IMTCP_MARKED_TCLASS)
		imtcp_set_tos(sk, 1, &tclass);
}

#endif
