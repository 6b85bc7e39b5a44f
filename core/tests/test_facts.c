// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Facts about a connection under any control. */
#include "test.h"
#include <imtcp/facts.h>

#define MSS 1000U
#define NOW 5000000ULL

struct known {
	struct imtcp_facts f;
	struct imtcp_sample s;
	uint64_t ever_bytes;
};

static void begin(struct known *k)
{
	memset(k, 0, sizeof(*k));
	k->f.acked_at_us = NOW;
	k->s.now_us = NOW;
	k->s.mss_bytes = MSS;
	k->s.wire_q8 = 256;
	k->s.cwnd_segs = 10;
}

/* An ACK of so many bytes in so many segments, us after the one before. */
static void ack(struct known *k, uint32_t bytes, uint32_t segs, int32_t rtt_us, uint32_t us)
{
	k->s.now_us += us;
	k->s.snd_una += bytes;
	k->s.snd_nxt = k->s.snd_una + 10 * MSS;
	k->s.acked_segs = segs;
	k->s.rtt_us = rtt_us;
	k->ever_bytes += bytes;
	imtcp_facts_on_ack(&k->f, &k->s, k->ever_bytes);
}

static void
full_segments_tell_the_least_round_trip_and_small_ones_only_where_there_are_no_others(void **state)
{
	struct known k;

	(void)state;
	begin(&k);
	ack(&k, 37, 1, 27123, 1000);
	assert_int_equal(k.s.delay_us, 0);
	assert_int_equal(k.f.minrtt.base_us, 0);
	assert_int_equal(imtcp_told_min_rtt_us(&k.f), 27123);
	ack(&k, 2 * MSS, 2, 30123, 1000);
	assert_int_equal(k.s.delay_us, 30123);
	assert_int_equal(k.s.min_rtt_us, 30123);
	assert_int_equal(imtcp_told_min_rtt_us(&k.f), 30123);
	ack(&k, MSS, 1, -1, 1000); /* sent again: it has none */
	assert_int_equal(k.s.delay_us, 0);
	assert_int_equal(k.s.min_rtt_us, 30123);
}

static void an_initial_sequence_number_that_was_not_known_is_no_data(void **state)
{
	struct known k;

	(void)state;
	begin(&k);
	k.s.snd_una = 3000000000U;
	ack(&k, 1, 1, 30123, 1000);
	assert_int_equal(k.s.acked_bytes, 0);
	assert_int_equal(k.f.busy_us, 0);
	ack(&k, MSS, 1, 30123, 1000);
	assert_int_equal(k.s.acked_bytes, MSS);
	assert_int_equal(k.s.prior_una, 3000000001U);
}

static void time_without_acks_for_more_than_a_second_is_not_busy(void **state)
{
	struct known k;

	(void)state;
	begin(&k);
	ack(&k, MSS, 1, 30123, 400000);
	ack(&k, MSS, 1, 30123, 1000001);
	ack(&k, MSS, 1, 30123, 200000);
	assert_int_equal(k.f.busy_us, 600000);
	assert_int_equal(k.f.yielding_us, 0);
}

static void a_window_at_its_cap_and_a_control_that_yields_are_time_for_others(void **state)
{
	struct known k;

	(void)state;
	begin(&k);
	k.f.cap_segs = 11;
	ack(&k, MSS, 1, 30123, 1000); /* 10 of 11 */
	assert_int_equal(k.f.yielding_us, 0);
	k.f.cap_segs = 10;
	ack(&k, MSS, 1, 30123, 1000);
	assert_int_equal(k.f.yielding_us, 1000);
	k.f.cap_segs = 0;
	ack(&k, MSS, 1, 30123, 1000); /* no cap at all */
	assert_int_equal(k.f.yielding_us, 1000);
	k.f.yields = 1;
	ack(&k, MSS, 1, 30123, 1000);
	assert_int_equal(k.f.yielding_us, 2000);
}

/* Ten segments were under way at the first ACK: the round trip ends with the last of them. */
static void
the_window_rules_see_the_end_of_a_round_trip_once_however_long_they_were_not_asked(void **state)
{
	struct known k;
	uint32_t i;

	(void)state;
	begin(&k);
	ack(&k, MSS, 1, 30123, 1000);
	for (i = 0; i < 10; i++)
		ack(&k, MSS, 1, 30123, 1000);
	assert_int_equal(k.s.round_over, 1);
	ack(&k, MSS, 1, 31123, 1000);
	assert_int_equal(k.s.round_over, 0);
	k.f.full = 1;
	k.f.yields = 1;
	imtcp_facts_on_window(&k.f, &k.s);
	assert_int_equal(k.s.round_over, 1);
	assert_int_equal(k.s.round_full, 1);
	assert_int_equal(k.s.round_rtt_us, 30123);
	assert_int_equal(k.f.yields, 0); /* a new round trip: who yields says so again */
	k.s.round_over = 0;
	imtcp_facts_on_window(&k.f, &k.s);
	assert_int_equal(k.s.round_over, 0);
}

static void a_window_below_two_segments_is_always_full(void **state)
{
	struct known k;

	(void)state;
	begin(&k);
	imtcp_facts_on_window(&k.f, &k.s);
	assert_int_equal(k.s.full, 0);
	k.f.trickle_q16 = 21845; /* a third */
	imtcp_facts_on_window(&k.f, &k.s);
	assert_int_equal(k.s.full, 1);
	assert_int_equal(k.f.full, 1);
}

SUITE(facts,
      T(full_segments_tell_the_least_round_trip_and_small_ones_only_where_there_are_no_others),
      T(an_initial_sequence_number_that_was_not_known_is_no_data),
      T(time_without_acks_for_more_than_a_second_is_not_busy),
      T(a_window_at_its_cap_and_a_control_that_yields_are_time_for_others),
      T(the_window_rules_see_the_end_of_a_round_trip_once_however_long_they_were_not_asked),
      T(a_window_below_two_segments_is_always_full))
