/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A peer that may say anything. It drives the core with numbers from a source of bytes (random, or
 * the fuzzer's). It checks invariants at each step.
 *
 * As in the kernel, snd_nxt only grows, snd_una stays within the data sent, and the clock never
 * runs backwards. The peer freely chooses its ACKs, their times, and the RTTs that its timestamps
 * give.
 */
#ifndef IMTCP_DRIVE_H
#define IMTCP_DRIVE_H

#include <imtcp/cc_bg.h>

struct drive_source {
	uint64_t (*next)(void *of); /* any 64 bits */
	int (*more)(void *of);
	void *of;
};

struct drive {
	struct imtcp_params params;
	struct imtcp_meas m;
	struct imtcp_facts facts;
	struct imtcp_bg bg;
	struct imtcp_window w;
	uint64_t now_us, acked_segs;
	uint32_t una, nxt, mss, header, floor_segs, limit_segs;
	uint32_t chunk_segs, round_over, srtt_us;
	uint32_t honest; /* share of plausible statements of the peer, in 64ths */
};

/* The reason of a failure; NULL: none. */
#define DRIVE_CHECK(what)                                                                          \
	do {                                                                                       \
		if (!(what))                                                                       \
			return #what;                                                              \
	} while (0)

static inline uint64_t drive_in(const struct drive_source *src, uint64_t low, uint64_t high)
{
	return low + src->next(src->of) % (high - low + 1);
}

/* Any magnitude: a uniform exponent. */
static inline uint64_t drive_any(const struct drive_source *src)
{
	uint64_t v = src->next(src->of);

	return v >> (src->next(src->of) & 63);
}

/* A plausible number, or one of any magnitude. */
static inline uint64_t drive_number(const struct drive *d, const struct drive_source *src,
				    uint64_t low, uint64_t high)
{
	return drive_in(src, 0, 63) < d->honest ? drive_in(src, low, high) : drive_any(src);
}

static inline const char *drive_invariants(const struct drive *d)
{
	const struct imtcp_meas *m = &d->m;
	uint32_t i;

	DRIVE_CHECK(m->low_bps <= m->high_bps);
	DRIVE_CHECK(!m->high_bps || m->low_bps > 0);
	DRIVE_CHECK(m->n >= 2 && m->n <= IMTCP_STREAM_MAX);
	DRIVE_CHECK(m->m >= IMTCP_STORE_PACKETS_LEAST && m->m <= m->n);
	DRIVE_CHECK(m->hold_us <= IMTCP_T_MAX_US);
	DRIVE_CHECK(m->pause_rtts <= IMTCP_PAUSE_RTTS);
	DRIVE_CHECK(m->unit <= IMTCP_PASS);
	DRIVE_CHECK(m->judged <= IMTCP_SUB_RANGES && m->sending <= IMTCP_SUB_RANGES);
	DRIVE_CHECK(m->planned <= IMTCP_SUB_RANGES);
	DRIVE_CHECK(m->result.outcome < IMTCP_OUTCOMES);
	DRIVE_CHECK(m->result.validity_pct <= 100);
	DRIVE_CHECK(m->result.sub_range <= IMTCP_SUB_RANGES + 1);
	/* The estimate lies within the searched range. */
	DRIVE_CHECK(m->result.avail_bps <= m->result.high_bps);
	DRIVE_CHECK(m->completed <= m->started);
	DRIVE_CHECK(m->store.count <= IMTCP_STORE_MAX);
	for (i = 0; i < IMTCP_SUB_RANGES; i++) {
		DRIVE_CHECK(m->stream[i].sent <= IMTCP_STREAM_MAX);
		DRIVE_CHECK(m->stream[i].cursor <= m->stream[i].sent);
	}
	DRIVE_CHECK(d->w.cwnd_segs >= 1);
	return NULL;
}

static inline void drive_init(struct drive *d, const struct drive_source *src)
{
	static const struct drive zero;
	struct imtcp_params chosen = {0};

	*d = zero;
	d->una = d->nxt = (uint32_t)src->next(src->of);
	d->honest = (uint32_t)imtcp_min(drive_in(src, 0, 127), 64);
	d->mss = drive_in(src, 0, 7) ? 1448 : (uint32_t)drive_in(src, 1, 9000);
	d->header = (uint32_t)drive_in(src, 20, 80);
	d->now_us = drive_in(src, 1, 1ULL << 40);
	d->w.cwnd_segs = (uint32_t)drive_in(src, 1, 100);
	d->chunk_segs = drive_in(src, 0, 1) ? 1 : (uint32_t)drive_in(src, 1, 46);
	d->w.ssthresh_segs = (uint32_t)drive_in(src, 2, IMTCP_U32_MAX);
	d->floor_segs = drive_in(src, 0, 3) ? 0 : (uint32_t)drive_in(src, 0, 50);
	d->limit_segs = (uint32_t)drive_in(src, 10, 100000);
	if (d->w.cwnd_segs > d->limit_segs)
		d->w.cwnd_segs = d->limit_segs;
	imtcp_params_init(&d->params);
	chosen.gamma_q16 = (uint32_t)drive_any(src);
	chosen.delta_q8 = (uint32_t)drive_any(src);
	chosen.stream_packets = (uint32_t)drive_any(src);
	chosen.g_q8 = (uint32_t)drive_any(src);
	/* These use a number that is drawn already, so inputs of the corpus keep their meaning. */
	if (chosen.gamma_q16 & 1)
		chosen.pause_plus1 = chosen.gamma_q16 >> 24;
	if (chosen.gamma_q16 & 2)
		chosen.store_packets = chosen.gamma_q16 >> 24;
	imtcp_params_choose(&d->params, &chosen);
	imtcp_meas_init(&d->m, &d->params, d->nxt);
}

/* A departure, or an attempt at one. */
static inline const char *drive_send(struct drive *d, const struct drive_source *src)
{
	uint32_t flight = imtcp_to_u32(imtcp_div(d->nxt - d->una, d->mss));
	struct imtcp_departure ev;
	const char *why;
	uint64_t most;

	ev.now_us = d->now_us;
	ev.base_bps = drive_number(d, src, 20000000, 100000000);
	if (!ev.base_bps)
		ev.base_bps = 1;
	ev.snd_nxt = d->nxt;
	ev.cwnd_segs = d->w.cwnd_segs;
	ev.flight_segs = flight;
	ev.most_flight_segs = (uint32_t)drive_number(d, src, flight, 2 * flight);
	ev.unsent_bytes = (uint32_t)drive_number(d, src, 1U << 24, 1U << 25);
	ev.mss_bytes = d->mss;
	ev.chunk_segs = d->chunk_segs;
	ev.rtt_dev_us = (uint32_t)drive_number(d, src, 100, 1000);
	ev.srtt_us = d->srtt_us;
	ev.recovering = drive_in(src, 0, 63) > d->honest;
	ev.slow_start = imtcp_in_slow_start(&d->w);
	imtcp_meas_adapt_n(&d->m, &d->params, ev.chunk_segs);
	imtcp_meas_on_send(&d->m, &ev);
	why = drive_invariants(d);
	if (why)
		return why;
	DRIVE_CHECK(d->m.next_bps > 0);
	/* Never faster than EMPTY or the searched range. */
	most = imtcp_max(ev.base_bps, imtcp_scale(ev.base_bps, IMTCP_EMPTY_GAIN_Q8, 256));
	most = imtcp_max(most, d->m.high_bps);
	DRIVE_CHECK(d->m.next_bps <= most);
	DRIVE_CHECK(d->m.burst_segs <= ev.cwnd_segs);
	if (flight < d->w.cwnd_segs && drive_in(src, 0, 7)) {
		uint32_t segs = ev.chunk_segs;

		if (segs > d->w.cwnd_segs - flight)
			segs = d->w.cwnd_segs - flight;
		d->nxt += segs * d->mss;
	}
	return NULL;
}

/* imtcp_bg's window after an ACK of segs segments. */
static inline const char *drive_bg(struct drive *d, struct imtcp_sample *s, uint32_t segs)
{
	struct imtcp_estimate e;

	s->acked_segs = segs;
	s->limit_segs = d->limit_segs;
	s->full = s->round_full = 1;
	s->delivered_segs = 0;
	s->front_segs = d->limit_segs & 1 ? d->nxt >> 8 & 1023 : 0;
	/* as imtcp_bg_learn does it */
	if (d->round_over || !d->facts.cap_segs) {
		e = imtcp_estimate_now(&d->m, d->now_us);
		d->facts.cap_segs = imtcp_bg_cap_segs(&e, d->params.g_q8, s->min_rtt_us,
						      d->mss + d->header, d->m.n + 2);
		/* the cap carries a measurement */
		DRIVE_CHECK(!d->facts.cap_segs || d->facts.cap_segs >= d->m.n + 2);
	}
	d->facts.acked_at_us = d->now_us;
	if (d->round_over)
		imtcp_bg_on_round(&d->bg, &d->facts, s, &d->w);
	if (d->bg.draining || !s->min_rtt_us)
		return NULL;
	imtcp_bg_steer(&d->bg, &d->facts, d->params.delta_q8, &d->w, s);
	DRIVE_CHECK(d->bg.window_q16 >= imtcp_bg_least_q16(d->facts.neighbours));
	DRIVE_CHECK(!d->facts.cap_segs || d->w.cwnd_segs <= d->facts.cap_segs);
	return NULL;
}

/* An ACK that moves snd_una, at any time, with any round trip time. */
static inline const char *drive_ack(struct drive *d, const struct drive_source *src, int bg)
{
	uint32_t outstanding = d->nxt - d->una, acked, segs, before;
	struct imtcp_sample ev;
	int ended, slow_start;

	if (!outstanding)
		return NULL;
	acked = drive_in(src, 0, 3) ? d->mss * (uint32_t)drive_in(src, 1, 4)
				    : (uint32_t)drive_in(src, 1, outstanding);
	if (acked > outstanding)
		acked = outstanding;
	ev.now_us = d->now_us;
	ev.prior_una = d->una;
	ev.snd_una = d->una += acked;
	ev.snd_nxt = d->nxt;
	ev.rtt_us = (int32_t)drive_number(d, src, 20000, 20300);
	ev.mss_bytes = d->mss;
	ev.wire_q8 = (d->mss + d->header) * 256 / d->mss;
	if (ev.rtt_us > 0)
		d->srtt_us = (uint32_t)ev.rtt_us;
	ev.srtt_us = d->srtt_us;
	imtcp_minrtt_on_sample(&d->facts.minrtt, ev.now_us, ev.rtt_us);
	ev.min_rtt_us = d->facts.minrtt.base_us;
	imtcp_bg_on_rtt(&d->bg, ev.min_rtt_us, ev.now_us, ev.rtt_us);
	ev.round_over = (uint32_t)imtcp_round_on_ack(&d->facts.round, ev.now_us, ev.snd_una,
						     ev.snd_nxt, ev.rtt_us, ev.wire_q8);
	ended = imtcp_meas_on_ack(&d->m, &d->facts.round, &ev);
	DRIVE_CHECK(ended == 0 || ended == 1);
	if (ended)
		imtcp_estimate_on_result(&d->m, &d->params, &d->m.result,
					 d->bg.queue_us < ev.min_rtt_us / 10);
	d->round_over |= ev.round_over;

	/* The window, as the adapter sets it. Segments that the peer has not received grow
	 * nothing. */
	segs = (acked + d->mss - 1) / d->mss;
	before = d->w.cwnd_segs;
	slow_start = imtcp_in_slow_start(&d->w);
	if (bg) {
		uint32_t front_segs = d->bg.front_segs;
		const char *why;

		/* the part of the window that the own foreground had comes back at once */
		before = (uint32_t)imtcp_max(before, d->bg.window_q16 >> 16);
		why = drive_bg(d, &ev, segs);

		if (why)
			return why;
		/* never above slow start [RFC 5681 §3.1], of all that the host has acknowledged; a pace
		 * below two segments has a window of four */
		DRIVE_CHECK(d->facts.trickle_q16 || ev.front_segs || front_segs ||
			    d->w.cwnd_segs <= (uint64_t)before + segs);
	} else {
		uint64_t credit = d->w.credit_segs;

		imtcp_reno_grow(&d->w, segs, d->limit_segs);
		/* RFC 5681: in slow start at most the acknowledged segments; else one per window */
		DRIVE_CHECK(d->w.cwnd_segs <= (uint64_t)before + segs);
		DRIVE_CHECK(slow_start || d->w.cwnd_segs <= before + 1);
		DRIVE_CHECK(slow_start || credit + segs >= before || d->w.cwnd_segs <= before);
	}
	d->round_over = 0;
	DRIVE_CHECK(d->w.cwnd_segs <= d->limit_segs);
	return drive_invariants(d);
}

static inline const char *drive_loss(struct drive *d)
{
	uint32_t before = d->w.cwnd_segs;

	d->w.ssthresh_segs = imtcp_reno_ssthresh(before);
	d->w.cwnd_segs = d->w.ssthresh_segs < before ? d->w.ssthresh_segs : before;
	imtcp_meas_before_loss(&d->m);
	imtcp_meas_on_loss(&d->m, d->now_us, d->nxt, d->srtt_us);
	DRIVE_CHECK(d->m.blocked);
	DRIVE_CHECK(d->m.planned == 0);
	DRIVE_CHECK(d->m.plan == IMTCP_PLAN_PLAIN);
	return drive_invariants(d);
}

/* Steps until the source is empty or a check fails. */
static inline const char *drive_run(struct drive *d, const struct drive_source *src)
{
	const char *why = NULL;
	int bg;

	drive_init(d, src);
	bg = (int)drive_in(src, 0, 3);
	while (!why && src->more(src->of)) {
		uint64_t what = drive_in(src, 0, 63);

		d->now_us += drive_in(src, 0, 63) <= d->honest ? drive_in(src, 0, 300)
							       : drive_any(src) >> 34;
		if (what < 34)
			why = drive_send(d, src);
		else if (what < 62)
			why = drive_ack(d, src, bg);
		else
			why = drive_in(src, 0, 63) > d->honest ? drive_loss(d) : NULL;
	}
	return why;
}

#endif
