/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Integer arithmetic of the core.
 *
 * Fixed-point values name their scale: gain_q8 is a value times 2^8. Rates are u64 bits per
 * second (_bps), times u64 or u32 microseconds (_us).
 *
 * Nothing here overflows silently: products saturate, and the one division is guarded, since
 * BPF defines x / 0 as 0 and a native program traps.
 */
#ifndef IMTCP_FIXED_H
#define IMTCP_FIXED_H

#include "types.h"

#define IMTCP_U64_MAX (~(imtcp_u64)0)
#define IMTCP_U32_MAX (~(imtcp_u32)0)
#define IMTCP_USEC_PER_SEC 1000000ULL
#define IMTCP_NSEC_PER_SEC 1000000000ULL
#define IMTCP_BITS_PER_BYTE 8U

/* a / b; 0 where b is 0, on every target. */
IMTCP_INLINE imtcp_u64 imtcp_div(imtcp_u64 a, imtcp_u64 b)
{
	return b ? a / b : 0;
}

IMTCP_INLINE imtcp_u64 imtcp_min(imtcp_u64 a, imtcp_u64 b)
{
	return a < b ? a : b;
}

IMTCP_INLINE imtcp_u64 imtcp_max(imtcp_u64 a, imtcp_u64 b)
{
	return a > b ? a : b;
}

/* low <= high expected; high wins where they cross, so that a ceiling always holds. */
IMTCP_INLINE imtcp_u64 imtcp_clamp(imtcp_u64 v, imtcp_u64 low, imtcp_u64 high)
{
	return imtcp_min(imtcp_max(v, low), high);
}

/* a - b, not below 0. */
IMTCP_INLINE imtcp_u64 imtcp_sub(imtcp_u64 a, imtcp_u64 b)
{
	return a > b ? a - b : 0;
}

/* How far a and b are from each other. */
IMTCP_INLINE imtcp_u64 imtcp_apart(imtcp_u64 a, imtcp_u64 b)
{
	return imtcp_sub(a, b) + imtcp_sub(b, a);
}

/* a * b, saturating. The division is for large factors alone. */
IMTCP_INLINE imtcp_u64 imtcp_mul(imtcp_u64 a, imtcp_u64 b)
{
	if ((a | b) >> 32) {
		imtcp_u64 most = imtcp_div(IMTCP_U64_MAX, a);

		/* or the compiler makes a 128-bit product of it, which BPF has not */
		IMTCP_OPAQUE(most);
		if (a && b > most)
			return IMTCP_U64_MAX;
	}
	return a * b;
}

IMTCP_INLINE imtcp_u32 imtcp_to_u32(imtcp_u64 v)
{
	return v > IMTCP_U32_MAX ? IMTCP_U32_MAX : (imtcp_u32)v;
}

/*
 * Rate of `bytes` in `us` microseconds, bits per second; 0 where us is 0 (no rate can be
 * told). Exact to 2^64 / 8e6 bytes = 2.3 TB.
 */
IMTCP_INLINE imtcp_u64 imtcp_rate_bps(imtcp_u64 bytes, imtcp_u64 us)
{
	return imtcp_div(imtcp_mul(bytes, IMTCP_BITS_PER_BYTE * IMTCP_USEC_PER_SEC), us);
}

/* Time that `bytes` take at `bps`, microseconds; 0 where bps is 0. */
IMTCP_INLINE imtcp_u64 imtcp_time_us(imtcp_u64 bytes, imtcp_u64 bps)
{
	return imtcp_div(imtcp_mul(bytes, IMTCP_BITS_PER_BYTE * IMTCP_USEC_PER_SEC), bps);
}

/* Bytes that pass in `us` at `bps` (a bandwidth-delay product). Saturates at 2^64 / 8e6. */
IMTCP_INLINE imtcp_u64 imtcp_bytes_in(imtcp_u64 bps, imtcp_u64 us)
{
	return imtcp_mul(bps, us) / (IMTCP_BITS_PER_BYTE * IMTCP_USEC_PER_SEC);
}

/* v * num / den with a product that saturates; 0 where den is 0. */
IMTCP_INLINE imtcp_u64 imtcp_scale(imtcp_u64 v, imtcp_u64 num, imtcp_u64 den)
{
	return imtcp_div(imtcp_mul(v, num), den);
}

/*
 * Floor of the square root. Newton's method from above. The first guess is a power of two, at most twice the root. The
 * relative error then squares in each step, so six steps are exact. No loop over binary digits: the verifier would
 * follow every combination of them.
 */
IMTCP_GLOBAL imtcp_u64 imtcp_isqrt(imtcp_u64 v)
{
	imtcp_u64 x = 1, rest = v;
	int i;

	if (!v)
		return 0;
	/* x = 2^ceil(bits/2) */
	for (i = 32; i >= 2; i /= 2) {
		if (rest >> i) {
			rest >>= i;
			x <<= i / 2;
		}
	}
	x <<= 1;
	for (i = 0; i < 6; i++)
		x = (x + imtcp_div(v, x)) / 2;
	/* the last step may leave it one above */
	return imtcp_div(v, x) < x ? x - 1 : x;
}

#endif
