// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The congestion controls that measure: `imtcp` (Reno), `imtcp_bg` (background transfer) and
 * `imtcp_fs` (full speed).
 *
 * `imtcp_fs` takes most of a link that it shares with Reno (docs/reference/modes.md). So its row
 * has 0 and not TCP_CONG_NON_RESTRICTED: nobody may choose it without CAP_NET_ADMIN. The sockops
 * program may give it to any connection, because BPF programs pass that check.
 */
#include "imtcp_mode_ops.h"
#include <imtcp/cc_fs.h>
#include <imtcp/cc_measure.h>

char _license[] SEC("license") = "Dual BSD/GPL";

/* clang-format off */
IMTCP_MODE(imtcp,    measure, IMTCP_MODE_MEASURE, IMTCP_CC_MEASURE, TCP_CONG_NON_RESTRICTED, imtcp_publish);
IMTCP_MODE(imtcp_bg, bg,      IMTCP_MODE_BG,      IMTCP_CC_BG, TCP_CONG_NON_RESTRICTED, imtcp_publish);
IMTCP_MODE(imtcp_fs, fs,      IMTCP_MODE_FS,      IMTCP_CC_FS, 0, imtcp_publish);
/* clang-format on */
