/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Types and target switches of the core. No other file has an #if on the target.
 *
 * The core is freestanding C. It uses no libc, no clock, no socket type, no floating point and no
 * signed division (BPF has none before v4). The same headers compile as C11 (-ffreestanding
 * -pedantic), as C++20 and as BPF.
 *
 * A core function has one of two linkages:
 *   ── linkage ── use ──────────────────────────────────────────────────────────────────────
 *   IMTCP_INLINE  small: the compiler inlines it at each call
 *   IMTCP_GLOBAL  large: a global function in BPF, which the verifier checks once and alone
 *
 * The verifier assumes that pointer arguments of a global function may be NULL. So each of them
 * checks its pointers first.
 */
#ifndef IMTCP_TYPES_H
#define IMTCP_TYPES_H

#if defined(__bpf__) || defined(__BPF__)
typedef unsigned char imtcp_u8;
typedef unsigned short imtcp_u16;
typedef unsigned int imtcp_u32;
typedef unsigned long long imtcp_u64;
typedef signed int imtcp_s32;
typedef signed long long imtcp_s64;
#define IMTCP_INLINE static inline __attribute__((always_inline))
#define IMTCP_GLOBAL __attribute__((noinline))
/* Hides a value from the compiler, so that it keeps a bound which the verifier has to see. */
#define IMTCP_OPAQUE(var) __asm__ volatile("" : "+r"(var))
#else
#include <stdint.h>
typedef uint8_t imtcp_u8;
typedef uint16_t imtcp_u16;
typedef uint32_t imtcp_u32;
typedef uint64_t imtcp_u64;
typedef int32_t imtcp_s32;
typedef int64_t imtcp_s64;
#define IMTCP_INLINE static inline
#define IMTCP_GLOBAL static inline
#define IMTCP_OPAQUE(var) ((void)(var))
#endif

#ifndef NULL
#ifdef __cplusplus
#define NULL nullptr
#else
#define NULL ((void *)0)
#endif
#endif

/* Is a before b? Sequence numbers wrap, so this holds up to half of their range apart (RFC 9293
 * §3.4). */
IMTCP_INLINE int imtcp_seq_before(imtcp_u32 a, imtcp_u32 b)
{
	return (imtcp_s32)(a - b) < 0;
}

#endif
