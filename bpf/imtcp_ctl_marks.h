/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Marks show queues that packets can wait: the DSCP on the wire, and the priority on this host.
 *
 *   ── program ────────── what it does ─────────────────────────────────────────────────────
 *   imtcp_sockops        marks a new connection, and saves its old DSCP (imtcp_ctl.bpf.c)
 *   init of a control    the same for a connection that was open before (imtcp_life.h)
 *   imtcp_keep_dscp      keeps the DSCP if the program sets its own, as OpenSSH does
 *   imtcp_switch         restores the old DSCP when imtcp leaves the connection
 *   imtcp_set_priority   sets the priority of each departing packet, and changes no socket
 */
#ifndef IMTCP_CTL_MARKS_H
#define IMTCP_CTL_MARKS_H

#include "imtcp_conn.h"
#include "imtcp_ctl_filter.h"
#include "imtcp_marks.h"
#include "imtcp_packet.h"

#define SHOWN_BYTES 4096 /* a value longer than a page is visible only in part */

/*
 * Wi-Fi takes 256 plus the user priority of 802.1D, and 1 is background (cfg80211_classify8021d).
 * pfifo_fast, prio and mqprio use the last four bits. Here these are TC_PRIO_FILLER, which is in
 * their lowest band.
 */
#define BACKGROUND_PRIORITY 257

/* --- imtcp_keep_dscp ----------------------------------------------------------------- */

/* uapi/linux/bpf.h; the layouts are fixed. */
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

/* Would the kernel take this option as the mark of the socket's packets? */
static __always_inline int sets_dscp(const struct bpf_sockopt *ctx)
{
	if (ctx->level == SOL_IP && ctx->optname == IP_TOS)
		return ctx->optlen >= 1;
	return ctx->level == SOL_IPV6 && ctx->optname == IPV6_TCLASS &&
	       ctx->optlen >= (int)sizeof(int) && ctx->sk->family == AF_INET6;
}

/*
 * Always returns 1: the call succeeds. A length of -1 makes the kernel ignore the option. Programs
 * of other cgroups may have processed the call, so nothing else changes. A length of 0 makes the
 * kernel use the program's own value, if that is longer than the part that BPF sees.
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

/* Always returns 1: the packet may leave. It sets the priority of TCP packets of the run or
 * attachment. It also sets that of all other packets of the cgroup, as QUIC, if there is no filter.
 * It leaves packets for fq as they are: flows take turns there, and its lowest band has a share of
 * the link (lab/notes/0031-marks.md). */
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
