/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The interface between the control programs (imtcp_ctl.bpf.c, imtcp_uncovered.bpf.c) and the
 * command, beside imtcp_shared.h. The same rules apply: fixed-width types, explicit padding.
 */
#ifndef IMTCP_CTL_H
#define IMTCP_CTL_H

#include "imtcp_shared.h"

#define IMTCP_CA_NAME_MAX 16 /* TCP_CA_NAME_MAX of the kernel */

/* The lists are bounded, because the verifier follows each entry. */
#define IMTCP_FILTER_NETWORKS 32
#define IMTCP_FILTER_PORTS 32

/* The addresses that agree with this one in the bits of the mask. Network order; IPv4 is mapped
 * into IPv6. */
struct imtcp_filter_network {
	__imtcp_u32 address[4];
	__imtcp_u32 mask[4];
};

struct imtcp_filter_ports {
	__imtcp_u16 first;
	__imtcp_u16 last;
};

/* The connections of its cgroup that an attachment takes. An empty list takes all. */
struct imtcp_filter {
	__imtcp_u32 networks_len;
	__imtcp_u32 ports_len;
	struct imtcp_filter_network networks[IMTCP_FILTER_NETWORKS];
	struct imtcp_filter_ports ports[IMTCP_FILTER_PORTS];
};

/* Read-only configuration of one load of the sockops program, or of imtcp_tag_subflows. */
struct imtcp_ctl_cfg {
	__imtcp_u64 policy;	    /* id of its run or attachment */
	__imtcp_u64 master_cookie;  /* the master whose subflows are tagged */
	__imtcp_u32 tags_have_dscp; /* 0: programs before version 11 made the tags */
	__imtcp_u32 _pad0;
	struct imtcp_filter filter;
};

/* New orders for an existing policy: the fields of struct imtcp_policy that user space writes. */
struct imtcp_orders {
	__imtcp_u64 policy; /* its id */
	__imtcp_u64 min_bps;
	__imtcp_u64 max_bps;
	__imtcp_u32 mode;
	__imtcp_u32 dscp_plus1;
	__imtcp_u32 is_behind;
	__imtcp_u32 receives;
	struct imtcp_params params;
};

/* The socket of a file descriptor, as imtcp_opened prints it. */
struct imtcp_opened {
	__imtcp_u64 fd;
	__imtcp_u64 inode;
	__imtcp_u64 cgroup; /* id of the cgroup in which it was opened */
};

/* A connection of a network namespace that a file holds, as imtcp_held prints it. */
struct imtcp_held {
	__imtcp_u64 inode;
	__imtcp_u64 cgroup;   /* id of the cgroup in which it was opened */
	__imtcp_u64 policy;   /* of its tag; 0: none */
	__imtcp_u8 daddr[16]; /* network order; IPv4 in the first four bytes */
	__imtcp_u16 family;
	__imtcp_u16 sport; /* host order, also dport */
	__imtcp_u16 dport;
	__imtcp_u16 _pad0;
	char cc[IMTCP_CA_NAME_MAX];
};

/* The order for the program that switches sockets, and its counts. */
struct imtcp_ctl_switch {
	__imtcp_u32 armed;	      /* 0: it moves nothing, because the command has gone on */
	__imtcp_u32 given_up;	      /* 0: every socket on imtcp*; else those of imtcp_given_up */
	char cc[IMTCP_CA_NAME_MAX];   /* the congestion control to switch to */
	char only[IMTCP_CA_NAME_MAX]; /* move only sockets on this control of ours; empty: any */
	__imtcp_u32 moved_listeners;
	__imtcp_u32 moved_connections;
	__imtcp_u32 failed;
	__imtcp_u32 _pad0;
};

/* A socket that has a tag, as imtcp_tagged prints it. */
struct imtcp_tagged {
	__imtcp_u64 policy;
	__imtcp_u64 netns_ino;
};

/* Counts of imtcp_uncovered.bpf.c for one run. */
struct imtcp_uncovered {
	__imtcp_u64 udp_bytes;	 /* sent, with headers */
	__imtcp_u64 other_bytes; /* the same for IP without TCP and UDP, and for raw sockets */
	__imtcp_u64 cgroup;	 /* id of the run's cgroup */
	__imtcp_u32 runner; /* the process that waits for the command; 0 before the command began */
	__imtcp_u32 _pad0;
};

#define IMTCP_COMM_MAX 16 /* TASK_COMM_LEN of the kernel */
#define IMTCP_CGROUP_PATH_MAX 256

/* A process of a run that was moved out of the run's cgroup. */
struct imtcp_moved {
	char command[IMTCP_COMM_MAX];
	char cgroup[IMTCP_CGROUP_PATH_MAX]; /* its present cgroup */
	__imtcp_u32 by_root;		    /* root moved it, and imtcp runs as root, too */
};

#define IMTCP_UNIX_PATH_MAX 108 /* the size in sockaddr_un */

/* A Unix socket that a process of a run connected to. */
struct imtcp_unix_peer {
	char path[IMTCP_UNIX_PATH_MAX];
	char command[IMTCP_COMM_MAX];
	__imtcp_u32 _pad0;
};

#endif
