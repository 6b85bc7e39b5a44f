/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Floor and ceiling for the sum of a run's connections.
 *
 * Ceiling. All connections share one clock: the time at which all their data would have left at the
 * ceiling. Each packet advances the clock by its own time, and so does a retransmission. If the
 * clock is ahead of the time, the next packet waits for it:
 *
 *      ── rule ──────────────────────────────────────────────── applies to ────────────────────
 *      clock <- max(clock, now - credit) + bytes / ceiling          each packet, of any connection
 *      next departure of the connection that sent it >= clock       except within a stream
 *
 * So the sum over any time t is at most ceiling · (t + credit), with two exceptions:
 * - the stream of each connection that sends one
 * - the first ten segments of each connection, which Linux does not pace
 *   (tcp_update_skb_after_send). While the clock is ahead, a window of one segment lets one of them
 *   go per round trip.
 *
 * The clock counts both, so later packets compensate. The unpaced segments advance it at most to
 * IMTCP_DEBT_NS ahead. n connections with data each send a packet per n packets' times. A
 * connection that sends less leaves its share to the others, without any accounting.
 *
 * Floor. Each of the n connections that had an ACK in the last epoch gets floor / n. Connections of
 * one policy run on several processors. So the clock and the counters change atomically, and the
 * one that changes the epoch's start ends it.
 */
#ifndef IMTCP_POLICY_H
#define IMTCP_POLICY_H

#include "imtcp_conn.h"

/* ours: some round trips of a common path, and short for what a user calls a rate. */
#define IMTCP_EPOCH_NS (100ULL * 1000 * 1000)

/* Unused time is saved for this long. ours: the longest hold (T_MAX), or the time of a hold would
 * be lost. */
#define IMTCP_CREDIT_NS (IMTCP_T_MAX_US * 1000ULL)

/* Segments at the start of a connection that Linux does not pace. */
#define IMTCP_UNPACED_SEGS 10U
/* Limit for the debt from unpaced segments. ours: Programs tolerate a silence of some seconds. */
#define IMTCP_DEBT_NS (10 * IMTCP_NSEC_PER_SEC)

static __always_inline struct imtcp_policy *imtcp_policy_of(struct imtcp_conn *conn)
{
	__u64 id = conn->policy;

	return id ? bpf_map_lookup_elem(&imtcp_policies, &id) : NULL;
}

/* Bytes of this connection were acknowledged at now_us, so it counts in this epoch. */
static __always_inline void imtcp_policy_on_ack(struct imtcp_conn *conn, __u64 now_us, __u32 bytes)
{
	struct imtcp_policy *p = imtcp_policy_of(conn);
	__u64 now_ns = now_us * 1000, start;

	if (!p)
		return;
	conn->counted_bytes += bytes;
	__sync_fetch_and_add(&p->bytes_acked, bytes);
	if (!p->min_bps)
		return;
	start = p->epoch_start_ns;
	if (now_ns - start >= IMTCP_EPOCH_NS &&
	    __sync_bool_compare_and_swap(&p->epoch_start_ns, start, now_ns)) {
		p->active_conns = p->epoch_conns;
		p->epoch_conns = 0;
	}
	start = p->epoch_start_ns;
	if (conn->epoch_ns != start) {
		conn->epoch_ns = start;
		__sync_fetch_and_add(&p->epoch_conns, 1);
	}
}

/* The ceiling for all connections together, bit/s; U64_MAX: none. */
static __always_inline __u64 imtcp_policy_ceiling_bps(const struct imtcp_policy *p)
{
	return p && p->max_bps ? p->max_bps : IMTCP_U64_MAX;
}

/* Time of bytes at the ceiling, nanoseconds. */
static __always_inline __u64 imtcp_policy_cost_ns(const struct imtcp_policy *p, __u64 bytes)
{
	return imtcp_div(bytes * IMTCP_BITS_PER_BYTE * IMTCP_NSEC_PER_SEC, p->max_bps);
}

/* Is the clock ahead of the time? */
static __always_inline int imtcp_policy_is_ahead(const struct imtcp_policy *p, __u64 now_us)
{
	return p && p->max_bps && p->clock_ns > now_us * 1000;
}

static __always_inline int imtcp_is_unpaced(const struct tcp_sock *tp)
{
	return tp->data_segs_out < IMTCP_UNPACED_SEGS;
}

/*
 * Charges the bytes that this connection sent since the last charge. pkt_bytes is a full segment on
 * the wire. Without a ceiling it only records them, because a later ceiling does not apply to them.
 */
static __always_inline void imtcp_policy_charge(struct imtcp_policy *p, struct imtcp_conn *conn,
						const struct tcp_sock *tp, __u32 pkt_bytes)
{
	__u64 bytes = tp->bytes_sent - conn->charged_bytes;
	__u64 now_ns = tp->tcp_mstamp * 1000, clock_ns;

	conn->charged_bytes = tp->bytes_sent;
	if (!p || !p->max_bps)
		return;
	clock_ns = p->clock_ns;
	/* The loser of this race finds the clock set by the winner. */
	if (clock_ns + IMTCP_CREDIT_NS < now_ns)
		__sync_bool_compare_and_swap(&p->clock_ns, clock_ns, now_ns - IMTCP_CREDIT_NS);
	if (!bytes || (imtcp_is_unpaced(tp) && clock_ns > now_ns + IMTCP_DEBT_NS))
		return;
	bytes = imtcp_div(bytes * pkt_bytes, tp->mss_cache);
	__sync_fetch_and_add(&p->clock_ns, imtcp_policy_cost_ns(p, bytes));
}

/* The rate of the gap after the next packet of about `bytes` on the wire: want_bps, or less if the
 * clock is ahead. */
static __always_inline __u64 imtcp_policy_pace(const struct imtcp_policy *p, __u64 now_us,
					       __u64 want_bps, __u64 bytes)
{
	__u64 now_ns = now_us * 1000;
	__u64 clock_ns = p->clock_ns + imtcp_policy_cost_ns(p, bytes);

	if (clock_ns <= now_ns)
		return want_bps;
	return imtcp_min(want_bps,
			 imtcp_max(imtcp_div(bytes * IMTCP_BITS_PER_BYTE * IMTCP_NSEC_PER_SEC,
					     clock_ns - now_ns),
				   1));
}

/* The floor of one connection, bit/s; 0: none. */
static __always_inline __u64 imtcp_policy_floor_bps(const struct imtcp_policy *p)
{
	return p && p->min_bps ? p->min_bps / imtcp_max(p->active_conns, 1) : 0;
}

/* Acknowledged bytes of the policy's other connections so far. */
static __always_inline __u64 imtcp_policy_others_bytes(const struct imtcp_policy *p,
						       const struct imtcp_conn *conn)
{
	return p->bytes_acked - conn->counted_bytes;
}

/* Starts to count the other connections for this one's next result. */
static __always_inline void imtcp_policy_look_at_others(const struct imtcp_policy *p,
							struct imtcp_conn *conn, __u64 now_us)
{
	conn->others_bytes = imtcp_policy_others_bytes(p, conn);
	conn->others_at_us = now_us;
}

/*
 * Takes a valid result, for the summary of a run. To one connection of several the others are cross
 * traffic, so its result excludes their traffic. All connections together could have had the result
 * and that traffic (docs/adr/0022-what-a-run-could-have-had.md).
 */
static __always_inline void imtcp_policy_on_result(struct imtcp_conn *conn, __u64 avail_bps,
						   __u64 now_us)
{
	struct imtcp_policy *p = imtcp_policy_of(conn);
	__u64 bytes;

	if (!p)
		return;
	bytes = imtcp_sub(imtcp_policy_others_bytes(p, conn), conn->others_bytes);
	if (now_us > conn->others_at_us)
		avail_bps += imtcp_rate_bps(bytes * conn->flow.meas.wire_q8 / 256,
					    now_us - conn->others_at_us);
	imtcp_policy_look_at_others(p, conn, now_us);
	/* 0 is a valid result, so it cannot stand for "none". */
	if (!p->avail_count || avail_bps < p->avail_min_bps)
		p->avail_min_bps = avail_bps;
	if (avail_bps > p->avail_max_bps)
		p->avail_max_bps = avail_bps;
	__sync_fetch_and_add(&p->avail_sum_kbps, avail_bps / 1000);
	__sync_fetch_and_add(&p->avail_count, 1);
}

static __always_inline int imtcp_holds_back(__u32 mode)
{
	return mode < IMTCP_MODES && IMTCP_MODES_THAT_YIELD >> mode & 1;
}

/* Is this connection on a control of ours that does not hold back, against the order of its
 * policy? */
static __always_inline int imtcp_policy_is_let_go(const struct imtcp_policy *p,
						  const struct imtcp_conn *conn)
{
	return imtcp_holds_back(p->mode) && !imtcp_holds_back(conn->mode);
}

/* Counts IMTCP_WENT_* of a connection for a policy, or takes that back (by -1). */
static __always_inline void imtcp_policy_count_went(struct imtcp_policy *p, __u32 went, int by)
{
	if (went & IMTCP_WENT_FREE)
		__sync_fetch_and_add(&p->left_conns, by);
	if (went & IMTCP_WENT_ASTRAY)
		__sync_fetch_and_add(&p->uncounted_conns, by);
}

/*
 * A connection that had left is on a control of ours again. Under the same policy it no longer
 * counts as ended. Returns the IMTCP_WENT_* that still apply: those of before, and those for bytes
 * that it sent meanwhile. imtcp changes a control between two packets, so it causes none.
 */
static __always_inline __u32 imtcp_policy_on_return(struct imtcp_conn *former, __u64 policy,
						    const struct tcp_sock *tp)
{
	struct imtcp_policy *p = imtcp_policy_of(former);
	__u32 went = former->went;

	if (!p)
		return 0;
	if (former->policy == policy) {
		__sync_fetch_and_add(&p->ended_conns, -1);
		if (imtcp_policy_is_let_go(p, former) && tp->bytes_acked != former->acked_before)
			went |= IMTCP_WENT_FREE;
		if (tp->bytes_sent != former->charged_bytes)
			went |= IMTCP_WENT_FREE | IMTCP_WENT_ASTRAY;
	}
	/* imtcp_policy_on_end() counted both in advance. */
	imtcp_policy_count_went(p, (IMTCP_WENT_FREE | IMTCP_WENT_ASTRAY) & ~went, -1);
	return former->policy == policy ? went : 0;
}

/* A connection ends, or leaves its control (left). The bytes are those since it got its control. */
static __always_inline void imtcp_policy_on_end(struct imtcp_conn *conn, __u64 bytes_acked,
						__u64 bytes_received, int left)
{
	struct imtcp_policy *p = imtcp_policy_of(conn);
	__u32 min_rtt_us = imtcp_told_min_rtt_us(&conn->flow.facts);
	__u32 went = 0;

	if (!p)
		return;
	__sync_fetch_and_add(&p->ended_conns, 1);
	if (left)
		went = IMTCP_WENT_FREE | IMTCP_WENT_ASTRAY;
	else if (imtcp_policy_is_let_go(p, conn))
		went = IMTCP_WENT_FREE;
	imtcp_policy_count_went(p, went & ~conn->went, 1);
	__sync_fetch_and_add(&p->ended_bytes_acked, bytes_acked);
	__sync_fetch_and_add(&p->ended_bytes_received, bytes_received);
	__sync_fetch_and_add(&p->ended_busy_us, conn->flow.facts.busy_us);
	__sync_fetch_and_add(&p->ended_yielding_us, conn->flow.facts.yielding_us);
	if (min_rtt_us && (!p->ended_min_rtt_us || min_rtt_us < p->ended_min_rtt_us))
		p->ended_min_rtt_us = min_rtt_us;
}

#endif
