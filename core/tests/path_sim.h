/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A deterministic path and sender. It calls the functions of a control as the kernel's programs do
 * (flow.h), with the data that the kernel's TCP would give.
 *
 *	sender ──▶ FIFO of capacity C ──▶ delay ──▶ receiver
 *	   ▲       (or token bucket)                   │
 *	   └───── delay ◀── bunching, ACK filter ◀─────┘
 *
 * The sender calls space once. Then chunks of segments leave as in tcp_write_xmit, until the window
 * is full or a gap begins. The gap is the control's, with the kernel's credit: a late packet
 * shortens the next gap by up to a half (tcp_update_skb_after_send). The first ten segments are
 * unpaced.
 *
 * - Control: that of the configuration, else imtcp_bg. With a fixed window or with reno, it is
 *   `measure`.
 * - Application: may write slowly. The socket buffer and the receiver's window may be small.
 * - Losses: none, because the buffer is deep. Tests call imtcp_meas_on_loss.
 *
 * sim_path.h has the FIFO and the receiver.
 */
#ifndef IMTCP_PATH_SIM_H
#define IMTCP_PATH_SIM_H

#include "sim_path.h"

/* ---- sender: the counterpart of bpf/imtcp_adapter.h ---- */

static inline uint32_t sim_flight_segs(const struct sim *s)
{
	return (s->snd_nxt - s->snd_una + SIM_MSS - 1) / SIM_MSS;
}

/* The connection's ceiling as a window. */
static inline uint32_t sim_ceiling_segs(const struct sim *s)
{
	return s->cfg.max_bps ? (uint32_t)imtcp_max(
					imtcp_window_segs(s->cfg.max_bps, s->srtt_us, SIM_PKT), 1)
			      : 0;
}

/* Records a measurement that ended, for the tests. */
static inline void sim_note_result(struct sim *s)
{
	const struct imtcp_meas *m = &s->flow.meas;
	const struct imtcp_result *r = &m->result;
	struct sim_result *out = &s->results[s->n_results % SIM_RESULTS];

	out->at_us = r->at_us;
	out->avail_bps = r->avail_bps;
	out->low_bps = r->low_bps;
	out->high_bps = r->high_bps;
	out->next_low_bps = m->low_bps;
	out->next_high_bps = m->high_bps;
	out->outcome = r->outcome;
	out->sub_range = r->sub_range;
	out->streams = r->streams;
	out->validity_pct = r->validity_pct;
	out->n = m->n;
	out->m = m->m;
	out->pause_rtts = m->pause_rtts;
	s->n_results++;
}

/* Invariants of every run. */
static inline void sim_invariants(const struct sim *s)
{
	const struct imtcp_meas *m = &s->flow.meas;

	assert_true(m->low_bps <= m->high_bps);
	assert_in_range(m->n, 2, IMTCP_STREAM_MAX);
	assert_in_range(m->m, IMTCP_STORE_PACKETS_LEAST, m->n);
	assert_at_most(m->hold_us, IMTCP_T_MAX_US);
	assert_true(m->sending <= IMTCP_SUB_RANGES && m->judged <= IMTCP_SUB_RANGES);
	assert_true(m->planned <= IMTCP_SUB_RANGES);
	assert_true(m->result.validity_pct <= 100);
	assert_true(m->unit <= IMTCP_PASS);
}

/* Written and not sent: limited by the application and its socket buffer. */
static inline uint64_t sim_unsent(const struct sim *s)
{
	uint64_t unsent = s->written;

	if (s->cfg.app_bps) {
		uint64_t so_far = (s->now_ns - s->began_ns) / 1000 * (s->cfg.app_bps / 8) / 1000000;

		unsent = imtcp_min(unsent, imtcp_sub(so_far, s->bytes_out));
	}
	if (s->cfg.sndbuf_bytes)
		unsent = imtcp_min(unsent, imtcp_sub(s->cfg.sndbuf_bytes, s->snd_nxt - s->snd_una));
	if (s->cfg.unsent_bytes)
		unsent = imtcp_min(unsent, s->cfg.unsent_bytes);
	return unsent;
}

/* Room in TCP's window and in the receiver's. */
static inline uint32_t sim_room(const struct sim *s)
{
	uint64_t window = s->w.cwnd_segs;

	if (s->cfg.rcv_segs)
		window = imtcp_min(window, s->cfg.rcv_segs);
	return (uint32_t)imtcp_sub(window, sim_flight_segs(s));
}

static inline void sim_read_departure(const struct sim *s, struct imtcp_departure *dep)
{
	uint64_t unsent = sim_unsent(s);

	memset(dep, 0, sizeof(*dep));
	dep->now_us = sim_us(s);
	dep->ceiling_bps = s->cfg.max_bps ? s->cfg.max_bps : IMTCP_U64_MAX;
	dep->late_ns = s->wstamp_ns ? imtcp_sub(s->now_ns, s->wstamp_ns) : 0;
	dep->snd_nxt = s->snd_nxt;
	dep->cwnd_segs = imtcp_whole_segs(&s->flow, s->w.cwnd_segs);
	dep->ssthresh_segs = s->w.ssthresh_segs;
	dep->flight_segs = dep->out_segs = sim_flight_segs(s);
	dep->most_flight_segs = s->most_out_segs;
	/* a large socket buffer */
	dep->unsent_bytes = unsent > 4000000 ? 4000000 : (uint32_t)unsent;
	dep->receiver_bytes = IMTCP_U32_MAX;
	if (s->cfg.rcv_segs)
		dep->receiver_bytes = (uint32_t)imtcp_sub((uint64_t)s->cfg.rcv_segs * SIM_MSS,
							  s->snd_nxt - s->snd_una);
	dep->mss_bytes = SIM_MSS;
	dep->pkt_bytes = SIM_PKT;
	dep->chunk_most_segs = s->cfg.max_chunk ? s->cfg.max_chunk : 45;
	dep->chunk_most_bytes = 65536;
	dep->pacing_shift = s->cfg.pacing_shift ? s->cfg.pacing_shift : 10;
	dep->rtt_dev_us = s->mdev_us;
	dep->srtt_us = s->srtt_us;
	dep->newest_rtt_us = s->newest_rtt_us;
	dep->limited = s->limited;
}

/* tcp_cwnd_validate */
static inline void sim_validate(struct sim *s, uint32_t limited)
{
	uint32_t out = sim_flight_segs(s);

	if (imtcp_seq_before(s->snd_una, s->usage_seq) && !limited &&
	    (s->limited || out <= s->most_out_segs))
		return;
	s->limited = limited;
	s->most_out_segs = out;
	s->usage_seq = s->snd_nxt;
}

/* Sends one buffer of at most segs segments, with a gap at bps after it (0: none). */
static inline void sim_send(struct sim *s, const struct imtcp_departure *dep,
			    const struct imtcp_decision *d, uint32_t segs, uint64_t bps)
{
	uint32_t bytes = (uint32_t)imtcp_min((uint64_t)segs * SIM_MSS, sim_unsent(s)), left;
	uint64_t len_ns, credit_ns, sent_us = sim_us(s);

	s->written -= bytes;
	s->bytes_out += bytes;
	/* the kernel's pacing */
	if (bps && s->segs_out >= SIM_UNPACED_SEGS) {
		len_ns = (uint64_t)bytes * SIM_NSEC / imtcp_pace_bytes_per_sec(dep, d, bps);
		credit_ns = s->now_ns - s->wstamp_ns;
		s->wstamp_ns = s->now_ns;
		len_ns -= imtcp_min(len_ns / 2, credit_ns);
		s->wstamp_ns += len_ns;
		/* slower than the ordinary gap, or it is no hold */
		if (d->plan == IMTCP_PLAN_HOLD && bps < dep->base_bps)
			s->longest_hold_us = imtcp_max(s->longest_hold_us, len_ns / 1000);
		s->longest_silence_us = imtcp_max(s->longest_silence_us, len_ns / 1000);
	}
	for (left = bytes; left;) {
		uint32_t payload = left < SIM_MSS ? left : SIM_MSS;
		uint64_t out_ns;

		left -= payload;
		s->snd_nxt += payload;
		s->segs_out++;
		s->flight[s->flight_tail % SIM_FLIGHT].end_seq = s->snd_nxt;
		s->flight[s->flight_tail % SIM_FLIGHT].sent_us = sent_us;
		s->flight_tail++;
		if (s->flight_tail - s->flight_head >= SIM_FLIGHT)
			fail_msg("path_sim: too much in flight");
		out_ns = sim_fifo(s, s->now_ns, sim_fragmented(s, payload + SIM_PKT - SIM_MSS));
		/* the way back is half of the base RTT; nothing overtakes */
		out_ns += (sim_way_us(s) - s->cfg.rtt_us / 2) * 1000;
		s->arrival_ns = imtcp_max(s->arrival_ns, out_ns);
		sim_receive(s, s->arrival_ns, payload, !left);
	}
	s->last_departure_ns = s->now_ns;
	s->departures++;
}

/* An ACK came, a gap ended or the application wrote: calls space once, and sends
 * (tcp_write_xmit). */
static inline void sim_write_xmit(struct sim *s)
{
	uint64_t bps, ends = s->flow.meas.ends;
	uint32_t i, max_segs, room, sent = 0;
	struct imtcp_departure dep;
	struct imtcp_decision d;

	for (i = 0; i <= (s->cfg.idempotence ? 5U : 0U); i++) {
		memset(&d, 0, sizeof(d));
		sim_read_departure(s, &dep);
		s->control->space(&s->flow, &s->own, &dep, &d);
		sim_invariants(s);
		if (s->flow.meas.ends != ends)
			sim_note_result(s);
		ends = s->flow.meas.ends;
	}
	if (d.pace_bps && (d.hold_segs || s->flow.hold.held_segs)) {
		s->w.cwnd_segs = imtcp_held_segs(&s->flow, &d, dep.cwnd_segs);
		if (d.hold_segs && !d.plan)
			s->holds++;
	}
	bps = d.pace_bps;
	max_segs = bps ? d.segs : 2;
	if (s->cfg.max_bps && d.plan != IMTCP_PLAN_STREAM)
		bps = imtcp_min(bps, s->cfg.max_bps);
	if (d.unpaced && !s->cfg.max_bps)
		bps = 0;
	while (sim_unsent(s) && !(s->wstamp_ns > s->now_ns && bps)) {
		room = sim_room(s);
		if (!room)
			break;
		sim_send(s, &dep, &d, room < max_segs ? room : max_segs, bps);
		sent = 1;
	}
	if (sent)
		sim_validate(s, sim_flight_segs(s) >= s->w.cwnd_segs);
	else if (!sim_room(s))
		sim_validate(s, 1);
}

static inline void sim_rtt(struct sim *s, uint32_t rtt_us)
{
	s->newest_rtt_us = rtt_us;
	if (!s->srtt_us) {
		s->srtt_us = rtt_us;
		s->mdev_us = rtt_us / 2;
	} else { /* RFC 6298 §2.3 */
		uint32_t d = rtt_us > s->srtt_us ? rtt_us - s->srtt_us : s->srtt_us - rtt_us;

		s->mdev_us = s->mdev_us - s->mdev_us / 4 + d / 4;
		s->srtt_us = s->srtt_us - s->srtt_us / 8 + rtt_us / 8;
	}
}

/* pkts_acked: an ACK of acked segments, the newest of which left at sent_us. */
static inline void sim_learn(struct sim *s, uint32_t acked, uint64_t sent_us)
{
	uint64_t ends = s->flow.meas.ends;
	struct imtcp_sample a;

	memset(&a, 0, sizeof(a));
	a.now_us = sim_us(s);
	a.snd_una = s->snd_una;
	a.snd_nxt = s->snd_nxt;
	a.rtt_us = (int32_t)(a.now_us - sent_us);
	a.acked_segs = acked;
	a.mss_bytes = SIM_MSS;
	a.pkt_bytes = SIM_PKT;
	a.wire_q8 = SIM_PKT * 256 / SIM_MSS;
	sim_rtt(s, (uint32_t)a.rtt_us);
	a.srtt_us = s->srtt_us;
	a.cwnd_segs = imtcp_whole_segs(&s->flow, s->w.cwnd_segs);
	imtcp_facts_on_ack(&s->flow.facts, &a, s->bytes_acked);
	s->control->learn(&s->flow, &s->own, &a);
	sim_invariants(s);
	if (s->flow.meas.ends != ends)
		sim_note_result(s);
}

/* cong_avoid: the window may grow. */
static inline void sim_decide(struct sim *s, uint32_t acked)
{
	struct imtcp_window w = s->w;
	struct imtcp_sample a;
	struct imtcp_decision d;

	memset(&a, 0, sizeof(a));
	memset(&d, 0, sizeof(d));
	a.now_us = sim_us(s);
	a.mss_bytes = SIM_MSS;
	a.pkt_bytes = SIM_PKT;
	a.srtt_us = s->srtt_us;
	a.acked_segs = acked;
	a.cwnd_segs = w.cwnd_segs = imtcp_whole_segs(&s->flow, s->w.cwnd_segs);
	a.flight_segs = sim_flight_segs(s) + acked;
	a.limit_segs = s->cfg.reno && s->cfg.cwnd_segs ? s->cfg.cwnd_segs : SIM_CWND_MOST;
	a.full = w.cwnd_segs < w.ssthresh_segs ? w.cwnd_segs < 2 * s->most_out_segs : s->limited;
	imtcp_decision_begin(&s->flow, &a, &d, &w);
	s->control->decide(&s->flow, &s->own, &a, &d);
	imtcp_decision_bound(&s->flow, &a, &d, sim_ceiling_segs(s));
	s->w = d.w;
	if (s->cfg.cwnd_segs && !s->cfg.reno)
		s->w.cwnd_segs = s->w.ssthresh_segs = s->cfg.cwnd_segs;
}

static inline void sim_on_ack(struct sim *s, uint32_t una)
{
	uint32_t acked = 0;
	uint64_t sent_us = 0;

	while (s->flight_head != s->flight_tail &&
	       !imtcp_seq_before(una, s->flight[s->flight_head % SIM_FLIGHT].end_seq)) {
		sent_us = s->flight[s->flight_head % SIM_FLIGHT].sent_us;
		s->flight_head++;
		acked++;
	}
	if (!acked)
		return;
	s->bytes_acked += una - s->snd_una;
	s->snd_una = una;
	sim_learn(s, acked, sent_us);
	sim_decide(s, acked);
}

/* Runs until until_us, or until the measurement stops it. */
static inline void sim_run(struct sim *s, uint64_t until_us)
{
	uint64_t until_ns = until_us * 1000;

	for (;;) {
		uint64_t next_ns = ~0ULL;
		const struct sim_ack *a = &s->acks[s->ack_head % SIM_ACKS];

		sim_write_xmit(s);
		if (s->ack_head != s->ack_tail)
			next_ns = a->at_ns;
		/* a departure may come before the delayed ACK */
		if (s->wstamp_ns > s->now_ns)
			next_ns = imtcp_min(next_ns, s->wstamp_ns);
		/* the application writes each millisecond */
		if (s->cfg.app_bps)
			next_ns = imtcp_min(next_ns, s->now_ns + 1000000);
		if (s->delack_at_ns && s->delack_at_ns < next_ns) {
			/* the delayed ACK comes before anything later */
			sim_ack_leaves(s, s->delack_at_ns);
			continue;
		}
		if (next_ns > until_ns) {
			s->now_ns = until_ns;
			return;
		}
		s->now_ns = next_ns;
		if (s->ack_head != s->ack_tail && a->at_ns <= s->now_ns) {
			uint32_t una = a->una;

			s->ack_head++;
			sim_on_ack(s, una);
		}
	}
}

/* ---- results ---- */

struct sim_summary {
	uint32_t count[IMTCP_OUTCOMES];
	uint32_t results;
	uint64_t median_bps, least_bps, most_bps; /* of the valid results */
	double error_p50_pct, error_p90_pct;	  /* against truth_bps */
};

static int sim_by_size(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static inline struct sim_summary sim_summary(const struct sim *s, uint64_t from_us,
					     uint64_t truth_bps)
{
	static uint64_t v[SIM_RESULTS], e[SIM_RESULTS];
	const struct imtcp_meas *m = &s->flow.meas;
	struct sim_summary out;
	uint32_t i, n = 0;

	memset(&out, 0, sizeof(out));
	for (i = 0; i < s->n_results && i < SIM_RESULTS; i++) {
		const struct sim_result *r = &s->results[i];

		if (r->at_us < from_us)
			continue;
		out.results++;
		out.count[r->outcome]++;
		if (r->outcome != IMTCP_OK)
			continue;
		v[n] = r->avail_bps;
		e[n++] = r->avail_bps > truth_bps ? r->avail_bps - truth_bps
						  : truth_bps - r->avail_bps;
	}
	if (n) {
		qsort(v, n, sizeof(v[0]), sim_by_size);
		qsort(e, n, sizeof(e[0]), sim_by_size);
		out.median_bps = v[n / 2];
		out.least_bps = v[0];
		out.most_bps = v[n - 1];
		out.error_p50_pct = 100.0 * (double)e[n / 2] / (double)truth_bps;
		out.error_p90_pct = 100.0 * (double)e[n * 9 / 10] / (double)truth_bps;
	}
	if (getenv("IMTCP_SHOW")) {
		printf("%-34s %4u results, OK %4u, truth %6.1f: median %6.1f (%.1f-%.1f) err "
		       "p50 %4.1f%% p90 %4.1f%%; C %.1f (+%.1f%%); range %.1f-%.1f; cwnd %u cap "
		       "%u; N %u m %u"
		       " pause %u; invalid",
		       s->cfg.name ? s->cfg.name : "", out.results, n, (double)truth_bps / 1e6,
		       (double)out.median_bps / 1e6, (double)out.least_bps / 1e6,
		       (double)out.most_bps / 1e6, out.error_p50_pct, out.error_p90_pct,
		       (double)m->capacity_bps / 1e6, m->excess_q16 / 655.36,
		       (double)m->low_bps / 1e6, (double)m->high_bps / 1e6, s->w.cwnd_segs,
		       s->flow.facts.cap_segs, m->n, m->m, m->pause_rtts);
		for (i = 1; i < IMTCP_OUTCOMES; i++)
			printf(" %u", out.count[i]);
		printf("\n");
	}
	return out;
}

/* Runs some seconds, and summarizes the results after warm_up_us. */
static inline struct sim_summary sim_over(struct sim *s, const struct sim_cfg *cfg,
					  uint64_t seconds, uint64_t warm_up_us)
{
	uint64_t start_us;

	sim_init(s, cfg);
	start_us = sim_us(s);
	sim_run(s, start_us + seconds * IMTCP_USEC_PER_SEC);
	return sim_summary(s, start_us + warm_up_us, sim_avail_bps(s));
}

/* Goodput on the wire, from the acknowledged bytes. */
static inline double sim_goodput_bps(const struct sim *s, uint64_t seconds)
{
	return (double)s->bytes_acked * SIM_PKT / SIM_MSS * 8.0 / (double)seconds;
}

#endif
