// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The offered window, by hand and on a simulated path. */
#include "test.h"
#include <imtcp/receive.h>

#define MSS 1448U
#define START 1000000000ULL
#define BASE 30300U /* no whole tick, which would count as one more */
#define LEFT (100 * MSS)

static struct imtcp_arrival arrival(uint64_t now_us, int32_t rtt_us, uint32_t segs)
{
	struct imtcp_arrival a = {0};

	a.now_us = now_us;
	a.rtt_us = rtt_us;
	a.bytes = segs * MSS;
	a.mss_bytes = MSS;
	a.left_bytes = LEFT;
	a.delta_q8 = IMTCP_DELTA_Q8;
	a.neighbours = 1;
	return a;
}

/* Arrivals of four segments each millisecond for so long. Returns when they end. */
static uint64_t feed_from(struct imtcp_receive *r, uint64_t now_us, uint64_t for_us, int32_t rtt_us)
{
	uint64_t end_us = now_us + for_us;

	for (; now_us < end_us; now_us += 1000) {
		struct imtcp_arrival a = arrival(now_us, rtt_us, 4);

		a.early_segs = r->early_segs;
		imtcp_receive_on_arrival(r, &a);
	}
	return now_us;
}

/* Four segments each millisecond, which is 120 in a round trip of 30 ms, and the base is known. */
static uint64_t begin(struct imtcp_receive *r)
{
	memset(r, 0, sizeof(*r));
	imtcp_receive_begin(r, START);
	return feed_from(r, START, 500000, BASE);
}

static void a_window_is_at_most_twice_what_arrives_and_the_first(void **state)
{
	struct imtcp_receive r;
	uint64_t now_us = begin(&r);
	struct imtcp_arrival a = arrival(now_us, BASE, 4);

	(void)state;
	/* a round trip of the clock has 31 arrivals of 4 at most */
	assert_in_range(imtcp_receive_on_arrival(&r, &a), 20 + 2 * 116, 20 + 2 * 124);
}

/* q0 = 0.2·30/4 + 30.3/W with W about 240: 1.62 ms; q = 16 ms. A segment takes (16 - 1.62)/(4·30.3) = 0.119 segments. */
static void a_queue_shrinks_the_window_by_the_law_of_the_sender(void **state)
{
	struct imtcp_receive r;
	uint64_t now_us = begin(&r), before_q16;
	struct imtcp_arrival a;

	(void)state;
	/* slow start ends, and all of the newest two stretches saw the queue */
	now_us = feed_from(&r, now_us, 30000, BASE + 16000);
	before_q16 = r.bg.window_q16;
	a = arrival(now_us, BASE + 16000, 2);
	imtcp_receive_on_arrival(&r, &a);
	assert_int_equal(r.bg.queue_us, 16000);
	assert_in_range(before_q16 - r.bg.window_q16, 65536 * 0.23, 65536 * 0.245);
	assert_int_equal(r.facts.yields, 1);
}

/* With an empty queue a round trip adds a twelfth of what arrives: 10 of 120 segments. */
static void the_window_grows_by_a_twelfth_in_a_round_trip(void **state)
{
	struct imtcp_receive r;
	uint64_t now_us = begin(&r);

	(void)state;
	now_us = feed_from(&r, now_us, 30000, BASE + 16000);
	now_us = feed_from(&r, now_us, 25000, BASE);
	imtcp_receive_set(&r, 100);
	r.w.ssthresh_segs = 100;
	now_us = feed_from(&r, now_us, 30000, BASE);
	assert_in_range(r.w.cwnd_segs, 109, 111);
}

static void a_sender_without_timestamps_is_not_held_back(void **state)
{
	struct imtcp_receive r;
	uint32_t segs = 0, sent = 0, i;

	(void)state;
	memset(&r, 0, sizeof(r));
	imtcp_receive_begin(&r, START);
	for (i = 0; i < 1000; i++) {
		struct imtcp_arrival a = arrival(START + i * 1000, 0, 4);

		sent += 4;
		segs = imtcp_receive_on_arrival(&r, &a);
		assert_true(segs >= sent);
	}
	assert_int_equal(r.rtt_us, 0);
	assert_int_equal(r.facts.yielding_us, 0);
}

/* A program that writes now and then answers an ACK of long ago. */
static void a_late_answer_is_no_queue(void **state)
{
	struct imtcp_receive r;
	uint64_t now_us = begin(&r) + 500000;
	struct imtcp_arrival a = arrival(now_us, 500000, 4);

	(void)state;
	imtcp_receive_on_arrival(&r, &a);
	assert_int_equal(r.bg.queue_us, 0);
	/* a segment that answers the ACK of now counts again */
	a = arrival(now_us + 38000, 38000, 4);
	imtcp_receive_on_arrival(&r, &a);
	assert_int_equal(r.bg.newest_rtt_us, 38000);
	assert_int_equal(r.facts.minrtt.base_us, BASE);
}

/* A queue of 210 ms, and the window comes in one burst in each of its round trips: the sender's own window holds it back. */
static void a_window_that_comes_in_bursts_tells_its_queue(void **state)
{
	struct imtcp_receive r;
	uint64_t now_us = begin(&r), i;

	(void)state;
	for (i = 0; i < 100; i++) {
		struct imtcp_arrival a = arrival(now_us + i / 50 * 240000 + i % 50 * 500, 240300,
						 2);

		imtcp_receive_on_arrival(&r, &a);
	}
	assert_int_equal(r.bg.queue_us, 210000);
	assert_in_range(r.w.cwnd_segs, 2, 60);
}

/* The same silence where the window was used up: the answer came late for a queue. */
static void an_answer_that_the_window_held_back_counts(void **state)
{
	struct imtcp_receive r;
	uint64_t now_us = begin(&r) + 500000;
	struct imtcp_arrival a = arrival(now_us, 500000, 2);

	(void)state;
	a.left_bytes = MSS;
	imtcp_receive_on_arrival(&r, &a);
	assert_int_equal(r.bg.newest_rtt_us, 500000);
}

/* A segment is missing for so long. */
static uint64_t miss_one(struct imtcp_receive *r, uint64_t now_us, uint32_t for_us)
{
	struct imtcp_arrival a = arrival(now_us, BASE, 0);

	a.early_segs = r->early_segs + 1;
	imtcp_receive_on_arrival(r, &a);
	/* the segments behind it are in order now */
	a = arrival(now_us + for_us, BASE, 4 + for_us / 250);
	a.early_segs = r->early_segs;
	imtcp_receive_on_arrival(r, &a);
	return a.now_us;
}

static void a_loss_halves_the_window(void **state)
{
	struct imtcp_receive r;
	uint64_t now_us = feed_from(&r, begin(&r), 60000, BASE + 20000);
	uint32_t before = r.w.cwnd_segs;

	(void)state;
	miss_one(&r, now_us, BASE);
	assert_in_range(r.w.cwnd_segs, before / 2 - 1, before / 2 + 4);
}

static void a_mark_halves_the_window_once_in_a_round_trip(void **state)
{
	struct imtcp_receive r;
	uint64_t now_us = feed_from(&r, begin(&r), 60000, BASE + 20000);
	uint32_t before = r.w.cwnd_segs, i;

	(void)state;
	for (i = 0; i < 5; i++) {
		struct imtcp_arrival a = arrival(now_us + i * 1000, BASE, 2);

		a.marked = 4;
		imtcp_receive_on_arrival(&r, &a);
	}
	assert_in_range(r.w.cwnd_segs, before / 2 - 4, before / 2 + 4);
}

static void a_segment_that_others_overtook_is_no_loss(void **state)
{
	struct imtcp_receive r;
	uint64_t now_us = feed_from(&r, begin(&r), 60000, BASE + 20000);
	uint32_t before = r.w.cwnd_segs;

	(void)state;
	miss_one(&r, now_us, BASE / 2 - 1);
	assert_true(r.w.cwnd_segs >= before - 1);
	assert_int_equal(r.lost_segs, 0);
}

/* The longest queue was 20 ms, there is none now, and the loss before lies thousands of segments back. */
static void a_rare_loss_beside_an_empty_queue_is_noise(void **state)
{
	struct imtcp_receive r;
	uint64_t now_us = feed_from(&r, begin(&r), 60000, BASE + 20000);
	uint32_t before;

	(void)state;
	now_us = feed_from(&r, miss_one(&r, now_us, BASE), 1000000, BASE);
	before = r.w.cwnd_segs;
	miss_one(&r, now_us, BASE);
	assert_true(r.w.cwnd_segs >= before);
	assert_int_equal(r.lost_segs, 2);
}

/* 30 ms at 4.8 Mbit/s of payload: 18 000 bytes, 12.4 segments. */
static void a_ceiling_bounds_the_window_and_a_floor_keeps_it(void **state)
{
	struct imtcp_receive r;
	uint64_t now_us = begin(&r);
	struct imtcp_arrival a = arrival(now_us, BASE + 1000, 4);

	(void)state;
	a.ceiling_bps = 4800000;
	assert_int_equal(imtcp_receive_on_arrival(&r, &a), 12);
	now_us = feed_from(&r, now_us, 2000000, BASE + 50000);
	a = arrival(now_us, BASE + 50000, 4);
	a.floor_bps = 4800000;
	/* with the queue the same rate takes 33 segments */
	assert_in_range(imtcp_receive_on_arrival(&r, &a), 32, 34);
}

/* A base that is not seen for ten seconds is looked for: four segments, for two round trips and the one that empties. */
static void a_base_that_is_not_seen_is_tried(void **state)
{
	struct imtcp_receive r;
	uint64_t now_us = begin(&r), end_us = now_us + 12000000;
	uint32_t drained_us = 0;

	(void)state;
	for (; now_us < end_us; now_us += 1000) {
		struct imtcp_arrival a = arrival(now_us, BASE + 3000, 4);

		if (imtcp_receive_on_arrival(&r, &a) <= 4)
			drained_us += 1000;
	}
	assert_int_equal(r.facts.minrtt.drains, 1);
	assert_in_range(drained_us, 60000, 140000);
}

/* ---- on a path ---- */

#define RING 8192

/* A bottleneck of C with a long buffer; the sender has no window of its own; every second segment is acknowledged. */
struct path {
	struct imtcp_receive r;
	uint64_t now_us, busy_us;
	uint64_t capacity_bps;
	uint64_t sent, arrived, edge, known_edge;
	uint32_t stamp_ms, target_us;
	struct {
		uint64_t at_us;
		uint32_t echo_ms;
	} data[RING];
	struct {
		uint64_t at_us, edge;
		uint32_t stamp_ms;
	} acks[RING];
	uint32_t data_first, data_next, acks_first, acks_next;
	uint64_t most_queue_us;
};

static void path_send(struct path *p)
{
	for (; p->sent < p->known_edge; p->sent++) {
		p->busy_us = imtcp_max(p->busy_us, p->now_us) + imtcp_time_us(MSS, p->capacity_bps);
		p->data[p->data_next % RING].at_us = p->busy_us + BASE / 2;
		p->data[p->data_next++ % RING].echo_ms = p->stamp_ms;
	}
}

static void path_receive(struct path *p, uint32_t echo_ms)
{
	struct imtcp_arrival a = arrival(p->now_us, 0, 2);

	if (++p->arrived % 2)
		return;
	a.rtt_us = (int32_t)(p->now_us - echo_ms * 1000ULL);
	a.ledbatpp_target_us = p->target_us;
	a.left_bytes = (uint32_t)(p->edge - p->arrived) * MSS;
	p->edge = imtcp_max(p->edge, p->arrived + imtcp_receive_on_arrival(&p->r, &a));
	p->acks[p->acks_next % RING].at_us = p->now_us + BASE / 2;
	p->acks[p->acks_next % RING].edge = p->edge;
	p->acks[p->acks_next++ % RING].stamp_ms = (uint32_t)(p->now_us / 1000);
}

static void path_run(struct path *p, uint64_t until_us)
{
	for (;;) {
		int has_data = p->data_first != p->data_next,
		    has_ack = p->acks_first != p->acks_next;
		uint64_t data_us = p->data[p->data_first % RING].at_us;
		uint64_t ack_us = p->acks[p->acks_first % RING].at_us;

		if (!has_data && !has_ack)
			fail_msg("nothing is under way: the window is stuck");
		if (has_data && (!has_ack || data_us <= ack_us)) {
			if (data_us > until_us)
				return;
			p->now_us = data_us;
			path_receive(p, p->data[p->data_first++ % RING].echo_ms);
		} else {
			if (ack_us > until_us)
				return;
			p->now_us = ack_us;
			p->known_edge = p->acks[p->acks_first % RING].edge;
			p->stamp_ms = p->acks[p->acks_first++ % RING].stamp_ms;
			path_send(p);
			p->most_queue_us = imtcp_max(p->most_queue_us,
						     imtcp_sub(p->busy_us, p->now_us));
		}
	}
}

static void path_begin(struct path *p, uint64_t capacity_bps)
{
	memset(p, 0, sizeof(*p));
	p->now_us = START;
	p->capacity_bps = capacity_bps;
	p->edge = p->known_edge = 10;
	p->stamp_ms = (uint32_t)(START / 1000 - BASE / 2000);
	imtcp_receive_begin(&p->r, START);
	path_send(p);
}

/* 50 Mbit/s and 30 ms are 129 segments. */
static void an_idle_path_is_filled_with_a_short_queue(void **state)
{
	static struct path p;
	uint64_t before;

	(void)state;
	path_begin(&p, 50 * MBPS);
	path_run(&p, START + 5000000);
	before = p.arrived;
	p.most_queue_us = 0;
	path_run(&p, START + 15000000);
	assert_true((p.arrived - before) * MSS * 8 >= 10 * 0.95 * 50e6);
	assert_in_range(p.most_queue_us, 0, 6000);
}

/* Others leave a tenth, and their packets wait 20 ms in front of ours for two seconds. */
static void others_who_come_are_yielded_to_within_a_second(void **state)
{
	static struct path p;

	(void)state;
	path_begin(&p, 50 * MBPS);
	path_run(&p, START + 3000000);
	assert_in_range(p.r.w.cwnd_segs, 125, 170);
	p.busy_us += 20000;
	p.capacity_bps = 5 * MBPS;
	path_run(&p, START + 4000000);
	/* 5 Mbit/s and 30 ms are 13 segments */
	assert_in_range(p.r.w.cwnd_segs, 2, 20);
	p.capacity_bps = 50 * MBPS;
	path_run(&p, START + 6000000);
	assert_in_range(p.r.w.cwnd_segs, 110, 170);
}

/* RFC 9840's law keeps 60 ms of queue, which are 248 segments at 50 Mbit/s. */
static void by_ledbatpp_the_queue_is_its_target_and_slowdowns_empty_it(void **state)
{
	static struct path p;

	(void)state;
	path_begin(&p, 50 * MBPS);
	p.target_us = IMTCP_LEDBATPP_TARGET_US;
	path_run(&p, START + 10000000);
	p.most_queue_us = 0;
	path_run(&p, START + 20000000);
	assert_in_range(p.most_queue_us, 55000, 75000);
	assert_true(p.r.ledbatpp.slowdowns >= 1);
	assert_in_range(p.r.facts.minrtt.base_us, BASE, BASE + 1300);
}

SUITE(receive, T(a_window_is_at_most_twice_what_arrives_and_the_first),
      T(a_queue_shrinks_the_window_by_the_law_of_the_sender),
      T(the_window_grows_by_a_twelfth_in_a_round_trip),
      T(a_sender_without_timestamps_is_not_held_back), T(a_late_answer_is_no_queue),
      T(a_window_that_comes_in_bursts_tells_its_queue),
      T(an_answer_that_the_window_held_back_counts), T(a_loss_halves_the_window),
      T(a_mark_halves_the_window_once_in_a_round_trip),
      T(a_segment_that_others_overtook_is_no_loss), T(a_rare_loss_beside_an_empty_queue_is_noise),
      T(a_ceiling_bounds_the_window_and_a_floor_keeps_it), T(a_base_that_is_not_seen_is_tried),
      T(an_idle_path_is_filled_with_a_short_queue),
      T(by_ledbatpp_the_queue_is_its_target_and_slowdowns_empty_it),
      T(others_who_come_are_yielded_to_within_a_second))
