// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The answers of each control to a sample and to a departure. */
#include "test.h"
#include <imtcp/cc_bg.h>
#include <imtcp/cc_fs.h>
#include <imtcp/cc_ledbatpp.h>
#include <imtcp/cc_lp.h>
#include <imtcp/cc_measure.h>
#include <imtcp/cc_nice.h>
#include <imtcp/cc_nocc.h>

#define MSS 1000U
#define PKT 1250U /* on the wire: 10 000 bits */
#define NOW 5000000ULL

struct house {
	struct imtcp_flow c;
	struct imtcp_sample s;
	struct imtcp_departure dep;
	struct imtcp_decision d;
};

/* 100 segments in flight, in 25 ms: 40 Mbit/s. */
static void begin(struct house *h)
{
	memset(h, 0, sizeof(*h));
	imtcp_params_init(&h->c.params);
	imtcp_flow_begin(&h->c, NOW, 0, 0);
	h->s.now_us = NOW;
	h->s.mss_bytes = MSS;
	h->s.pkt_bytes = PKT;
	h->s.wire_q8 = PKT * 256 / MSS;
	h->s.srtt_us = 25000;
	h->s.cwnd_segs = h->d.w.cwnd_segs = 100;
	h->d.w.ssthresh_segs = 100;
	h->s.limit_segs = 100000;
	h->d.least_segs = IMTCP_TRICKLE_SEGS;
	h->dep.now_us = NOW;
	h->dep.ceiling_bps = IMTCP_U64_MAX;
	h->dep.cwnd_segs = h->dep.flight_segs = h->dep.out_segs = 100;
	h->dep.ssthresh_segs = 100;
	h->dep.mss_bytes = MSS;
	h->dep.pkt_bytes = PKT;
	h->dep.srtt_us = 25000;
	h->dep.chunk_most_segs = 45;
	h->dep.chunk_most_bytes = 65536;
	h->dep.pacing_shift = 10;
}

static void
a_window_is_paced_at_1_2_of_its_rate_in_slow_start_at_2_and_below_a_cap_at_1_05(void **state)
{
	struct house h;

	(void)state;
	begin(&h);
	assert_within_pct(imtcp_base_bps(&h.c.facts, &h.dep), 40 * MBPS * 307 / 256, 0.01);
	h.c.facts.cap_segs = 100;
	assert_within_pct(imtcp_base_bps(&h.c.facts, &h.dep), 40 * MBPS * 269 / 256, 0.01);
	h.dep.ssthresh_segs = 300;
	assert_int_equal(imtcp_base_bps(&h.c.facts, &h.dep), 80 * MBPS);
	h.dep.newest_rtt_us = 12500; /* the queue drained in a silence */
	assert_int_equal(imtcp_base_bps(&h.c.facts, &h.dep), 160 * MBPS);
	h.c.facts.minrtt.base_us = 6250; /* and no ACK came for longer than that */
	h.dep.now_us += 12501;
	assert_int_equal(imtcp_base_bps(&h.c.facts, &h.dep), 320 * MBPS);
	h.dep.ssthresh_segs = 10;
	h.c.facts.cap_segs = 0;
	h.dep.cwnd_segs = 10; /* loss recovery: retransmissions are not held back */
	assert_within_pct(imtcp_base_bps(&h.c.facts, &h.dep), 40 * MBPS * 307 / 256, 0.01);
}

/* 40 Mbit/s are 5 MB/s. A millisecond has 4882 bytes, and a shift of 7 gives 39062. */
static void a_buffer_has_what_the_sockets_limits_say(void **state)
{
	struct house h;

	(void)state;
	begin(&h);
	assert_int_equal(imtcp_chunk_segs(256, &h.dep, 40 * MBPS), 4);
	h.dep.pacing_shift = 7; /* Wi-Fi drivers */
	assert_int_equal(imtcp_chunk_segs(256, &h.dep, 40 * MBPS), 39);
	h.dep.chunk_most_bytes = 20000;
	assert_int_equal(imtcp_chunk_segs(256, &h.dep, 40 * MBPS), 20);
	h.dep.pacing_shift = 10;
	assert_int_equal(imtcp_chunk_segs(256, &h.dep, 25 * MBPS), 3);
	assert_int_equal(imtcp_chunk_segs(512, &h.dep, 25 * MBPS), 4); /* even, for delayed ACKs */
	h.dep.chunk_most_segs = 1; /* gso_max_segs 1 on the device */
	assert_int_equal(imtcp_chunk_segs(512, &h.dep, 40 * MBPS), 1);
	h.dep.chunk_most_bytes = h.dep.chunk_most_segs = 500000; /* BIG TCP */
	assert_int_equal(imtcp_chunk_segs(256, &h.dep, 1000 * MBPS), 122);
}

/* Below 512 us all of the 65 536 bytes, and half of them after each further 512 us. */
static void on_a_short_path_a_buffer_has_more(void **state)
{
	struct house h;

	(void)state;
	assert_int_equal(imtcp_extra_bytes(65536, 511, 9), 65536);
	assert_int_equal(imtcp_extra_bytes(65536, 512, 9), 32768);
	assert_int_equal(imtcp_extra_bytes(65536, 2000, 9), 8192);
	assert_int_equal(imtcp_extra_bytes(65536, 8191, 9), 2);
	assert_int_equal(imtcp_extra_bytes(65536, 20000, 9), 0);
	assert_int_equal(imtcp_extra_bytes(65536, IMTCP_U32_MAX, 9), 0); /* no RTT yet */
	assert_int_equal(imtcp_extra_bytes(65536, 2000, 0), 0);		 /* off */
	begin(&h);
	h.dep.chunk_extra_bytes = 8192; /* added to 4882 */
	assert_int_equal(imtcp_chunk_segs(256, &h.dep, 40 * MBPS), 13);
	h.dep.chunk_most_bytes = 10000;
	assert_int_equal(imtcp_chunk_segs(256, &h.dep, 40 * MBPS), 10);
}

static void before_the_first_round_trip_no_control_sets_a_pace(void **state)
{
	struct house h;

	(void)state;
	begin(&h);
	h.dep.srtt_us = 0;
	imtcp_space(&h.c, NULL, &h.dep, &h.d);
	imtcp_measure_space(&h.c, NULL, &h.dep, &h.d);
	assert_int_equal(h.d.pace_bps, 0);
}

/* One segment in three round trips of 25 ms. Two leave at a time. */
static void a_window_below_two_segments_is_paced_but_not_below_the_floor(void **state)
{
	struct house h;

	(void)state;
	begin(&h);
	h.c.facts.trickle_q16 = imtcp_trickle_q16(3);
	imtcp_space(&h.c, NULL, &h.dep, &h.d);
	assert_in_range(h.d.pace_bps, PKT * 8 * 1000000ULL / 75000 - 5,
			PKT * 8 * 1000000ULL / 75000);
	assert_int_equal(h.d.segs, 2);
	h.dep.floor_bps = 1 * MBPS;
	imtcp_space(&h.c, NULL, &h.dep, &h.d);
	assert_int_equal(h.d.pace_bps, 1 * MBPS);
}

static void
a_control_that_measures_sends_plain_until_there_is_a_range_and_then_in_streams(void **state)
{
	struct house h;

	(void)state;
	begin(&h);
	imtcp_measure_space(&h.c, NULL, &h.dep, &h.d);
	assert_int_equal(h.d.plan, IMTCP_PLAN_PLAIN);
	assert_within_pct(h.d.pace_bps, 40 * MBPS * 307 / 256, 0.01);
	h.c.meas.capacity_bps = 100 * MBPS;
	imtcp_meas_set_range(&h.c.meas, 40 * MBPS, 80 * MBPS);
	h.dep.flight_segs = 0;
	h.dep.unsent_bytes = 1000 * MSS;
	imtcp_measure_space(&h.c, NULL, &h.dep, &h.d);
	assert_int_equal(h.d.plan, IMTCP_PLAN_STREAM);
	assert_int_equal(h.d.pace_bps, h.c.meas.next_bps);
	assert_int_equal(h.d.unpaced, 0);
	h.dep.srtt_us = IMTCP_SHORT_RTT_US - 1; /* ACKs are the clock */
	imtcp_measure_space(&h.c, NULL, &h.dep, &h.d);
	assert_int_equal(h.d.unpaced, 1);
}

static void
while_the_background_empties_the_path_nothing_is_measured_and_no_floor_holds(void **state)
{
	struct imtcp_bg b;
	struct house h;

	(void)state;
	begin(&h);
	memset(&b, 0, sizeof(b));
	h.c.meas.capacity_bps = 100 * MBPS;
	imtcp_meas_set_range(&h.c.meas, 40 * MBPS, 80 * MBPS);
	h.dep.flight_segs = 0;
	h.dep.unsent_bytes = 1000 * MSS;
	b.draining = 1;
	imtcp_bg_space(&h.c, &b, &h.dep, &h.d);
	assert_int_equal(h.d.plan, IMTCP_PLAN_PLAIN);
	h.d.floor_segs = 50;
	h.s.full = 1;
	imtcp_bg_decide(&h.c, &b, &h.s, &h.d);
	assert_int_equal(h.d.floor_segs, 0);
	assert_int_equal(h.d.w.cwnd_segs, IMTCP_MEASURING_LEAST_SEGS);
	b.draining = 0;
	h.d.floor_segs = 50;
	imtcp_bg_decide(&h.c, &b, &h.s, &h.d);
	assert_int_equal(h.d.floor_segs, 50);
}

/* The same for imtcp_bg, with an RTTmin of 30 ms. */
static void begin_background(struct house *h, struct imtcp_bg *b)
{
	begin(h);
	memset(b, 0, sizeof(*b));
	h->c.facts.minrtt.base_us = h->s.min_rtt_us = 30000;
}

/* 40 Mbit/s and a 20th of it in 30 ms are 126 segments. The decision is that cap, and the facts
 * contain it. A new estimate of 20 Mbit/s without a result changes the cap to 63 at the end of the
 * round trip. */
static void the_background_decides_by_the_estimate_and_the_facts_tell_its_cap(void **state)
{
	struct imtcp_bg b;
	struct house h;

	(void)state;
	begin_background(&h, &b);
	h.c.meas.smoothed_bps = 40 * MBPS;
	h.d.w.cwnd_segs = 300;
	h.s.acked_bytes = MSS;
	imtcp_bg_learn(&h.c, &b, &h.s);
	imtcp_bg_decide(&h.c, &b, &h.s, &h.d);
	assert_int_equal(h.c.facts.cap_segs, 126);
	assert_int_equal(h.d.w.cwnd_segs, 126);
	assert_int_equal(h.c.facts.reductions_cap, 1);
	h.c.meas.smoothed_bps = 20 * MBPS;
	imtcp_bg_learn(&h.c, &b, &h.s);
	assert_int_equal(h.c.facts.cap_segs, 126);
	h.s.round_over = 1;
	imtcp_bg_learn(&h.c, &b, &h.s);
	assert_int_equal(h.c.facts.cap_segs, 63);
}

/* A floor of 100 segments exceeds a cap of 63, so the window stays. That is no reduction. */
static void a_cap_below_the_floor_reduces_nothing(void **state)
{
	struct imtcp_bg b;
	struct house h;

	(void)state;
	begin_background(&h, &b);
	h.c.facts.cap_segs = 63;
	h.d.floor_segs = 100;
	imtcp_bg_decide(&h.c, &b, &h.s, &h.d);
	assert_int_equal(h.c.facts.reductions_cap, 0);
	h.d.w.cwnd_segs = 101;
	imtcp_bg_decide(&h.c, &b, &h.s, &h.d);
	assert_int_equal(h.c.facts.reductions_cap, 1);
}

/* ours: the middle of the range is a first guess. The paper has none. */
static void before_the_first_result_full_speed_grows_towards_the_middle_of_the_range(void **state)
{
	struct house h;

	(void)state;
	begin(&h);
	h.c.meas.low_bps = 40 * MBPS;
	h.c.meas.high_bps = 120 * MBPS; /* V = 80 Mbit/s · 25 ms = 200 segments, twice the window */
	h.c.params.h_segs = 10;
	h.s.full = 1;
	h.s.acked_segs = 100;
	imtcp_fs_decide(&h.c, NULL, &h.s, &h.d);
	assert_int_equal(h.d.w.cwnd_segs, 105);
}

static void a_loss_costs_half_and_at_full_speed_what_the_path_did_not_carry(void **state)
{
	struct house h;

	(void)state;
	begin(&h);
	assert_int_equal(imtcp_halve(&h.c, NULL, &h.s), 50);
	h.c.facts.minrtt.base_us = 20000;
	assert_int_equal(imtcp_fs_target(&h.c, NULL, &h.s), 50); /* the newest round is unknown */
	h.s.delivered_segs = 100;
	h.s.delivered_in_us = 25000;
	assert_int_equal(imtcp_fs_target(&h.c, NULL, &h.s), 80);
}

static void after_a_loss_full_speed_measures_at_once_and_the_others_pause(void **state)
{
	struct house h;

	(void)state;
	begin(&h);
	imtcp_measure_start(&h.c, NULL, &h.d.w);
	imtcp_measure_reduced(&h.c, NULL, &h.s);
	assert_int_equal(h.c.meas.resume_us, NOW + IMTCP_PAUSE_RTTS * 25000);
	assert_int_equal(h.c.meas.whole_pause, 1);
	begin(&h);
	imtcp_fs_reduced(&h.c, NULL, &h.s);
	assert_int_equal(h.c.meas.resume_us, NOW);
}

/* 200 segments in 25 ms are 80 Mbit/s, more than twice the range. So the send ends the
 * measurement. */
static void a_result_that_ends_on_a_send_is_heard_of_at_the_next_ack(void **state)
{
	struct house h;

	(void)state;
	begin(&h);
	h.c.meas.capacity_bps = 100 * MBPS;
	imtcp_meas_set_range(&h.c.meas, 10 * MBPS, 20 * MBPS);
	h.c.meas.planned = IMTCP_SUB_RANGES;
	h.dep.flight_segs = 200;
	h.dep.cwnd_segs = 300;
	imtcp_measure_space(&h.c, NULL, &h.dep, &h.d);
	assert_int_equal(h.c.meas.ends, 1);
	assert_int_equal(h.c.meas.smoothed_bps, 0);
	h.s.rtt_us = -1;
	imtcp_measure_learn(&h.c, NULL, &h.s); /* nothing new is acknowledged */
	assert_int_equal(h.c.meas.smoothed_bps, 0);
	h.s.acked_bytes = h.s.snd_una = MSS;
	imtcp_measure_learn(&h.c, NULL, &h.s);
	assert_int_equal(h.c.meas.smoothed_bps, 20 * MBPS);
	h.s.snd_una += MSS;
	imtcp_measure_learn(&h.c, NULL, &h.s); /* once */
	assert_int_equal(h.c.meas.smoothed_bps, 20 * MBPS);
}

/* Marks are indications only if both ends agreed on ECN. A loss is no indication. */
/*
 * The flags of Linux:
 *
 * ── flag ───────────── value ──
 * OK, or RFC 3168      1
 * QUEUE_CWR            2
 * DEMAND_CWR           4
 * SEEN                 8
 * ACCECN               16
 * ECT_1                32
 */
static void ecn_is_agreed_in_either_mode_and_not_by_other_flags(void **state)
{
	(void)state;
	assert_true(imtcp_ecn_is_agreed(0x01 | 0x08));
	assert_true(imtcp_ecn_is_agreed(0x10 | 0x08));
	assert_false(imtcp_ecn_is_agreed(0x02 | 0x04 | 0x08 | 0x20));
}

static void by_marks_without_ecn_tcp_lp_goes_by_delays(void **state)
{
	struct imtcp_lp lp;
	struct house h;

	(void)state;
	begin(&h);
	memset(&lp, 0, sizeof(lp));
	imtcp_lpecn_start(&h.c, &lp, &h.d.w);
	h.s.delay_us = 25000;
	h.s.ecn = 1;
	imtcp_lp_learn(&h.c, &lp, &h.s);
	assert_int_equal(imtcp_lp_target(&h.c, &lp, &h.s), 50);
	imtcp_lp_reduced(&h.c, &lp, &h.s);
	assert_int_equal(imtcp_lp_target(&h.c, &lp, &h.s), 1); /* the second mark within itt */
	imtcp_lp_reduced(&h.c, &lp, &h.s);
	assert_int_equal(h.c.facts.trickle_q16, 65536);
	h.s.lost = 1;
	assert_int_equal(imtcp_lp_target(&h.c, &lp, &h.s), 50);
	h.s.ecn = 0;
	h.s.lost = 0;
	imtcp_lp_learn(&h.c, &lp, &h.s);
	assert_int_equal(lp.by_marks, 0);
	assert_int_equal(imtcp_lp_target(&h.c, &lp, &h.s), 50);
}

static void a_delay_that_cannot_be_compared_teaches_no_control(void **state)
{
	struct imtcp_ledbatpp l;
	struct imtcp_nice n;
	struct house h;

	(void)state;
	begin(&h);
	memset(&l, 0, sizeof(l));
	memset(&n, 0, sizeof(n));
	h.s.rtt_us = 25000; /* of a small segment */
	h.s.acked_segs = 1;
	imtcp_ledbatpp_learn(&h.c, &l, &h.s);
	imtcp_nice_learn(&h.c, &n, &h.s);
	assert_int_equal(imtcp_delays_base_us(&l.delays), 0);
	assert_int_equal(n.min_rtt_us, 0);
	h.s.delay_us = 25001;
	imtcp_ledbatpp_learn(&h.c, &l, &h.s);
	imtcp_nice_learn(&h.c, &n, &h.s);
	assert_int_equal(imtcp_delays_base_us(&l.delays), 25001);
	assert_int_equal(n.min_rtt_us, 25001);
}

/* All packets of a round were late: Nice halves its window. Below two segments one leaves in some
 * round trips. */
static void nice_halves_says_so_and_leaves_windows_below_two_to_the_pace(void **state)
{
	struct imtcp_nice n;
	struct house h;

	(void)state;
	begin(&h);
	memset(&n, 0, sizeof(n));
	imtcp_nice_start(&h.c, &n, &h.d.w);
	h.s.round_over = 1;
	n.round_segs = n.late_segs = 10;
	imtcp_nice_decide(&h.c, &n, &h.s, &h.d);
	assert_int_equal(h.d.w.cwnd_segs, 50);
	assert_int_equal(h.c.facts.reductions_rtt, 1);
	assert_int_equal(h.c.facts.yields, 1);
	assert_int_equal(h.c.facts.trickle_q16, 0);
	h.d.w.cwnd_segs = 2;
	n.round_segs = n.late_segs = 2;
	imtcp_nice_decide(&h.c, &n, &h.s, &h.d);
	assert_int_equal(h.c.facts.trickle_q16, 65536);
}

/* The receiver's window takes 20 segments. After a timeout slow start leads there. */
static void without_congestion_control_the_receivers_window_is_the_answer_to_all(void **state)
{
	struct house h;

	(void)state;
	begin(&h);
	imtcp_nocc_start(&h.c, NULL, &h.d.w);
	assert_int_equal(h.c.facts.pathless, 1);
	h.s.receiver_bytes = 20 * MSS;
	imtcp_nocc_decide(&h.c, NULL, &h.s, &h.d);
	assert_int_equal(h.d.w.cwnd_segs, 20);
	assert_int_equal(imtcp_nocc_target(&h.c, NULL, &h.s), 20);
	h.s.timed_out = 1;
	h.s.acked_segs = 1;
	h.d.w.cwnd_segs = 1;
	imtcp_nocc_decide(&h.c, NULL, &h.s, &h.d);
	assert_int_equal(h.d.w.cwnd_segs, 2);
}

/* RFC 3708: the receiver reports that it had all the data. */
static void a_loss_that_was_none_costs_neither_the_pause_nor_two_seconds(void **state)
{
	struct imtcp_bg b = {0};
	struct house h;

	(void)state;
	begin(&h);
	h.c.meas.pause_rtts = 3;
	h.c.meas.resume_us = NOW + 7;
	h.s.snd_nxt = 5000;
	imtcp_hold_on_loss(&h.c, 100);
	imtcp_bg_reduced(&h.c, &b, &h.s);
	imtcp_bg_reduced(&h.c, &b, &h.s); /* a timeout after the loss */
	assert_int_equal(h.c.meas.pause_rtts, IMTCP_PAUSE_RTTS);
	assert_int_equal(b.lost_at_us, NOW);
	imtcp_flow_undo(&h.c);
	imtcp_bg_decide(&h.c, &b, &h.s, &h.d);
	assert_int_equal(h.c.meas.pause_rtts, 3);
	assert_int_equal(h.c.meas.resume_us, NOW + 7);
	assert_int_equal(b.lost_at_us, 0);
	/* The next loss may be real. */
	imtcp_hold_on_loss(&h.c, 100);
	imtcp_bg_reduced(&h.c, &b, &h.s);
	imtcp_bg_decide(&h.c, &b, &h.s, &h.d);
	assert_int_equal(b.lost_at_us, NOW);
}

SUITE(flow, T(a_loss_that_was_none_costs_neither_the_pause_nor_two_seconds),
      T(a_window_is_paced_at_1_2_of_its_rate_in_slow_start_at_2_and_below_a_cap_at_1_05),
      T(a_buffer_has_what_the_sockets_limits_say), T(on_a_short_path_a_buffer_has_more),
      T(before_the_first_round_trip_no_control_sets_a_pace),
      T(a_window_below_two_segments_is_paced_but_not_below_the_floor),
      T(a_control_that_measures_sends_plain_until_there_is_a_range_and_then_in_streams),
      T(while_the_background_empties_the_path_nothing_is_measured_and_no_floor_holds),
      T(the_background_decides_by_the_estimate_and_the_facts_tell_its_cap),
      T(a_cap_below_the_floor_reduces_nothing),
      T(before_the_first_result_full_speed_grows_towards_the_middle_of_the_range),
      T(a_loss_costs_half_and_at_full_speed_what_the_path_did_not_carry),
      T(after_a_loss_full_speed_measures_at_once_and_the_others_pause),
      T(a_result_that_ends_on_a_send_is_heard_of_at_the_next_ack),
      T(ecn_is_agreed_in_either_mode_and_not_by_other_flags),
      T(by_marks_without_ecn_tcp_lp_goes_by_delays),
      T(a_delay_that_cannot_be_compared_teaches_no_control),
      T(nice_halves_says_so_and_leaves_windows_below_two_to_the_pace),
      T(without_congestion_control_the_receivers_window_is_the_answer_to_all))
