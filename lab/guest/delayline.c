/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * imtcp-delayline: a fixed delay between two interfaces, for kernels without
 * netem.
 *
 *	A ──→ [ drop-tail queue → rate ] → [ delay ] ──→ B	and B ──→ A
 *
 * A frame that arrives at time t leaves the rate stage at
 *	d = max(t, d_previous) + 8 · bytes / rate
 * and is sent at d + delay.  It is dropped when the bytes still before the
 * rate stage would exceed the queue.  t is the kernel's receive time stamp, so
 * a late wake-up of this program does not shift the schedule; the delay has no
 * random part.  Frames keep their order.
 *
 * Frames carry their virtio header, so checksums that are still to be filled
 * in and segments larger than the MTU pass through unharmed.  Such a large
 * segment is delayed as one: for packet-accurate behaviour turn TSO and GSO
 * off at the sender (ethtool -K DEV tso off gso off).
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <linux/virtio_net.h>
#include <net/if.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define NS_PER_S 1000000000LL
#define FRAME_BYTES_MAX (sizeof(struct virtio_net_hdr) + 65536 + 64)
/* Frames read per turn and direction, so that sending is never starved. */
#define READ_BATCH 64
#define RECEIVE_BUFFER_BYTES (16 << 20)

struct frame {
	struct frame *next;
	int64_t send_ns;
	size_t len;
	unsigned char data[];
};

struct direction {
	int from, to;
	int64_t delay_ns;
	double ns_per_byte; /* 0: no rate limit */
	int64_t queue_bytes;
	int64_t departed_ns; /* when the last frame leaves the rate stage */
	struct frame *head, **tail;
	uint64_t forwarded, dropped, failed;
};

static volatile sig_atomic_t stop;

static void on_signal(int number)
{
	(void)number;
	stop = 1;
}

__attribute__((noreturn)) static void die(const char *what)
{
	fprintf(stderr, "imtcp-delayline: %s: %s\n", what, strerror(errno));
	exit(1);
}

static int64_t clock_ns(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return t.tv_sec * NS_PER_S + t.tv_nsec;
}

static int open_interface(const char *name)
{
	const int one = 1, buffer = RECEIVE_BUFFER_BYTES;
	struct sockaddr_ll address = {.sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_ALL)};
	struct packet_mreq all = {.mr_type = PACKET_MR_PROMISC};
	int fd = socket(AF_PACKET, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	address.sll_ifindex = all.mr_ifindex = (int)if_nametoindex(name);
	if (address.sll_ifindex == 0)
		die(name);
	if (fd < 0 || setsockopt(fd, SOL_PACKET, PACKET_VNET_HDR, &one, sizeof(one)) != 0 ||
	    setsockopt(fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &one, sizeof(one)) != 0 ||
	    setsockopt(fd, SOL_SOCKET, SO_TIMESTAMPNS, &one, sizeof(one)) != 0 ||
	    setsockopt(fd, SOL_PACKET, PACKET_ADD_MEMBERSHIP, &all, sizeof(all)) != 0)
		die("packet socket");
	if (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &buffer, sizeof(buffer)) != 0)
		setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &buffer, sizeof(buffer));
	if (bind(fd, (struct sockaddr *)&address, sizeof(address)) != 0)
		die(name);
	return fd;
}

/* The kernel's receive time on the real-time clock, or -1. */
static int64_t stamp_of(struct msghdr *message)
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(message); c; c = CMSG_NXTHDR(message, c)) {
		struct timespec t;

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_TIMESTAMPNS)
			continue;
		memcpy(&t, CMSG_DATA(c), sizeof(t));
		return t.tv_sec * NS_PER_S + t.tv_nsec;
	}
	return -1;
}

static void enqueue(struct direction *d, const unsigned char *data, size_t len, int64_t arrived_ns)
{
	size_t bytes = len - sizeof(struct virtio_net_hdr);
	struct frame *f;

	if (d->ns_per_byte > 0) {
		int64_t start = d->departed_ns > arrived_ns ? d->departed_ns : arrived_ns;
		double waiting = (double)(start - arrived_ns) / d->ns_per_byte;

		if (waiting + (double)bytes > (double)d->queue_bytes) {
			d->dropped++;
			return;
		}
		d->departed_ns = start + (int64_t)((double)bytes * d->ns_per_byte);
	} else {
		d->departed_ns = arrived_ns;
	}
	f = malloc(sizeof(*f) + len);
	if (!f) {
		d->dropped++;
		return;
	}
	f->next = NULL;
	f->len = len;
	f->send_ns = d->departed_ns + d->delay_ns;
	memcpy(f->data, data, len);
	*d->tail = f;
	d->tail = &f->next;
}

static void receive(struct direction *d)
{
	static unsigned char data[FRAME_BYTES_MAX];
	unsigned char control[256];

	for (int i = 0; i < READ_BATCH; i++) {
		struct iovec part = {data, sizeof(data)};
		struct msghdr message = {.msg_iov = &part,
					 .msg_iovlen = 1,
					 .msg_control = control,
					 .msg_controllen = sizeof(control)};
		ssize_t len = recvmsg(d->from, &message, MSG_TRUNC);
		int64_t now = clock_ns(CLOCK_MONOTONIC), stamp, age;

		if (len < 0)
			return;
		if ((size_t)len > sizeof(data) || (size_t)len <= sizeof(struct virtio_net_hdr)) {
			d->failed++;
			continue;
		}
		stamp = stamp_of(&message);
		age = stamp < 0 ? 0 : clock_ns(CLOCK_REALTIME) - stamp;
		/* A step of the real-time clock must not disturb the schedule. */
		if (age < 0 || age > NS_PER_S)
			age = 0;
		enqueue(d, data, (size_t)len, now - age);
	}
}

/* Send what is due; returns when the next frame is, or INT64_MAX. */
static int64_t transmit(struct direction *d)
{
	while (d->head) {
		struct frame *f = d->head;

		if (f->send_ns > clock_ns(CLOCK_MONOTONIC))
			return f->send_ns;
		if (send(d->to, f->data, f->len, 0) < 0)
			d->failed++;
		else
			d->forwarded++;
		d->head = f->next;
		if (!d->head)
			d->tail = &d->head;
		free(f);
	}
	return INT64_MAX;
}

static void forward(struct direction way[2], const sigset_t *mask)
{
	struct pollfd fds[2] = {{way[0].from, POLLIN, 0}, {way[1].from, POLLIN, 0}};

	while (!stop) {
		int64_t first = transmit(&way[0]), second = transmit(&way[1]);
		int64_t next = first < second ? first : second;
		struct timespec wait, *timeout = NULL;

		if (next != INT64_MAX) {
			int64_t left = next - clock_ns(CLOCK_MONOTONIC);

			if (left < 0)
				left = 0;
			wait = (struct timespec){left / NS_PER_S, left % NS_PER_S};
			timeout = &wait;
		}
		if (ppoll(fds, 2, timeout, mask) < 0 && errno != EINTR)
			die("poll");
		for (int i = 0; i < 2; i++)
			if (fds[i].revents & POLLIN)
				receive(&way[i]);
			else if (fds[i].revents)
				stop = 1; /* the interface went away */
	}
}

static const char usage[] =
	"Usage: imtcp-delayline [options] A B\n"
	"Forward frames between the interfaces A and B with a fixed one-way delay.\n\n"
	"  -d, --delay-us N       delay of each direction, microseconds (default 0)\n"
	"  -r, --rate-bps N       rate of A to B, bits per second (default: no limit)\n"
	"  -R, --back-rate-bps N  rate of B to A (default: no limit)\n"
	"  -q, --queue-bytes N    queue before a rate limit, bytes (default 150000)\n"
	"  -h, --help             this text\n\n"
	"Ends at SIGTERM or SIGINT with one line of counts on standard error.\n"
	"Example: imtcp-delayline --delay-us 5000 --rate-bps 50000000 left right\n";

static double number(const char *text, double least)
{
	char *end;
	double value = strtod(text, &end);

	if (*end || end == text || !(value >= least)) {
		fprintf(stderr, "imtcp-delayline: not a number of at least %g: %s\n", least, text);
		exit(2);
	}
	return value;
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{"delay-us", required_argument, NULL, 'd'},
		{"rate-bps", required_argument, NULL, 'r'},
		{"back-rate-bps", required_argument, NULL, 'R'},
		{"queue-bytes", required_argument, NULL, 'q'},
		{"help", no_argument, NULL, 'h'},
		{0},
	};
	struct direction way[2] = {{.queue_bytes = 150000}, {.queue_bytes = 150000}};
	struct sigaction action = {.sa_handler = on_signal};
	sigset_t blocked, open_mask;
	int option;

	while ((option = getopt_long(argc, argv, "d:r:R:q:h", options, NULL)) != -1) {
		switch (option) {
		case 'd':
			way[0].delay_ns = way[1].delay_ns = (int64_t)(number(optarg, 0) * 1e3);
			break;
		case 'r':
			way[0].ns_per_byte = 8e9 / number(optarg, 1);
			break;
		case 'R':
			way[1].ns_per_byte = 8e9 / number(optarg, 1);
			break;
		case 'q':
			way[0].queue_bytes = way[1].queue_bytes = (int64_t)number(optarg, 0);
			break;
		case 'h':
			fputs(usage, stdout);
			return 0;
		default:
			fputs(usage, stderr);
			return 2;
		}
	}
	if (argc - optind != 2) {
		fputs(usage, stderr);
		return 2;
	}
	sigemptyset(&blocked);
	sigaddset(&blocked, SIGTERM);
	sigaddset(&blocked, SIGINT);
	sigprocmask(SIG_BLOCK, &blocked, &open_mask);
	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGINT, &action, NULL);
	/* Sleep to the nanosecond asked for, not to the default 50 us more. */
	prctl(PR_SET_TIMERSLACK, 1UL);

	for (int i = 0; i < 2; i++)
		way[i].tail = &way[i].head;
	way[0].from = way[1].to = open_interface(argv[optind]);
	way[1].from = way[0].to = open_interface(argv[optind + 1]);
	sigdelset(&open_mask, SIGTERM);
	sigdelset(&open_mask, SIGINT);
	forward(way, &open_mask);
	for (int i = 0; i < 2; i++)
		fprintf(stderr,
			"imtcp-delayline: %s to %s: forwarded %" PRIu64 " dropped %" PRIu64
			" failed %" PRIu64 "\n",
			argv[optind + i], argv[optind + 1 - i], way[i].forwarded, way[i].dropped,
			way[i].failed);
	return 0;
}
