/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A path and a sender, deterministic: drives the core as bpf/imtcp_adapter.h does.
 *
 *	sender ──▶ FIFO of capacity C ──▶ delay ──▶ receiver
 *	   ▲       (or token bucket)                   │
 *	   └───── delay ◀── bunching, ACK filter ◀─────┘
 *
 * Sender: chunks of segments, one departure per call of imtcp_meas_on_send, then a gap at the
 * rate that it answered, with the kernel's credit (tcp_update_skb_after_send: a packet that left
 * late shortens the next gap by up to a half); first ten segments unpaced. A window: fixed, or
 * Reno with imtcp_bg's brakes. Losses: none by itself (the buffer is deep); tests call
 * imtcp_meas_on_loss.
 *
 * FIFO: work in nanoseconds, drained at what cross traffic leaves. Cross traffic is a constant
 * rate, fluid or in packets (near to regular, or Poisson), and may step to a second value.
 *
 * Receiver: acknowledges every acks_every-th segment, or after 40 ms; with gro a chunk's segments
 * count as one. Then the way back: with bunch_us, ACKs wait for the next multiple of it and come
 * together (Wi-Fi aggregation, interrupt coalescing); with ack_filter only the newest of them.
 */
#ifndef IMTCP_PATH_SIM_H
#define IMTCP_PATH_SIM_H

#include "test.h"

#define SIM_NSEC 1000000000ULL
#define SIM_MSS 1448U
#define SIM_PKT 1500U /* on the wire */
#define SIM_DELACK_NS (40 * 1000000ULL)
#define SIM_ACKS 8192U /* ACKs on their way back */
#define SIM_FLIGHT 16384U
#define SIM_CWND_MOST 4096U /* the receiver's window */
#define SIM_RESULTS 8192U
#define SIM_UNPACED_SEGS 10U
#define SIM_AUTOSIZE_SHIFT 10
#define SIM_CHUNK_MAX_SEGS 45U

struct sim_cfg {
	const char *name;
	uint64_t capacity_bps;
	uint64_t cross_bps;
	uint64_t step_at_us; /* 0: no step */
	uint64_t cross_after_bps;
	uint64_t bucket_bps; /* token bucket in front of the FIFO; 0: none */
	uint64_t bucket_bytes;
	uint64_t max_bps;     /* pacing ceiling; 0: none */
	uint64_t app_bytes;   /* what the application has written; 0: without end */
	uint64_t stall_us;    /* ACKs stop for a time, then go on */
	uint64_t stall_at_us; /* when */
	uint32_t rtt_us;      /* without queue */
	uint32_t cwnd_segs;   /* fixed window; 0: imtcp_bg */
	uint32_t acks_every;  /* 0 and 1: every segment */
	uint32_t bunch_us;
	uint32_t jitter_us; /* on the way back, in order */
	uint32_t max_chunk; /* 0: as the stack autosizes */
	uint64_t seed;
	int cross_in_packets; /* 1: gaps within half of their mean, 2: exponential */
	uint32_t cross_burst; /* packets at once; 0: one */
	int ack_filter;
	int gro;
	int reno;	 /* grows without the brakes of imtcp_bg, with cwnd_segs the limit */
	int in_paper;	 /* profile=paper */
	int idempotence; /* ask on_send many times before each departure */
};

struct sim_ack {
	uint64_t at_ns;
	uint32_t una;
};

struct sim_result {
	uint64_t at_us, avail_bps, low_bps, high_bps, next_low_bps, next_high_bps;
	uint32_t outcome, sub_range, streams, validity_pct, n, m, pause_rtts;
};

struct sim {
	struct sim_cfg cfg;
	struct imtcp_params params;
	struct imtcp_meas m;
	struct imtcp_facts facts;
	struct imtcp_bg bg;
	struct imtcp_window w;
	uint64_t now_ns, seed;
	/* sender */
	uint32_t snd_una, snd_nxt;
	uint64_t written; /* bytes that are left to send */
	uint32_t srtt_us, mdev_us;
	uint32_t chunk_segs, round_over, full;
	uint64_t wstamp_ns; /* the next departure is not before */
	uint64_t segs_out;
	uint64_t first_nxt_ns; /* when the first segment left */
	uint32_t recovering;
	struct {
		uint32_t end_seq;
		uint64_t sent_us;
	} flight[SIM_FLIGHT];
	uint32_t flight_head, flight_tail;
	/* FIFO */
	uint64_t fifo_ns; /* work in it */
	uint64_t fifo_at_ns;
	uint64_t cross_next_ns;
	uint64_t last_out_ns;
	double tokens;
	uint64_t tokens_at_ns;
	/* receiver and the way back */
	uint32_t rcv_nxt, rcv_unacked, rcv_acked;
	uint64_t delack_at_ns; /* 0: none pending */
	struct sim_ack acks[SIM_ACKS];
	uint32_t ack_head, ack_tail;
	uint64_t last_ack_ns;
	/* what the tests ask for */
	struct sim_result results[SIM_RESULTS];
	uint32_t n_results;
	uint64_t bytes_acked;
	uint64_t longest_hold_us;    /* gap after the last packet before a store */
	uint64_t longest_silence_us; /* between departures with room and data and recovery off */
	uint64_t queue_sum_us, queue_samples;
	uint64_t last_departure_ns;
	uint32_t departures;
};

static inline void sim_init(struct sim *s, const struct sim_cfg *cfg)
{
	memset(s, 0, sizeof(*s));
	s->cfg = *cfg;
	s->seed = cfg->seed ? cfg->seed : 88172645463325252ULL;
	s->snd_una = s->snd_nxt = s->rcv_nxt = s->rcv_acked = 0xfffc0000U; /* wraps soon */
	s->written = cfg->app_bytes ? cfg->app_bytes : ~0ULL >> 1;
	s->w.cwnd_segs = 10;
	s->w.ssthresh_segs = 0x7fffffff;
	s->now_ns = 1000000000ULL;
	s->fifo_at_ns = s->cross_next_ns = s->tokens_at_ns = s->now_ns;
	s->tokens = (double)cfg->bucket_bytes;
	imtcp_params_init(&s->params);
	if (cfg->in_paper)
		s->params.profile = IMTCP_PROFILE_PAPER;
	imtcp_meas_init(&s->m, &s->params, s->snd_nxt);
}

static inline uint64_t sim_us(const struct sim *s)
{
	return s->now_ns / 1000;
}

static inline uint64_t sim_cross_bps(const struct sim *s, uint64_t at_ns)
{
	return s->cfg.step_at_us && at_ns >= s->cfg.step_at_us * 1000 ? s->cfg.cross_after_bps
								      : s->cfg.cross_bps;
}

/* What the path leaves to this flow now. */
static inline uint64_t sim_avail_bps(const struct sim *s)
{
	return s->cfg.capacity_bps - sim_cross_bps(s, s->now_ns);
}

/* ---- FIFO ---- */

static inline void sim_fifo_drain(struct sim *s, uint64_t at_ns, uint64_t cross_bps)
{
	uint64_t free_ns = at_ns - s->fifo_at_ns;

	if (!s->cfg.cross_in_packets) /* fluid: the queue drains at A/C */
		free_ns = (uint64_t)((double)free_ns *
				     (1.0 - (double)cross_bps / (double)s->cfg.capacity_bps));
	s->fifo_ns = s->fifo_ns > free_ns ? s->fifo_ns - free_ns : 0;
	s->fifo_at_ns = at_ns;
}

static inline uint64_t sim_wire_ns(const struct sim *s, uint64_t bytes)
{
	return bytes * 8 * SIM_NSEC / s->cfg.capacity_bps;
}

/* -ln(u), u uniform in (0, 1): a sum over bits, no libm. Mean 1. */
static inline double sim_exponential(uint64_t *seed)
{
	/* the count of failures of a coin of probability 1/32, in units of 1/32 */
	uint32_t i = 1;

	while (i < 400 && (rnd(seed) & 31))
		i++;
	return (double)i / 32.0;
}

/* One packet into the queue at at_ns; when it has left. Calls must be in order of time. */
static inline uint64_t sim_fifo(struct sim *s, uint64_t at_ns, uint32_t bytes)
{
	uint64_t step_ns = s->cfg.step_at_us * 1000;

	if (s->cfg.bucket_bps) {
		double per_ns = (double)s->cfg.bucket_bps / 8e9;
		uint64_t from_ns = at_ns > s->last_out_ns ? at_ns : s->last_out_ns;

		if (from_ns > s->tokens_at_ns) {
			s->tokens += (double)(from_ns - s->tokens_at_ns) * per_ns;
			s->tokens_at_ns = from_ns;
		}
		if (s->tokens > (double)s->cfg.bucket_bytes)
			s->tokens = (double)s->cfg.bucket_bytes;
		if (s->tokens < bytes) { /* waits for the rest */
			uint64_t wait_ns = (uint64_t)(((double)bytes - s->tokens) / per_ns) + 1;

			from_ns += wait_ns;
			s->tokens_at_ns = from_ns;
			s->tokens = bytes;
		}
		s->tokens -= bytes;
		s->last_out_ns = from_ns;
		at_ns = from_ns;
	}
	if (s->cfg.cross_in_packets) {
		while (s->cross_next_ns <= at_ns) {
			uint64_t rate = sim_cross_bps(s, s->cross_next_ns);
			uint32_t burst_bytes = SIM_PKT *
					       (s->cfg.cross_burst ? s->cfg.cross_burst : 1);
			double gap_ns;

			if (!rate) {
				s->cross_next_ns = step_ns > s->cross_next_ns ? step_ns
									      : ~0ULL >> 1;
				continue;
			}
			sim_fifo_drain(s, s->cross_next_ns, 0);
			s->fifo_ns += sim_wire_ns(s, burst_bytes);
			gap_ns = (double)burst_bytes * 8e9 / (double)rate;
			if (s->cfg.cross_in_packets == 1)
				gap_ns *= (double)rnd_in(&s->seed, 500, 1500) / 1000.0;
			else
				gap_ns *= sim_exponential(&s->seed);
			s->cross_next_ns += (uint64_t)gap_ns + 1;
		}
	} else if (step_ns > s->fifo_at_ns && step_ns <= at_ns) {
		sim_fifo_drain(s, step_ns, s->cfg.cross_bps);
	}
	if (at_ns > s->fifo_at_ns)
		sim_fifo_drain(s, at_ns, sim_cross_bps(s, at_ns));
	s->fifo_ns += sim_wire_ns(s, bytes);
	s->queue_sum_us += s->fifo_ns / 1000;
	s->queue_samples++;
	return at_ns + s->fifo_ns;
}

/* ---- receiver ---- */

static inline void sim_ack_leaves(struct sim *s, uint64_t at_ns)
{
	uint64_t arrives_ns = at_ns + (uint64_t)s->cfg.rtt_us * 1000 / 2;
	uint64_t grid_ns = (uint64_t)s->cfg.bunch_us * 1000;

	s->rcv_acked = s->rcv_nxt;
	s->rcv_unacked = 0;
	s->delack_at_ns = 0;
	if (s->cfg.jitter_us)
		arrives_ns += rnd_in(&s->seed, 0, s->cfg.jitter_us * 1000ULL);
	if (s->cfg.stall_us && arrives_ns >= s->cfg.stall_at_us * 1000 &&
	    arrives_ns < (s->cfg.stall_at_us + s->cfg.stall_us) * 1000)
		arrives_ns = (s->cfg.stall_at_us + s->cfg.stall_us) * 1000;
	if (grid_ns)
		arrives_ns = (arrives_ns + grid_ns - 1) / grid_ns * grid_ns;
	if (arrives_ns < s->last_ack_ns + 1000)
		arrives_ns = s->last_ack_ns + 1000;
	if (s->cfg.ack_filter && s->ack_tail != s->ack_head && grid_ns &&
	    arrives_ns / grid_ns == s->last_ack_ns / grid_ns) {
		s->acks[(s->ack_tail - 1) % SIM_ACKS].una = s->rcv_acked;
		return;
	}
	s->last_ack_ns = arrives_ns;
	s->acks[s->ack_tail % SIM_ACKS].at_ns = arrives_ns;
	s->acks[s->ack_tail % SIM_ACKS].una = s->rcv_acked;
	s->ack_tail++;
	if (s->ack_tail - s->ack_head >= SIM_ACKS)
		fail_msg("path_sim: too many ACKs on their way");
}

static inline void sim_receive(struct sim *s, uint64_t at_ns, uint32_t bytes, int last_of_chunk)
{
	uint32_t every = s->cfg.acks_every ? s->cfg.acks_every : 1;

	if (s->delack_at_ns && s->delack_at_ns <= at_ns)
		sim_ack_leaves(s, s->delack_at_ns);
	s->rcv_nxt += bytes;
	if (s->cfg.gro && !last_of_chunk)
		return;
	s->rcv_unacked++;
	if (s->rcv_unacked >= every || s->cfg.gro)
		sim_ack_leaves(s, at_ns);
	else if (!s->delack_at_ns)
		s->delack_at_ns = at_ns + SIM_DELACK_NS;
}

/* ---- sender: as imtcp_adapter.h ---- */

static inline uint32_t sim_flight_segs(const struct sim *s)
{
	return (s->snd_nxt - s->snd_una + SIM_MSS - 1) / SIM_MSS;
}

static inline uint64_t sim_base_bps(const struct sim *s)
{
	uint64_t bytes = (uint64_t)s->w.cwnd_segs * SIM_PKT;
	uint32_t gain_q8 = 307;

	if (!s->srtt_us)
		return IMTCP_U64_MAX;
	if (s->w.cwnd_segs < s->w.ssthresh_segs / 2)
		gain_q8 = 512;
	else if (!s->cfg.cwnd_segs && s->facts.cap_segs)
		gain_q8 = 269;
	return imtcp_rate_bps(bytes * gain_q8 / 256, s->srtt_us);
}

static inline uint32_t sim_chunk_segs(const struct sim *s, uint64_t base_bps)
{
	uint64_t bytes = (base_bps / 8) >> SIM_AUTOSIZE_SHIFT;
	uint32_t most = s->cfg.max_chunk ? s->cfg.max_chunk : SIM_CHUNK_MAX_SEGS;
	uint32_t segs = (uint32_t)imtcp_clamp(bytes / SIM_MSS, 1, most);

	if ((segs & 1) && segs > 1 && s->m.ack_ratio_q8 > 384)
		segs++;
	return segs;
}

static inline void sim_note_result(struct sim *s)
{
	const struct imtcp_result *r = &s->m.result;
	struct sim_result *out = &s->results[s->n_results % SIM_RESULTS];

	out->at_us = r->at_us;
	out->avail_bps = r->avail_bps;
	out->low_bps = r->low_bps;
	out->high_bps = r->high_bps;
	out->next_low_bps = s->m.low_bps;
	out->next_high_bps = s->m.high_bps;
	out->outcome = r->outcome;
	out->sub_range = r->sub_range;
	out->streams = r->streams;
	out->validity_pct = r->validity_pct;
	out->n = s->m.n;
	out->m = s->m.m;
	out->pause_rtts = s->m.pause_rtts;
	s->n_results++;
	imtcp_bg_on_result(&s->bg, &s->m, &s->params, r);
	if (!s->cfg.reno)
		imtcp_bg_lapse(&s->bg, &s->m, &s->params, r);
}

/* What must hold whatever happens. */
static inline void sim_invariants(const struct sim *s)
{
	const struct imtcp_meas *m = &s->m;

	assert_true(m->low_bps <= m->high_bps);
	assert_in_range(m->n, 2, IMTCP_STREAM_MAX);
	assert_in_range(m->m, IMTCP_STORE_PACKETS_LEAST, m->n);
	assert_at_most(m->hold_us, IMTCP_T_MAX_US);
	assert_true(m->sending <= IMTCP_SUB_RANGES && m->judged <= IMTCP_SUB_RANGES);
	assert_true(m->planned <= IMTCP_SUB_RANGES);
	assert_true(m->result.validity_pct <= 100);
	assert_true(m->unit <= IMTCP_PASS);
	if (m->link_bps)
		assert_at_most(m->high_bps, imtcp_max(m->link_bps, 1));
}

static inline void sim_send_event(const struct sim *s, struct imtcp_departure *ev,
				  uint64_t base_bps)
{
	uint64_t unsent = s->written;

	memset(ev, 0, sizeof(*ev));
	ev->now_us = sim_us(s);
	ev->base_bps = base_bps;
	ev->snd_nxt = s->snd_nxt;
	ev->cwnd_segs = s->w.cwnd_segs;
	ev->flight_segs = sim_flight_segs(s);
	ev->unsent_bytes = unsent > 4000000 ? 4000000 : (uint32_t)unsent; /* a socket buffer */
	ev->mss_bytes = SIM_MSS;
	ev->chunk_segs = s->chunk_segs;
	ev->rtt_dev_us = s->mdev_us;
	ev->srtt_us = s->srtt_us;
	ev->recovering = s->recovering || s->bg.draining;
	ev->slow_start = s->w.cwnd_segs < s->w.ssthresh_segs / 2;
}

/* Up to one departure. Returns 1 if there was one. */
static inline int sim_try_send(struct sim *s)
{
	struct imtcp_departure ev;
	uint64_t base_bps = sim_base_bps(s), bps = 0, len_ns, credit_ns, sent_us;
	uint32_t room, segs, i, bytes, plan = IMTCP_PLAN_PLAIN;
	uint32_t max_segs = 2, left;

	if (base_bps != IMTCP_U64_MAX) {
		if (s->cfg.max_bps)
			base_bps = imtcp_min(base_bps, s->cfg.max_bps);
		s->chunk_segs = sim_chunk_segs(s, base_bps);
		imtcp_meas_adapt_n(&s->m, &s->params, s->chunk_segs);
		sim_send_event(s, &ev, base_bps);
		for (i = 0; i <= (s->cfg.idempotence ? 5U : 0U); i++)
			if (imtcp_meas_on_send(&s->m, &ev))
				sim_note_result(s);
		sim_invariants(s);
		bps = s->m.next_bps;
		if (s->cfg.max_bps && s->m.plan != IMTCP_PLAN_STREAM)
			bps = imtcp_min(bps, s->cfg.max_bps);
		assert_true(s->m.next_bps > 0);
		max_segs = s->m.burst_segs ? s->m.burst_segs : s->chunk_segs;
		plan = s->m.plan;
	}
	room = (uint32_t)imtcp_sub(s->w.cwnd_segs, sim_flight_segs(s));
	if (!room)
		s->full = 1;
	if (!room || !s->written || (s->wstamp_ns > s->now_ns && bps))
		return 0;
	segs = room < max_segs ? room : max_segs;
	bytes = (uint32_t)imtcp_min((uint64_t)segs * SIM_MSS, s->written);
	s->written -= bytes;
	sent_us = sim_us(s);

	/* the kernel's pacing */
	if (bps && s->segs_out >= SIM_UNPACED_SEGS) {
		uint64_t payload = imtcp_max(imtcp_scale(bps, SIM_MSS, SIM_PKT) / 8, 1);

		len_ns = (uint64_t)bytes * SIM_NSEC / payload;
		credit_ns = s->now_ns - s->wstamp_ns;
		s->wstamp_ns = s->now_ns;
		len_ns -= imtcp_min(len_ns / 2, credit_ns);
		s->wstamp_ns += len_ns;
		/* slower than the ordinary gap, or it is none */
		if (plan == IMTCP_PLAN_HOLD && bps < base_bps)
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
		out_ns = sim_fifo(s, s->now_ns, payload + SIM_PKT - SIM_MSS);
		sim_receive(s, out_ns + (uint64_t)s->cfg.rtt_us * 1000 / 2, payload, !left);
	}
	s->last_departure_ns = s->now_ns;
	s->departures++;
	return 1;
}

static inline void sim_rtt(struct sim *s, uint32_t rtt_us)
{
	if (!s->srtt_us) {
		s->srtt_us = rtt_us;
		s->mdev_us = rtt_us / 2;
	} else { /* RFC 6298 §2.3 */
		uint32_t d = rtt_us > s->srtt_us ? rtt_us - s->srtt_us : s->srtt_us - rtt_us;

		s->mdev_us = s->mdev_us - s->mdev_us / 4 + d / 4;
		s->srtt_us = s->srtt_us - s->srtt_us / 8 + rtt_us / 8;
	}
}

static inline void sim_on_ack(struct sim *s, uint32_t una)
{
	struct imtcp_sample ev;
	uint32_t acked = 0, prior = s->snd_una;
	uint64_t sent_us = 0;
	int ended;

	while (s->flight_head != s->flight_tail &&
	       !imtcp_seq_before(una, s->flight[s->flight_head % SIM_FLIGHT].end_seq)) {
		sent_us = s->flight[s->flight_head % SIM_FLIGHT].sent_us;
		s->flight_head++;
		acked++;
	}
	if (!acked)
		return;
	s->bytes_acked += una - prior;
	s->snd_una = una;
	memset(&ev, 0, sizeof(ev));
	ev.now_us = sim_us(s);
	ev.snd_una = una;
	ev.prior_una = prior;
	ev.snd_nxt = s->snd_nxt;
	ev.rtt_us = (int32_t)(ev.now_us - sent_us);
	ev.mss_bytes = SIM_MSS;
	ev.wire_q8 = SIM_PKT * 256 / SIM_MSS;
	sim_rtt(s, (uint32_t)ev.rtt_us);
	ev.srtt_us = s->srtt_us;
	imtcp_minrtt_on_sample(&s->facts.minrtt, ev.now_us, ev.rtt_us);
	ev.min_rtt_us = s->facts.minrtt.base_us;
	imtcp_bg_on_rtt(&s->bg, ev.min_rtt_us, ev.now_us, ev.rtt_us);
	ended = meas_on_ack(&s->m, &s->facts.round, &ev);
	sim_invariants(s);
	if (ended)
		sim_note_result(s);
	s->round_over |= ev.round_over;
	if (s->cfg.cwnd_segs && !s->cfg.reno) {
		s->w.cwnd_segs = s->cfg.cwnd_segs;
		s->w.ssthresh_segs = s->cfg.cwnd_segs;
		return;
	}
	if (!s->cfg.reno) {
		struct imtcp_estimate e = imtcp_estimate_now(&s->m);

		imtcp_bg_set_cap(&s->bg, &s->facts, &s->params, &e, SIM_PKT, s->m.n + 2);
		if (s->round_over) {
			struct imtcp_bg_round_end end = {ev.now_us, 0, s->full};

			imtcp_bg_on_round(&s->bg, &s->facts, &s->params, &s->w, &end);
		}
	}
	if (s->full && !s->bg.draining)
		imtcp_reno_grow(&s->w, acked, s->cfg.cwnd_segs ? s->cfg.cwnd_segs : SIM_CWND_MOST);
	if (s->round_over)
		s->round_over = s->full = 0;
	if (!s->cfg.reno)
		imtcp_bg_apply_cap(&s->bg, &s->facts, &s->w, 0);
	/* the ceiling's window, as the adapter's */
	if (s->cfg.max_bps) {
		uint32_t most = imtcp_window_segs(s->cfg.max_bps, s->srtt_us, SIM_PKT);

		s->w.cwnd_segs = (uint32_t)imtcp_min(s->w.cwnd_segs,
						     imtcp_max(most, IMTCP_BG_FIRST_LEAST_SEGS));
	}
}

/* Goes on until until_us, or until the measurement says so. */
static inline void sim_run(struct sim *s, uint64_t until_us)
{
	uint64_t until_ns = until_us * 1000;

	for (;;) {
		uint64_t next_ns = ~0ULL;
		const struct sim_ack *a = &s->acks[s->ack_head % SIM_ACKS];

		while (sim_try_send(s))
			;
		if (s->ack_head != s->ack_tail)
			next_ns = a->at_ns;
		/* a departure may come before the receiver gives up to wait for it */
		if (s->wstamp_ns > s->now_ns)
			next_ns = imtcp_min(next_ns, s->wstamp_ns);
		if (s->delack_at_ns && s->delack_at_ns < next_ns) {
			/* what waits at the receiver comes before anything later */
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

/* ---- what came out ---- */

struct sim_summary {
	uint32_t count[IMTCP_OUTCOMES];
	uint32_t results;
	uint64_t median_bps, least_bps, most_bps; /* of the valid ones */
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
		       (double)s->m.capacity_bps / 1e6, s->m.excess_q16 / 655.36,
		       (double)s->m.low_bps / 1e6, (double)s->m.high_bps / 1e6, s->w.cwnd_segs,
		       s->facts.cap_segs, s->m.n, s->m.m, s->m.pause_rtts);
		for (i = 1; i < IMTCP_OUTCOMES; i++)
			printf(" %u", out.count[i]);
		printf("\n");
	}
	return out;
}

#endif
