/* SPDX-License-Identifier: GPL-2.0-only */
/* No counters of a processor here. */
