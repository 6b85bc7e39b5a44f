/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A connection as each control sees it: the chosen parameters, the facts, the measurement, and the spacing of packets.
 * Also the answers of a control that needs nothing special.
 *
 * A control is a header cc_<name>.h with six functions, named in a row of a table (bpf/imtcp_mode_ops.h):
 *
 *   start    it begins, or the connection is switched to it
 *   learn    an ACK came: its model
 *   decide   the window may grow: its window
 *   space    TCP may send: the gap after the packet that leaves next
 *   target   a loss or a mark: ssthresh
 *   reduced  the same, after the window's target was set
 *
 * Windows below two segments: a control sets trickle_q16. The pace is then that of the small
 * window, and two segments leave at a time, so that a receiver that acknowledges every second one
 * answers at once. The kernel puts no more than half of its window into one buffer (tcp_cwnd_test),
 * so its window is four meanwhile, and never full.
 */
#ifndef IMTCP_FLOW_H
#define IMTCP_FLOW_H

#include "estimate.h"
#include "facts.h"

/* Ordinary pacing against cwnd/srtt, scale 256: 2 in slow start and 1.2 after it, as the
 * kernel's tcp_pacing_ss_ratio and tcp_pacing_ca_ratio. */
#define IMTCP_PACE_SLOW_START_Q8 512U
#define IMTCP_PACE_Q8 307U
/* The same under a control's cap: 1.05. ours: smooth, yet able to fill the window. */
#define IMTCP_PACE_CAPPED_Q8 269U
/* Segments that leave together while the control's window is smaller than two. The kernel's window is as
 * large then. */
#define IMTCP_TRICKLE_SEGS 2U
#define IMTCP_TRICKLE_CWND_SEGS 4U
/* No ceiling takes the window of a control that measures below this. ours: with fewer a loss is not found by
 * three duplicate ACKs. */
#define IMTCP_MEASURING_LEAST_SEGS 4U

/* A control that holds packets back makes TCP's window smaller than its own. */
struct imtcp_hold {
	imtcp_u32 held_segs;  /* TCP's; 0: nothing is held */
	imtcp_u32 whole_segs; /* the control's */
	imtcp_u32 loss_segs;  /* the control's at the newest loss or mark; 0: there was none */
	imtcp_u32 _pad;
};

struct imtcp_flow {
	struct imtcp_params params;
	struct imtcp_facts facts;
	struct imtcp_meas meas;
	struct imtcp_hold hold;
};

/* The control's window, from TCP's. A window that no hold wrote is TCP's own, and the control's too. */
IMTCP_INLINE imtcp_u32 imtcp_whole_segs(const struct imtcp_flow *c, imtcp_u32 cwnd_segs)
{
	return cwnd_segs == c->hold.held_segs ? c->hold.whole_segs : cwnd_segs;
}

/* After space: TCP's window, held or whole. */
IMTCP_INLINE imtcp_u32 imtcp_held_segs(struct imtcp_flow *c, const struct imtcp_decision *d,
				       imtcp_u32 whole_segs)
{
	int holds = d->hold_segs && d->hold_segs < whole_segs;

	c->hold.held_segs = holds ? d->hold_segs : 0;
	c->hold.whole_segs = whole_segs;
	return holds ? d->hold_segs : whole_segs;
}

/* A loss or a mark: what is held goes. The control's window and the pause before it are kept for undo. */
IMTCP_INLINE void imtcp_hold_on_loss(struct imtcp_flow *c, imtcp_u32 whole_segs)
{
	c->hold.held_segs = 0;
	c->hold.loss_segs = whole_segs;
	c->facts.undone = 0;
	imtcp_meas_before_loss(&c->meas);
}

/* That loss was none (RFC 3522, RFC 3708): what was done for it is taken back, as TCP takes its window back. */
IMTCP_INLINE void imtcp_flow_undo(struct imtcp_flow *c)
{
	c->facts.undone = 1;
	imtcp_meas_on_undo(&c->meas);
}

/* A connection comes to one of our controls: its state is zero, as the kernel gives it. */
IMTCP_INLINE void imtcp_flow_begin(struct imtcp_flow *c, imtcp_u64 now_us, imtcp_u32 snd_una,
				   imtcp_u32 snd_nxt)
{
	c->facts.acked_at_us = now_us;
	c->facts.last_una = snd_una;
	imtcp_meas_init(&c->meas, &c->params, snd_nxt);
}

/* ---- the gap after the packet that leaves next ---- */

/* The window will still double, or nearly: as tcp_update_pacing_rate sees slow start. */
IMTCP_INLINE int imtcp_early_slow_start(const struct imtcp_departure *dep)
{
	return dep->cwnd_segs < dep->ssthresh_segs / 2;
}

/* The round trip time to send by. In slow start a newer, shorter RTT counts instead. srtt may still hold a
 * queue that drained in a silence, and a window paced by that would not fill in its round trip. */
IMTCP_INLINE imtcp_u32 imtcp_send_rtt_us(const struct imtcp_departure *dep)
{
	if (!dep->newest_rtt_us || !imtcp_early_slow_start(dep))
		return dep->srtt_us;
	return (imtcp_u32)imtcp_min(dep->srtt_us, dep->newest_rtt_us);
}

/*
 * Ordinary pacing rate, on the wire: cwnd/RTT times a gain; U64_MAX before the first RTT. In slow
 * start after a silence cwnd/RTTmin: no newer one is known yet. While a loss is
 * repaired the window is about what is left in flight (PRR), and pacing by that would
 * hold retransmissions back: as tcp_update_pacing_rate, out_segs where it is more.
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

/* Bytes that TCP adds to a buffer on a short path (net.ipv4.tcp_tso_rtt_log). Where the least RTT is below
 * 2^rtt_log us it adds all that the socket takes. Each 2^rtt_log us more halve that, and 32 of them leave
 * nothing. */
IMTCP_INLINE imtcp_u32 imtcp_extra_bytes(imtcp_u32 most_bytes, imtcp_u32 min_rtt_us,
					 imtcp_u32 rtt_log)
{
	imtcp_u32 halvings = min_rtt_us >> (rtt_log & 31);

	return halvings < 32 ? most_bytes >> halvings : 0;
}

/* Segments that TCP puts into one buffer at this rate (tcp_tso_autosize). Where the receiver
 * acknowledges every second segment they are even: so each buffer's end has an ACK of its own. */
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

/* The window of a control that lets one segment leave in so many round trips, scale 65536; 0 of 0. */
IMTCP_INLINE imtcp_u32 imtcp_trickle_q16(imtcp_u32 rtts_per_segment)
{
	return rtts_per_segment ? 65536 / rtts_per_segment : 0;
}

/* space of a control that measures nothing: the ordinary rate, or that of a window below two segments. */
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

/* space of a control that measures: the Control unit says how long the gap is. */
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
	/* Slow start paces at twice its window: streams of buffers for that rate were hundreds of segments,
	 * and many round trips, long (lab/notes/0004-random-loss.md). */
	dep->chunk_segs = imtcp_chunk_segs(
		m->ack_ratio_q8, dep,
		m->high_bps && early ? imtcp_min(dep->base_bps, m->high_bps) : dep->base_bps);
	/* the window will double if it was full, or if what waits will fill it */
	dep->slow_start = early &&
			  (dep->limited ||
			   dep->unsent_bytes >=
				   imtcp_sub(dep->cwnd_segs, dep->flight_segs) * dep->mss_bytes);
	imtcp_meas_adapt_n(m, &c->params, dep->chunk_segs);
	imtcp_meas_on_send(m, dep);
	d->pace_bps = m->next_bps;
	d->segs = m->burst_segs ? m->burst_segs : dep->chunk_segs;
	d->plan = m->plan;
	/* A round trip that is shorter than what TCP puts into one buffer is not spaced: ACKs are the clock
	 * there, as they are Reno's, and a timer for each buffer, on whichever processor, lets packets overtake
	 * each other, which looks like loss (lab/notes/0012-round-trips-of-a-lan.md). */
	d->unpaced = (imtcp_u32)imtcp_too_short(dep->srtt_us);
}

/*
 * The same rate as the kernel paces it: bytes of payload per second for bps on the wire, at least one. The gap
 * of a hold or a stream lasts whatever TCP credits for how late the buffer before left.
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

/* Before decide: what the sample says of the round trip, and a decision for the window w as it is. */
IMTCP_INLINE void imtcp_decision_begin(struct imtcp_flow *c, struct imtcp_sample *s,
				       struct imtcp_decision *d, const struct imtcp_window *w)
{
	imtcp_facts_on_window(&c->facts, s);
	d->w = *w;
	/* after a timeout the floor waits: what is in flight is unknown (RFC 5681 §3.1) */
	d->floor_segs = s->timed_out ? 0 : s->floor_segs;
	d->least_segs = IMTCP_TRICKLE_SEGS;
}

/* After decide: the window within floor and ceiling (its window; 0: none). It is written whole. */
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

/* ---- answers of a control that needs nothing special there ---- */

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
