/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The simulated path (path_sim.h): its state, the FIFO, the receiver and the way back.
 *
 * - FIFO: work in nanoseconds. It drains at the rate that cross traffic leaves. Cross traffic has a
 *   constant rate, and may step to a second one. It is fluid or in packets, almost regular or
 *   Poisson.
 * - Receiver: acknowledges every acks_every-th segment, or after 40 ms. With gro the segments of a
 *   chunk count as one.
 * - Way back: with bunch_us, ACKs wait for its next multiple and come together (Wi-Fi aggregation,
 *   interrupt coalescing). With ack_filter only the newest of them comes.
 */
#ifndef IMTCP_SIM_PATH_H
#define IMTCP_SIM_PATH_H

#include "controls.h"
#include "test.h"

#define SIM_NSEC 1000000000ULL
#define SIM_MSS 1448U
#define SIM_PKT 1500U /* on the wire */
#define SIM_DELACK_NS (40 * 1000000ULL)
#define SIM_ACKS 8192U /* ACKs on the way back */
#define SIM_FLIGHT 16384U
#define SIM_CWND_MOST 4096U /* the receiver's window */
#define SIM_RESULTS 8192U
#define SIM_UNPACED_SEGS 10U

struct sim_cfg {
	const char *name;
	const struct control *control; /* NULL: imtcp_bg or measure */
	uint64_t capacity_bps;
	uint64_t cross_bps;
	uint64_t step_at_us; /* 0: no step */
	uint64_t cross_after_bps;
	uint64_t bucket_bps; /* token bucket in front of the FIFO; 0: none */
	uint64_t bucket_bytes;
	uint64_t max_bps;      /* pacing ceiling; 0: none */
	uint64_t app_bytes;    /* data of the application; 0: endless */
	uint64_t app_bps;      /* rate of its writes; 0: all at once */
	uint32_t sndbuf_bytes; /* most in flight and unsent; 0: no limit */
	uint32_t unsent_bytes; /* most unsent (TCP_NOTSENT_LOWAT); 0: no limit */
	uint32_t rcv_segs;     /* the receiver's window; 0: no limit */
	uint64_t stall_us;     /* length of a stall of ACKs */
	uint64_t stall_at_us;  /* start of the stall */
	uint32_t mtu_bytes;    /* the bottleneck fragments longer packets; 0: it does not */
	uint32_t rtt_us;       /* without queue */
	uint32_t rtt_after_us; /* after step_at_us; 0: the same */
	uint32_t others_us;    /* others' queue that never empties: the most; half is the least */
	uint32_t others_period_us;
	uint32_t cwnd_segs;  /* fixed window; 0: the control sets it */
	uint32_t acks_every; /* 0 and 1: every segment */
	uint32_t bunch_us;
	uint32_t jitter_us;    /* on the way back, in order */
	uint32_t max_chunk;    /* most segments of one buffer; 0: the usual number */
	uint32_t pacing_shift; /* sk_pacing_shift; 0: the usual one */
	uint64_t seed;
	int cross_in_packets; /* 1: gaps within half of their mean, 2: exponential */
	uint32_t cross_burst; /* packets per burst; 0: one */
	int ack_filter;
	int gro;
	int reno;	 /* grows without the brakes of imtcp_bg, up to cwnd_segs */
	int idempotence; /* call space many times before each departure */
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
	struct imtcp_flow flow;
	const struct control *control;
	union control_own own;
	struct imtcp_window w; /* TCP's window */
	uint64_t now_ns, seed;
	/* sender */
	uint32_t snd_una, snd_nxt;
	uint64_t written; /* bytes left to send */
	uint64_t began_ns;
	uint32_t srtt_us, mdev_us, newest_rtt_us;
	uint32_t limited, most_out_segs, usage_seq; /* state of tcp_cwnd_validate */
	uint64_t wstamp_ns;			    /* no departure before this */
	uint64_t segs_out;
	uint64_t first_nxt_ns; /* departure of the first segment */
	struct {
		uint32_t end_seq;
		uint64_t sent_us;
	} flight[SIM_FLIGHT];
	uint32_t flight_head, flight_tail;
	/* FIFO */
	uint64_t fifo_ns; /* work in the FIFO */
	uint64_t fifo_at_ns;
	uint64_t cross_next_ns;
	uint64_t last_out_ns;
	double tokens;
	uint64_t tokens_at_ns;
	/* receiver and the way back */
	uint64_t arrival_ns; /* of the newest segment */
	uint32_t rcv_nxt, rcv_unacked, rcv_acked;
	uint64_t delack_at_ns; /* 0: none pending */
	struct sim_ack acks[SIM_ACKS];
	uint32_t ack_head, ack_tail;
	uint64_t last_ack_ns;
	/* results for the tests */
	struct sim_result results[SIM_RESULTS];
	uint32_t n_results;
	uint64_t bytes_acked;
	uint64_t longest_hold_us;    /* longest gap before a stream */
	uint64_t longest_silence_us; /* longest gap with room, data and no loss recovery */
	uint64_t queue_sum_us, queue_samples;
	uint64_t last_departure_ns;
	uint32_t departures;
	uint32_t holds; /* holds of the papers' controls */
	uint64_t bytes_out;
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
	s->usage_seq = s->snd_nxt;
	imtcp_params_init(&s->flow.params);
	s->began_ns = s->now_ns;
	s->control = cfg->control		   ? cfg->control
		     : cfg->cwnd_segs || cfg->reno ? &control_measure
						   : &control_bg;
	imtcp_flow_begin(&s->flow, s->now_ns / 1000, s->snd_una, s->snd_nxt);
	s->control->start(&s->flow, &s->own, &s->w);
}

static inline uint64_t sim_us(const struct sim *s)
{
	return s->now_ns / 1000;
}

/* Delay of a segment that leaves now, from the path and others' sawtooth. */
static inline uint64_t sim_way_us(const struct sim *s)
{
	uint64_t us = s->cfg.rtt_us;

	if (s->cfg.rtt_after_us && sim_us(s) >= s->cfg.step_at_us)
		us = s->cfg.rtt_after_us;
	if (s->cfg.others_us)
		us += s->cfg.others_us / 2 + s->cfg.others_us / 2 *
						     (sim_us(s) % s->cfg.others_period_us) /
						     s->cfg.others_period_us;
	return us;
}

static inline uint64_t sim_cross_bps(const struct sim *s, uint64_t at_ns)
{
	return s->cfg.step_at_us && at_ns >= s->cfg.step_at_us * 1000 ? s->cfg.cross_after_bps
								      : s->cfg.cross_bps;
}

/* Available bandwidth now. */
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

/* Bytes of a packet on a link that fragments it. Each further piece has the headers of Ethernet and
 * IP. */
static inline uint32_t sim_fragmented(const struct sim *s, uint32_t bytes)
{
	uint32_t mtu = s->cfg.mtu_bytes;

	return mtu ? bytes + (bytes - 1) / mtu * 34 : bytes;
}

static inline uint64_t sim_wire_ns(const struct sim *s, uint64_t bytes)
{
	return bytes * 8 * SIM_NSEC / s->cfg.capacity_bps;
}

/* -ln(u), u uniform in (0, 1), with mean 1. It sums over bits, without libm. */
static inline double sim_exponential(uint64_t *seed)
{
	/* Failures of a coin with probability 1/32, in units of 1/32. */
	uint32_t i = 1;

	while (i < 400 && (rnd(seed) & 31))
		i++;
	return (double)i / 32.0;
}

/* Queues one packet at at_ns, and returns its departure. Calls must be in order of time. */
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
		if (s->tokens < bytes) { /* waits for the missing tokens */
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

#endif
