/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * No congestion control: the receiver's window alone limits the sender.
 *
 * Model [EN §2.3]: cwnd is what the receiver offers. Flow control, retransmission and the
 * retransmission timer stay as they are.
 *
 * It is a risk to everybody on the path, by design. So it is off, an administrator may allow it, and
 * its use is logged. bpf/imtcp_nocc.bpf.c registers it, and nothing loads that by itself.
 *
 * Reference: [EN §2.3.1].
 */
#ifndef IMTCP_CC_NOCC_H
#define IMTCP_CC_NOCC_H

#include "flow.h"

/* The window that fills the receiver's, segments: the last one may be a part of one. */
IMTCP_INLINE imtcp_u32 imtcp_nocc_window_segs(imtcp_u32 receiver_bytes, imtcp_u32 mss_bytes,
					      imtcp_u32 limit_segs)
{
	imtcp_u64 segs = imtcp_div((imtcp_u64)receiver_bytes + mss_bytes - 1, mss_bytes);

	return (imtcp_u32)imtcp_min(imtcp_max(segs, 1), imtcp_max(limit_segs, 1));
}

/* ---- the control's row ---- */

#define imtcp_nocc_learn imtcp_no_learn
#define imtcp_nocc_space imtcp_space
#define imtcp_nocc_reduced imtcp_no_reduced

IMTCP_INLINE void imtcp_nocc_start(struct imtcp_flow *c, const void *own,
				   const struct imtcp_window *w)
{
	(void)own, (void)w;
	/* the receiver's window says nothing about the path */
	c->facts.pathless = 1;
}

/*
 * In loss recovery the kernel sends as much as was delivered (PRR, RFC 6937), up to ssthresh: the receiver's window.
 * After a timeout nobody knows what is in flight, so slow start leads back there.
 */
IMTCP_INLINE void imtcp_nocc_decide(struct imtcp_flow *c, const void *own,
				    const struct imtcp_sample *s, struct imtcp_decision *d)
{
	imtcp_u32 window = imtcp_nocc_window_segs(s->receiver_bytes, s->mss_bytes, s->limit_segs);

	(void)c, (void)own;
	if (s->timed_out)
		imtcp_reno_grow(&d->w, s->acked_segs, window);
	else
		d->w.cwnd_segs = window;
}

IMTCP_INLINE imtcp_u32 imtcp_nocc_target(const struct imtcp_flow *c, const void *own,
					 const struct imtcp_sample *s)
{
	(void)c, (void)own;
	return imtcp_nocc_window_segs(s->receiver_bytes, s->mss_bytes, s->limit_segs);
}

#endif
