// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * These programs count what a run sends beside its congestion control. The run's last line reports it.
 *
 *   imtcp_udp           counts the bytes that the run's cgroup sends by UDP, and by neither TCP nor UDP
 *   imtcp_unix_connect  notes the Unix sockets that its processes turn to: daemons may send for them
 *
 *   imtcp_leaves        notes the processes that are moved out of the run's cgroup
 *
 * They watch and change nothing. The command does without each that a kernel refuses.
 */
#include "imtcp_packet.h"
#include "imtcp_ctl.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

SEC(".data.uncovered") struct imtcp_uncovered uncovered;

/* --- imtcp_udp ----------------------------------------------------------------------- */

#define SOCK_RAW 3

/* Always returns 1: the packet may leave. */
SEC("cgroup_skb/egress")
int imtcp_udp(struct __sk_buff *skb)
{
	struct bpf_sock *sk = skb->sk;

	if (sk)
		sk = bpf_sk_fullsock(sk);
	if (!sk)
		return 1;
	if (sk->type == SOCK_RAW || (sk->protocol != IPPROTO_TCP && sk->protocol != IPPROTO_UDP))
		__sync_fetch_and_add(&uncovered.other_bytes, skb->len);
	else if (sk->protocol == IPPROTO_UDP)
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

/* --- imtcp_leaves -------------------------------------------------------------------- */

struct kernfs_node {
	__u64 id;
} IMTCP_CORE;

struct cgroup_subsys_state {
	struct cgroup *cgroup;
	struct cgroup_subsys_state *parent;
} IMTCP_CORE;

struct cgroup_root;

struct cgroup {
	struct cgroup_subsys_state self;
	struct kernfs_node *kn;
	struct cgroup_root *root;
} IMTCP_CORE;

struct css_set {
	struct cgroup *dfl_cgrp;
} IMTCP_CORE;

struct task_struct {
	struct css_set *cgroups;
	struct task_struct *real_parent;
	int tgid;
	char comm[IMTCP_COMM_MAX];
} IMTCP_CORE;

/* Deeper than anybody has cgroups, and more than a run has parents within one another. */
#define CGROUP_DEPTH 32
#define PARENTS 16

/* The first few: a run that moves many is told by the first. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 64);
	__type(key, struct imtcp_moved);
	__type(value, __u32);
} imtcp_movings SEC(".maps");

static __always_inline int is_in_the_run(struct cgroup *cgroup)
{
	struct cgroup_subsys_state *parent;
	int depth;

	for (depth = 0; depth < CGROUP_DEPTH; depth++) {
		if (!cgroup)
			return 0;
		if (BPF_CORE_READ(cgroup, kn, id) == uncovered.cgroup)
			return 1;
		parent = BPF_CORE_READ(cgroup, self.parent);
		cgroup = parent ? BPF_CORE_READ(parent, cgroup) : NULL;
	}
	return 0;
}

static __always_inline int descends_from_the_run(struct task_struct *task)
{
	int depth;

	for (depth = 0; depth < PARENTS; depth++) {
		task = BPF_CORE_READ(task, real_parent);
		if (!task)
			return 0;
		if (BPF_CORE_READ(task, tgid) == uncovered.runner ||
		    is_in_the_run(BPF_CORE_READ(task, cgroups, dfl_cgrp)))
			return 1;
	}
	return 0;
}

/* The arguments are where to, its path and which task; that is there already. */
SEC("tp_btf/cgroup_attach_task")
int imtcp_leaves(__u64 *ctx)
{
	struct cgroup *to = (struct cgroup *)ctx[0];
	const char *path = (const char *)ctx[1];
	struct task_struct *task = (struct task_struct *)ctx[2];
	struct imtcp_moved moved = {};
	__u32 one = 1;

	/* Hierarchies of version 1 have other cgroups. */
	if (BPF_CORE_READ(to, root) != BPF_CORE_READ(task, cgroups, dfl_cgrp, root))
		return 0;
	if (is_in_the_run(to)) {
		/* The command is the first to be moved into it. */
		if (!uncovered.runner)
			uncovered.runner = BPF_CORE_READ(task, real_parent, tgid);
		return 0;
	}
	if (!uncovered.runner || !descends_from_the_run(task))
		return 0;
	bpf_probe_read_kernel_str(moved.cgroup, sizeof(moved.cgroup), path);
	bpf_probe_read_kernel_str(moved.command, sizeof(moved.command), &task->comm);
	moved.by_root = (__u32)bpf_get_current_uid_gid() == 0;
	bpf_map_update_elem(&imtcp_movings, &moved, &one, 0);
	return 0;
}
