/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * agent: process 1 of the laboratory's guest, after the init script.
 *
 * In QEMU (in User-mode Linux there is no 'S': each job boots its guest, and the job's archive and
 * the frames are files of a directory that the host shares):
 *
 *	boot ── frame 'S' ── pvpanic (the host saves the guest here)
 *	                          │ every job resumes here
 *	                fw_cfg: job.tar → /work, /run
 *	                          │
 *	             sh job.sh, a frame 'T' every tick, 'L' as it prints
 *	                          │ exit, or the virtual time is used up
 *	       kill all ── 'L' ── 'F' per file of $OUT ── 'X' (host ends QEMU)
 *
 * A frame on the debug console (port 0xe9) is one type byte, the payload's
 * length (4 bytes, big endian) and the payload:
 *
 *	S  ns (8, BE)		stops now to be saved; the time stamp counter
 *	T  ms (8, BE)		virtual time since the job began, milliseconds
 *	L  bytes		next piece of the job's output
 *	F  n (2, BE) name data	one result file, name relative to $OUT
 *	V  ms (8, BE)		the job used up its virtual time and was killed
 *	E  text			the agent itself failed
 *	X  code (4, BE)		exit code of the job; nothing follows
 *
 * No device model with a queue or an interrupt is involved, so that what is
 * sent depends on nothing but the guest's own instructions.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <linux/random.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/io.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/reboot.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define DEBUGCON_PORT 0xe9
#define PVPANIC_PORT 0x505
#define PVPANIC_PANICKED 1
#define FW_CFG_SELECTOR_PORT 0x510
#define FW_CFG_DATA_PORT 0x511
#define FW_CFG_FILE_DIR 0x19

#define JOB_ITEM "opt/imtcp/job"
#define WORK_DIR "/work"
#define LOG_FILE "/run/job.log"
#define OUT_DIR "/out"

/* How often the host hears of the virtual time; the log follows along. */
#define TICK_MS 500
/* The log is sent at most this much per tick while the job runs: sending
 * takes virtual time, and a chatty job must not be slowed in bursts. */
#define LOG_PIECE_BYTES 4096

/* A guest of User-mode Linux has a directory of the host's here; no other has. */
#define HOST_DIR "/host"
/* The file in it that takes the frames; -1: they go to the debug console. */
static int frames_fd = -1;

__attribute__((noreturn)) static void stop_guest(void)
{
	/* User-mode Linux would start again, and QEMU knows no power to switch off. */
	for (;;)
		reboot(frames_fd >= 0 ? RB_POWER_OFF : RB_AUTOBOOT);
}

static void send_bytes(const void *data, size_t len)
{
	if (frames_fd >= 0) {
		while (len > 0) {
			ssize_t done = write(frames_fd, data, len);

			if (done <= 0)
				stop_guest();
			data = (const char *)data + done;
			len -= (size_t)done;
		}
		return;
	}
	/* "rep outsb" takes a 64-bit count, one I/O operation per byte. */
	__asm__ volatile("rep outsb" : "+S"(data), "+c"(len) : "d"(DEBUGCON_PORT) : "memory");
}

static void put_be(unsigned char *to, uint64_t value, int bytes)
{
	for (int i = bytes - 1; i >= 0; i--, value >>= 8)
		to[i] = (unsigned char)value;
}

static void send_head(char type, size_t len)
{
	unsigned char head[5] = {(unsigned char)type};

	put_be(head + 1, len, 4);
	send_bytes(head, sizeof(head));
}

static void send_number(char type, uint64_t value, int bytes)
{
	unsigned char payload[8];

	put_be(payload, value, bytes);
	send_head(type, bytes);
	send_bytes(payload, bytes);
}

__attribute__((noreturn, format(printf, 1, 2))) static void fail(const char *format, ...)
{
	char text[512];
	va_list args;
	int len;

	va_start(args, format);
	len = vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	if (len >= (int)sizeof(text))
		len = sizeof(text) - 1;
	send_head('E', len);
	send_bytes(text, len);
	fprintf(stderr, "agent: %s\n", text);
	stop_guest();
}

static uint64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* ---- the job, from fw_cfg ---- */

static void fw_cfg_read(void *to, size_t len)
{
	__asm__ volatile("rep insb" : "+D"(to), "+c"(len) : "d"(FW_CFG_DATA_PORT) : "memory");
}

static uint32_t fw_cfg_be32(void)
{
	unsigned char b[4];

	fw_cfg_read(b, sizeof(b));
	return (uint32_t)b[0] << 24 | b[1] << 16 | b[2] << 8 | b[3];
}

/* Select the item by name; returns its length in bytes. */
static size_t fw_cfg_open(const char *name)
{
	struct {
		unsigned char size[4], select[2], reserved[2];
		char name[56];
	} entry;
	uint32_t count;

	outw(FW_CFG_FILE_DIR, FW_CFG_SELECTOR_PORT);
	count = fw_cfg_be32();
	while (count--) {
		fw_cfg_read(&entry, sizeof(entry));
		if (strncmp(entry.name, name, sizeof(entry.name)) != 0)
			continue;
		outw(entry.select[0] << 8 | entry.select[1], FW_CFG_SELECTOR_PORT);
		return (size_t)entry.size[0] << 24 | entry.size[1] << 16 | entry.size[2] << 8 |
		       entry.size[3];
	}
	fail("no fw_cfg item %s", name);
}

static void run_and_wait(char *const argv[])
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		execv(argv[0], argv);
		_exit(127);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0)
		fail("%s failed", argv[0]);
}

#define JOB_ARCHIVE "/run/job.tar"

/* Copies the job's archive out of fw_cfg. */
static void fetch_job(void)
{
	size_t len = fw_cfg_open(JOB_ITEM);
	int fd = open(JOB_ARCHIVE, O_RDWR | O_CREAT | O_TRUNC, 0600);
	void *map;

	if (fd < 0 || ftruncate(fd, len) != 0)
		fail("job.tar: %s", strerror(errno));
	map = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (map == MAP_FAILED)
		fail("job.tar of %zu bytes: %s", len, strerror(errno));
	fw_cfg_read(map, len);
	munmap(map, len);
	close(fd);
}

static void unpack_job(void)
{
	char *archive = frames_fd >= 0 ? HOST_DIR "/job.tar" : JOB_ARCHIVE;
	char *const tar[] = {"/usr/bin/busybox", "tar", "-xf", archive, "-C", "/", NULL};

	if (frames_fd < 0)
		fetch_job();
	run_and_wait(tar);
	unlink(JOB_ARCHIVE);
}

/* Another seed is another sample: the kernel's generator starts from it. */
static void stir_random(const char *seed)
{
	int fd = open("/dev/urandom", O_RDWR);

	if (fd < 0 || write(fd, seed, strlen(seed)) < 0 || ioctl(fd, RNDRESEEDCRNG) != 0)
		fail("/dev/urandom: %s", strerror(errno));
	close(fd);
}

/* ---- results ---- */

static int log_fd = -1;
static off_t log_sent;

static void send_log(size_t most)
{
	char buf[65536];

	while (most > 0) {
		size_t want = most < sizeof(buf) ? most : sizeof(buf);
		ssize_t got = pread(log_fd, buf, want, log_sent);

		if (got <= 0)
			return;
		send_head('L', got);
		send_bytes(buf, got);
		log_sent += got;
		most -= got;
	}
}

static int send_file(const char *path, const struct stat *st, int kind, struct FTW *ftw)
{
	const char *name = path + strlen(OUT_DIR "/");
	size_t name_len = strlen(path) > strlen(OUT_DIR "/") ? strlen(name) : 0;
	unsigned char two[2];
	void *map = NULL;
	int fd;

	(void)ftw;
	if (kind != FTW_F || !S_ISREG(st->st_mode))
		return 0;
	if (st->st_size >= (off_t)1 << 31)
		fail("result file %s is larger than 2 GiB", name);
	fd = open(path, O_RDONLY);
	if (fd < 0)
		fail("%s: %s", path, strerror(errno));
	if (st->st_size > 0) {
		map = mmap(NULL, st->st_size, PROT_READ, MAP_PRIVATE | MAP_POPULATE, fd, 0);
		if (map == MAP_FAILED)
			fail("%s: %s", path, strerror(errno));
	}
	put_be(two, name_len, 2);
	send_head('F', 2 + name_len + st->st_size);
	send_bytes(two, 2);
	send_bytes(name, name_len);
	send_bytes(map, st->st_size);
	if (map)
		munmap(map, st->st_size);
	close(fd);
	return 0;
}

/* ---- the job ---- */

static pid_t start_job(void)
{
	static char *const argv[] = {"/bin/sh", "/run/job.sh", NULL};
	pid_t pid = fork();

	if (pid < 0)
		fail("fork: %s", strerror(errno));
	if (pid == 0) {
		sigset_t none;
		int null = open("/dev/null", O_RDONLY);

		sigemptyset(&none);
		sigprocmask(SIG_SETMASK, &none, NULL);
		setsid();
		dup2(null, 0);
		dup2(log_fd, 1);
		dup2(log_fd, 2);
		if (chdir(WORK_DIR) != 0)
			_exit(126);
		execv(argv[0], argv);
		_exit(127);
	}
	return pid;
}

/* Runs the job to its end; returns its exit code, or -1 out of time. */
static int watch_job(pid_t job, uint64_t limit_ms)
{
	const struct timespec tick = {0, TICK_MS * 1000000L};
	uint64_t begin = now_ms(), next = TICK_MS;
	sigset_t child;

	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	for (;;) {
		uint64_t passed;
		int status;
		pid_t pid;

		sigtimedwait(&child, NULL, &tick);
		while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
			if (pid != job)
				continue;
			return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
		}
		passed = now_ms() - begin;
		if (passed >= limit_ms) {
			send_number('V', passed, 8);
			return -1;
		}
		if (passed >= next) {
			send_number('T', passed, 8);
			send_log(LOG_PIECE_BYTES);
			next = passed - passed % TICK_MS + TICK_MS;
		}
	}
}

static void kill_all(void)
{
	/* Process 1 is spared by kill(-1). */
	kill(-1, SIGKILL);
	while (waitpid(-1, NULL, 0) > 0)
		;
}

static void prepare(void)
{
	sigset_t child;
	int fd = open("/proc/self/oom_score_adj", O_WRONLY);

	if (fd < 0 || write(fd, "-1000", 5) != 5)
		fail("oom_score_adj: %s", strerror(errno));
	close(fd);
	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	sigprocmask(SIG_BLOCK, &child, NULL);
}

int main(void)
{
	char settings[256] = {0}, seed[32];
	unsigned long long limit_ms;
	int fd, code;

	frames_fd = open(HOST_DIR "/frames", O_WRONLY | O_APPEND | O_CLOEXEC);
	if (frames_fd < 0 && iopl(3) != 0) {
		fprintf(stderr, "agent: iopl: %s\n", strerror(errno));
		return 1;
	}
	prepare();
	if (frames_fd < 0) {
		send_number('S', __builtin_ia32_rdtsc(), 8);
		outb(PVPANIC_PANICKED, PVPANIC_PORT);
	}

	unpack_job();
	fd = open("/run/job.settings", O_RDONLY);
	if (fd < 0 || read(fd, settings, sizeof(settings) - 1) <= 0 ||
	    sscanf(settings, "%31s %llu", seed, &limit_ms) != 2)
		fail("job.settings: %s", strerror(errno));
	close(fd);
	stir_random(seed);
	setenv("SEED", seed, 1);
	log_fd = open(LOG_FILE, O_RDWR | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0600);
	if (log_fd < 0)
		fail(LOG_FILE ": %s", strerror(errno));

	code = watch_job(start_job(), limit_ms);
	kill_all();
	send_log(SIZE_MAX);
	if (code >= 0 && nftw(OUT_DIR, send_file, 16, FTW_PHYS) != 0)
		fail(OUT_DIR ": %s", strerror(errno));
	send_number('X', code >= 0 ? code : 124, 4);
	if (frames_fd >= 0)
		stop_guest();
	for (;;)
		pause();
}
