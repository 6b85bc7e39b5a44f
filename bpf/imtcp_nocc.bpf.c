// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * No congestion control [EN §2.3], alone in its object. `imtcp up` loads it only if the
 * administrator asks for it. Without TCP_CONG_NON_RESTRICTED it needs CAP_NET_ADMIN. It uses the
 * maps of the main object, as imtcp_modes.bpf.c.
 */
#include "imtcp_mode_ops.h"
#include <imtcp/cc_nocc.h>

char _license[] SEC("license") = "Dual BSD/GPL";

IMTCP_MODE(imtcp_nocc, nocc, IMTCP_MODE_NOCC, IMTCP_CC_NOCC, 0, imtcp_measures_nothing);
