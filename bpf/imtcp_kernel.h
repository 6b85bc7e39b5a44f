/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The kernel's structures, as far as these programs use them. The loader relocates field offsets
 * (CO-RE), so only names and types matter, and one object fits many kernels. A generated vmlinux.h
 * would be 3 MB of one kernel's layout.
 */
#ifndef IMTCP_KERNEL_H
#define IMTCP_KERNEL_H

#include <imtcp/types.h>

/* Types that bpf_helpers.h expects from linux/types.h. */
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

struct net_device {
	int ifindex;
} IMTCP_CORE;

struct dst_entry {
	struct net_device *dev;
} IMTCP_CORE;

/* The routes of IPv4 and IPv6; both begin with the dst_entry. */
struct rtable {
	struct dst_entry dst;
	__u8 rt_gw_family; /* 0: the peer is on the same network */
	__be32 rt_gw4;
	struct in6_addr rt_gw6;
} IMTCP_CORE;

struct rt6_info {
	struct dst_entry dst;
	struct in6_addr rt6i_gateway;
	__u32 rt6i_flags;
} IMTCP_CORE;

struct sock {
	struct sock_common __sk_common;
	struct dst_entry *sk_dst_cache;
	unsigned long sk_pacing_rate;	  /* bytes per second */
	unsigned long sk_max_pacing_rate; /* bytes per second (SO_MAX_PACING_RATE); ~0: none */
	__u32 sk_pacing_status;
	__u8 sk_pacing_shift;  /* a buffer contains the rate for 2^-shift s */
	__u32 sk_gso_max_size; /* most bytes of a buffer */
	__u16 sk_gso_max_segs; /* most segments of a buffer */
	int sk_rcvbuf;	       /* bytes */
} IMTCP_CORE;

struct inet_sock {
	struct sock sk;
} IMTCP_CORE;

/* That of IPv4 also serves IPv4 on an IPv6 socket. */
struct inet_connection_sock_af_ops {
	__u16 net_header_len; /* bytes */
} IMTCP_CORE;

/* An unnamed member in the kernel. */
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
	__u32 rcv_tsval; /* timestamp of the newest segment received */
	__u32 rcv_tsecr; /* our own timestamp in it, less tcp_sock.tsoffset */
	__u16 saw_tstamp : 1;
} IMTCP_CORE;

/* The minimum of a window is s[0].v. */
struct minmax_sample {
	__u32 v;
} IMTCP_CORE;

struct minmax {
	struct minmax_sample s[3];
} IMTCP_CORE;

struct tcp_rack {
	__u32 rtt_us; /* of the newest acknowledged segment */
} IMTCP_CORE;

struct tcp_sock {
	struct inet_connection_sock inet_conn;
	__u32 snd_una;
	__u32 snd_nxt;
	__u32 write_seq;
	__u32 snd_wnd; /* the receiver's window, bytes */
	__u32 snd_cwnd;
	__u32 snd_cwnd_cnt;
	__u32 snd_cwnd_clamp;
	__u32 snd_ssthresh;
	__u32 prior_cwnd;
	__u32 packets_out;
	__u32 retrans_out;
	__u32 sacked_out;
	__u32 lost_out;
	__u32 lost; /* segments of the connection so far */
	__u32 max_packets_out;
	__u32 mss_cache;
	__u32 srtt_us;	       /* scale 8 */
	__u32 mdev_us;	       /* scale 4 */
	__u64 tcp_wstamp_ns;   /* earliest departure of the next buffer */
	__u64 tcp_clock_cache; /* ns, at the present attempt to send */
	__u64 tcp_mstamp;      /* us, refreshed by each ACK and each attempt to send */
	__u64 bytes_received;
	__u64 bytes_acked;
	__u64 bytes_sent;
	__u64 bytes_retrans;
	__u32 data_segs_out;	/* segments sent with data, retransmissions included */
	__u64 delivered_mstamp; /* us, time of the newest delivery */
	__u32 rate_delivered;	/* segments of the newest rate sample, with its time below */
	__u32 rate_interval_us;
	struct minmax rtt_min;
	struct tcp_rack rack;
	struct tcp_options_received rx_opt;
	__u32 rcv_nxt;
	__u32 rcv_ooopack;  /* segments received ahead of a missing one */
	__u32 rcv_wup;	    /* rcv_nxt when the window was last offered */
	__u32 rcv_wnd;	    /* that window, bytes */
	__u32 window_clamp; /* its limit */
	__u8 is_mptcp;	    /* a subflow of a multipath connection */
	__u8 bpf_sock_ops_cb_flags;
	__u8 tcp_usec_ts : 1; /* timestamps tick in 1 us; since Linux 6.7 */
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
/* net/tcp_states.h: the state before and after a connection */
#define TCP_CLOSE 7
/* enum sk_pacing */
enum { SK_PACING_NONE = 0, SK_PACING_NEEDED = 1, SK_PACING_FQ = 2 };

#define AF_INET 2
#define AF_INET6 10
#define SOL_TCP 6
#define TCP_CONGESTION 13
#define TCP_CONG_NON_RESTRICTED 0x1
#define TCP_CA_NAME_MAX 16

/* Only the members that the programs set. libbpf matches them with the kernel's by name. */
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
