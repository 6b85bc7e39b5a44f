/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Counts the connections of a control to each host (core/include/imtcp/neighbours.h). */
#ifndef IMTCP_BPF_NEIGHBOURS_H
#define IMTCP_BPF_NEIGHBOURS_H

#include "imtcp_conn.h"
#include <imtcp/neighbours.h>

/* A host as seen from one namespace: two containers count separately. */
struct imtcp_host {
	__u64 address[2];
	__u32 netns;
	__u32 mode;
};

/* The least recently used hosts make room. The table takes half a megabyte. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, struct imtcp_host);
	__type(value, struct imtcp_neighbours);
} imtcp_hosts SEC(".maps");

static __always_inline struct imtcp_host imtcp_host_of(const struct sock *sk, __u32 mode)
{
	const __u64 *address = (const __u64 *)&sk->__sk_common.skc_v6_daddr;
	struct imtcp_host host = {.netns = sk->__sk_common.skc_net.net->ns.inum, .mode = mode};

	if (sk->__sk_common.skc_family == AF_INET6) {
		host.address[0] = address[0];
		host.address[1] = address[1];
	} else {
		host.address[0] = sk->__sk_common.skc_daddr;
	}
	return host;
}

/*
 * Once a second: returns how many connections of a kind go to this host, and takes over a lower
 * RTTmin of theirs.
 */
static __always_inline __u32 imtcp_note_at(const struct imtcp_host *host, __u64 second,
					   struct imtcp_minrtt *f)
{
	struct imtcp_neighbours *found, first = {};
	__u32 neighbours;

	found = bpf_map_lookup_elem(&imtcp_hosts, host);
	if (found) {
		neighbours = imtcp_neighbours_note(found, second);
		imtcp_minrtt_hear(f, imtcp_neighbours_base_us(found, second, f->base_us));
		return neighbours;
	}
	neighbours = imtcp_neighbours_note(&first, second);
	imtcp_neighbours_base_us(&first, second, f->base_us);
	bpf_map_update_elem(&imtcp_hosts, host, &first, 0);
	return neighbours;
}

static __always_inline void imtcp_note_neighbours(struct sock *sk, struct imtcp_conn *conn,
						  __u64 now_us)
{
	struct imtcp_facts *f = &conn->flow.facts;
	__u64 second = now_us / IMTCP_USEC_PER_SEC;
	struct imtcp_host host;

	if (conn->noted_second == second)
		return;
	conn->noted_second = second;
	host = imtcp_host_of(sk, conn->mode);
	f->neighbours = imtcp_note_at(&host, second, &f->minrtt);
}

#endif
