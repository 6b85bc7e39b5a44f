// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Parameters that a user may choose (params.h). */
#include "test.h"

static void the_defaults_are_those_of_the_papers(void **state)
{
	const struct imtcp_params *p = defaults();

	(void)state;
	assert_int_equal(p->gamma_q16, 65536 / 8);    /* [BG §4.1.1] */
	assert_int_equal(p->delta_q8, 12 * 256 / 10); /* [BG §4.1.2] */
	assert_int_equal(p->h_segs, 100);	      /* [IM §5.2, fig. 16] */
	assert_int_equal(p->stream_packets, 8);	      /* ours */
	assert_int_equal(p->g_q8, 256);		      /* [BG eq. 2] */
	assert_int_equal(p->lp_delta_pct, 15);	      /* [LP §III-D] */
	assert_int_equal(p->lp_itt_rtts, 3);	      /* [LP §III-D] */
	assert_int_equal(p->nice_t_pct, 10);	      /* [NICE §4] */
	assert_int_equal(p->nice_f_pct, 50);	      /* [NICE §4] */
	assert_int_equal(p->ledbat_target_us, 100 * MSEC);
	assert_int_equal(p->ledbat_gain_q8, 256);	      /* RFC 6817 §2.5 */
	assert_int_equal(p->ledbatpp_target_us, 60 * MSEC);   /* [L++ §4.5] */
	assert_int_equal(p->t_us, 0);			      /* adapts [IM §3.4.2] */
	assert_int_equal(p->paper_rtt, IMTCP_PAPER_RTT_SRTT); /* [BG §3.2.2] */
	assert_int_equal(p->paper_stream_packets, 5);	      /* [IM §4.1.1] */
	assert_int_equal(p->pause_plus1, 0);		      /* follows congestion */
	assert_int_equal(p->store_packets, 0);		      /* adapts */
}

static void what_is_not_chosen_stays_the_default(void **state)
{
	struct imtcp_params p = *defaults(), none = {0};

	(void)state;
	imtcp_params_choose(&p, &none);
	assert_memory_equal(&p, defaults(), sizeof(p));
	none.h_segs = 7;
	imtcp_params_choose(&p, &none);
	assert_int_equal(p.h_segs, 7);
	p.h_segs = IMTCP_H_SEGS;
	assert_memory_equal(&p, defaults(), sizeof(p));
}

/* One number in each field. */
static struct imtcp_params all_of(imtcp_u32 number)
{
	imtcp_u32 words[sizeof(struct imtcp_params) / sizeof(imtcp_u32)];
	struct imtcp_params p;
	size_t i;

	for (i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		words[i] = number;
	memcpy(&p, words, sizeof(p));
	return p;
}

/* Whoever writes the map: a program that divides or loops by it meets no other value. */
static void what_is_out_of_range_becomes_the_nearest_that_is_in_it(void **state)
{
	struct imtcp_params p = *defaults(), low = all_of(1), high = all_of(~0U);

	(void)state;
	imtcp_params_choose(&p, &low);
	assert_int_equal(p.gamma_q16, IMTCP_GAMMA_LEAST_Q16);
	assert_int_equal(p.delta_q8, IMTCP_DELTA_LEAST_Q8);
	assert_int_equal(p.h_segs, 1);
	assert_int_equal(p.stream_packets, 5);
	assert_int_equal(p.g_q8, IMTCP_G_LEAST_Q8);
	assert_int_equal(p.lp_delta_pct, 1);
	assert_int_equal(p.lp_itt_rtts, 1);
	assert_int_equal(p.nice_t_pct, 1);
	assert_int_equal(p.nice_f_pct, 1);
	assert_int_equal(p.ledbat_target_us, 5 * MSEC);
	assert_int_equal(p.ledbat_gain_q8, 256 / 16);
	assert_int_equal(p.ledbatpp_target_us, 5 * MSEC);
	assert_int_equal(p.t_us, 1 * MSEC);
	assert_int_equal(p.paper_rtt, IMTCP_PAPER_RTT_SRTT);
	assert_int_equal(p.paper_stream_packets, 3);
	assert_int_equal(p.pause_plus1 - 1, 0);
	assert_int_equal(p.store_packets, 2); /* [IM §3.4.1] */
	imtcp_params_choose(&p, &high);
	assert_int_equal(p.gamma_q16, 65536);
	assert_int_equal(p.delta_q8, 4 * 256);
	assert_int_equal(p.h_segs, IMTCP_H_MOST_SEGS);
	assert_int_equal(p.stream_packets, IMTCP_STREAM_PACKETS_MOST);
	assert_int_equal(p.g_q8, 256);
	assert_int_equal(p.lp_delta_pct, 99);
	assert_int_equal(p.lp_itt_rtts, IMTCP_LP_ITT_MOST_RTTS);
	assert_int_equal(p.nice_t_pct, 99);
	assert_int_equal(p.nice_f_pct, 99);
	assert_int_equal(p.ledbat_target_us, 100 * MSEC); /* RFC 6817 §2.5 */
	assert_int_equal(p.ledbat_gain_q8, 256);	  /* RFC 6817 §2.5 */
	assert_int_equal(p.ledbatpp_target_us, 100 * MSEC);
	assert_int_equal(p.t_us, 50 * MSEC);
	assert_int_equal(p.paper_rtt, IMTCP_PAPER_RTT_NEWEST);
	assert_int_equal(p.paper_stream_packets, 10);
	assert_int_equal(p.pause_plus1 - 1, 100);
	assert_int_equal(p.store_packets, 15);
}

SUITE(params, T(the_defaults_are_those_of_the_papers), T(what_is_not_chosen_stays_the_default),
      T(what_is_out_of_range_becomes_the_nearest_that_is_in_it))
