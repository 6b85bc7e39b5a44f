/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Numbers from the fuzzer's bytes; zeros after their end. */
#ifndef IMTCP_FUZZ_H
#define IMTCP_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <imtcp/params.h>

struct bytes {
	const uint8_t *at;
	size_t left;
};

static inline uint64_t take(struct bytes *b)
{
	uint64_t v = 0;
	size_t n = b->left < sizeof(v) ? b->left : sizeof(v);

	memcpy(&v, b->at, n);
	b->at += n;
	b->left -= n;
	return v;
}

static inline uint8_t take8(struct bytes *b)
{
	if (!b->left)
		return 0;
	b->left--;
	return *b->at++;
}

/* One of a few sizes, so that small inputs reach small and large numbers alike. */
static inline uint64_t take_any(struct bytes *b)
{
	uint64_t v;

	switch (take8(b) & 3) {
	case 0:
		return take8(b);
	case 1:
		v = take8(b);
		return v << 8 | take8(b);
	case 2:
		return take(b) >> 32;
	default:
		return take(b);
	}
}

/* The parameters in force: half of the time the defaults, else anything. */
static inline void take_params(struct bytes *b, struct imtcp_params *p)
{
	imtcp_u32 words[sizeof(*p) / sizeof(imtcp_u32)];
	struct imtcp_params chosen;
	size_t i;

	imtcp_params_init(p);
	if (!(take8(b) & 1))
		return;
	for (i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		words[i] = (imtcp_u32)take_any(b);
	memcpy(&chosen, words, sizeof(chosen));
	imtcp_params_choose(p, &chosen);
}

#define MUST(what)                                                                                 \
	do {                                                                                       \
		if (!(what))                                                                       \
			__builtin_trap();                                                          \
	} while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#endif
