// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The control programs beside the congestion controls. The command loads each when it needs it,
 * with the maps of the congestion controls.
 *
 *   ── program ───────────── what it does ──────────────────────────────────────────────────────
 *   imtcp_sockops           gives new connections and listeners of a cgroup to a run or
 *                           attachment, or those that pass its filter
 *   imtcp_connections       prints a record of every connection with our state
 *   imtcp_connections_here  the same for one network namespace, if a kernel accepts only that
 *   imtcp_tagged            prints policy and network namespace of every tagged socket
 *   imtcp_switch            takes sockets of a network namespace off our congestion controls
 *   imtcp_opened            prints the socket of each file descriptor, and its original cgroup
 *   imtcp_held              prints the connections of a network namespace that a file holds,
 *                           and their original cgroups
 *   imtcp_set_orders        writes new orders into a policy while programs count in it
 *   imtcp_keep_dscp, imtcp_set_priority  mark packets (imtcp_ctl_marks.h)
 *   imtcp_receive, imtcp_let_receive     steer the windows that connections offer
 *                                        (imtcp_ctl_receive.h)
 *   imtcp_tag_subflows      gives subflows of a multipath connection to a run or attachment
 */
#include "imtcp_conn.h"
#include "imtcp_ctl.h"
#include "imtcp_record.h"
#include <bpf/bpf_endian.h>

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* net/tcp_states.h */
enum {
	TCP_ESTABLISHED = 1,
	TCP_FIN_WAIT1 = 4,
	TCP_CLOSE_WAIT = 8,
	TCP_LAST_ACK = 9,
	TCP_LISTEN = 10,
	TCP_CLOSING = 11,
};

/* --- imtcp_sockops ------------------------------------------------------------------- */

/* uapi/linux/bpf.h; the layout is fixed. */
enum {
	BPF_SOCK_OPS_TCP_CONNECT_CB = 3,
	BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB = 4,
	BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB = 5,
	BPF_SOCK_OPS_TCP_LISTEN_CB = 11,
};
struct bpf_sock_ops {
	__u32 op;
	__u32 args[4];
	__u32 family;
	__u32 remote_ip4; /* addresses and the remote port in network order */
	__u32 local_ip4;
	__u32 remote_ip6[4];
	__u32 local_ip6[4];
	__u32 remote_port;
	__u32 local_port;
	__u32 _to_flags[3];
	__u32 bpf_sock_ops_cb_flags;
	__u32 _to_received[20];
	__u64 bytes_received;
	__u64 bytes_acked;
	struct bpf_sock *sk;
};
_Static_assert(__builtin_offsetof(struct bpf_sock_ops, sk) == 184, "as in uapi/linux/bpf.h");

#include "imtcp_ctl_filter.h"

SEC(".rodata.cfg") const volatile struct imtcp_ctl_cfg cfg;

/* The programs of this header read cfg. */
#include "imtcp_ctl_marks.h"

#include "imtcp_ctl_front.h"

/* The control of each mode. */
static const char controls[IMTCP_MODES][TCP_CA_NAME_MAX] __attribute__((aligned(8))) = {
	[IMTCP_MODE_MEASURE] = IMTCP_CC_MEASURE,
	[IMTCP_MODE_BG] = IMTCP_CC_BG,
	[IMTCP_MODE_FS] = IMTCP_CC_FS,
	[IMTCP_MODE_LP] = IMTCP_CC_LP,
	[IMTCP_MODE_LPECN] = IMTCP_CC_LPECN,
	[IMTCP_MODE_NICE] = IMTCP_CC_NICE,
	[IMTCP_MODE_LEDBAT] = IMTCP_CC_LEDBAT,
	[IMTCP_MODE_LEDBATPP] = IMTCP_CC_LEDBATPP,
	[IMTCP_MODE_NOCC] = IMTCP_CC_NOCC,
	[IMTCP_MODE_PAPER] = IMTCP_CC_PAPER,
	[IMTCP_MODE_PAPER_BG] = IMTCP_CC_PAPER_BG,
	[IMTCP_MODE_PAPER_CAP] = IMTCP_CC_PAPER_CAP,
	[IMTCP_MODE_PAPER_FS] = IMTCP_CC_PAPER_FS,
	[IMTCP_MODE_PAPER_LP] = IMTCP_CC_PAPER_LP,
	[IMTCP_MODE_PAPER_NICE] = IMTCP_CC_PAPER_NICE,
};

/* Returns 0 on success. */
static __always_inline long set_control(struct bpf_sock_ops *ctx, __u32 mode)
{
	/* One comparison: with two, clang compares mode - 1, and the verifier learns nothing of
	 * mode. Mode 0 has no name, and the kernel refuses that. */
	if (mode >= IMTCP_MODES)
		return 0;
	return bpf_setsockopt(ctx, SOL_TCP, TCP_CONGESTION, (void *)controls[mode],
			      TCP_CA_NAME_MAX);
}

/* Marks the packets of a connection. Returns 0 on success. An accepted connection has its
 * listener's tag and marks. */
static __always_inline long set_dscp(struct bpf_sock_ops *ctx, struct imtcp_tag *tag, __u32 dscp)
{
	if (ctx->family == AF_INET6 && !imtcp_is_mapped(ctx->remote_ip6))
		return imtcp_mark(ctx, 1, tag, dscp);
	return imtcp_mark(ctx, 0, tag, dscp);
}

/* Does this tag belong to another run or attachment with orders in force? */
static __always_inline int is_anothers(const struct imtcp_tag *tag)
{
	__u64 id = tag->policy;
	struct imtcp_policy *policy;

	if (!id || id == cfg.policy)
		return 0;
	policy = bpf_map_lookup_elem(&imtcp_policies, &id);
	return policy && policy->mode != IMTCP_MODE_NONE;
}

/* Does the filter exclude this connection? An accepted connection has its listener's tag. Without
 * it outer attachments may take the connection. */
static __always_inline int is_filtered_out(struct bpf_sock_ops *ctx, struct bpf_sock *sk)
{
	struct imtcp_tag *tag;

	if (ctx->op == BPF_SOCK_OPS_TCP_LISTEN_CB)
		return 0;
	tag = bpf_sk_storage_get(&imtcp_tags, sk, NULL, 0);
	/* It was seen when it connected, or it was open when the attachment began. */
	if (ctx->op == BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB && tag && tag->policy)
		return 1;
	if (imtcp_filter_passes(&cfg.filter, ctx))
		return 0;
	if (tag && tag->policy == cfg.policy)
		bpf_sk_storage_delete(&imtcp_tags, sk);
	return 1;
}

/* Always returns 1 and leaves ctx->reply alone, because programs of other cgroups may answer,
 * too. */
SEC("sockops")
int imtcp_sockops(struct bpf_sock_ops *ctx)
{
	int filters = imtcp_filter_is_set(&cfg.filter);
	struct imtcp_policy *policy;
	struct imtcp_tag *tag;
	struct bpf_sock *sk;
	__u64 id = cfg.policy;

	/* A filter needs an address. A connection that is being made when the attachment begins has
	 * one for user space only once it is established. */
	if (ctx->op != BPF_SOCK_OPS_TCP_CONNECT_CB && ctx->op != BPF_SOCK_OPS_TCP_LISTEN_CB &&
	    ctx->op != BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB &&
	    !(filters && ctx->op == BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB))
		return 1;
	sk = ctx->sk;
	if (!sk)
		return 1;
	policy = bpf_map_lookup_elem(&imtcp_policies, &id);
	if (!policy)
		return 1;
	if (filters && is_filtered_out(ctx, sk))
		return 1;
	tag = bpf_sk_storage_get(&imtcp_tags, sk, NULL, BPF_SK_STORAGE_GET_F_CREATE);
	if (!tag) {
		/* Storage is limited by net.core.optmem_max. */
		if (ctx->op != BPF_SOCK_OPS_TCP_LISTEN_CB)
			__sync_fetch_and_add(&policy->no_room_conns, 1);
		return 1;
	}
	/* The inner of two nested cgroups comes first, and wins while its policy is in force. */
	if (is_anothers(tag)) {
		if (ctx->op != BPF_SOCK_OPS_TCP_LISTEN_CB)
			__sync_fetch_and_add(&policy->inner_conns, 1);
		return 1;
	}
	/* Makes the cookie, for the events of this connection. */
	bpf_get_socket_cookie(ctx);
	/* Before the control, whose init reads the tag. */
	tag->policy = id;
	/* With a filter, the tag of a listener only shows who decides on its accepted
	 * connections. */
	if (filters && ctx->op == BPF_SOCK_OPS_TCP_LISTEN_CB)
		return 1;
	/* Without orders no control is expected. Accepted connections of a listener are checked
	 * when it accepts them. */
	if (set_control(ctx, policy->mode) && policy->mode != IMTCP_MODE_NONE &&
	    ctx->op != BPF_SOCK_OPS_TCP_LISTEN_CB)
		__sync_fetch_and_add(&policy->refused_conns, 1);
	if (policy->dscp_plus1 && set_dscp(ctx, tag, policy->dscp_plus1 - 1) &&
	    ctx->op != BPF_SOCK_OPS_TCP_LISTEN_CB)
		__sync_fetch_and_add(&policy->unmarked_conns, 1);
	return 1;
}

/* --- the kernel's structures for the iterators --------------------------------------- */

/* "___ctl": variants of the structures in imtcp_kernel.h, with the members used here. */
struct file;

struct socket {
	short type;
	struct file *file;
	struct sock *sk;
} IMTCP_CORE;

struct inode {
	unsigned long i_ino;
} IMTCP_CORE;

struct socket_alloc {
	struct socket socket;
	struct inode vfs_inode;
} IMTCP_CORE;

struct kernfs_node {
	__u64 id;
} IMTCP_CORE;

struct cgroup {
	struct kernfs_node *kn;
} IMTCP_CORE;

struct sock_cgroup_data {
	struct cgroup *cgroup;
} IMTCP_CORE;

struct sock___ctl {
	struct sock_common __sk_common;
	struct socket *sk_socket;
	struct sock_cgroup_data sk_cgrp_data;
} IMTCP_CORE;

struct tcp_congestion_ops___ctl {
	char name[TCP_CA_NAME_MAX];
} IMTCP_CORE;

struct inet_connection_sock___ctl {
	const struct tcp_congestion_ops___ctl *icsk_ca_ops;
	void *icsk_ulp_data;
} IMTCP_CORE;

struct seq_file;
struct bpf_iter_meta {
	struct seq_file *seq;
} IMTCP_CORE;

struct bpf_map;

/* Contexts of the iterators. Their members have 8 bytes each. */
struct bpf_iter__bpf_sk_storage_map {
	struct bpf_iter_meta *meta;
	struct bpf_map *map;
	struct sock *sk;
	void *value;
};

struct bpf_iter__tcp {
	struct bpf_iter_meta *meta;
	struct sock_common *sk_common;
	__u32 uid;
};

struct task_struct;

struct bpf_iter__task_file {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
	__u32 fd;
	struct file *file __attribute__((aligned(8)));
};

/* The programs of this header read cfg and the iterators' contexts. */
#include "imtcp_ctl_receive.h"

/* --- imtcp_connections --------------------------------------------------------------- */

static __always_inline __u64 socket_inode(struct sock___ctl *sk)
{
	char *file = (char *)BPF_CORE_READ(sk, sk_socket);

	if (!file)
		return 0; /* orphaned: its process closed it, and it still sends */
	file -= bpf_core_field_offset(struct socket_alloc, socket);
	return BPF_CORE_READ((struct socket_alloc *)file, vfs_inode.i_ino);
}

/* Fills addresses and ports of a record or another structure with these members. A function would
 * take them by address, and the stack has no room for that beside a record. */
#define fill_peer(to, skc)                                                                         \
	do {                                                                                       \
		(to)->family = BPF_CORE_READ(skc, skc_family);                                     \
		(to)->sport = BPF_CORE_READ(skc, skc_num);                                         \
		(to)->dport = bpf_ntohs(BPF_CORE_READ(skc, skc_dport));                            \
		if ((to)->family == AF_INET6)                                                      \
			bpf_core_read((to)->daddr, sizeof((to)->daddr), &(skc)->skc_v6_daddr);     \
		else                                                                               \
			bpf_core_read((to)->daddr, sizeof(__be32), &(skc)->skc_daddr);             \
	} while (0)

static __always_inline void fill_addresses(struct imtcp_record *rec, struct sock___ctl *sk)
{
	struct sock_common *skc = &sk->__sk_common;

	fill_peer(rec, skc);
	if (rec->family == AF_INET6)
		bpf_core_read(rec->saddr, sizeof(rec->saddr), &skc->skc_v6_rcv_saddr);
	else
		bpf_core_read(rec->saddr, sizeof(__be32), &skc->skc_rcv_saddr);
}

static __always_inline void fill_received(struct imtcp_record *rec, struct tcp_sock *tp)
{
	struct imtcp_receiver *receiver = bpf_sk_storage_get(&imtcp_receivers, tp, NULL, 0);

	if (!receiver)
		return;
	rec->offered_bytes = receiver->offered_bytes;
	rec->received_rtt_us = receiver->state.rtt_us;
	rec->received_yielding_us = receiver->state.facts.yielding_us;
}

/* An unacknowledged SYN or FIN also takes a sequence number, and is no data. */
static __always_inline __u32 queued_bytes(const struct tcp_sock *tp, __u8 state)
{
	__u32 bytes = tp->write_seq - tp->snd_una;

	switch (state) {
	case TCP_ESTABLISHED:
	case TCP_CLOSE_WAIT:
		return bytes;
	case TCP_FIN_WAIT1:
	case TCP_LAST_ACK:
	case TCP_CLOSING:
		return bytes ? bytes - 1 : 0;
	default:
		return 0;
	}
}

/* Writes the parameters from their place, because a record with them takes most of the 512 bytes of
 * a program's stack. If a record does not fit into the reader's buffer, the kernel drops both parts
 * and calls again. */
#define RECORD_WITHOUT_PARAMS_BYTES __builtin_offsetof(struct imtcp_record, params)
_Static_assert(RECORD_WITHOUT_PARAMS_BYTES + sizeof(struct imtcp_params) ==
		       sizeof(struct imtcp_record),
	       "the parameters end the record");

static __always_inline void print_record(struct seq_file *seq, struct imtcp_conn *conn,
					 struct tcp_sock *tp)
{
	struct sock___ctl *sk = (struct sock___ctl *)tp;
	__u64 words[RECORD_WITHOUT_PARAMS_BYTES / sizeof(__u64)] = {};
	struct imtcp_record *rec = (struct imtcp_record *)words;

	if (conn->left)
		return;
	imtcp_record_fill(rec, conn, tp);
	fill_addresses(rec, sk);
	fill_received(rec, tp);
	rec->tcp_state = BPF_CORE_READ(sk, __sk_common.skc_state);
	rec->queued_bytes = queued_bytes(tp, rec->tcp_state);
	rec->netns_ino = BPF_CORE_READ(sk, __sk_common.skc_net.net, ns.inum);
	rec->cookie = bpf_get_socket_cookie(tp);
	rec->socket_ino = socket_inode(sk);
	rec->now_ns = bpf_ktime_get_ns();
	bpf_seq_write(seq, words, sizeof(words));
	bpf_seq_write(seq, &conn->flow.params, sizeof(conn->flow.params));
}

SEC("iter/bpf_sk_storage_map")
int imtcp_connections(struct bpf_iter__bpf_sk_storage_map *ctx)
{
	struct tcp_sock *tp;

	if (!ctx->sk || !ctx->value)
		return 0;
	tp = bpf_skc_to_tcp_sock(ctx->sk);
	if (tp)
		print_record(ctx->meta->seq, ctx->value, tp);
	return 0;
}

SEC("iter/tcp")
int imtcp_connections_here(struct bpf_iter__tcp *ctx)
{
	struct imtcp_conn *conn;
	struct tcp_sock *tp;

	if (!ctx->sk_common)
		return 0;
	tp = bpf_skc_to_tcp_sock(ctx->sk_common); /* NULL in TIME_WAIT and for requests */
	if (!tp)
		return 0;
	conn = bpf_sk_storage_get(&imtcp_conns, tp, NULL, 0);
	if (conn)
		print_record(ctx->meta->seq, conn, tp);
	return 0;
}

/* --- imtcp_tagged -------------------------------------------------------------------- */

SEC("iter/bpf_sk_storage_map")
int imtcp_tagged(struct bpf_iter__bpf_sk_storage_map *ctx)
{
	struct sock___ctl *sk = (struct sock___ctl *)ctx->sk;
	struct imtcp_tag *tag = ctx->value;
	struct imtcp_tagged tagged;

	if (!sk || !tag)
		return 0;
	tagged.policy = tag->policy;
	tagged.netns_ino = BPF_CORE_READ(sk, __sk_common.skc_net.net, ns.inum);
	bpf_seq_write(ctx->meta->seq, &tagged, sizeof(tagged));
	return 0;
}

/* --- imtcp_switch -------------------------------------------------------------------- */

SEC(".data.switch") struct imtcp_ctl_switch order;

/* The policies whose sockets move, with the count of moved sockets. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 4096);
	__type(key, __u64);
	__type(value, __u64);
} imtcp_given_up SEC(".maps");

/* Are two names equal? They are padded with zeros, so 16 bytes are two words. */
static __always_inline int same_name(const char *name, const char *other)
{
	const __u64 *words = (const __u64 *)name, *others = (const __u64 *)other;

	return words[0] == others[0] && words[1] == others[1];
}

static __always_inline int is_ours(const char *name)
{
	__u32 mode;

	for (mode = IMTCP_MODE_NONE + 1; mode < IMTCP_MODES; mode++)
		if (same_name(name, controls[mode]))
			return 1;
	return 0;
}

/* Removes the tag, and restores the marks. */
static __always_inline void leave(struct tcp_sock *tp)
{
	struct imtcp_tag *tag = bpf_sk_storage_get(&imtcp_tags, tp, NULL, 0);

	if (tag && cfg.tags_have_dscp)
		imtcp_give_back_tos((struct sock *)tp, tag);
	imtcp_let_receive_freely(tp);
	bpf_sk_storage_delete(&imtcp_tags, tp);
}

SEC("iter/tcp")
int imtcp_switch(struct bpf_iter__tcp *ctx)
{
	struct sock_common *skc = ctx->sk_common;
	struct inet_connection_sock___ctl *icsk;
	char cc[TCP_CA_NAME_MAX] __attribute__((aligned(8))) = {};
	char only[TCP_CA_NAME_MAX] __attribute__((aligned(8)));
	__u64 *moved = NULL;
	struct imtcp_tag *tag;
	struct tcp_sock *tp;
	__u64 policy;

	if (!skc || !order.armed)
		return 0;
	tp = bpf_skc_to_tcp_sock(skc); /* NULL in TIME_WAIT and for requests */
	if (!tp)
		return 0;
	icsk = (struct inet_connection_sock___ctl *)tp;
	BPF_CORE_READ_STR_INTO(&cc, icsk, icsk_ca_ops, name);
	if (order.given_up) {
		tag = bpf_sk_storage_get(&imtcp_tags, tp, NULL, 0);
		if (!tag)
			return 0;
		policy = tag->policy;
		moved = bpf_map_lookup_elem(&imtcp_given_up, &policy);
		if (!moved)
			return 0;
	}
	if (!is_ours(cc)) {
		/* A listener of an attachment with a filter, or a connection whose program chose
		 * another control. */
		if (order.given_up)
			leave(tp);
		return 0;
	}
	__builtin_memcpy(only, order.only, sizeof(only));
	if (only[0] && !same_name(cc, only))
		return 0;
	__builtin_memcpy(cc, order.cc, sizeof(cc));
	if (bpf_setsockopt(tp, SOL_TCP, TCP_CONGESTION, cc, sizeof(cc))) {
		order.failed++;
		return 0;
	}
	leave(tp);
	if (moved)
		__sync_fetch_and_add(moved, 1);
	if (skc->skc_state == TCP_LISTEN)
		order.moved_listeners++;
	else
		order.moved_connections++;
	return 0;
}

/* --- imtcp_opened -------------------------------------------------------------------- */

static __always_inline __u64 cgroup_opened_in(struct sock___ctl *sk)
{
	return BPF_CORE_READ(sk, sk_cgrp_data.cgroup, kn, id);
}

SEC("iter/task_file")
int imtcp_opened(struct bpf_iter__task_file *ctx)
{
	struct imtcp_opened opened = {};
	struct socket *socket;
	struct sock___ctl *sk;

	if (!ctx->task || !ctx->file)
		return 0;
	socket = bpf_sock_from_file(ctx->file);
	if (!socket)
		return 0;
	sk = (struct sock___ctl *)BPF_CORE_READ(socket, sk);
	opened.fd = ctx->fd;
	opened.inode = socket_inode(sk);
	opened.cgroup = cgroup_opened_in(sk);
	bpf_seq_write(ctx->meta->seq, &opened, sizeof(opened));
	return 0;
}

/* --- imtcp_held ---------------------------------------------------------------------- */

/* A connection has no file if its process closed it, if it waits for accept, or if it is the
 * kernel's own. */
SEC("iter/tcp")
int imtcp_held(struct bpf_iter__tcp *ctx)
{
	struct imtcp_held held = {};
	struct sock___ctl *sk;
	struct imtcp_tag *tag;
	struct tcp_sock *tp;

	if (!ctx->sk_common || ctx->sk_common->skc_state == TCP_LISTEN)
		return 0;
	tp = bpf_skc_to_tcp_sock(ctx->sk_common); /* NULL in TIME_WAIT and for requests */
	if (!tp)
		return 0;
	sk = (struct sock___ctl *)tp;
	if (!BPF_CORE_READ(sk, sk_socket, file))
		return 0;
	tag = bpf_sk_storage_get(&imtcp_tags, tp, NULL, 0);
	if (tag)
		held.policy = tag->policy;
	held.inode = socket_inode(sk);
	held.cgroup = cgroup_opened_in(sk);
	fill_peer(&held, &sk->__sk_common);
	BPF_CORE_READ_STR_INTO(&held.cc, (struct inet_connection_sock___ctl *)tp, icsk_ca_ops,
			       name);
	bpf_seq_write(ctx->meta->seq, &held, sizeof(held));
	return 0;
}

/* --- imtcp_set_orders ----------------------------------------------------------------- */

/* User space can only replace a whole element of the map, and would lose counts made meanwhile.
 * Returns 0 if there is no such policy. */
SEC("syscall")
int imtcp_set_orders(struct imtcp_orders *orders)
{
	__u64 id = orders->policy;
	struct imtcp_policy *policy = bpf_map_lookup_elem(&imtcp_policies, &id);

	if (!policy)
		return 0;
	policy->min_bps = orders->min_bps;
	policy->max_bps = orders->max_bps;
	policy->mode = orders->mode;
	policy->dscp_plus1 = orders->dscp_plus1;
	policy->is_behind = orders->is_behind;
	policy->receives = orders->receives;
	policy->params = orders->params;
	return 1;
}

/* --- imtcp_tag_subflows ---------------------------------------------------------------- */

struct mptcp_subflow_context {
	struct sock *conn;
} IMTCP_CORE;

struct tcp_sock___mptcp {
	__u8 is_mptcp;
} IMTCP_CORE;

/* The descriptor of a multipath connection is that of its master. Its subflows have the congestion
 * controls, whose init reads the tag. */
SEC("iter/tcp")
int imtcp_tag_subflows(struct bpf_iter__tcp *ctx)
{
	struct mptcp_subflow_context *subflow;
	struct imtcp_tag *tag;
	struct tcp_sock *tp;
	struct sock *master;

	if (!ctx->sk_common)
		return 0;
	tp = bpf_skc_to_tcp_sock(ctx->sk_common);
	if (!tp || !BPF_CORE_READ((struct tcp_sock___mptcp *)tp, is_mptcp))
		return 0;
	subflow = BPF_CORE_READ((struct inet_connection_sock___ctl *)tp, icsk_ulp_data);
	master = BPF_CORE_READ(subflow, conn);
	if (BPF_CORE_READ(master, __sk_common.skc_cookie.counter) != cfg.master_cookie)
		return 0;
	tag = bpf_sk_storage_get(&imtcp_tags, tp, NULL, BPF_SK_STORAGE_GET_F_CREATE);
	if (tag)
		tag->policy = cfg.policy;
	return 0;
}
