/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The filter of an attachment: addresses and ports of the connections that it takes. The filter is read-only data of
 * the program, so the verifier knows every entry. crates/imtcp/src/filter.rs checks open sockets in the same way.
 */
#ifndef IMTCP_CTL_FILTER_H
#define IMTCP_CTL_FILTER_H

#include "imtcp_ctl.h"
#include <bpf/bpf_endian.h>

static __always_inline int imtcp_filter_is_set(const volatile struct imtcp_filter *filter)
{
	return filter->networks_len || filter->ports_len;
}

static __always_inline int imtcp_filter_has_address(const volatile struct imtcp_filter *filter,
						    const __u32 *address)
{
	__u32 i, word, differs;

	for (i = 0; i < IMTCP_FILTER_NETWORKS && i < filter->networks_len; i++) {
		differs = 0;
		for (word = 0; word < 4; word++)
			differs |= (address[word] & filter->networks[i].mask[word]) ^
				   filter->networks[i].address[word];
		if (!differs)
			return 1;
	}
	return !filter->networks_len;
}

static __always_inline int imtcp_filter_has_port(const volatile struct imtcp_filter *filter,
						 __u32 port)
{
	__u32 i;

	for (i = 0; i < IMTCP_FILTER_PORTS && i < filter->ports_len; i++)
		if (port >= filter->ports[i].first && port <= filter->ports[i].last)
			return 1;
	return !filter->ports_len;
}

/* The peer's address, and the port of the service: the peer's for connections made here, ours for those
 * that are accepted. */
static __always_inline int imtcp_filter_passes(const volatile struct imtcp_filter *filter,
					       struct bpf_sock_ops *ctx)
{
	__u32 address[4] = {0, 0, bpf_htonl(0xffff), 0};
	__u32 port = ctx->op == BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB ? ctx->local_port
								    : bpf_ntohl(ctx->remote_port);

	if (ctx->family == AF_INET6) {
		address[0] = ctx->remote_ip6[0];
		address[1] = ctx->remote_ip6[1];
		address[2] = ctx->remote_ip6[2];
		address[3] = ctx->remote_ip6[3];
		/* Else clang makes one load of both branches, and the kernel wants constant offsets. */
		barrier_var(address[3]);
	} else {
		address[3] = ctx->remote_ip4;
	}
	return imtcp_filter_has_address(filter, address) && imtcp_filter_has_port(filter, port);
}

#endif
