// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * These programs see what a run does that no congestion control holds back. The line at its end tells it.
 *
 *   imtcp_udp           counts the bytes that the run's cgroup sends by UDP
 *   imtcp_unix_connect  notes the Unix sockets that its processes turn to: daemons may send for them
 *
 * They watch and change nothing. The command does without each that a kernel refuses.
 */
#include "imtcp_kernel.h"
#include "imtcp_ctl.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

SEC(".data.uncovered") struct imtcp_uncovered uncovered;

/* --- imtcp_udp ----------------------------------------------------------------------- */

#define IPPROTO_UDP 17

/* uapi/linux/bpf.h; the layouts are fixed */
struct bpf_sock {
	__u32 bound_dev_if;
	__u32 family;
	__u32 type;
	__u32 protocol;
};
struct __sk_buff {
	__u32 len;
	__u32 _to_sk[41];
	struct bpf_sock *sk;
};
_Static_assert(__builtin_offsetof(struct __sk_buff, sk) == 168, "as in uapi/linux/bpf.h");

/* Always returns 1: the packet may leave. */
SEC("cgroup_skb/egress")
int imtcp_udp(struct __sk_buff *skb)
{
	struct bpf_sock *sk = skb->sk;

	if (sk)
		sk = bpf_sk_fullsock(sk);
	if (sk && sk->protocol == IPPROTO_UDP)
		__sync_fetch_and_add(&uncovered.udp_bytes, skb->len);
	return 1;
}

/* --- imtcp_unix_connect -------------------------------------------------------------- */

struct sockaddr_un {
	unsigned short sun_family;
	char sun_path[IMTCP_UNIX_PATH_MAX];
} IMTCP_CORE;

struct bpf_sock_addr_kern {
	struct sockaddr_un *uaddr; /* struct sockaddr to the kernel */
	__u32 uaddrlen;
} IMTCP_CORE;

struct bpf_sock_addr;

/* Linux 6.2 and later; the hook itself is of 6.7. */
extern void *bpf_cast_to_kern_ctx(void *ctx) __ksym __weak;

/* A run turns to few; those beyond are not noted. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 64);
	__type(key, struct imtcp_unix_peer);
	__type(value, __u32);
} imtcp_peers SEC(".maps");

/* Always returns 1: the connection may be made. */
SEC("cgroup/connect_unix")
int imtcp_unix_connect(struct bpf_sock_addr *ctx)
{
	struct bpf_sock_addr_kern *addr = bpf_cast_to_kern_ctx(ctx);
	struct imtcp_unix_peer peer = {};
	__u32 one = 1, bytes = addr->uaddrlen;

	/* The path may lack its NUL here: it ends where the address does, which may be the structure's end. */
	bytes -= __builtin_offsetof(struct sockaddr_un, sun_path) - 1;
	if (bytes > sizeof(peer.path))
		bytes = sizeof(peer.path);
	bpf_probe_read_kernel_str(peer.path, bytes, &addr->uaddr->sun_path);
	bpf_get_current_comm(peer.command, sizeof(peer.command));
	bpf_map_update_elem(&imtcp_peers, &peer, &one, 0);
	return 1;
}
