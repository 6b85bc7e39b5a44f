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
#include "imtcp_receive.h"
#include "imtcp_shared.h"
#include <imtcp/cc_bg.h>
#include <imtcp/cc_ledbatpp.h>
#include <imtcp/cc_lp.h>
#include <imtcp/cc_nice.h>
#include <imtcp/cc_paper_lp.h>
#include <imtcp/cc_paper_nice.h>
#include <imtcp/paper_unit.h>

/* A connection left the control that its policy ordered. */
enum {
	IMTCP_WENT_FREE = 1,   /* it sent on a control that does not hold back as ordered */
	IMTCP_WENT_ASTRAY = 2, /* on one that is none of ours: what it sent is not known */
};

struct imtcp_conn {
	__u64 policy; /* 0: none */
	__u64 cookie;
	__u64 started_us;
	__u64 acked_before;    /* tp->bytes_acked when it came to its control */
	__u64 received_before; /* tp->bytes_received then */
	__u64 epoch_ns;	       /* policy epoch in which this connection was last counted */
	__u64 counted_bytes;   /* that it added to its policy's bytes_acked */
	/* the other connections of the policy had so much at this one's last valid result */
	__u64 others_bytes;
	__u64 others_at_us;
	__u64 published;     /* measurements that ended and are in the ring buffer */
	__u64 charged_bytes; /* tp->bytes_sent when its policy's clock was last moved on for it */
	__u64 noted_second;  /* in which its neighbours were counted */
	__u32 mode;	     /* enum imtcp_mode */
	__u32 ip_header_bytes;
	__u32 spaced_nxt; /* snd_nxt when the control was asked for a gap */
	__u32 left;	  /* on another control at present, which may be one of ours soon */
	__u32 pacing;	  /* sk_pacing_status as it is without us */
	__u32 went;	  /* IMTCP_WENT_*, before it had this control, as its policy counts it */
	struct imtcp_flow flow;
	struct imtcp_sample
		newest; /* ACK: the stack is too small for it where streams are judged */
	/* state of the control that mode names; the other controls have none */
	union {
		struct imtcp_bg bg;
		struct imtcp_lp lp;
		struct imtcp_nice nice;
		struct imtcp_ledbat ledbat;
		struct imtcp_ledbatpp ledbatpp;
		struct imtcp_paper paper; /* and of what is built upon it */
		struct imtcp_paper_lp paper_lp;
		struct imtcp_paper_nice paper_nice;
	} own;
};

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
#define IMTCP_EVENTS_BYTES (512 * 1024)
/* Anybody may choose a control by name and so fill the buffer: connections without a policy have a quarter of it.
 * ours: that is 1200 results. */
#define IMTCP_EVENTS_STRANGERS_BYTES (IMTCP_EVENTS_BYTES / 4)
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, IMTCP_EVENTS_BYTES);
} imtcp_events SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct imtcp_totals);
} imtcp_totals SEC(".maps");

#endif
