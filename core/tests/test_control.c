// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The Control unit [IM §3.3], one call at a time. */
#include "test.h"

#define MSS 1448U
#define K IMTCP_SUB_RANGES

/* A sender that the test moves by hand. */
struct hand {
	struct imtcp_meas m;
	struct imtcp_round round;
	struct imtcp_departure ev;
	uint32_t una;
};

static void begin(struct hand *h)
{
	memset(h, 0, sizeof(*h));
	h->una = h->ev.snd_nxt = 0xffffe000U; /* wraps */
	imtcp_meas_init(&h->m, defaults(), h->ev.snd_nxt);
	h->m.capacity_bps = 100 * MBPS;
	imtcp_meas_set_range(&h->m, 40 * MBPS, 80 * MBPS);
	h->ev.now_us = 5000000;
	h->ev.base_bps = 50 * MBPS;
	h->ev.cwnd_segs = 200;
	h->ev.unsent_bytes = 10000000;
	h->ev.mss_bytes = MSS;
	h->ev.chunk_segs = 1;
	h->ev.rtt_dev_us = 1000;
	h->ev.srtt_us = 30000;
}

static int ask(struct hand *h)
{
	return imtcp_meas_on_send(&h->m, &h->ev);
}

/* A packet leaves after it was asked about; returns what on_send said before it. */
static int leave(struct hand *h)
{
	int ended = ask(h);
	uint32_t bytes = h->ev.chunk_segs * MSS;

	h->ev.now_us += imtcp_time_us(bytes, h->m.next_bps) + 1;
	h->ev.snd_nxt += bytes;
	h->ev.flight_segs += h->ev.chunk_segs;
	return ended;
}

/* All that is in flight is acknowledged, rtt_us after it left; every packet with its own ACK. */
static int acknowledge(struct hand *h, uint32_t segs, int32_t rtt_us)
{
	struct imtcp_sample a;
	int what = 0;

	memset(&a, 0, sizeof(a));
	a.mss_bytes = MSS;
	a.wire_q8 = 256;
	a.srtt_us = h->ev.srtt_us;
	a.min_rtt_us = 30000;
	a.snd_nxt = h->ev.snd_nxt;
	while (segs-- && h->una != h->ev.snd_nxt) {
		a.prior_una = h->una;
		h->una += MSS;
		h->ev.flight_segs--;
		a.snd_una = h->una;
		a.rtt_us = rtt_us;
		h->ev.now_us += 200;
		a.now_us = h->ev.now_us;
		what |= meas_on_ack(&h->m, &h->round, &a);
	}
	return what;
}

static void a_packet_climbs_through_store_send_empty_and_pass(void **state)
{
	struct hand h;
	uint32_t stream, j, guard;

	(void)state;
	begin(&h);
	for (stream = 0; stream < IMTCP_GAP_STREAMS; stream++) {
		for (guard = 0; h.m.plan != IMTCP_PLAN_STREAM && guard < 200; guard++) {
			h.ev.flight_segs = 0; /* room for all that it may want */
			leave(&h);
		}
		assert_int_equal(h.m.plan, IMTCP_PLAN_STREAM); /* the first has left */
		assert_int_equal(h.m.sending, stream);
		for (j = 1; j < h.m.n; j++) {
			leave(&h);
			assert_int_equal(h.m.unit, IMTCP_SEND);
			assert_int_equal(h.m.plan, IMTCP_PLAN_STREAM);
		}
		ask(&h);
		assert_int_equal(h.m.stream[stream].sent, h.m.n);
		if (stream + 1 == IMTCP_GAP_STREAMS)
			assert_int_equal(h.m.unit, IMTCP_PASS);
		else /* m packets are still held: the next one at once */
			assert_int_equal(h.m.plan, IMTCP_PLAN_STREAM);
		if (stream + 1 < IMTCP_GAP_STREAMS)
			leave(&h);
	}
	assert_int_equal(h.m.started, 1);
	for (j = 0; j < 50; j++) {
		leave(&h);
		assert_int_equal(h.m.unit, IMTCP_PASS);
		/* released at once: as usual, or faster while there is a backlog */
		assert_true(h.m.next_bps >= h.ev.base_bps);
	}
}

static void the_gaps_of_a_stream_are_those_of_the_equation(void **state)
{
	struct hand h;
	uint32_t j;

	(void)state;
	begin(&h);
	for (j = 0; j < h.m.n; j++) {
		ask(&h);
		assert_int_equal(h.m.plan, IMTCP_PLAN_STREAM);
		if (j + 1 < h.m.n) {
			/* (70, 80): 70 + (j+1) · 10/(N-1), the gap after packet j */
			uint64_t low = 80 * MBPS - 40 * MBPS / K, width = 40 * MBPS / K;

			assert_int_equal(h.m.next_bps, low + width * (j + 1) / (h.m.n - 1));
		}
		leave(&h);
	}
}

static void asking_again_without_a_departure_changes_nothing(void **state)
{
	static const uint32_t flights[] = {0, 100, 195, 199, 200};
	struct imtcp_meas once;
	struct hand h;
	uint32_t i, j, k;

	(void)state;
	for (i = 0; i < sizeof(flights) / sizeof(flights[0]); i++) {
		begin(&h);
		for (j = 0; j < 120; j++) {
			h.ev.flight_segs = flights[i];
			ask(&h);
			once = h.m;
			for (k = 0; k < 20; k++)
				assert_int_equal(ask(&h), 0);
			assert_memory_equal(&once, &h.m, sizeof(once));
			leave(&h);
		}
	}
}

static void a_hold_is_never_longer_than_t(void **state)
{
	uint64_t seed = 7, limit_us, gap_us, bytes, rate;
	uint32_t i, room, holds = 0;
	struct hand h;

	(void)state;
	for (i = 0; i < 20000; i++) {
		begin(&h);
		h.m.capacity_bps = rnd_in(&seed, 100 * KBPS, 400 * GBPS);
		imtcp_meas_set_range(&h.m, h.m.capacity_bps / 2, h.m.capacity_bps);
		h.m.delivery_bps = rnd_any(&seed) >> 20;
		h.ev.base_bps = rnd_in(&seed, 10 * KBPS, 400 * GBPS);
		h.ev.chunk_segs = (uint32_t)rnd_in(&seed, 1, 45);
		h.ev.rtt_dev_us = (uint32_t)rnd_in(&seed, 0, 100000);
		h.ev.srtt_us = (uint32_t)rnd_in(&seed, 1, 1000000);
		h.ev.cwnd_segs = (uint32_t)rnd_in(&seed, 2, 4000);
		room = (uint32_t)rnd_in(&seed, 1, h.ev.cwnd_segs);
		h.ev.flight_segs = h.ev.cwnd_segs - room;
		ask(&h);
		if (h.m.plan != IMTCP_PLAN_HOLD)
			continue;
		holds++;
		bytes = (uint64_t)imtcp_min(room, h.ev.chunk_segs) * MSS;
		gap_us = imtcp_time_us(bytes, h.m.next_bps);
		/* T at the slower of the pacing rate and the delivery rate */
		rate = imtcp_min(h.ev.base_bps,
				 imtcp_rate_bps((uint64_t)h.ev.flight_segs * MSS, h.ev.srtt_us));
		limit_us = imtcp_min(
			imtcp_time_us((uint64_t)h.ev.chunk_segs * MSS * h.m.n, imtcp_max(rate, 1)) +
				(uint64_t)IMTCP_T_DEVIATIONS * h.ev.rtt_dev_us,
			IMTCP_T_MAX_US);
		/* the ordinary gap of one packet is no hold */
		limit_us = imtcp_max(limit_us, imtcp_time_us(bytes, h.ev.base_bps));
		if (gap_us > limit_us + limit_us / 100 + 2)
			fail_msg("case %u: %llu us, T is %llu", i, (unsigned long long)gap_us,
				 (unsigned long long)limit_us);
	}
	assert_true(holds > 1000);
}

/* [IM §4.1.3]: at 4 Mbit/s 12 packets take 36 ms, and a deviation of 10 ms would add 40. */
static void a_chosen_t_is_the_longest_hold_whatever_the_deviation_says(void **state)
{
	const uint32_t chosen_us[] = {4000, 10000, 40000};
	size_t i;

	(void)state;
	for (i = 0; i < 3; i++) {
		struct hand h;

		begin(&h);
		h.m.t_us = chosen_us[i];
		h.m.capacity_bps = 10 * MBPS;
		imtcp_meas_set_range(&h.m, 2 * MBPS, 8 * MBPS);
		h.ev.base_bps = 4 * MBPS;
		h.ev.rtt_dev_us = 10 * MSEC;
		h.ev.srtt_us = 180 * MSEC;
		h.ev.cwnd_segs = 60;
		h.ev.flight_segs = 59;
		assert_int_equal(imtcp_meas_hold_limit_us(&h.m, &h.ev, 4 * MBPS), chosen_us[i]);
		ask(&h);
		assert_int_equal(h.m.plan, IMTCP_PLAN_HOLD);
		assert_at_most(h.m.hold_us, chosen_us[i]);
	}
}

/* 1500 bytes at 1.5 MB/s: a gap of 1 ms, asked for as 1.25 ms where 0.25 will be taken off, and as 2 ms at most. */
static void a_gap_is_asked_for_longer_by_what_will_be_taken_off_it(void **state)
{
	(void)state;
	assert_int_equal(imtcp_uncredited(1500000, 1500, 0), 1500000);
	assert_int_equal(imtcp_uncredited(1500000, 1500, 250000), 1200000);
	assert_int_equal(imtcp_uncredited(1500000, 1500, 1000000), 750000);
	assert_int_equal(imtcp_uncredited(1500000, 1500, 900000000), 750000);
}

/* A rate of nearly nothing would silence the connection for as long as its next buffer takes then. */
static void whatever_leaves_next_the_rate_of_a_gap_is_at_least_half_of_what_was_asked(void **state)
{
	static const uint64_t bytes[] = {0, 1, 2, 52, 1448, 65160, 0xffffffff};
	uint64_t seed = 1;
	size_t i, b;

	(void)state;
	for (i = 0; i < 20000; i++) {
		uint64_t rate = rnd(&seed) >> rnd_in(&seed, 8, 63),
			 late_ns = rnd(&seed) >> rnd_in(&seed, 1, 63);

		for (b = 0; b < sizeof(bytes) / sizeof(bytes[0]); b++) {
			uint64_t answer = imtcp_uncredited(rate, bytes[b], late_ns);

			assert_true(answer <= rate);
			assert_true(answer >= rate / 2);
		}
	}
}

/* Above 12 Gbit/s a segment takes less than a microsecond. */
static void a_hold_on_a_very_fast_path_ends(void **state)
{
	struct hand h;

	(void)state;
	begin(&h);
	h.m.capacity_bps = 100 * GBPS;
	imtcp_meas_set_range(&h.m, 50 * GBPS, 100 * GBPS);
	h.m.delivery_bps = 90 * GBPS;
	h.ev.base_bps = 100 * GBPS;
	h.ev.srtt_us = IMTCP_SHORT_RTT_US;
	h.ev.rtt_dev_us = 0;
	h.ev.cwnd_segs = 20000;
	h.ev.flight_segs = h.ev.cwnd_segs - 1;
	ask(&h);
	assert_int_equal(h.m.plan, IMTCP_PLAN_HOLD);
	assert_at_most(imtcp_time_us(MSS, h.m.next_bps), IMTCP_T_MAX_US);
}

/* A buffer has a millisecond of data: in less than that no two of them leave. */
static void in_a_round_trip_below_a_millisecond_nothing_is_held_and_no_stream_begins(void **state)
{
	struct hand h;

	(void)state;
	begin(&h);
	h.ev.srtt_us = IMTCP_SHORT_RTT_US - 1;
	ask(&h);
	assert_int_equal(h.m.plan, IMTCP_PLAN_PLAIN);
	assert_int_equal(h.m.next_bps, h.ev.base_bps);
	h.ev.srtt_us = IMTCP_SHORT_RTT_US;
	ask(&h);
	assert_int_not_equal(h.m.plan, IMTCP_PLAN_PLAIN);
}

/*
 * 40 segments in the round trip of 30 ms before, of which none is in flight now: 16 Mbit/s, above a
 * range that ends at 4. In slow start the range is around that rate; else what is in flight counts.
 */
static void in_slow_start_a_range_below_what_was_in_flight_is_given_up(void **state)
{
	uint64_t rate = imtcp_rate_bps(40 * MSS, 30000);
	struct hand h;

	(void)state;
	begin(&h);
	h.m.low_bps = 2 * MBPS;
	h.m.high_bps = 4 * MBPS;
	h.m.resume_us = h.ev.now_us + 1000000; /* nothing is measured meanwhile */
	h.m.unit = IMTCP_STORE;
	h.ev.flight_segs = 0;
	h.ev.most_flight_segs = 40;
	ask(&h);
	assert_int_equal(h.m.high_bps, 4 * MBPS);
	h.ev.slow_start = 1;
	ask(&h);
	assert_int_equal(h.m.low_bps, rate / 2);
	assert_int_equal(h.m.high_bps, 2 * rate);
	h.ev.most_flight_segs = 0; /* not known */
	ask(&h);
	assert_int_equal(h.m.high_bps, 2 * rate);
}

/* ---- m ---- */

/* Room never comes: each try fails, m rises to N, and a result says NOT_FILLED. */
static void a_store_that_cannot_be_filled_raises_m_up_to_n(void **state)
{
	struct hand h;
	uint32_t i, before;

	(void)state;
	begin(&h);
	h.m.m = IMTCP_STORE_PACKETS_LEAST;
	before = h.m.m;
	for (i = 0; i < 400; i++) {
		h.ev.flight_segs = h.ev.cwnd_segs - 1; /* ACK by ACK */
		leave(&h);
		assert_in_range(h.m.m, before, before + 1);
		before = h.m.m;
		assert_at_most(h.m.m, h.m.n);
	}
	assert_int_equal(h.m.m, h.m.n);
	assert_true(h.m.invalid[IMTCP_NOT_FILLED] > 0);
	assert_int_equal(h.m.result.outcome, IMTCP_NOT_FILLED);
	assert_int_equal(h.m.result.avail_bps, 0);
	assert_int_equal(h.m.started, h.m.invalid[IMTCP_NOT_FILLED] + (h.m.planned != 0));
}

static void good_measurements_lower_m_down_to_two(void **state)
{
	struct imtcp_meas m;
	uint32_t i;

	(void)state;
	memset(&m, 0, sizeof(m));
	imtcp_meas_init(&m, defaults(), 0);
	assert_int_equal(IMTCP_STORE_PACKETS_LEAST, 2); /* [IM §3.4.1] */
	assert_int_equal(IMTCP_GOOD_BEFORE_LESS, 2);	/* F */
	assert_int_equal(m.m, m.n);
	for (i = 1; i <= 4 * IMTCP_STREAM_MAX; i++) {
		uint32_t expected = (uint32_t)imtcp_max(
			imtcp_sub(IMTCP_STREAM_PACKETS, i / IMTCP_GOOD_BEFORE_LESS),
			IMTCP_STORE_PACKETS_LEAST);

		imtcp_meas_end(&m, i, 30000, IMTCP_OK);
		assert_int_equal(m.m, expected);
	}
	/* a bad one between two good ones: they are not successive */
	m.m = 5;
	m.good_runs = 0;
	imtcp_meas_end(&m, i, 30000, IMTCP_OK);
	imtcp_meas_end(&m, i, 30000, IMTCP_POOR_FIT);
	imtcp_meas_end(&m, i, 30000, IMTCP_OK);
	assert_int_equal(m.m, 5);
}

/* ---- when nothing is measured ---- */

static void expect_plain(struct hand *h, uint32_t departures)
{
	uint32_t i;

	for (i = 0; i < departures; i++) {
		leave(h);
		assert_int_equal(h->m.plan, IMTCP_PLAN_PLAIN);
		assert_true(h->m.next_bps >= h->ev.base_bps);
	}
}

static void a_retransmission_empties_and_blocks_until_a_new_cumulative_ack(void **state)
{
	struct hand h;
	uint32_t i;

	(void)state;
	begin(&h);
	for (i = 0; i < 3; i++) /* within the first stream */
		leave(&h);
	ask(&h);
	assert_int_equal(h.m.unit, IMTCP_SEND);
	assert_int_equal(imtcp_meas_on_loss(&h.m, h.ev.now_us, h.ev.snd_nxt, h.ev.srtt_us), 1);
	assert_int_equal(h.m.result.outcome, IMTCP_RETRANSMITTED);
	assert_int_equal(h.m.invalid[IMTCP_RETRANSMITTED], 1);
	/* a second loss ends nothing more */
	assert_int_equal(imtcp_meas_on_loss(&h.m, h.ev.now_us, h.ev.snd_nxt, h.ev.srtt_us), 0);
	h.m.resume_us = 0; /* the pause apart */
	expect_plain(&h, 10);
	acknowledge(&h, 2, 30000); /* a part of what was in flight at the loss */
	h.m.resume_us = 0;
	expect_plain(&h, 10);
	assert_true(h.m.blocked);
	acknowledge(&h, 1, 30000); /* the last of the three */
	assert_false(h.m.blocked);
	h.m.resume_us = 0;
	for (i = 0; i < 60 && h.m.plan != IMTCP_PLAN_STREAM; i++) {
		h.ev.flight_segs = 0;
		leave(&h);
	}
	assert_int_equal(h.m.plan, IMTCP_PLAN_STREAM);
}

/* A retransmitted segment's ACK has no RTT: it makes no sample, but it unblocks. */
static void an_ack_of_a_retransmission_unblocks_without_being_a_sample(void **state)
{
	struct hand h;

	(void)state;
	begin(&h);
	leave(&h);
	leave(&h);
	imtcp_meas_on_loss(&h.m, h.ev.now_us, h.ev.snd_nxt, h.ev.srtt_us);
	acknowledge(&h, 2, -1);
	assert_false(h.m.blocked);
	assert_int_equal(h.m.train_last_una, 0);
}

static void after_a_loss_twenty_round_trips_pass(void **state)
{
	struct hand h;
	uint64_t until;

	(void)state;
	assert_int_equal(IMTCP_PAUSE_RTTS, 20); /* [IM §4.5] */
	begin(&h);
	leave(&h);
	imtcp_meas_on_loss(&h.m, h.ev.now_us, h.ev.snd_nxt, h.ev.srtt_us);
	until = h.ev.now_us + 20 * 30000;
	acknowledge(&h, 100, 30000);
	assert_false(h.m.blocked);
	while (h.ev.now_us + 1000 < until) {
		h.ev.flight_segs = 0;
		expect_plain(&h, 1);
	}
	h.ev.now_us = until;
	h.ev.flight_segs = 0;
	h.m.unit = IMTCP_STORE;
	ask(&h);
	assert_int_equal(h.m.plan, IMTCP_PLAN_STREAM);
}

static void recovery_and_drains_hold_nothing(void **state)
{
	struct hand h;

	(void)state;
	begin(&h);
	h.ev.recovering = 1;
	expect_plain(&h, 100);
	assert_int_equal(h.m.started, 0);
}

static void an_application_without_enough_data_is_not_held(void **state)
{
	struct hand h;

	(void)state;
	begin(&h);
	h.ev.unsent_bytes = MSS;
	expect_plain(&h, 100);
	assert_int_equal(h.m.started, 0);
	begin(&h);
	h.ev.cwnd_segs = 2; /* a tiny window */
	expect_plain(&h, 100);
	assert_int_equal(h.m.started, 0);
}

static void a_stream_that_the_application_leaves_unfinished_fails_after_t(void **state)
{
	struct hand h;
	uint32_t i;

	(void)state;
	begin(&h);
	for (i = 0; i < 3; i++)
		leave(&h);
	ask(&h);
	assert_int_equal(h.m.unit, IMTCP_SEND);
	h.ev.now_us += IMTCP_T_MAX_US + 1;
	h.ev.unsent_bytes = 0;
	for (i = 0; i < 50; i++, h.ev.now_us += 1000)
		ask(&h);
	assert_int_not_equal(h.m.unit, IMTCP_SEND);
	assert_int_not_equal(h.m.plan, IMTCP_PLAN_STREAM);
}

static void acks_that_never_come_end_the_measurement(void **state)
{
	struct hand h;
	uint64_t sent_us;
	uint32_t i;

	(void)state;
	begin(&h);
	for (i = 0; i < 500 && h.m.unit != IMTCP_PASS; i++) {
		h.ev.flight_segs = 0;
		leave(&h);
	}
	assert_int_equal(h.m.unit, IMTCP_PASS);
	sent_us = h.ev.now_us;
	for (i = 0; i < 100000 && h.m.unit == IMTCP_PASS; i++) {
		h.ev.now_us += 1000;
		ask(&h);
	}
	assert_int_equal(h.m.result.outcome, IMTCP_TIMED_OUT);
	assert_at_most(h.ev.now_us - sent_us,
		       IMTCP_PASS_TIMEOUT_SRTTS * 30000ULL + IMTCP_T_MAX_US + 2000);
}

/* ---- the first range ---- */

static void before_a_range_is_known_a_train_is_sent_when_there_is_room(void **state)
{
	struct hand h;

	(void)state;
	begin(&h);
	h.m.capacity_bps = h.m.low_bps = h.m.high_bps = 0;
	h.ev.flight_segs = h.ev.cwnd_segs - 3;
	ask(&h);
	assert_int_equal(h.m.unit, IMTCP_OFF);
	assert_int_equal(h.m.burst_segs, 0);
	h.ev.flight_segs = 0;
	ask(&h);
	assert_int_equal(h.m.plan, IMTCP_PLAN_TRAIN);
	assert_at_least(h.m.burst_segs, IMTCP_TRAIN_SEGS);
}

/* Ten segments back to back, one ACK each 120 us: 1500 bytes on the wire make 100 Mbit/s. */
static void the_first_range_is_half_of_the_trains_rate_to_all_of_it(void **state)
{
	struct imtcp_sample a;
	struct imtcp_meas m;
	struct imtcp_round round = {0};
	uint32_t i;

	(void)state;
	memset(&m, 0, sizeof(m));
	memset(&a, 0, sizeof(a));
	imtcp_meas_init(&m, defaults(), 0);
	a.mss_bytes = 1448;
	a.wire_q8 = 265; /* 1500/1448 = 1.036 */
	a.snd_nxt = 10 * 1448;
	a.srtt_us = a.min_rtt_us = 30000;
	for (i = 1; i <= 10; i++) {
		a.now_us = 1000000 + i * 120;
		a.rtt_us = (int32_t)(30000 + i * 120);
		a.prior_una = a.snd_una;
		a.snd_una = i * 1448;
		meas_on_ack(&m, &round, &a);
		if (i <= IMTCP_TRAIN_SEGS - 1)
			assert_int_equal(m.high_bps, 0);
	}
	assert_within_pct(m.high_bps, 100 * MBPS, 0.5);
	assert_within_pct(m.low_bps, 50 * MBPS, 0.5);
	assert_within_pct(m.capacity_bps, 100 * MBPS, 0.5);
}

static void packets_that_left_apart_are_no_train(void **state)
{
	struct imtcp_sample a;
	struct imtcp_meas m;
	struct imtcp_round round = {0};
	uint32_t i;

	(void)state;
	memset(&m, 0, sizeof(m));
	memset(&a, 0, sizeof(a));
	imtcp_meas_init(&m, defaults(), 0);
	a.mss_bytes = 1448;
	a.wire_q8 = 265;
	a.snd_nxt = 100 * 1448;
	a.srtt_us = a.min_rtt_us = 30000;
	for (i = 1; i <= 50; i++) {
		a.now_us = 1000000 + i * IMTCP_BURST_GAP_US * 2;
		a.rtt_us = 30000;
		a.prior_una = a.snd_una;
		a.snd_una = i * 1448;
		meas_on_ack(&m, &round, &a);
	}
	assert_int_equal(m.high_bps, 0);
	assert_int_equal(m.capacity_bps, 0);
}

/* ---- capacity behind a token bucket ---- */

/*
 * 800 Mbit/s without a queue, 50 in one: 50 from then on, whatever comes without a queue, for ten
 * seconds. Then at most twice of it counts: 50 + (100 - 50)/16.
 */
static void once_a_queue_was_met_only_trains_that_meet_one_show_the_capacity(void **state)
{
	struct imtcp_meas m;
	uint64_t now_us = 1000000;
	uint32_t i;

	(void)state;
	memset(&m, 0, sizeof(m));
	imtcp_meas_dispersion(&m, now_us, 800 * MBPS);
	assert_int_equal(m.capacity_bps, 800 * MBPS);
	m.train_queued = 1;
	imtcp_meas_dispersion(&m, now_us, 50 * MBPS);
	assert_int_equal(m.capacity_bps, 50 * MBPS);
	m.train_queued = 0;
	for (i = 0; i < 100; i++)
		imtcp_meas_dispersion(&m, now_us + IMTCP_QUEUED_AGE_US - 1, 800 * MBPS);
	assert_int_equal(m.capacity_bps, 50 * MBPS);
	imtcp_meas_dispersion(&m, now_us + IMTCP_QUEUED_AGE_US, 800 * MBPS);
	assert_int_equal(m.capacity_bps, 53125 * KBPS);
}

/* One that was stretched (cross traffic, a delayed ACK) shows less than two rounds delivered. */
static void the_capacity_in_a_queue_is_at_least_what_is_delivered(void **state)
{
	struct imtcp_meas m;

	(void)state;
	memset(&m, 0, sizeof(m));
	m.capacity_bps = 800 * MBPS;
	m.twice_bps = 30 * MBPS;
	m.train_queued = 1;
	imtcp_meas_dispersion(&m, 1000000, 600 * KBPS);
	assert_int_equal(m.capacity_bps, 30 * MBPS);
}

/* RTTmin 30 ms; 9/8 of it are 33.75 ms. */
static void a_train_met_a_queue_if_it_and_its_round_were_late(void **state)
{
	static const struct {
		uint32_t rtt_us, least_us, samples, last_least_us, last_samples, queued;
	} table[] = {
		{33751, 33751, IMTCP_QUEUED_SAMPLES, 30000, 100, 1},
		{33750, 33751, IMTCP_QUEUED_SAMPLES, 30000, 100, 0},
		{33751, 33750, IMTCP_QUEUED_SAMPLES, 50000, 100, 0},
		/* the round has just begun */
		{33751, 33751, 1, 33751, IMTCP_QUEUED_SAMPLES, 1},
		{33751, 33751, 1, 33750, IMTCP_QUEUED_SAMPLES, 0},
		/* delayed ACKs */
		{70000, 70000, 1, 70000, IMTCP_QUEUED_SAMPLES - 1, 0},
	};
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		struct imtcp_sample a;
		struct imtcp_meas m;
		struct imtcp_round round = {0};

		memset(&m, 0, sizeof(m));
		memset(&a, 0, sizeof(a));
		a.rtt_us = (int32_t)table[i].rtt_us;
		a.min_rtt_us = 30000;
		round.least_rtt_us = table[i].least_us;
		round.samples = table[i].samples;
		round.last_least_rtt_us = table[i].last_least_us;
		round.last_samples = table[i].last_samples;
		assert_int_equal(imtcp_meas_meets_queue(&round, &a), table[i].queued);
	}
}

static void after_a_queue_what_two_rounds_in_a_row_deliver_is_capacity(void **state)
{
	struct imtcp_sample a;
	struct imtcp_meas m;
	struct imtcp_round round = {0};

	(void)state;
	memset(&m, 0, sizeof(m));
	memset(&a, 0, sizeof(a));
	a.now_us = 1000000;
	a.min_rtt_us = 30000;
	m.capacity_bps = 50 * MBPS;
	round.last_least_rtt_us = 30000;
	round.delivery_bps = 70 * MBPS;
	imtcp_meas_round(&m, &round, &a);
	imtcp_meas_round(&m, &round, &a);
	assert_int_equal(m.capacity_bps, 50 * MBPS); /* no queue was met: trains say what it is */
	m.queued_at_us = a.now_us;
	round.delivery_bps = 40 * MBPS;
	imtcp_meas_round(&m, &round, &a);
	round.delivery_bps = 90 * MBPS; /* one may live on a burst */
	imtcp_meas_round(&m, &round, &a);
	assert_int_equal(m.capacity_bps, 50 * MBPS);
	round.delivery_bps = 60 * MBPS;
	imtcp_meas_round(&m, &round, &a);
	assert_int_equal(m.capacity_bps, 60 * MBPS);
}

/* ---- N ---- */

static void receivers_that_acknowledge_every_second_packet_get_the_larger_n(void **state)
{
	struct imtcp_meas m;

	(void)state;
	memset(&m, 0, sizeof(m));
	imtcp_meas_init(&m, defaults(), 0);
	imtcp_meas_adapt_n(&m, defaults(), 1);
	assert_int_equal(m.n, 8);
	m.ack_ratio_q8 = 512;
	imtcp_meas_adapt_n(&m, defaults(), 2); /* a chunk of two has an ACK of its own */
	assert_int_equal(m.n, 8);
	imtcp_meas_adapt_n(&m, defaults(), 1);
	assert_int_equal(m.n, 12);
	assert_int_equal(m.m, m.n);
	m.planned = IMTCP_SUB_RANGES; /* a measurement goes on: it keeps its N */
	imtcp_meas_adapt_n(&m, defaults(), 2);
	assert_int_equal(m.n, 12);
	m.planned = 0;
	imtcp_meas_adapt_n(&m, defaults(), 2);
	assert_int_equal(m.n, 8);
}

/* N = 5, as in [IM §4.1]: 7 where an ACK answers two packets. The largest N still fits. */
static void a_chosen_n_is_half_as_many_more_with_delayed_acks_and_fits_a_stream(void **state)
{
	struct imtcp_params p = *defaults();
	struct imtcp_meas m;

	(void)state;
	memset(&m, 0, sizeof(m));
	p.stream_packets = 5;
	imtcp_meas_init(&m, &p, 0);
	assert_int_equal(m.n, 5);
	assert_int_equal(m.m, 5);
	m.ack_ratio_q8 = 512;
	imtcp_meas_adapt_n(&m, &p, 1);
	assert_int_equal(m.n, 7);
	p.stream_packets = IMTCP_STREAM_PACKETS_MOST;
	assert_at_most(imtcp_delack_packets(p.stream_packets), IMTCP_STREAM_MAX);
}

/* ---- the pause follows congestion ---- */

/* A measurement and an ACK of a path of 30 ms. */
static void begin_pausing(struct imtcp_meas *m, struct imtcp_sample *a,
			  const struct imtcp_params *p)
{
	memset(a, 0, sizeof(*a));
	memset(m, 0, sizeof(*m));
	a->min_rtt_us = 30000;
	imtcp_meas_init(m, p, 0);
}

static void the_pause_is_twenty_round_trips_under_congestion_and_none_on_a_free_path(void **state)
{
	struct imtcp_sample a;
	struct imtcp_meas m;
	struct imtcp_round round = {0};
	uint32_t i;

	(void)state;
	begin_pausing(&m, &a, defaults());
	assert_int_equal(m.pause_rtts, 0);
	round.last_least_rtt_us = 45000;
	for (i = 1; i < IMTCP_CONGESTED_ROUNDS; i++) {
		imtcp_meas_round(&m, &round, &a);
		assert_int_equal(m.pause_rtts, 0);
	}
	imtcp_meas_round(&m, &round, &a);
	assert_int_equal(m.pause_rtts, IMTCP_PAUSE_RTTS);
	round.last_least_rtt_us = 30500;
	for (i = 0; i < 8; i++)
		imtcp_meas_round(&m, &round, &a);
	assert_int_equal(m.pause_rtts, 0);
	/* the noise of a LAN is no congestion */
	a.min_rtt_us = 200;
	round.last_least_rtt_us = 200 + IMTCP_STANDING_US;
	for (i = 0; i < 100; i++)
		imtcp_meas_round(&m, &round, &a);
	assert_int_equal(m.pause_rtts, 0);
}

/* 20 round trips of 30 ms; 30 ms later half of what is left of it. */
static void a_calm_round_halves_what_is_left_of_a_pause_unless_it_is_to_last(void **state)
{
	struct imtcp_sample a;
	struct imtcp_meas m;
	struct imtcp_round round = {0};

	(void)state;
	begin_pausing(&m, &a, defaults());
	round.last_least_rtt_us = 30500;
	imtcp_meas_on_loss(&m, 1000000, 0, 30000);
	assert_int_equal(m.resume_us, 1600000);
	a.now_us = 1030000;
	imtcp_meas_round(&m, &round, &a);
	assert_int_equal(m.resume_us, 1030000 + 570000 / 2);

	imtcp_meas_on_loss(&m, 1000000, 0, 30000);
	m.whole_pause = 1;
	imtcp_meas_round(&m, &round, &a);
	assert_int_equal(m.resume_us, 1600000);
}

static void a_window_fills_again_no_faster_than_the_bottleneck_delivers(void **state)
{
	struct imtcp_meas m;

	(void)state;
	memset(&m, 0, sizeof(m));
	imtcp_meas_init(&m, defaults(), 0);
	assert_int_equal(imtcp_meas_refill_bps(&m, 40 * MBPS), 60 * MBPS); /* capacity unknown */
	m.capacity_bps = 100 * MBPS;
	assert_int_equal(imtcp_meas_refill_bps(&m, 40 * MBPS), 60 * MBPS);
	assert_int_equal(imtcp_meas_refill_bps(&m, 80 * MBPS), 100 * MBPS);
	/* the window alone is faster: it is Reno's to find that out */
	assert_int_equal(imtcp_meas_refill_bps(&m, 110 * MBPS), 110 * MBPS);
}

/* [IM §4.1.2]: neither failures nor good measurements move it, and it is never above N. */
static void a_chosen_m_does_not_adapt(void **state)
{
	struct imtcp_params p = *defaults();
	struct imtcp_meas m;
	struct hand h;
	uint32_t i;

	(void)state;
	p.store_packets = 3;
	memset(&m, 0, sizeof(m));
	imtcp_meas_init(&m, &p, 0);
	for (i = 1; i <= 8; i++)
		imtcp_meas_end(&m, i, 30000, IMTCP_OK);
	assert_int_equal(m.m, 3);
	begin(&h);
	h.m.store_packets = 3;
	imtcp_meas_set_n(&h.m, h.m.n);
	assert_int_equal(imtcp_meas_need_segs(&h.m, &h.ev), 3 * h.ev.chunk_segs);
	for (i = 0; i < 400; i++) {
		h.ev.flight_segs = h.ev.cwnd_segs - 1; /* ACK by ACK: none is filled */
		leave(&h);
	}
	assert_true(h.m.invalid[IMTCP_NOT_FILLED] > 0);
	assert_int_equal(h.m.m, 3);
	p.store_packets = 7;
	p.stream_packets = 5;
	memset(&m, 0, sizeof(m));
	imtcp_meas_init(&m, &p, 0);
	assert_int_equal(m.m, 5);
	imtcp_meas_set_n(&m, imtcp_delack_packets(p.stream_packets));
	assert_int_equal(m.m, 7);
}

/* 12 round trips of 30 ms after a loss, after a result, and in a queue, whatever comes. */
static void a_chosen_pause_does_not_follow_congestion(void **state)
{
	struct imtcp_params p = *defaults();
	struct imtcp_sample a;
	struct imtcp_meas m;
	struct imtcp_round round = {0};
	uint32_t i;

	(void)state;
	p.pause_plus1 = 12 + 1;
	begin_pausing(&m, &a, &p);
	imtcp_meas_on_loss(&m, 1000000, 0, 30000);
	assert_int_equal(m.resume_us, 1360000);
	a.now_us = 1030000;
	round.last_least_rtt_us = 30500;
	imtcp_meas_round(&m, &round, &a);
	assert_int_equal(m.resume_us, 1360000);
	imtcp_meas_end(&m, 2000000, 30000, IMTCP_OK);
	assert_int_equal(m.resume_us, 2360000);
	round.last_least_rtt_us = 45000;
	for (i = 0; i < 2 * IMTCP_CONGESTED_ROUNDS; i++)
		imtcp_meas_round(&m, &round, &a);
	imtcp_meas_end(&m, 3000000, 30000, IMTCP_OK);
	assert_int_equal(m.resume_us, 3360000);

	p.pause_plus1 = 0 + 1;
	begin_pausing(&m, &a, &p);
	imtcp_meas_on_loss(&m, 1000000, 0, 30000);
	assert_int_equal(m.resume_us, 1000000);
	assert_int_equal(m.blocked, 1); /* until what was in flight is acknowledged [IM §3.5.3] */
}

static void null_pointers_are_refused(void **state)
{
	struct hand h;

	(void)state;
	begin(&h);
	assert_int_equal(imtcp_meas_on_send(NULL, &h.ev), 0);
	assert_int_equal(imtcp_meas_on_send(&h.m, NULL), 0);
	assert_int_equal(imtcp_meas_on_ack(NULL, NULL, NULL), 0);
	assert_int_equal(imtcp_meas_conclude(NULL, NULL), 0);
}

SUITE(control, T(a_packet_climbs_through_store_send_empty_and_pass),
      T(the_gaps_of_a_stream_are_those_of_the_equation),
      T(asking_again_without_a_departure_changes_nothing), T(a_hold_is_never_longer_than_t),
      T(a_chosen_t_is_the_longest_hold_whatever_the_deviation_says),
      T(a_gap_is_asked_for_longer_by_what_will_be_taken_off_it),
      T(whatever_leaves_next_the_rate_of_a_gap_is_at_least_half_of_what_was_asked),
      T(a_hold_on_a_very_fast_path_ends),
      T(in_a_round_trip_below_a_millisecond_nothing_is_held_and_no_stream_begins),
      T(in_slow_start_a_range_below_what_was_in_flight_is_given_up),
      T(a_store_that_cannot_be_filled_raises_m_up_to_n), T(good_measurements_lower_m_down_to_two),
      T(a_retransmission_empties_and_blocks_until_a_new_cumulative_ack),
      T(an_ack_of_a_retransmission_unblocks_without_being_a_sample),
      T(after_a_loss_twenty_round_trips_pass), T(recovery_and_drains_hold_nothing),
      T(an_application_without_enough_data_is_not_held),
      T(a_stream_that_the_application_leaves_unfinished_fails_after_t),
      T(acks_that_never_come_end_the_measurement),
      T(before_a_range_is_known_a_train_is_sent_when_there_is_room),
      T(the_first_range_is_half_of_the_trains_rate_to_all_of_it),
      T(packets_that_left_apart_are_no_train),
      T(once_a_queue_was_met_only_trains_that_meet_one_show_the_capacity),
      T(the_capacity_in_a_queue_is_at_least_what_is_delivered),
      T(a_train_met_a_queue_if_it_and_its_round_were_late),
      T(after_a_queue_what_two_rounds_in_a_row_deliver_is_capacity),
      T(receivers_that_acknowledge_every_second_packet_get_the_larger_n),
      T(a_chosen_n_is_half_as_many_more_with_delayed_acks_and_fits_a_stream),
      T(the_pause_is_twenty_round_trips_under_congestion_and_none_on_a_free_path),
      T(a_calm_round_halves_what_is_left_of_a_pause_unless_it_is_to_last),
      T(a_chosen_m_does_not_adapt), T(a_window_fills_again_no_faster_than_the_bottleneck_delivers),
      T(a_chosen_pause_does_not_follow_congestion), T(null_pointers_are_refused))
