/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The state of one connection (socket-local storage), and the maps of the main object.
 *
 * All programs of a connection run under its socket's lock, so its state needs no other lock. The
 * iterator reads without a lock: each field is consistent, but two fields may be from different
 * moments.
 */
#ifndef IMTCP_CONN_H
#define IMTCP_CONN_H

#include "imtcp_front.h"
#include "imtcp_kernel.h"
#include "imtcp_receive.h"
#include "imtcp_shared.h"
#include <imtcp/cc_bg.h>
#include <imtcp/cc_ledbatpp.h>
#include <imtcp/cc_lp.h>
#include <imtcp/cc_nice.h>
#include <imtcp/front.h>
#include <imtcp/cc_paper_lp.h>
#include <imtcp/cc_paper_nice.h>
#include <imtcp/paper_unit.h>

/* How a connection departed from its policy. */
enum {
	IMTCP_WENT_FREE = 1,   /* it sent on a control that does not hold back as ordered */
	IMTCP_WENT_ASTRAY = 2, /* it sent on a control that is not ours, so its bytes are unknown */
};

struct imtcp_conn {
	__u64 policy; /* 0: none */
	__u64 cookie;
	__u64 started_us;
	__u64 acked_before;    /* tp->bytes_acked when it got its control */
	__u64 received_before; /* tp->bytes_received when it got its control */
	__u64 epoch_ns;	       /* newest epoch of the policy that counts this connection */
	__u64 counted_bytes;   /* its share of the policy's bytes_acked */
	/* the policy's other connections at the previous valid result */
	__u64 others_bytes;
	__u64 others_at_us;
	__u64 published;     /* measurements in the ring buffer */
	__u64 charged_bytes; /* tp->bytes_sent at the newest charge to the policy's clock */
	__u64 noted_second;  /* second of the newest count of neighbours */
	__u32 mode;	     /* enum imtcp_mode */
	__u32 ip_header_bytes;
	__u32 spaced_nxt; /* snd_nxt when the control last set a gap */
	__u32 left;	  /* on another control now, which may soon be ours again */
	__u32 pacing;	  /* sk_pacing_status without us */
	__u32 went;	  /* IMTCP_WENT_* before this control, as the policy counts it */
	struct imtcp_front front;
	struct imtcp_flow flow;
	struct imtcp_sample
		newest; /* newest ACK; the stack is too small for it where streams are judged */
	/* state of the control that mode names; other controls have none */
	union {
		struct imtcp_bg bg;
		struct imtcp_lp lp;
		struct imtcp_nice nice;
		struct imtcp_ledbat ledbat;
		struct imtcp_ledbatpp ledbatpp;
		struct imtcp_paper paper; /* also for the controls built on it */
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

/* Cloned: an accepted connection belongs to the policy of its listener. */
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

/* Half a megabyte holds 5000 results, those of 100 busy connections for some seconds. */
#define IMTCP_EVENTS_BYTES (512 * 1024)
/* Connections without a policy have a quarter of the buffer, because anybody may choose a control
 * by name and so fill it. ours. */
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
