/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Counts the connections of one control to the same host. They share its queue, so together they
 * may tolerate no more than one connection does.
 *
 * Each connection announces itself once a second. It gets the larger of two counts: announcements
 * in the second before, and in this second so far. Nothing needs to be withdrawn: a connection that
 * ends silently is forgotten within two seconds.
 */
#ifndef IMTCP_NEIGHBOURS_H
#define IMTCP_NEIGHBOURS_H

#include "filter.h"

/* Largest count. ours: with more connections, the share of a segment in q0 is less than the noise
 * of hosts. */
#define IMTCP_NEIGHBOURS_MOST 64U

/* The connections to one host. */
struct imtcp_neighbours {
	imtcp_u64 second;
	imtcp_u64 seen_second; /* last second in which one of them had an RTTmin near base_us */
	imtcp_u32 now;	       /* announcements in this second */
	imtcp_u32 before;      /* announcements in the second before */
	imtcp_u32 base_us;     /* least RTTmin of them; 0: none */
	imtcp_u32 _pad;
};

/* Announces a connection in this second. Returns the count, itself included. Two processors may
 * count at once and lose one: it is an estimate. */
IMTCP_INLINE imtcp_u32 imtcp_neighbours_note(struct imtcp_neighbours *n, imtcp_u64 second)
{
	if (second != n->second) {
		n->before = second == n->second + 1 ? n->now : 0;
		n->now = 0;
		n->second = second;
	}
	n->now++;
	return (imtcp_u32)imtcp_min(imtcp_max(n->before, n->now), IMTCP_NEIGHBOURS_MOST);
}

/* The least RTTmin of these connections in the last three minutes, own_us included. */
IMTCP_INLINE imtcp_u32 imtcp_neighbours_base_us(struct imtcp_neighbours *n, imtcp_u64 second,
						imtcp_u32 own_us)
{
	if (!own_us)
		return n->base_us;
	if (!n->base_us || own_us < n->base_us ||
	    second - n->seen_second > IMTCP_MINRTT_AGE_US / IMTCP_USEC_PER_SEC)
		n->base_us = own_us;
	if (own_us <= n->base_us + (n->base_us >> IMTCP_MINRTT_NEAR_SHIFT))
		n->seen_second = second;
	return n->base_us;
}

#endif
