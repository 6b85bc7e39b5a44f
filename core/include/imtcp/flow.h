/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A connection as each control sees it: parameters, facts, measurement and held packets. Also how
 * its packets are spaced, and default answers for controls.
 *
 * A control is a header cc_<name>.h with six functions. A row of a table names them
 * (bpf/imtcp_mode_ops.h):
 *
 *   function  called when ─────────────────────────────────── result ─────────────────────
 *   start     the connection begins or changes to the control  its state
 *   learn     an ACK came                                      its model
 *   decide    the window may grow                              its window
 *   space     TCP may send                                     the gap after the next packet
 *   target    a loss or a mark                                 ssthresh
 *   reduced   after target                                     its state
 *
 * Windows below two segments: the control sets trickle_q16, and space paces at the rate of that
 * window. Two segments leave at a time, so a receiver with delayed ACKs answers at once. The kernel
 * puts at most half of its window into one buffer (tcp_cwnd_test). So its window is four segments
 * meanwhile, and never full.
 */
#ifndef IMTCP_FLOW_H
#define IMTCP_FLOW_H

#include "estimate.h"
#include "facts.h"

/* Ordinary pacing relative to cwnd/srtt, scale 256: 2 in slow start and 1.2 after it, as the
 * kernel's tcp_pacing_ss_ratio and tcp_pacing_ca_ratio. */
#define IMTCP_PACE_SLOW_START_Q8 512U
#define IMTCP_PACE_Q8 307U
/* The same with a cap: 1.05. ours: smooth, and still able to fill the window. */
#define IMTCP_PACE_CAPPED_Q8 269U
/* Windows below two segments: segments that leave at a time, and the kernel's window meanwhile. */
#define IMTCP_TRICKLE_SEGS 2U
#define IMTCP_TRICKLE_CWND_SEGS 4U
/* A ceiling leaves a control that measures at least this window. ours: three duplicate ACKs need it
 * to reveal a loss. */
#define IMTCP_MEASURING_LEAST_SEGS 4U

/* A control that holds packets back makes TCP's window smaller than its own. */
struct imtcp_hold {
	imtcp_u32 held_segs;  /* TCP's window; 0: nothing is held */
	imtcp_u32 whole_segs; /* the control's window */
	imtcp_u32 loss_segs;  /* the control's window at the newest loss or mark; 0: none yet */
	imtcp_u32 _pad;
};

struct imtcp_flow {
	struct imtcp_params params;
	struct imtcp_facts facts;
	struct imtcp_meas meas;
	struct imtcp_hold hold;
};

/* The control's window, from TCP's. If no hold wrote TCP's window, both are the same. */
IMTCP_INLINE imtcp_u32 imtcp_whole_segs(const struct imtcp_flow *c, imtcp_u32 cwnd_segs)
{
	return cwnd_segs == c->hold.held_segs ? c->hold.whole_segs : cwnd_segs;
}

/* TCP's window after space: held or whole. */
IMTCP_INLINE imtcp_u32 imtcp_held_segs(struct imtcp_flow *c, const struct imtcp_decision *d,
				       imtcp_u32 whole_segs)
{
	int holds = d->hold_segs && d->hold_segs < whole_segs;

	c->hold.held_segs = holds ? d->hold_segs : 0;
	c->hold.whole_segs = whole_segs;
	return holds ? d->hold_segs : whole_segs;
}

/* A loss or a mark ends the hold. The control's window and the pause are saved for undo. */
IMTCP_INLINE void imtcp_hold_on_loss(struct imtcp_flow *c, imtcp_u32 whole_segs)
{
	c->hold.held_segs = 0;
	c->hold.loss_segs = whole_segs;
	c->facts.undone = 0;
	imtcp_meas_before_loss(&c->meas);
}

/* The loss was spurious (RFC 3522, RFC 3708): undo the reaction, as TCP restores its window. */
IMTCP_INLINE void imtcp_flow_undo(struct imtcp_flow *c)
{
	c->facts.undone = 1;
	imtcp_meas_on_undo(&c->meas);
}

/* A connection starts with one of our controls. The kernel has zeroed its state. */
IMTCP_INLINE void imtcp_flow_begin(struct imtcp_flow *c, imtcp_u64 now_us, imtcp_u32 snd_una,
				   imtcp_u32 snd_nxt)
{
	c->facts.acked_at_us = now_us;
	c->facts.last_una = snd_una;
	imtcp_meas_init(&c->meas, &c->params, snd_nxt);
}

/* ---- the gap after the packet that leaves next ---- */

/* Will the window still double, or nearly? tcp_update_pacing_rate uses the same condition. */
IMTCP_INLINE int imtcp_early_slow_start(const struct imtcp_departure *dep)
{
	return dep->cwnd_segs < dep->ssthresh_segs / 2;
}

/* The RTT to pace by. In slow start it is the newest one if that is shorter. After a silence srtt
 * may still contain a queue that has drained, and pacing by it would not fill the window in a round
 * trip. */
IMTCP_INLINE imtcp_u32 imtcp_send_rtt_us(const struct imtcp_departure *dep)
{
	if (!dep->newest_rtt_us || !imtcp_early_slow_start(dep))
		return dep->srtt_us;
	return (imtcp_u32)imtcp_min(dep->srtt_us, dep->newest_rtt_us);
}

/*
 * Ordinary pacing rate on the wire: cwnd/RTT times a gain; U64_MAX before the first RTT.
 *
 * - In slow start after a silence it uses RTTmin, because there is no newer RTT yet.
 * - It uses out_segs if that exceeds cwnd. In loss recovery PRR shrinks the window to about what is
 *   in flight, and pacing by that would hold retransmissions back. tcp_update_pacing_rate does the
 *   same.
 */
IMTCP_INLINE imtcp_u64 imtcp_base_bps(const struct imtcp_facts *f,
				      const struct imtcp_departure *dep)
{
	imtcp_u64 rtt_us = imtcp_send_rtt_us(dep);
	imtcp_u64 bytes = imtcp_max(dep->cwnd_segs, dep->out_segs) * dep->pkt_bytes;
	imtcp_u32 gain_q8 = IMTCP_PACE_Q8;

	if (!rtt_us)
		return IMTCP_U64_MAX;
	if (imtcp_early_slow_start(dep)) {
		gain_q8 = IMTCP_PACE_SLOW_START_Q8;
		if (f->minrtt.base_us && dep->now_us - f->acked_at_us > rtt_us)
			rtt_us = imtcp_min(rtt_us, f->minrtt.base_us);
	} else if (f->cap_segs) {
		gain_q8 = IMTCP_PACE_CAPPED_Q8;
	}
	return imtcp_rate_bps(bytes * gain_q8 / 256, rtt_us);
}

/* Bytes that TCP adds to a buffer on a short path (net.ipv4.tcp_tso_rtt_log): most_bytes below an
 * RTT of 2^rtt_log us, and half as much for each further 2^rtt_log us. */
IMTCP_INLINE imtcp_u32 imtcp_extra_bytes(imtcp_u32 most_bytes, imtcp_u32 min_rtt_us,
					 imtcp_u32 rtt_log)
{
	imtcp_u32 halvings = min_rtt_us >> (rtt_log & 31);

	return halvings < 32 ? most_bytes >> halvings : 0;
}

/* Segments that TCP puts into one buffer at this rate (tcp_tso_autosize). With delayed ACKs the
 * number is even, so that the end of each buffer has its own ACK. */
IMTCP_INLINE imtcp_u32 imtcp_chunk_segs(imtcp_u32 ack_ratio_q8, const struct imtcp_departure *dep,
					imtcp_u64 bps)
{
	imtcp_u64 paced_bytes = (bps / IMTCP_BITS_PER_BYTE) >> dep->pacing_shift;
	imtcp_u64 bytes = imtcp_min(paced_bytes + dep->chunk_extra_bytes, dep->chunk_most_bytes);
	imtcp_u32 segs = (imtcp_u32)imtcp_clamp(imtcp_div(bytes, dep->mss_bytes), 1,
						dep->chunk_most_segs);

	if ((segs & 1) && segs > 1 && ack_ratio_q8 > 384 && segs < dep->chunk_most_segs)
		segs++;
	return segs;
}

/* The window of a control that sends one segment in rtts_per_segment round trips, scale 65536; 0
 * for 0. */
IMTCP_INLINE imtcp_u32 imtcp_trickle_q16(imtcp_u32 rtts_per_segment)
{
	return rtts_per_segment ? 65536 / rtts_per_segment : 0;
}

/* space for a control that does not measure: the ordinary rate, or the pace of a window below two
 * segments. */
IMTCP_INLINE void imtcp_space(struct imtcp_flow *c, const void *own, struct imtcp_departure *dep,
			      struct imtcp_decision *d)
{
	imtcp_u64 window_q16 = c->facts.trickle_q16;

	(void)own;
	dep->base_bps = imtcp_base_bps(&c->facts, dep);
	if (dep->base_bps == IMTCP_U64_MAX)
		return;
	dep->chunk_segs = imtcp_chunk_segs(c->meas.ack_ratio_q8, dep, dep->base_bps);
	if (window_q16) {
		dep->base_bps = imtcp_max(imtcp_scale(imtcp_rate_bps(dep->pkt_bytes, dep->srtt_us),
						      window_q16, 65536),
					  dep->floor_bps);
		dep->chunk_segs = IMTCP_TRICKLE_SEGS;
	}
	d->pace_bps = dep->base_bps;
	d->segs = dep->chunk_segs;
}

/* space for a control that measures: the Control unit sets the gap. */
IMTCP_INLINE void imtcp_space_streams(struct imtcp_flow *c, const void *own,
				      struct imtcp_departure *dep, struct imtcp_decision *d)
{
	struct imtcp_meas *m = &c->meas;
	int early = imtcp_early_slow_start(dep);

	(void)own;
	dep->base_bps = imtcp_base_bps(&c->facts, dep);
	if (dep->base_bps == IMTCP_U64_MAX)
		return;
	dep->base_bps = imtcp_min(dep->base_bps, dep->ceiling_bps);
	dep->srtt_us = imtcp_send_rtt_us(dep);
	/* Slow start paces at twice the window's rate. Buffers sized for that rate would make
	 * streams far too long (lab/notes/0004-random-loss.md), so high_bps limits it. */
	dep->chunk_segs = imtcp_chunk_segs(
		m->ack_ratio_q8, dep,
		m->high_bps && early ? imtcp_min(dep->base_bps, m->high_bps) : dep->base_bps);
	/* The window will double if it was full, or if the waiting data will fill it. */
	dep->slow_start = early &&
			  (dep->limited ||
			   dep->unsent_bytes >=
				   imtcp_sub(dep->cwnd_segs, dep->flight_segs) * dep->mss_bytes);
	imtcp_meas_adapt_n(m, &c->params, dep->chunk_segs);
	imtcp_meas_on_send(m, dep);
	d->pace_bps = m->next_bps;
	d->segs = m->burst_segs ? m->burst_segs : dep->chunk_segs;
	d->plan = m->plan;
	/* An RTT shorter than one buffer takes is not paced: ACKs are the clock, as for Reno. One
	 * timer per buffer, on any processor, would reorder packets, which looks like loss
	 * (lab/notes/0012-round-trips-of-a-lan.md). */
	d->unpaced = (imtcp_u32)imtcp_too_short(dep->srtt_us);
}

/*
 * Pacing rate for the kernel, in bytes of payload per second, for a gap of bps on the wire. At
 * least 1.
 *
 * The gap of a hold or a stream must be exact, so imtcp_uncredited cancels TCP's credit for a
 * buffer that left late.
 */
IMTCP_INLINE imtcp_u64 imtcp_pace_bytes_per_sec(const struct imtcp_departure *dep,
						const struct imtcp_decision *d, imtcp_u64 bps)
{
	imtcp_u64 room = imtcp_sub(dep->cwnd_segs, dep->flight_segs);
	imtcp_u64 segs = imtcp_max(imtcp_min(dep->chunk_segs, room), 1);
	imtcp_u64 bytes = imtcp_min(segs * dep->mss_bytes, dep->unsent_bytes), rate;

	rate = imtcp_max(imtcp_scale(bps, dep->mss_bytes, dep->pkt_bytes) / IMTCP_BITS_PER_BYTE, 1);
	if (d->plan != IMTCP_PLAN_HOLD && d->plan != IMTCP_PLAN_STREAM)
		return rate;
	return imtcp_max(imtcp_uncredited(rate, bytes, dep->late_ns), 1);
}

/* ---- the window ---- */

/* Before decide: completes the sample, and starts a decision with the present window w. */
IMTCP_INLINE void imtcp_decision_begin(struct imtcp_flow *c, struct imtcp_sample *s,
				       struct imtcp_decision *d, const struct imtcp_window *w)
{
	imtcp_facts_on_window(&c->facts, s);
	d->w = *w;
	/* After a timeout the floor does not apply: the amount in flight is unknown (RFC 5681
	 * §3.1). */
	d->floor_segs = s->timed_out ? 0 : s->floor_segs;
	d->least_segs = IMTCP_TRICKLE_SEGS;
}

/* After decide: puts the window between its floor and the ceiling (0: none), and ends a hold. */
IMTCP_INLINE void imtcp_decision_bound(struct imtcp_flow *c, const struct imtcp_sample *s,
				       struct imtcp_decision *d, imtcp_u32 ceiling_segs)
{
	imtcp_u64 cwnd = imtcp_max(d->w.cwnd_segs, d->floor_segs);

	c->hold.held_segs = 0;
	if (ceiling_segs)
		cwnd = imtcp_min(cwnd, imtcp_max(ceiling_segs, d->least_segs));
	if (c->facts.trickle_q16)
		cwnd = imtcp_max(cwnd, IMTCP_TRICKLE_CWND_SEGS);
	d->w.cwnd_segs = (imtcp_u32)imtcp_max(imtcp_min(cwnd, s->limit_segs), 1);
	d->w.ssthresh_segs = (imtcp_u32)imtcp_max(d->w.ssthresh_segs, IMTCP_RENO_LEAST_SEGS);
}

/* ---- default answers of a control ---- */

IMTCP_INLINE void imtcp_no_start(struct imtcp_flow *c, const void *own,
				 const struct imtcp_window *w)
{
	(void)c, (void)own, (void)w;
}

IMTCP_INLINE void imtcp_no_learn(struct imtcp_flow *c, const void *own,
				 const struct imtcp_sample *s)
{
	(void)c, (void)own, (void)s;
}

IMTCP_INLINE imtcp_u32 imtcp_halve(const struct imtcp_flow *c, const void *own,
				   const struct imtcp_sample *s)
{
	(void)c, (void)own;
	return imtcp_reno_ssthresh(s->cwnd_segs);
}

IMTCP_INLINE void imtcp_no_reduced(struct imtcp_flow *c, const void *own,
				   const struct imtcp_sample *s)
{
	(void)c, (void)own, (void)s;
}

#endif
