/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * No congestion control: the receiver's window alone limits the sender.
 *
 * Model [EN §2.3]: cwnd is what the receiver offers. Flow control, retransmission and the
 * retransmission timer stay as they are.
 *
 * It is a risk to everybody on the path, by design: off by default, for an administrator to allow,
 * and logged. bpf/imtcp_nocc.bpf.c registers it, and nothing loads that by itself.
 *
 * Reference: [EN §2.3.1].
 */
#ifndef IMTCP_CC_NOCC_H
#define IMTCP_CC_NOCC_H

#include "fixed.h"

/* The window that fills the receiver's, segments: the last one may be a part of one. */
IMTCP_INLINE imtcp_u32 imtcp_nocc_window_segs(imtcp_u32 receiver_bytes, imtcp_u32 mss_bytes,
					      imtcp_u32 limit_segs)
{
	imtcp_u64 segs = imtcp_div((imtcp_u64)receiver_bytes + mss_bytes - 1, mss_bytes);

	return (imtcp_u32)imtcp_min(imtcp_max(segs, 1), imtcp_max(limit_segs, 1));
}

#endif
