// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The controls that do not measure: TCP-LP by delay and by marks, TCP Nice, LEDBAT, LEDBAT++. They
 * take less than Reno, so anybody may choose them.
 */
#include "imtcp_mode_ops.h"

char _license[] SEC("license") = "Dual BSD/GPL";

/* clang-format off */
IMTCP_MODE(imtcp_lp,       lp,       IMTCP_MODE_LP,       IMTCP_CC_LP, TCP_CONG_NON_RESTRICTED, imtcp_measures_nothing);
IMTCP_MODE(imtcp_lpecn,    lpecn,    IMTCP_MODE_LPECN,    IMTCP_CC_LPECN, TCP_CONG_NON_RESTRICTED, imtcp_measures_nothing);
IMTCP_MODE(imtcp_nice,     nice,     IMTCP_MODE_NICE,     IMTCP_CC_NICE, TCP_CONG_NON_RESTRICTED, imtcp_measures_nothing);
IMTCP_MODE(imtcp_ledbat,   ledbat,   IMTCP_MODE_LEDBAT,   IMTCP_CC_LEDBAT, TCP_CONG_NON_RESTRICTED, imtcp_measures_nothing);
IMTCP_MODE(imtcp_ledbatpp, ledbatpp, IMTCP_MODE_LEDBATPP, IMTCP_CC_LEDBATPP, TCP_CONG_NON_RESTRICTED, imtcp_measures_nothing);
