/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The state of one connection (socket-local storage), and the maps of the main object.
 *
 * Every program of a connection runs under its socket's lock, so its state needs no other.
 * Readers (the iterator) look without a lock: each field is whole, two fields may be of two
 * moments.
 */
#ifndef IMTCP_CONN_H
#define IMTCP_CONN_H

#include "imtcp_kernel.h"
#include "imtcp_shared.h"
#include <imtcp/cc_bg.h>
#include <imtcp/cc_ledbatpp.h>
#include <imtcp/cc_lp.h>
#include <imtcp/cc_nice.h>

struct imtcp_conn {
	__u64 policy; /* 0: none */
	__u64 cookie;
	__u64 started_us;
	__u64 acked_before;    /* tp->bytes_acked when it came to its control */
	__u64 received_before; /* tp->bytes_received then */
	__u64 acked_at_us;     /* of the ACK before */
	__u64 busy_us;
	__u64 yielding_us;
	__u64 reductions_loss;
	__u64 reductions_rto;
	__u64 epoch_ns;	     /* policy epoch in which this connection was last counted */
	__u64 counted_bytes; /* that it added to its policy's bytes_acked */
	/* of the policy's other connections, at this one's valid result before */
	__u64 others_bytes;
	__u64 others_at_us;
	__u32 last_una;
	__u32 mode;	  /* enum imtcp_mode */
	__u32 round_over; /* a round trip ended and the window rules have not seen it yet */
	__u32 full;	  /* the window was full in this round trip */
	__u32 ip_header_bytes;
	__u32 paced_nxt;    /* snd_nxt when the ceiling's clock was moved */
	__u32 small_segs;   /* of imtcp_delay_counts */
	__u32 small_rtt_us; /* least round trip of those that do not count; 0: none */
	__u32 left;	    /* on another control at present, which may be one of ours soon */
	struct imtcp_params params;
	struct imtcp_bg bg;
	struct imtcp_meas meas;
	/* of the controls that measure nothing (imtcp_modes.h): the one that mode names */
	union {
		struct imtcp_lp lp;
		struct imtcp_nice nice;
		struct imtcp_ledbat ledbat;
		struct imtcp_ledbatpp ledbatpp;
	};
};

/* Is an ACK's round trip time (-1: it has none) that of full segments, one that can be compared? */
static __always_inline int imtcp_rtt_counts(struct imtcp_conn *conn, __u32 acked_bytes,
					    __u32 acked_segs, __u32 mss_bytes, __s32 rtt_us)
{
	if (imtcp_delay_counts(&conn->small_segs, acked_bytes, acked_segs, mss_bytes))
		return 1;
	if (rtt_us > 0 && (!conn->small_rtt_us || (__u32)rtt_us < conn->small_rtt_us))
		conn->small_rtt_us = (__u32)rtt_us;
	return 0;
}

/* The least round trip as it is told: of small segments alone where there were no others. 0: none. */
static __always_inline __u32 imtcp_told_min_rtt_us(const struct imtcp_conn *conn)
{
	return conn->bg.minrtt.base_us ? conn->bg.minrtt.base_us : conn->small_rtt_us;
}

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct imtcp_conn);
} imtcp_conns SEC(".maps");

/* Cloned: a connection that is accepted belongs to the policy of its listener. */
struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC | BPF_F_CLONE);
	__type(key, int);
	__type(value, struct imtcp_tag);
} imtcp_tags SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, __u64);
	__type(value, struct imtcp_policy);
} imtcp_policies SEC(".maps");

/* Half a megabyte holds 5000 results: 100 connections at 20 a second for 2.5 s. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 512 * 1024);
} imtcp_events SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct imtcp_totals);
} imtcp_totals SEC(".maps");

#endif
