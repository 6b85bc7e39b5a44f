/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* A packet and its socket in programs of cgroups: uapi/linux/bpf.h, whose layouts are fixed. */
#ifndef IMTCP_PACKET_H
#define IMTCP_PACKET_H

#include "imtcp_kernel.h"

#define IPPROTO_TCP 6
#define IPPROTO_UDP 17

struct bpf_sock {
	__u32 bound_dev_if;
	__u32 family;
	__u32 type;
	__u32 protocol;
};

struct __sk_buff {
	__u32 len;
	__u32 _to_priority[7];
	__u32 priority;
	__u32 ingress_ifindex;
	__u32 ifindex;
	__u32 _to_sk[31];
	struct bpf_sock *sk;
};
_Static_assert(__builtin_offsetof(struct __sk_buff, priority) == 32, "as in uapi/linux/bpf.h");
_Static_assert(__builtin_offsetof(struct __sk_buff, sk) == 168, "as in uapi/linux/bpf.h");

#endif
