/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Types and target switches of the core: the only file with a target #if.
 *
 * The core is freestanding C: no libc, no clock, no socket type, no floating point, no
 * signed division (BPF has none before v4). The same headers compile as C11
 * (-ffreestanding -pedantic), as C++20 and as BPF.
 *
 * Linkage. A core function is either
 *   IMTCP_INLINE  small, inlined where it is used, or
 *   IMTCP_GLOBAL  large: natively the same thing, in BPF a global function, which the
 *                 verifier checks once and alone. Its pointer arguments may be NULL as far
 *                 as the verifier knows, hence the checks at the head of each.
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
/* Keeps the compiler from folding a bound that the verifier has to see. */
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

/* Is a before b? Sequence numbers wrap, so "before" means up to half of their range ahead (RFC 9293 §3.4). */
IMTCP_INLINE int imtcp_seq_before(imtcp_u32 a, imtcp_u32 b)
{
	return (imtcp_s32)(a - b) < 0;
}

#endif
