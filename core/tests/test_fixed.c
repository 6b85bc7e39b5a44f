// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "test.h"

static void a_division_by_zero_is_zero_as_in_bpf(void **state)
{
	(void)state;
	assert_int_equal(imtcp_div(7, 0), 0);
	assert_int_equal(imtcp_div(0, 0), 0);
	assert_int_equal(imtcp_div(7, 2), 3);
	assert_int_equal(imtcp_rate_bps(1500, 0), 0);
	assert_int_equal(imtcp_time_us(1500, 0), 0);
	assert_int_equal(imtcp_scale(5, 5, 0), 0);
}

static void products_saturate_and_differences_stop_at_zero(void **state)
{
	(void)state;
	assert_int_equal(imtcp_mul(1ULL << 32, 1ULL << 32), IMTCP_U64_MAX);
	assert_int_equal(imtcp_mul(IMTCP_U64_MAX, 2), IMTCP_U64_MAX);
	assert_int_equal(imtcp_mul(IMTCP_U64_MAX, 1), IMTCP_U64_MAX);
	assert_int_equal(imtcp_mul(IMTCP_U64_MAX, 0), 0);
	assert_int_equal(imtcp_mul(0, IMTCP_U64_MAX), 0);
	assert_int_equal(imtcp_mul((1ULL << 32) - 1, (1ULL << 32) - 1), 18446744065119617025ULL);
	assert_int_equal(imtcp_mul(1ULL << 63, 1), 1ULL << 63);
	assert_int_equal(imtcp_sub(3, 5), 0);
	assert_int_equal(imtcp_sub(5, 3), 2);
	assert_int_equal(imtcp_apart(3, 5), 2);
	assert_int_equal(imtcp_apart(5, 3), 2);
	assert_int_equal(imtcp_apart(0, IMTCP_U64_MAX), IMTCP_U64_MAX);
	assert_int_equal(imtcp_to_u32(1ULL << 32), IMTCP_U32_MAX);
	assert_int_equal(imtcp_to_u32(17), 17);
}

static void a_ceiling_holds_even_where_the_floor_is_above_it(void **state)
{
	(void)state;
	assert_int_equal(imtcp_clamp(5, 1, 9), 5);
	assert_int_equal(imtcp_clamp(0, 1, 9), 1);
	assert_int_equal(imtcp_clamp(10, 1, 9), 9);
	assert_int_equal(imtcp_clamp(5, 8, 3), 3);
}

/* 1500 bytes = 12 000 bits; at 100 Mbit/s they take 120 us. */
static void rates_times_and_bytes_are_one_equation(void **state)
{
	(void)state;
	assert_int_equal(imtcp_rate_bps(1500, 120), 100 * MBPS);
	assert_int_equal(imtcp_time_us(1500, 100 * MBPS), 120);
	assert_int_equal(imtcp_bytes_in(100 * MBPS, 120), 1500);
	/* 100 Mbit/s over 30 ms: 375 000 bytes */
	assert_int_equal(imtcp_bytes_in(100 * MBPS, 30 * MSEC), 375000);
	/* the limit in the header's comment: 2.3 TB in an hour, exact */
	assert_int_equal(imtcp_rate_bps(2300000000000ULL, 3600 * IMTCP_USEC_PER_SEC),
			 5111111111ULL);
	assert_int_equal(imtcp_scale(300, 7, 10), 210);
}

static void square_roots_are_floors(void **state)
{
	static const struct {
		uint64_t v, root;
	} table[] = {
		{0, 0},
		{1, 1},
		{2, 1},
		{3, 1},
		{4, 2},
		{8, 2},
		{9, 3},
		{15, 3},
		{16, 4},
		{99, 9},
		{100, 10},
		{65535, 255},
		{65536, 256},
		{(1ULL << 32) - 1, 65535},
		{1ULL << 32, 65536},
		{IMTCP_U64_MAX, IMTCP_U32_MAX},
		{18446744065119617025ULL, IMTCP_U32_MAX},
		{18446744065119617024ULL, IMTCP_U32_MAX - 1},
	};
	uint64_t seed = 1, i, r;

	(void)state;
	for (i = 0; i < sizeof(table) / sizeof(table[0]); i++)
		assert_int_equal(imtcp_isqrt(table[i].v), table[i].root);
	for (i = 0; i < 1 << 17; i++) {
		r = imtcp_isqrt(i);
		assert_true(r * r <= i && (r + 1) * (r + 1) > i);
	}
	/* around every kind of square: r² - 1, r², r² + 1 */
	for (i = 0; i < 100000; i++) {
		r = rnd_any(&seed) & IMTCP_U32_MAX;
		if (!r)
			continue;
		assert_int_equal(imtcp_isqrt(r * r), r);
		assert_int_equal(imtcp_isqrt(r * r - 1), r - 1);
		if (r * r < IMTCP_U64_MAX)
			assert_int_equal(imtcp_isqrt(r * r + 1), r == 0 ? 1 : r);
	}
}

static void sequence_numbers_compare_around_the_wrap(void **state)
{
	(void)state;
	assert_true(imtcp_seq_before(1, 2));
	assert_false(imtcp_seq_before(2, 2));
	assert_false(imtcp_seq_before(2, 1));
	assert_true(imtcp_seq_before(0xfffffff0U, 5));
	assert_false(imtcp_seq_before(5, 0xfffffff0U));
	assert_true(imtcp_seq_before(0, 0x7fffffffU));
}

SUITE(fixed, T(a_division_by_zero_is_zero_as_in_bpf),
      T(products_saturate_and_differences_stop_at_zero),
      T(a_ceiling_holds_even_where_the_floor_is_above_it),
      T(rates_times_and_bytes_are_one_equation), T(square_roots_are_floors),
      T(sequence_numbers_compare_around_the_wrap))
