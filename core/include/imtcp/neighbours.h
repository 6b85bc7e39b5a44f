/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * How many connections of one control go to the same host. They share its queue: what one of them tolerates there, all
 * of them may, n times over.
 *
 * Each connection says once a second that it is there, and is told how many said so in the second before, or have in this
 * one. Nothing has to be taken back, so a connection that ends without a word is forgotten within two seconds.
 */
#ifndef IMTCP_NEIGHBOURS_H
#define IMTCP_NEIGHBOURS_H

#include "filter.h"

/* More count as so many. ours: a segment of one's own is less than hosts' noise then. */
#define IMTCP_NEIGHBOURS_MOST 64U

/* Of one host. */
struct imtcp_neighbours {
	imtcp_u64 second;
	imtcp_u64 seen_second; /* in which one of them last had an RTTmin near to base_us */
	imtcp_u32 now;	       /* that spoke in this second, */
	imtcp_u32 before;      /* and in the one before it */
	imtcp_u32 base_us;     /* the least RTTmin that one of them had; 0: none */
	imtcp_u32 _pad;
};

/* A connection is there in this second. Returns how many there are, itself included. Two processors may count at once and
 * lose one: it is an estimate. */
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

/* The least RTTmin of them, of the last three minutes, with this one's own. */
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
