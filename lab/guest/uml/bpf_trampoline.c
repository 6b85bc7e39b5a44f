// SPDX-License-Identifier: GPL-2.0-only
/*
 * What struct_ops needs of an architecture: for each operation a function of the host's ABI that
 * runs one BPF program.  The program itself is interpreted.
 */
#include <linux/bpf.h>
#include <linux/filter.h>
#include <linux/string.h>

/* Registers of the System V ABI that carry arguments. */
#define REG_ARGS 6

static u64 notrace run_program(struct bpf_tramp_link *link, u64 *args)
{
	struct bpf_prog *prog = link->link.prog;
	struct bpf_tramp_run_ctx run_ctx = {.bpf_cookie = link->cookie};
	u64 start, ret = 0;

	start = bpf_trampoline_enter(prog)(prog, &run_ctx);
	if (start)
		ret = prog->bpf_func(args, prog->insnsi);
	bpf_trampoline_exit(prog)(prog, start, &run_ctx);
	return ret;
}

static const u8 head[] = {
	0x55,			/* push rbp */
	0x48, 0x89, 0xe5,	/* mov rbp, rsp */
	0x48, 0x83, 0xec, 0x30, /* sub rsp, 48 */
	0x48, 0x89, 0x7d, 0xd0, /* mov [rbp-48], rdi */
	0x48, 0x89, 0x75, 0xd8, /* mov [rbp-40], rsi */
	0x48, 0x89, 0x55, 0xe0, /* mov [rbp-32], rdx */
	0x48, 0x89, 0x4d, 0xe8, /* mov [rbp-24], rcx */
	0x4c, 0x89, 0x45, 0xf0, /* mov [rbp-16], r8 */
	0x4c, 0x89, 0x4d, 0xf8, /* mov [rbp-8], r9 */
	0x48, 0x8d, 0x75, 0xd0, /* lea rsi, [rbp-48] */
	0x48, 0xbf,		/* movabs rdi, link */
};
static const u8 call[] = {
	0x48, 0xb8, /* movabs rax, run_program */
};
static const u8 tail[] = {
	0xff, 0xd0, /* call rax */
	0xc9,	    /* leave */
	0xc3,	    /* ret */
};

#define SIZE (sizeof(head) + 8 + sizeof(call) + 8 + sizeof(tail))

int arch_bpf_trampoline_size(const struct btf_func_model *m, u32 flags,
			     struct bpf_tramp_links *tlinks, void *func_addr)
{
	if (!(flags & BPF_TRAMP_F_INDIRECT) || m->nr_args > REG_ARGS ||
	    tlinks[BPF_TRAMP_FENTRY].nr_links != 1)
		return -EOPNOTSUPP;
	return round_up(SIZE, 16);
}

static void *append(void *to, const void *from, size_t len)
{
	memcpy(to, from, len);
	return to + len;
}

int arch_prepare_bpf_trampoline(struct bpf_tramp_image *im, void *image, void *image_end,
				const struct btf_func_model *m, u32 flags,
				struct bpf_tramp_links *tlinks, void *func_addr)
{
	u64 link = (u64)tlinks[BPF_TRAMP_FENTRY].links[0], run = (u64)run_program;
	int size = arch_bpf_trampoline_size(m, flags, tlinks, func_addr);

	if (size < 0)
		return size;
	image = append(image, head, sizeof(head));
	image = append(image, &link, 8);
	image = append(image, call, sizeof(call));
	image = append(image, &run, 8);
	append(image, tail, sizeof(tail));
	return size;
}

int arch_protect_bpf_trampoline(void *image, unsigned int size)
{
	return 0;
}
