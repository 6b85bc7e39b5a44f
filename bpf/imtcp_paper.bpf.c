// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The controls as their papers print them, for comparison: ImTCP, ImTCP-bg, ImTCP's own background
 * and full-speed modes, TCP-LP, TCP Nice. Full speed takes more than Reno, so it needs
 * CAP_NET_ADMIN.
 */
#include "imtcp_mode_ops.h"
#include <imtcp/cc_paper_cap.h>
#include <imtcp/cc_paper_fs.h>

char _license[] SEC("license") = "Dual BSD/GPL";

/* clang-format off */
IMTCP_MODE(imtcp_paper,     paper,      IMTCP_MODE_PAPER,      IMTCP_CC_PAPER, TCP_CONG_NON_RESTRICTED, imtcp_publish);
IMTCP_MODE(imtcp_paperbg,   paper_bg,   IMTCP_MODE_PAPER_BG,   IMTCP_CC_PAPER_BG, TCP_CONG_NON_RESTRICTED, imtcp_publish);
IMTCP_MODE(imtcp_papercap,  paper_cap,  IMTCP_MODE_PAPER_CAP,  IMTCP_CC_PAPER_CAP, TCP_CONG_NON_RESTRICTED, imtcp_publish);
IMTCP_MODE(imtcp_paperfs,   paper_fs,   IMTCP_MODE_PAPER_FS,   IMTCP_CC_PAPER_FS, 0, imtcp_publish);
IMTCP_MODE(imtcp_paperlp,   paper_lp,   IMTCP_MODE_PAPER_LP,   IMTCP_CC_PAPER_LP, TCP_CONG_NON_RESTRICTED, imtcp_measures_nothing);
IMTCP_MODE(imtcp_papernice, paper_nice, IMTCP_MODE_PAPER_NICE, IMTCP_CC_PAPER_NICE, TCP_CONG_NON_RESTRICTED, imtcp_measures_nothing);
/* clang-format on */
