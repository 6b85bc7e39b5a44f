/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The kernel's structures, as far as these programs touch them. The loader relocates field offsets
 * (CO-RE). So only names and types matter, and one object fits many kernels. A generated vmlinux.h
 * would be 3 MB of one kernel's layout.
 */
#ifndef IMTCP_KERNEL_H
#define IMTCP_KERNEL_H

#include <imtcp/types.h>

/* What bpf_helpers.h expects of linux/types.h. */
typedef imtcp_u8 __u8;
typedef imtcp_u16 __u16;
typedef imtcp_u32 __u32;
typedef imtcp_u64 __u64;
typedef imtcp_s32 __s32;
typedef imtcp_s64 __s64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u32 __wsum;

/* uapi/linux/bpf.h */
enum {
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_LRU_HASH = 9,
	BPF_MAP_TYPE_SK_STORAGE = 24,
	BPF_MAP_TYPE_RINGBUF = 27,
};
enum {
	BPF_F_NO_PREALLOC = 1U << 0,
	BPF_F_CLONE = 1U << 9,
	BPF_SK_STORAGE_GET_F_CREATE = 1U << 0,
	BPF_RB_AVAIL_DATA = 0, /* of bpf_ringbuf_query */
};

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

#define IMTCP_CORE __attribute__((preserve_access_index))

struct ns_common {
	unsigned int inum;
} IMTCP_CORE;

struct tcp_congestion_ops;
struct netns_ipv4 {
	const struct tcp_congestion_ops *tcp_congestion_control; /* the default */
	__u8 sysctl_tcp_tso_rtt_log;
} IMTCP_CORE;

struct net {
	struct ns_common ns;
	struct netns_ipv4 ipv4;
} IMTCP_CORE;

typedef struct {
	struct net *net;
} possible_net_t;

struct in6_addr {
	__u8 s6_addr[16];
} IMTCP_CORE;

typedef struct {
	__s64 counter;
} atomic64_t;

struct sock_common {
	__be32 skc_daddr;
	__be32 skc_rcv_saddr;
	__be16 skc_dport;
	__u16 skc_num;
	__u16 skc_family;
	volatile unsigned char skc_state;
	possible_net_t skc_net;
	struct in6_addr skc_v6_daddr;
	struct in6_addr skc_v6_rcv_saddr;
	atomic64_t skc_cookie;
} IMTCP_CORE;

struct sock {
	struct sock_common __sk_common;
	unsigned long sk_pacing_rate;	  /* bytes per second */
	unsigned long sk_max_pacing_rate; /* SO_MAX_PACING_RATE; ~0: none */
	__u32 sk_pacing_status;
	__u8 sk_pacing_shift;  /* a buffer has what the rate carries in 2^-shift s */
	__u32 sk_gso_max_size; /* bytes of a buffer at most */
	__u16 sk_gso_max_segs; /* segments, too */
	int sk_rcvbuf;	       /* bytes */
} IMTCP_CORE;

struct inet_sock {
	struct sock sk;
} IMTCP_CORE;

/* An IPv6 socket that carries IPv4 has those of IPv4. */
struct inet_connection_sock_af_ops {
	__u16 net_header_len; /* bytes */
} IMTCP_CORE;

/* In the kernel this structure has no name. */
struct inet_connection_sock_ack {
	__u16 rcv_mss; /* the peer's segments, bytes */
} IMTCP_CORE;

struct inet_connection_sock {
	struct inet_sock icsk_inet;
	const struct tcp_congestion_ops *icsk_ca_ops;
	const struct inet_connection_sock_af_ops *icsk_af_ops;
	__u8 icsk_ca_state : 5;
	struct inet_connection_sock_ack icsk_ack;
} IMTCP_CORE;

struct tcp_options_received {
	__u32 rcv_tsval; /* its value in the newest segment */
	__u32 rcv_tsecr; /* our own in it, less tcp_sock.tsoffset */
	__u16 saw_tstamp : 1;
} IMTCP_CORE;

/* The least of a windowed minimum is s[0].v. */
struct minmax_sample {
	__u32 v;
} IMTCP_CORE;

struct minmax {
	struct minmax_sample s[3];
} IMTCP_CORE;

struct tcp_rack {
	__u32 rtt_us; /* for the newest segment that was acknowledged */
} IMTCP_CORE;

struct tcp_sock {
	struct inet_connection_sock inet_conn;
	__u32 snd_una;
	__u32 snd_nxt;
	__u32 write_seq;
	__u32 snd_wnd; /* that the receiver offers, bytes */
	__u32 snd_cwnd;
	__u32 snd_cwnd_cnt;
	__u32 snd_cwnd_clamp;
	__u32 snd_ssthresh;
	__u32 prior_cwnd;
	__u32 packets_out;
	__u32 retrans_out;
	__u32 sacked_out;
	__u32 lost_out;
	__u32 lost; /* segments, of the connection so far */
	__u32 max_packets_out;
	__u32 mss_cache;
	__u32 srtt_us;	       /* scale 8 */
	__u32 mdev_us;	       /* scale 4 */
	__u64 tcp_wstamp_ns;   /* earliest departure of the next buffer */
	__u64 tcp_clock_cache; /* ns, of the present attempt to send */
	__u64 tcp_mstamp;      /* us, refreshed by each ACK and each attempt to send */
	__u64 bytes_received;
	__u64 bytes_acked;
	__u64 bytes_sent;
	__u64 bytes_retrans;
	__u32 data_segs_out;	/* segments with data that were sent, again, too */
	__u64 delivered_mstamp; /* us, when something was delivered last */
	__u32 rate_delivered;	/* segments of the newest rate sample, and its time */
	__u32 rate_interval_us;
	struct minmax rtt_min;
	struct tcp_rack rack;
	struct tcp_options_received rx_opt;
	__u32 rcv_nxt;
	__u32 rcv_ooopack;  /* segments that came before one that is missing */
	__u32 rcv_wup;	    /* rcv_nxt when the window was offered last */
	__u32 rcv_wnd;	    /* and that window, bytes */
	__u32 window_clamp; /* the most that it may be */
	__u8 is_mptcp;	    /* a path of a multipath connection */
	__u8 bpf_sock_ops_cb_flags;
	__u8 tcp_usec_ts : 1; /* timestamps have ticks of 1 us; from Linux 6.7 on */
	__u16 tcp_header_len;
	__u8 ecn_flags;
	__u8 is_cwnd_limited : 1;
} IMTCP_CORE;

struct ack_sample {
	__u32 pkts_acked;
	__s32 rtt_us;
	__u32 in_flight;
} IMTCP_CORE;

/* enum tcp_ca_state */
enum { TCP_CA_Open = 0, TCP_CA_Disorder = 1, TCP_CA_CWR = 2, TCP_CA_Recovery = 3, TCP_CA_Loss = 4 };
/* net/tcp_states.h: without a connection, before and after it */
#define TCP_CLOSE 7
/* enum sk_pacing */
enum { SK_PACING_NONE = 0, SK_PACING_NEEDED = 1, SK_PACING_FQ = 2 };

#define AF_INET6 10
#define SOL_TCP 6
#define TCP_CONGESTION 13
#define TCP_CONG_NON_RESTRICTED 0x1
#define TCP_CA_NAME_MAX 16

/* Only the members that are set here: libbpf matches them by name with the kernel's. */
struct tcp_congestion_ops {
	__u32 flags;
	__u32 (*ssthresh)(struct sock *sk);
	void (*cong_avoid)(struct sock *sk, __u32 ack, __u32 acked);
	void (*set_state)(struct sock *sk, __u8 new_state);
	__u32 (*undo_cwnd)(struct sock *sk);
	void (*pkts_acked)(struct sock *sk, const struct ack_sample *sample);
	__u32 (*min_tso_segs)(struct sock *sk);
	void (*init)(struct sock *sk);
	void (*release)(struct sock *sk);
	char name[TCP_CA_NAME_MAX];
};

static inline struct tcp_sock *tcp_sk(const struct sock *sk)
{
	return (struct tcp_sock *)sk;
}

#endif
