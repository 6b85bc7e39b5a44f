/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Marks tell queues that packets can wait: the DSCP on the wire, and the priority on this host.
 *
 *   imtcp_sockops         gives a new connection the DSCP, and notes what it had (imtcp_ctl.bpf.c)
 *   init of a control     the same for one that was open before (imtcp_life.h)
 *   imtcp_keep_dscp       keeps it when the program sets its own, as OpenSSH does
 *   imtcp_switch          gives back what it had when imtcp leaves the connection
 *   imtcp_set_priority    sets each packet's priority at its way out; it ends with its link, and leaves nothing on a socket
 */
#ifndef IMTCP_CTL_MARKS_H
#define IMTCP_CTL_MARKS_H

#include "imtcp_conn.h"
#include "imtcp_ctl_filter.h"
#include "imtcp_marks.h"
#include "imtcp_packet.h"

#define SHOWN_BYTES 4096 /* a page: the kernel shows programs no more of an option's value */

/*
 * Wi-Fi takes this number for the 802.1D user priority "background" (cfg80211_classify8021d). pfifo_fast, prio and
 * mqprio take its last four bits for TC_PRIO_FILLER, which is in their lowest band.
 */
#define BACKGROUND_PRIORITY 257

/* --- imtcp_keep_dscp ----------------------------------------------------------------- */

/* uapi/linux/bpf.h; the layouts are fixed */
struct bpf_sockopt {
	struct bpf_sock *sk;
	void *optval;
	void *optval_end;
	__s32 level;
	__s32 optname;
	__s32 optlen;
	__s32 retval;
};
_Static_assert(__builtin_offsetof(struct bpf_sockopt, optlen) == 32, "as in uapi/linux/bpf.h");

/* Would the kernel take this for the mark of the socket's packets? */
static __always_inline int sets_dscp(const struct bpf_sockopt *ctx)
{
	if (ctx->level == SOL_IP && ctx->optname == IP_TOS)
		return ctx->optlen >= 1;
	return ctx->level == SOL_IPV6 && ctx->optname == IPV6_TCLASS &&
	       ctx->optlen >= (int)sizeof(int) && ctx->sk->family == AF_INET6;
}

/*
 * Always returns 1: the call succeeds. With a length of -1 the kernel goes no further. Other programs of the cgroups around may
 * have judged the call, so the rest stays as it is. The kernel shows at most a page of the value. With a length of 0 it
 * takes the caller's value whole.
 */
SEC("cgroup/setsockopt")
int imtcp_keep_dscp(struct bpf_sockopt *ctx)
{
	struct imtcp_tag *tag;

	if (!ctx->sk)
		return 1;
	if (sets_dscp(ctx)) {
		tag = bpf_sk_storage_get(&imtcp_tags, ctx->sk, NULL, 0);
		if (tag && tag->marked)
			ctx->optlen = -1;
	} else if (ctx->optlen > SHOWN_BYTES) {
		ctx->optlen = 0;
	}
	return 1;
}

/* --- imtcp_set_priority -------------------------------------------------------------- */

/* Always returns 1: the packet may leave. It marks the TCP packets of the run or attachment. Without a
 * filter it also marks all else that the cgroup sends, as QUIC. It leaves fq alone: flows take turns there
 * already, and fq's lowest band has a quarter of the link for itself (lab/notes/0031-marks.md). */
SEC("cgroup_skb/egress")
int imtcp_set_priority(struct __sk_buff *skb)
{
	struct bpf_sock *sk = skb->sk;
	struct imtcp_policy *policy;
	struct imtcp_conn *conn;
	struct imtcp_tag *tag;
	__u64 id = cfg.policy;

	if (sk)
		sk = bpf_sk_fullsock(sk);
	if (!sk)
		return 1;
	policy = bpf_map_lookup_elem(&imtcp_policies, &id);
	if (!policy || !policy->is_behind || policy->mode == IMTCP_MODE_NONE)
		return 1;
	if (sk->protocol == IPPROTO_TCP) {
		tag = bpf_sk_storage_get(&imtcp_tags, sk, NULL, 0);
		conn = bpf_sk_storage_get(&imtcp_conns, sk, NULL, 0);
		if (!tag || tag->policy != id || (conn && conn->pacing == SK_PACING_FQ))
			return 1;
	} else if (imtcp_filter_is_set(&cfg.filter)) {
		return 1;
	}
	skb->priority = BACKGROUND_PRIORITY;
	return 1;
}

#endif
