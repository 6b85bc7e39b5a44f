/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Begins a connection of a delay-based control: its state is zero, as the kernel gives it, and it
 * takes the chosen parameters.
 */
#ifndef IMTCP_BEGIN_H
#define IMTCP_BEGIN_H

#include <string.h>
#include <imtcp/cc_ledbatpp.h>
#include <imtcp/cc_lp.h>
#include <imtcp/cc_nice.h>

static inline void begin_lp(struct imtcp_lp *lp, const struct imtcp_params *p,
			    const struct imtcp_window *w)
{
	memset(lp, 0, sizeof(*lp));
	imtcp_lp_begin(lp, p, w);
}

static inline void begin_nice(struct imtcp_nice *n, const struct imtcp_params *p)
{
	memset(n, 0, sizeof(*n));
	imtcp_nice_begin(n, p);
}

static inline void begin_ledbat(struct imtcp_ledbat *l, const struct imtcp_params *p)
{
	memset(l, 0, sizeof(*l));
	imtcp_ledbat_begin(l, p);
}

static inline void begin_ledbatpp(struct imtcp_ledbatpp *l, const struct imtcp_params *p)
{
	memset(l, 0, sizeof(*l));
	imtcp_ledbatpp_begin(l, p);
}

#endif
