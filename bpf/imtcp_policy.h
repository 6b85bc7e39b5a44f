/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Floor and ceiling for the sum of a run's connections.
 *
 * Time is cut into epochs. In each, every connection that has something acknowledged is counted
 * once and its bytes are added. At an epoch's end the share of one connection is set for the
 * next:
 *
 *      sum > ceiling:        share <- share · ceiling / sum
 *      sum < 7/8 ceiling:    share <- 9/8 share
 *      always:               ceiling/n <= share <= ceiling
 *
 * so that what connections with little to send leave goes to the others little by little, and the
 * sum is back under the ceiling one epoch after it went over. The floor is shared evenly: floor / n.
 * Connections of one policy run on several processors: counters are added atomically, and the
 * one that moves the epoch's start ends it.
 */
#ifndef IMTCP_POLICY_H
#define IMTCP_POLICY_H

#include "imtcp_conn.h"

/* ours: a few round trips of a common path, short beside what a user would call a rate. */
#define IMTCP_EPOCH_NS (100ULL * 1000 * 1000)

/* An eighth of the ceiling unused before shares grow, by an eighth. ours: an epoch at 1 Mbit/s carries
 * eight packets, and its sum is no more exact than that. */
#define IMTCP_SHARE_SLACK_DIV 8U

static __always_inline struct imtcp_policy *imtcp_policy_of(struct imtcp_conn *conn)
{
	__u64 id = conn->policy;

	return id ? bpf_map_lookup_elem(&imtcp_policies, &id) : NULL;
}

/* The epoch is over: shares for the next one. */
static __always_inline void imtcp_policy_turn(struct imtcp_policy *p, __u64 length_ns)
{
	__u64 rate = imtcp_rate_bps(p->epoch_bytes, length_ns / 1000);
	__u64 conns = imtcp_max(p->epoch_conns, 1);
	__u64 share = p->share_bps ? p->share_bps : p->max_bps / conns;

	if (rate > p->max_bps)
		share = imtcp_scale(share, p->max_bps, rate);
	else if (rate < p->max_bps - p->max_bps / IMTCP_SHARE_SLACK_DIV)
		share += share / IMTCP_SHARE_SLACK_DIV;
	p->share_bps = imtcp_clamp(share, p->max_bps / conns, p->max_bps);
	p->active_conns = (__u32)conns;
	p->epoch_bytes = 0;
	p->epoch_conns = 0;
}

/* acked_bytes of this connection, on the wire, were acknowledged at now_us. */
static __always_inline void imtcp_policy_on_ack(struct imtcp_conn *conn, __u64 now_us,
						__u64 acked_bytes)
{
	struct imtcp_policy *p = imtcp_policy_of(conn);
	__u64 now_ns = now_us * 1000, start;

	if (!p)
		return;
	start = p->epoch_start_ns;
	if (now_ns - start >= IMTCP_EPOCH_NS &&
	    __sync_bool_compare_and_swap(&p->epoch_start_ns, start, now_ns))
		imtcp_policy_turn(p, now_ns - start);
	start = p->epoch_start_ns;
	if (conn->epoch_ns != start) {
		conn->epoch_ns = start;
		__sync_fetch_and_add(&p->epoch_conns, 1);
	}
	__sync_fetch_and_add(&p->epoch_bytes, acked_bytes);
}

/* What one connection may send at most, bit/s; U64_MAX without a ceiling. */
static __always_inline __u64 imtcp_policy_share_bps(const struct imtcp_policy *p)
{
	if (!p || !p->max_bps)
		return IMTCP_U64_MAX;
	return p->share_bps ? p->share_bps : p->max_bps / imtcp_max(p->active_conns, 1);
}

/*
 * A stream is faster than the ceiling for its few milliseconds, or nothing could be measured below
 * one. So the connection keeps the time at which all that it sent would have left at its share; an
 * ordinary gap ends no earlier. Returns the rate of the gap after the packet that leaves next, about
 * `bytes` long on the wire.
 */
static __always_inline __u64 imtcp_policy_pace(struct imtcp_conn *conn, __u64 now_us, __u32 snd_nxt,
					       __u64 share_bps, __u64 want_bps, __u64 bytes)
{
	__u32 sent = snd_nxt - conn->paced_nxt;

	if (conn->paced_nxt)
		conn->share_us += imtcp_time_us((__u64)sent * conn->meas.wire_q8 / 256, share_bps);
	/* what was not used is not saved up */
	conn->share_us = imtcp_max(conn->share_us, now_us);
	conn->paced_nxt = snd_nxt;
	return imtcp_min(want_bps,
			 imtcp_max(imtcp_rate_bps(bytes, conn->share_us - now_us +
								 imtcp_time_us(bytes, share_bps)),
				   1));
}

/* What one connection is to have at least, bit/s; 0 without a floor. */
static __always_inline __u64 imtcp_policy_floor_bps(const struct imtcp_policy *p)
{
	return p && p->min_bps ? p->min_bps / imtcp_max(p->active_conns, 1) : 0;
}

/* A valid result, for the summary at the end of a run. */
static __always_inline void imtcp_policy_on_result(struct imtcp_conn *conn, __u64 avail_bps)
{
	struct imtcp_policy *p = imtcp_policy_of(conn);

	if (!p)
		return;
	__sync_fetch_and_add(&p->avail_sum_kbps, avail_bps / 1000);
	__sync_fetch_and_add(&p->avail_count, 1);
	if (avail_bps > p->avail_max_bps)
		p->avail_max_bps = avail_bps;
	if (!p->avail_min_bps || avail_bps < p->avail_min_bps)
		p->avail_min_bps = avail_bps;
}

static __always_inline void imtcp_policy_on_end(struct imtcp_conn *conn, __u64 bytes_acked)
{
	struct imtcp_policy *p = imtcp_policy_of(conn);

	if (!p)
		return;
	__sync_fetch_and_add(&p->ended_conns, 1);
	__sync_fetch_and_add(&p->ended_bytes_acked, bytes_acked);
	__sync_fetch_and_add(&p->ended_busy_us, conn->busy_us);
	__sync_fetch_and_add(&p->ended_yielding_us, conn->yielding_us);
}

#endif
