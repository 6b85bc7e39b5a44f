/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Layouts that the BPF programs share with user space. bindgen generates crates/imtcp-bpf/src/shared.rs from this file.
 * The result is committed, and a test compares the two.
 *
 * Rules: fixed-width types only, naturally aligned with explicit padding, every structure
 * a multiple of 8 bytes. Fields are appended, never reordered; a change of meaning raises
 * IMTCP_ABI_VERSION, and so does another size of the record, which comes in a row of its like.
 * Units are in the names: _us, _ns, _bytes, _segs, _bps (bits per second).
 *
 * The parameters of the algorithms are the core's structure (imtcp/params.h), with its defaults
 * and ranges: the one thing that user space knows of the core.
 */
#ifndef IMTCP_SHARED_H
#define IMTCP_SHARED_H

#if defined(__bpf__) || defined(__BPF__)
typedef unsigned char __imtcp_u8;
typedef unsigned short __imtcp_u16;
typedef unsigned int __imtcp_u32;
typedef unsigned long long __imtcp_u64;
#else
#include <stdint.h>
typedef uint8_t __imtcp_u8;
typedef uint16_t __imtcp_u16;
typedef uint32_t __imtcp_u32;
typedef uint64_t __imtcp_u64;
#endif

#include <imtcp/params.h>

#define IMTCP_ABI_VERSION 12

/* Names under which the congestion controls are registered (TCP_CONGESTION). */
#define IMTCP_CC_MEASURE "imtcp"
#define IMTCP_CC_BG "imtcp_bg"
#define IMTCP_CC_FS "imtcp_fs"
#define IMTCP_CC_LP "imtcp_lp"
#define IMTCP_CC_LPECN "imtcp_lpecn"
#define IMTCP_CC_NICE "imtcp_nice"
#define IMTCP_CC_LEDBAT "imtcp_ledbat"
#define IMTCP_CC_LEDBATPP "imtcp_ledbatpp"
#define IMTCP_CC_NOCC "imtcp_nocc"
#define IMTCP_CC_PAPER "imtcp_paper"
#define IMTCP_CC_PAPER_BG "imtcp_paperbg"
#define IMTCP_CC_PAPER_CAP "imtcp_papercap"
#define IMTCP_CC_PAPER_FS "imtcp_paperfs"
#define IMTCP_CC_PAPER_LP "imtcp_paperlp"
#define IMTCP_CC_PAPER_NICE "imtcp_papernice"

enum imtcp_mode {
	IMTCP_MODE_NONE = 0,
	IMTCP_MODE_MEASURE = 1, /* Reno that measures */
	IMTCP_MODE_BG = 2,	/* background transfer */
	IMTCP_MODE_FS = 3,	/* full speed [IM §5.2] */
	/* those that measure nothing (imtcp_modes.bpf.c) */
	IMTCP_MODE_LP = 4,
	IMTCP_MODE_LPECN = 5,
	IMTCP_MODE_NICE = 6,
	IMTCP_MODE_LEDBAT = 7,
	IMTCP_MODE_LEDBATPP = 8,
	/* no congestion control [EN §2.3], for whom the administrator allows it (imtcp_nocc.bpf.c) */
	IMTCP_MODE_NOCC = 9,
	/* the papers' controls as printed (imtcp_paper.bpf.c) */
	IMTCP_MODE_PAPER = 10,	    /* ImTCP [IM §3] */
	IMTCP_MODE_PAPER_BG = 11,   /* ImTCP-bg [BG §3.2] */
	IMTCP_MODE_PAPER_CAP = 12,  /* ImTCP's own background mode [IM §5.1] */
	IMTCP_MODE_PAPER_FS = 13,   /* and full-speed mode [IM §5.2] */
	IMTCP_MODE_PAPER_LP = 14,   /* TCP-LP [LP §III] */
	IMTCP_MODE_PAPER_NICE = 15, /* TCP Nice [NICE §3] */
	IMTCP_MODES = 16,
};

/* Those that hold back for others, a bit for each. */
enum imtcp_mode_bits {
	IMTCP_MODES_THAT_YIELD = 1 << IMTCP_MODE_BG | 1 << IMTCP_MODE_LP | 1 << IMTCP_MODE_LPECN |
				 1 << IMTCP_MODE_NICE | 1 << IMTCP_MODE_LEDBAT |
				 1 << IMTCP_MODE_LEDBATPP | 1 << IMTCP_MODE_PAPER_BG |
				 1 << IMTCP_MODE_PAPER_CAP | 1 << IMTCP_MODE_PAPER_LP |
				 1 << IMTCP_MODE_PAPER_NICE,
};

/* Control unit [IM §3.3 fig. 5]. OFF: this connection cannot measure at present. */
enum imtcp_unit_state {
	IMTCP_UNIT_OFF = 0,
	IMTCP_UNIT_STORE = 1,
	IMTCP_UNIT_SEND = 2,
	IMTCP_UNIT_EMPTY = 3,
	IMTCP_UNIT_PASS = 4,
};

/* Why a measurement gave no valid result. Index into imtcp_record.meas_invalid[]. */
enum imtcp_invalid {
	IMTCP_VALID = 0,
	IMTCP_INVALID_NOT_FILLED =
		1, /* the stream could not be filled in time (T, window, no data) */
	IMTCP_INVALID_RETRANSMIT =
		2,		   /* loss or reordering while its ACKs were awaited [IM §3.5.3] */
	IMTCP_INVALID_BUNCHED = 3, /* ACKs arrived in bunches (aggregation, GRO, ACK filter) */
	IMTCP_INVALID_NO_STRAIN = 4,	/* no strain above the sustained rate: a token bucket */
	IMTCP_INVALID_FEW_ACKS = 5,	/* too few usable intervals */
	IMTCP_INVALID_POOR_FIT = 6,	/* the two lines do not describe the samples */
	IMTCP_INVALID_OUT_OF_RANGE = 7, /* not in the search range: the range is widened */
	IMTCP_INVALID_TIMEOUT = 8,	/* its ACKs did not all come */
	IMTCP_INVALID_REASONS = 9,
};

/* Causes of a window reduction. Index into imtcp_record.reductions[]. */
enum imtcp_reduction {
	IMTCP_RED_LOSS = 0, /* fast retransmit, ECN echo */
	IMTCP_RED_RTO = 1,
	IMTCP_RED_RTT = 2, /* srtt/RTTmin over delta [BG eq. 3, 4] */
	IMTCP_RED_CAP = 3, /* cwnd over maxcwnd [BG eq. 2] */
	IMTCP_REDUCTIONS = 4,
};

/*
 * One connection, as the iterator prints it (a stream of these structures) . Times are of
 * CLOCK_MONOTONIC.
 */
struct imtcp_record {
	__imtcp_u32 abi;      /* IMTCP_ABI_VERSION */
	__imtcp_u16 family;   /* AF_INET, AF_INET6 */
	__imtcp_u8 mode;      /* enum imtcp_mode */
	__imtcp_u8 tcp_state; /* TCP_ESTABLISHED = 1 ... */
	__imtcp_u8 saddr[16]; /* network order; IPv4 in the first four bytes */
	__imtcp_u8 daddr[16];
	__imtcp_u16 sport; /* host order */
	__imtcp_u16 dport;
	__imtcp_u32 netns_ino;
	__imtcp_u64 cookie;	/* socket cookie; 0 where the kernel has not made one */
	__imtcp_u64 socket_ino; /* inode of the socket's file, 0 when orphaned: finds the pid */
	__imtcp_u64 policy;	/* 0: none, else the id of the run or attachment */
	__imtcp_u64 started_ns;
	__imtcp_u64 now_ns; /* when this record was made */
	/* measurement */
	__imtcp_u64 avail_last_bps;	/* newest valid result; 0: none yet */
	__imtcp_u64 avail_smoothed_bps; /* [BG eq. 1] */
	__imtcp_u64
		avail_at_ns; /* when the newest valid result was made: its age is now_ns - this */
	__imtcp_u64 range_low_bps;
	__imtcp_u64 range_high_bps;
	__imtcp_u64 capacity_bps;
	__imtcp_u32 validity_pct;  /* how well the last result fits, 0...100 */
	__imtcp_u8 last_outcome;   /* enum imtcp_invalid of the newest measurement */
	__imtcp_u8 unit_state;	   /* enum imtcp_unit_state */
	__imtcp_u8 stream_packets; /* N */
	__imtcp_u8 store_packets;  /* m */
	__imtcp_u32 pause_rtts;	   /* interval between measurements at present */
	__imtcp_u32 ack_ratio_q8;  /* segments per ACK, scale 256 */
	__imtcp_u64 meas_started;
	__imtcp_u64 meas_completed; /* of these, valid */
	__imtcp_u64 meas_invalid[IMTCP_INVALID_REASONS];
	/* window */
	__imtcp_u32 cwnd_segs;
	__imtcp_u32 cap_segs; /* maxcwnd; 0: none */
	__imtcp_u32 ssthresh_segs;
	__imtcp_u32 mss_bytes;
	__imtcp_u32 srtt_us;
	__imtcp_u32 min_rtt_us;
	__imtcp_u32 inflight_segs;
	__imtcp_u32 queued_bytes; /* written by the application and not acknowledged */
	__imtcp_u64 pacing_bps;
	__imtcp_u64 delivery_bps; /* over the last round trip */
	__imtcp_u64 reductions[IMTCP_REDUCTIONS];
	__imtcp_u64 bytes_acked;
	__imtcp_u64 bytes_acked_before; /* acked before the connection came to its control */
	__imtcp_u64 bytes_sent;		/* with retransmissions */
	__imtcp_u64 bytes_retrans;
	__imtcp_u64 busy_us;	    /* time with data to send */
	__imtcp_u64 yielding_us;    /* busy time in which the cap or the delay law held it back */
	__imtcp_u64 bytes_received; /* since it came to its control */
	/* for downloads whose window is steered (imtcp_ctl_receive.h) */
	__imtcp_u32 offered_bytes;	  /* the window's bound; 0: not steered */
	__imtcp_u32 received_rtt_us;	  /* as the receiver sees it; 0: unknown */
	__imtcp_u64 received_yielding_us; /* time in which others came first */
	struct imtcp_params params;	  /* that it goes by; which of them count, its mode says */
};

/* One measurement that ended, in the ring buffer imtcp_events. */
struct imtcp_event {
	__imtcp_u64 at_ns;
	__imtcp_u64 cookie;
	__imtcp_u64 policy;
	__imtcp_u64 avail_bps; /* 0 where the outcome is not IMTCP_VALID */
	__imtcp_u64 smoothed_bps;
	__imtcp_u64 range_low_bps;
	__imtcp_u64 range_high_bps;
	__imtcp_u64 capacity_bps;
	__imtcp_u64 delivery_bps;
	__imtcp_u32 validity_pct;
	__imtcp_u32 srtt_us;
	__imtcp_u32 min_rtt_us;
	__imtcp_u8 outcome;   /* enum imtcp_invalid */
	__imtcp_u8 mode;      /* enum imtcp_mode */
	__imtcp_u8 streams;   /* how many streams it took */
	__imtcp_u8 sub_range; /* a of [IM §3.2.4] */
	__imtcp_u32 hold_us;  /* so long the first packet of its last stream was held [IM fig. 9] */
	__imtcp_u32 _pad0;
};

/* Counters of the whole machine (imtcp_totals, an array of one). */
struct imtcp_totals {
	__imtcp_u64
		connections_started; /* once each, whichever of our controls they change between */
	__imtcp_u64 connections_ended; /* or on none of ours at present */
	__imtcp_u64 events_sent;
	__imtcp_u64 events_dropped;    /* the ring buffer was full: never silent */
	__imtcp_u64 bytes_acked_ended; /* on our controls, up to their end or their last change */
};

/*
 * One run or attachment (hash imtcp_policies, key: id, a u64 chosen by user space). The first
 * part and the parameters are what user space orders, by the program imtcp_set_orders once the element is there; the
 * rest is written only by the programs.
 */
struct imtcp_policy {
	__imtcp_u64 min_bps;	/* floor for the sum of the connections; 0: none */
	__imtcp_u64 max_bps;	/* ceiling for the sum; 0: none */
	__imtcp_u32 mode;	/* enum imtcp_mode, what sockops sets */
	__imtcp_u32 dscp_plus1; /* 0: leave alone, else DSCP + 1 to set on each socket */
	__imtcp_u32 is_behind;	/* its packets wait behind others in this host's queues */
	__imtcp_u32 receives;	/* its downloads yield */
	/* shared state of the ceiling and the floor, see bpf/imtcp_policy.h */
	__imtcp_u64 clock_ns; /* when all that was sent would have left at the ceiling */
	__imtcp_u64 epoch_start_ns;
	__imtcp_u32 epoch_conns;
	__imtcp_u32 active_conns;
	/* sums over connections that have ended or changed their control; the rest is in the records
	 * of those alive */
	__imtcp_u64 ended_conns;
	__imtcp_u64 ended_bytes_acked;
	__imtcp_u64 ended_busy_us;
	__imtcp_u64 ended_yielding_us;
	/* what all connections together could have had, one value for each valid result of any of them
	 * (bpf/imtcp_policy.h): sum and count, for the mean */
	__imtcp_u64 avail_sum_kbps;
	__imtcp_u64 avail_count;
	__imtcp_u64 avail_min_bps;
	__imtcp_u64 avail_max_bps;
	/* written by user space, read when a connection begins or is given its control anew; 0: the
	 * default */
	struct imtcp_params params;
	__imtcp_u64 ended_min_rtt_us; /* the least of the connections that have ended; 0: none */
	__imtcp_u64 inner_conns;      /* made inside, and taken by a run or attachment in there */
	__imtcp_u64 bytes_acked;      /* from all connections, ended or not */
	__imtcp_u64 ended_bytes_received;
	/* they sent on a control that does not hold them back as ordered; of these, on none of ours */
	__imtcp_u64 left_conns;
	__imtcp_u64 uncounted_conns;
	__imtcp_u64 no_room_conns;  /* beside those ended: their socket had no room for our state */
	__imtcp_u64 refused_conns;  /* beside those ended: the kernel refused them the control */
	__imtcp_u64 unmarked_conns; /* the kernel refused them the DSCP */
	/* downloads that yield: time with data under way, and the part of it in which others came first */
	__imtcp_u64 received_busy_us;
	__imtcp_u64 received_yielding_us;
};

/* Socket-local storage imtcp_tags: which policy a socket belongs to. User space may set it
 * by file descriptor, the sockops program sets it for new sockets. */
struct imtcp_tag {
	__imtcp_u64 policy;
	__imtcp_u32
		marked; /* IMTCP_MARKED_*: with a policy's DSCP, and these were the bytes before */
	__imtcp_u16 tos_before;
	__imtcp_u16 tclass_before;
};

enum {
	IMTCP_MARKED_TOS = 1,	 /* packets of IPv4 */
	IMTCP_MARKED_TCLASS = 2, /* and of IPv6 */
};

#endif
