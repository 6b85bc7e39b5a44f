/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The rows of controls (flow.h) as tables of functions. Tests drive any control with them, as the
 * kernel's programs do (bpf/imtcp_mode_ops.h).
 */
#ifndef IMTCP_CONTROLS_H
#define IMTCP_CONTROLS_H

#include <imtcp/cc_bg.h>
#include <imtcp/cc_measure.h>
#include <imtcp/cc_paper_cap.h>
#include <imtcp/cc_paper_fs.h>
#include <imtcp/cc_paper_lp.h>
#include <imtcp/cc_paper_nice.h>

/* A control's own state. */
union control_own {
	struct imtcp_bg bg;
	struct imtcp_paper paper;
	struct imtcp_paper_lp paper_lp;
	struct imtcp_paper_nice paper_nice;
};

struct control {
	void (*start)(struct imtcp_flow *, union control_own *, const struct imtcp_window *);
	void (*learn)(struct imtcp_flow *, union control_own *, const struct imtcp_sample *);
	void (*decide)(struct imtcp_flow *, union control_own *, const struct imtcp_sample *,
		       struct imtcp_decision *);
	void (*space)(struct imtcp_flow *, union control_own *, struct imtcp_departure *,
		      struct imtcp_decision *);
	void (*reduced)(struct imtcp_flow *, union control_own *, const struct imtcp_sample *);
};

#define CONTROL(name, state)                                                                       \
	static inline void name##_start(struct imtcp_flow *c, union control_own *own,              \
					const struct imtcp_window *w)                              \
	{                                                                                          \
		imtcp_##name##_start(c, state, w);                                                 \
	}                                                                                          \
	static inline void name##_learn(struct imtcp_flow *c, union control_own *own,              \
					const struct imtcp_sample *s)                              \
	{                                                                                          \
		imtcp_##name##_learn(c, state, s);                                                 \
	}                                                                                          \
	static inline void name##_decide(struct imtcp_flow *c, union control_own *own,             \
					 const struct imtcp_sample *s, struct imtcp_decision *d)   \
	{                                                                                          \
		imtcp_##name##_decide(c, state, s, d);                                             \
	}                                                                                          \
	static inline void name##_space(struct imtcp_flow *c, union control_own *own,              \
					struct imtcp_departure *dep, struct imtcp_decision *d)     \
	{                                                                                          \
		imtcp_##name##_space(c, state, dep, d);                                            \
	}                                                                                          \
	static inline void name##_reduced(struct imtcp_flow *c, union control_own *own,            \
					  const struct imtcp_sample *s)                            \
	{                                                                                          \
		(void)own;                                                                         \
		imtcp_##name##_reduced(c, state, s);                                               \
	}                                                                                          \
	static const struct control control_##name __attribute__((unused)) = {                     \
		name##_start, name##_learn, name##_decide, name##_space, name##_reduced}

CONTROL(measure, own);
CONTROL(bg, &own->bg);
CONTROL(paper, &own->paper);
CONTROL(paper_bg, &own->paper);
CONTROL(paper_cap, &own->paper);
CONTROL(paper_fs, &own->paper);
CONTROL(paper_lp, &own->paper_lp);
CONTROL(paper_nice, &own->paper_nice);

#endif
