/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * wire: the ends of the connections that the end-to-end tests look at.
 *
 *	wire send ADDR PORT OUT STEP...	  one connection that writes by a plan
 *	wire recv PORT OUT		  reads, checks every byte, logs when
 *	wire rr ADDR PORT OUT N BYTES MS  N requests, one each MS milliseconds
 *	wire echo PORT			  the server of rr
 *	wire short ADDR PORT OUT N BYTES  N connections, one after the other
 *	wire capture DEV OUT		  TCP packets of a device, until SIGTERM
 *	wire liar TUN MODE OUT		  a receiver in user space that lies
 *
 * Options come before the operands. Times are CLOCK_MONOTONIC in microseconds; results are CSV.
 * Byte p of a connection is pattern(p), so that the receiver knows what is right.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_packet.h>
#include <linux/if_tun.h>
#include <linux/sockios.h>
#include <linux/tcp.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <netinet/ip.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PATTERN_BYTES 65521 /* prime: no block size hides an offset */
#define CHUNK_BYTES 32768
#define LENGTH(a) (sizeof(a) / sizeof((a)[0]))

static uint8_t pattern[PATTERN_BYTES + CHUNK_BYTES];

static const char *control;	/* -c */
static uint32_t first_seq;	/* -q, 0: the kernel's choice */
static int receive_buffer;	/* -r */
static int connections = 1;	/* -n */
static uint64_t pause_at_bytes; /* -z BYTES:MS */
static unsigned int pause_ms;
static uint64_t block_bytes;   /* -b */
static unsigned int sample_ms; /* -S */
static bool paced;	       /* -p: the kernel spaces the packets, whatever the control */

__attribute__((noreturn, format(printf, 1, 2))) static void die(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	fputs("wire: ", stderr);
	vfprintf(stderr, format, args);
	fprintf(stderr, " (%s)\n", strerror(errno));
	va_end(args);
	exit(1);
}

static uint64_t clock_us(clockid_t which)
{
	struct timespec t;

	clock_gettime(which, &t);
	return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

static uint64_t now_us(void)
{
	return clock_us(CLOCK_MONOTONIC);
}

static void sleep_us(uint64_t us)
{
	struct timespec t = {(time_t)(us / 1000000), (long)(us % 1000000) * 1000};

	while (nanosleep(&t, &t) < 0 && errno == EINTR)
		;
}

static void make_pattern(void)
{
	uint32_t x = 2463534242u;

	for (size_t i = 0; i < sizeof(pattern); i++) {
		if (i >= PATTERN_BYTES) {
			pattern[i] = pattern[i - PATTERN_BYTES];
			continue;
		}
		x ^= x << 13;
		x ^= x >> 17;
		x ^= x << 5;
		pattern[i] = (uint8_t)x;
	}
}

static FILE *create(const char *name)
{
	FILE *out = fopen(name, "w");

	if (!out)
		die("cannot write %s", name);
	return out;
}

/* ---- sockets ---- */

static void choose(int fd, const char *name)
{
	if (setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, strlen(name)))
		die("cannot choose %s", name);
}

static int connected(const char *address, const char *port)
{
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(port))};
	int fd = socket(AF_INET, SOCK_STREAM, 0), one = 1, queue = TCP_SEND_QUEUE, off = -1;
	/* a limit that limits nothing, but that makes TCP pace (net/core/sock.c) */
	uint64_t beyond = UINT64_MAX - 1;

	if (fd < 0 || inet_pton(AF_INET, address, &to.sin_addr) != 1)
		die("no socket to %s", address);
	if (control)
		choose(fd, control);
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	if (paced && setsockopt(fd, SOL_SOCKET, SO_MAX_PACING_RATE, &beyond, sizeof(beyond)))
		die("cannot pace");
	if (first_seq) {
		/* repair mode lets a process choose the initial sequence number */
		if (setsockopt(fd, IPPROTO_TCP, TCP_REPAIR, &one, sizeof(one)) ||
		    setsockopt(fd, IPPROTO_TCP, TCP_REPAIR_QUEUE, &queue, sizeof(queue)) ||
		    setsockopt(fd, IPPROTO_TCP, TCP_QUEUE_SEQ, &first_seq, sizeof(first_seq)) ||
		    setsockopt(fd, IPPROTO_TCP, TCP_REPAIR, &off, sizeof(off)))
			die("cannot choose the sequence number");
	}
	if (connect(fd, (struct sockaddr *)&to, sizeof(to)))
		die("cannot connect to %s:%s", address, port);
	return fd;
}

static int listening(const char *port)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(port))};
	int fd = socket(AF_INET, SOCK_STREAM, 0), one = 1;

	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (receive_buffer &&
	    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof(receive_buffer)))
		die("cannot set the receive buffer");
	if (bind(fd, (struct sockaddr *)&at, sizeof(at)) || listen(fd, 256))
		die("cannot listen on port %s", port);
	return fd;
}

static uint64_t written;

static void write_bytes(int fd, uint64_t bytes)
{
	while (bytes) {
		size_t most = bytes < CHUNK_BYTES ? (size_t)bytes : CHUNK_BYTES;
		ssize_t n = write(fd, pattern + written % PATTERN_BYTES, most);

		if (n < 0)
			die("write");
		written += (uint64_t)n;
		bytes -= (uint64_t)n;
	}
}

/* Waits for the peer's end of the connection: it has read everything. */
static void await_end(int fd)
{
	char byte;

	shutdown(fd, SHUT_WR);
	if (read(fd, &byte, 1) < 0)
		die("the connection was lost");
}

/* ---- send ---- */

static const char info_head[] = "t_us,step,written,acked,cwnd_segs,ssthresh_segs,rtt_us,"
				"pacing_bytes_per_sec,retrans,ca_state,unacked_segs,mss_bytes,"
				"control\n";

static void log_info(FILE *out, int fd, const char *step)
{
	struct tcp_info i = {0};
	char name[17] = "";
	socklen_t len = sizeof(i), name_len = sizeof(name) - 1;

	if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &i, &len))
		die("TCP_INFO");
	getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, &name_len);
	fprintf(out, "%llu,%s,%llu,%llu,%u,%u,%u,%llu,%u,%u,%u,%u,%s\n",
		(unsigned long long)now_us(), step, (unsigned long long)written,
		(unsigned long long)i.tcpi_bytes_acked, i.tcpi_snd_cwnd, i.tcpi_snd_ssthresh,
		i.tcpi_rtt, (unsigned long long)i.tcpi_pacing_rate, i.tcpi_total_retrans,
		i.tcpi_ca_state, i.tcpi_unacked, i.tcpi_snd_mss, name);
}

struct sampler {
	FILE *out;
	int fd;
	volatile bool stop;
};

static void *sample(void *data)
{
	struct sampler *s = data;

	while (!s->stop) {
		log_info(s->out, s->fd, "sample");
		sleep_us((uint64_t)sample_ms * 1000);
	}
	return NULL;
}

/*
 * Steps: wN write N bytes; sN sleep N ms; d wait until all is acknowledged; pN/M/K write N bytes
 * K times, one each M ms; cNAME choose another congestion control. A line after each, and after
 * each write of p.
 */
static int run_send(char **args)
{
	FILE *out = create(args[2]);
	int fd = connected(args[0], args[1]), left;
	struct sampler sampler = {out, fd, false};
	pthread_t thread;

	fputs(info_head, out);
	log_info(out, fd, "connected");
	if (sample_ms && pthread_create(&thread, NULL, sample, &sampler))
		die("no thread");
	for (char **step = args + 3; *step; step++) {
		unsigned long long bytes, count;
		unsigned int ms;

		switch (**step) {
		case 'w':
			write_bytes(fd, strtoull(*step + 1, NULL, 10));
			break;
		case 's':
			sleep_us(strtoull(*step + 1, NULL, 10) * 1000);
			break;
		case 'c':
			choose(fd, *step + 1);
			break;
		case 'd':
			while (!ioctl(fd, SIOCOUTQ, &left) && left)
				sleep_us(1000);
			break;
		case 'p':
			if (sscanf(*step + 1, "%llu/%u/%llu", &bytes, &ms, &count) != 3)
				die("step %s", *step);
			for (uint64_t start = now_us(), i = 0; i < count; i++) {
				uint64_t at = start + i * ms * 1000, now = now_us();

				if (at > now)
					sleep_us(at - now);
				log_info(out, fd, "block");
				write_bytes(fd, bytes);
			}
			break;
		default:
			die("step %s", *step);
		}
		log_info(out, fd, *step);
	}
	sampler.stop = true;
	if (sample_ms)
		pthread_join(thread, NULL);
	await_end(fd);
	log_info(out, fd, "end");
	return fclose(out);
}

/* ---- recv ---- */

static void receive(int fd, int index, FILE *out)
{
	uint64_t got = 0, first = 0, next_block = block_bytes;
	bool right = true, paused = false;
	static uint8_t buffer[CHUNK_BYTES];
	uint32_t stamp;
	socklen_t len = sizeof(stamp);
	ssize_t n;

	while ((n = read(fd, buffer, sizeof(buffer))) > 0) {
		if (!first)
			first = now_us();
		right = right && !memcmp(buffer, pattern + got % PATTERN_BYTES, (size_t)n);
		got += (uint64_t)n;
		for (; block_bytes && got >= next_block; next_block += block_bytes)
			fprintf(out, "%llu,%d,block,%llu,%d\n", (unsigned long long)now_us(), index,
				(unsigned long long)next_block, right);
		if (pause_ms && !paused && got >= pause_at_bytes) {
			paused = true;
			sleep_us((uint64_t)pause_ms * 1000);
			fprintf(out, "%llu,%d,resumed,%llu,%d\n", (unsigned long long)now_us(),
				index, (unsigned long long)got, right);
		}
	}
	/* TCP's clock as the peer sees it: milliseconds, with an offset of this connection */
	if (!getsockopt(fd, IPPROTO_TCP, TCP_TIMESTAMP, &stamp, &len))
		fprintf(out, "%llu,%d,stamp,%u,%d\n", (unsigned long long)now_us(), index, stamp,
			right);
	fprintf(out, "%llu,%d,first,0,%d\n", (unsigned long long)first, index, right);
	fprintf(out, "%llu,%d,%s,%llu,%d\n", (unsigned long long)now_us(), index,
		n < 0 ? "lost" : "end", (unsigned long long)got, right);
}

static int run_recv(char **args)
{
	int listener = listening(args[0]);
	FILE *out = create(args[1]);

	setvbuf(out, NULL, _IOLBF, 4096);
	fputs("t_us,connection,what,bytes,right\n", out);
	fflush(out);
	for (int i = 0; i < connections; i++) {
		int fd = accept(listener, NULL, NULL);

		if (fd < 0)
			die("accept");
		if (fork()) {
			close(fd);
			continue;
		}
		receive(fd, i, out);
		return 0;
	}
	while (wait(NULL) > 0)
		;
	return 0;
}

/* ---- requests and short connections ---- */

static bool read_whole(int fd, uint8_t *to, size_t len)
{
	while (len) {
		ssize_t n = read(fd, to, len);

		if (n <= 0)
			return false;
		to += n;
		len -= (size_t)n;
	}
	return true;
}

static int run_echo(char **args)
{
	int listener = listening(args[0]);

	signal(SIGCHLD, SIG_IGN);
	for (;;) {
		static uint8_t buffer[CHUNK_BYTES];
		int fd = accept(listener, NULL, NULL), one = 1;
		ssize_t n;

		if (fd < 0)
			die("accept");
		if (fork()) {
			close(fd);
			continue;
		}
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
		while ((n = read(fd, buffer, sizeof(buffer))) > 0)
			if (write(fd, buffer, (size_t)n) != n)
				return 1;
		return 0;
	}
}

static int run_rr(char **args)
{
	FILE *out = create(args[2]);
	uint64_t count = strtoull(args[3], NULL, 10), bytes = strtoull(args[4], NULL, 10);
	uint64_t every_us = strtoull(args[5], NULL, 10) * 1000;
	int fd = connected(args[0], args[1]);
	static uint8_t buffer[CHUNK_BYTES];

	fputs("t_us,took_us\n", out);
	for (uint64_t i = 0, start = now_us(); i < count; i++) {
		uint64_t at = start + i * every_us, now = now_us();

		if (at > now)
			sleep_us(at - now);
		now = now_us();
		write_bytes(fd, bytes);
		if (!read_whole(fd, buffer, bytes))
			die("no answer");
		fprintf(out, "%llu,%llu\n", (unsigned long long)now,
			(unsigned long long)(now_us() - now));
	}
	return fclose(out);
}

static int run_short(char **args)
{
	FILE *out = create(args[2]);
	uint64_t count = strtoull(args[3], NULL, 10), bytes = strtoull(args[4], NULL, 10);

	fputs("t_us,took_us\n", out);
	for (uint64_t i = 0; i < count; i++) {
		uint64_t start = now_us();
		int fd = connected(args[0], args[1]);

		written = 0;
		write_bytes(fd, bytes);
		await_end(fd);
		close(fd);
		fprintf(out, "%llu,%llu\n", (unsigned long long)start,
			(unsigned long long)(now_us() - start));
	}
	return fclose(out);
}

/* ---- capture ---- */

static volatile sig_atomic_t ended;

static void on_end(int number)
{
	(void)number;
	ended = 1;
}

struct seen {
	uint64_t t_us;
	uint32_t seq, ack;
	uint16_t sport, dport, len, window;
	uint8_t out, flags;
};

static int run_capture(char **args)
{
	/* all protocols: only such sockets are shown what leaves */
	int fd = socket(AF_PACKET, SOCK_DGRAM, htons(ETH_P_ALL)), one = 1, buffer = 8 << 20;
	uint64_t offset = clock_us(CLOCK_REALTIME) - now_us();
	struct sockaddr_ll at = {.sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_ALL)};
	FILE *out = create(args[1]);
	size_t count = 0, room = 0;
	struct seen *all = NULL;

	at.sll_ifindex = (int)if_nametoindex(args[0]);
	if (fd < 0 || !at.sll_ifindex || bind(fd, (struct sockaddr *)&at, sizeof(at)))
		die("cannot capture on %s", args[0]);
	setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &buffer, sizeof(buffer));
	setsockopt(fd, SOL_SOCKET, SO_TIMESTAMPNS, &one, sizeof(one));
	sigaction(SIGTERM, &(struct sigaction){.sa_handler = on_end}, NULL);
	while (!ended) {
		uint8_t packet[128], space[CMSG_SPACE(sizeof(struct timespec))];
		struct sockaddr_ll from;
		struct iovec part = {packet, sizeof(packet)};
		struct msghdr m = {&from, sizeof(from), &part, 1, space, sizeof(space), 0};
		ssize_t n = recvmsg(fd, &m, 0);
		struct iphdr *ip = (void *)packet;
		struct tcphdr *tcp = (void *)(packet + ip->ihl * 4);
		struct timespec t;

		if (n < 40 || from.sll_protocol != htons(ETH_P_IP) || ip->protocol != IPPROTO_TCP ||
		    !CMSG_FIRSTHDR(&m))
			continue;
		memcpy(&t, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof(t));
		if (count == room) {
			room = room ? room * 2 : 4096;
			all = realloc(all, room * sizeof(*all));
			if (!all)
				die("memory");
		}
		all[count++] = (struct seen){
			.t_us = (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000 - offset,
			.seq = ntohl(tcp->seq),
			.ack = ntohl(tcp->ack_seq),
			.sport = ntohs(tcp->source),
			.dport = ntohs(tcp->dest),
			.len = (uint16_t)(ntohs(ip->tot_len) - ip->ihl * 4 - tcp->doff * 4),
			.window = ntohs(tcp->window),
			.out = from.sll_pkttype == PACKET_OUTGOING,
			.flags = packet[ip->ihl * 4 + 13],
		};
	}
	fputs("t_us,out,sport,dport,seq,ack,bytes,window,flags\n", out);
	for (size_t i = 0; i < count; i++)
		fprintf(out, "%llu,%u,%u,%u,%u,%u,%u,%u,%u\n", (unsigned long long)all[i].t_us,
			all[i].out, all[i].sport, all[i].dport, all[i].seq, all[i].ack, all[i].len,
			all[i].window, all[i].flags);
	return fclose(out);
}

/* ---- liar ---- */

struct tcp_packet {
	struct iphdr ip;
	struct tcphdr tcp;
	uint8_t options[20];
};

/* A liar's state of its one connection. */
static struct {
	int fd;
	struct iphdr ip;   /* of the peer's last packet */
	struct tcphdr tcp; /* dito */
	uint32_t rcv_nxt, snd_nxt, peer_tsval, isn;
	uint16_t window;
	bool timestamps, lie_ts;
} liar;

static uint16_t checksum(const void *data, size_t len, uint32_t sum)
{
	const uint8_t *p = data;

	for (size_t i = 0; i + 1 < len; i += 2)
		sum += (uint32_t)p[i] << 8 | p[i + 1];
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t)sum;
}

static void answer(uint32_t ack, bool syn, bool fin)
{
	struct tcp_packet p = {0};
	size_t options = 12, len;
	uint32_t tsval = htonl((uint32_t)(now_us() / 1000)), tsecr = htonl(liar.peer_tsval);
	uint32_t sum;

	/* in the answer to a SYN it would be refused */
	if (liar.lie_ts && !syn)
		tsecr = htonl(liar.peer_tsval + (uint32_t)random());
	if (syn) {
		memcpy(p.options, (uint8_t[]){2, 4, 1460 >> 8, 1460 & 255, 1, 3, 3, 7}, 8);
		options = 20;
	}
	memcpy(p.options + options - 12, (uint8_t[]){1, 1, 8, 10}, 4);
	memcpy(p.options + options - 8, &tsval, 4);
	memcpy(p.options + options - 4, &tsecr, 4);
	if (!liar.timestamps)
		options -= 12;
	len = 20 + options;
	p.ip = (struct iphdr){.version = 4,
			      .ihl = 5,
			      .ttl = 64,
			      .protocol = IPPROTO_TCP,
			      .tot_len = htons((uint16_t)(20 + len)),
			      .saddr = liar.ip.daddr,
			      .daddr = liar.ip.saddr};
	p.ip.check = htons((uint16_t)~checksum(&p.ip, 20, 0));
	p.tcp.source = liar.tcp.dest;
	p.tcp.dest = liar.tcp.source;
	p.tcp.seq = htonl(liar.snd_nxt - (syn ? 1 : 0));
	p.tcp.ack_seq = htonl(ack);
	p.tcp.doff = (uint16_t)(len / 4) & 15;
	p.tcp.ack = 1;
	p.tcp.syn = syn;
	p.tcp.fin = fin;
	p.tcp.window = htons(liar.window);
	sum = checksum(&p.ip.saddr, 8, IPPROTO_TCP + (uint32_t)len);
	p.tcp.check = htons((uint16_t)~checksum(&p.tcp, len, sum));
	if (write(liar.fd, &p, 20 + len) < 0)
		die("write to the tun device");
}

static void find_timestamp(const uint8_t *at, const uint8_t *end, bool syn)
{
	while (at < end && *at) {
		size_t len = *at == 1 ? 1 : at + 1 < end && at[1] ? at[1] : 1;

		if (*at == 8 && at + 10 <= end) {
			memcpy(&liar.peer_tsval, at + 2, 4);
			liar.peer_tsval = ntohl(liar.peer_tsval);
			if (syn)
				liar.timestamps = true;
		}
		at += len;
	}
}

/*
 * Modes: honest; window (200 bytes of it); optimistic (acknowledges 20 segments that are still
 * under way); unsent (acknowledges 1 GB ahead); split (ten ACKs for each segment); timestamps
 * (echoes what was never sent).
 */
static int run_liar(char **args)
{
	struct ifreq request = {.ifr_flags = IFF_TUN | IFF_NO_PI};
	const char *mode = args[1];
	FILE *out = create(args[2]);
	uint64_t lies = 0;
	bool right = true;
	uint32_t mss = 1448;

	liar.fd = open("/dev/net/tun", O_RDWR);
	strncpy(request.ifr_name, args[0], IFNAMSIZ - 1);
	if (liar.fd < 0 || ioctl(liar.fd, TUNSETIFF, &request))
		die("cannot open the tun device %s", args[0]);
	liar.lie_ts = !strcmp(mode, "timestamps");
	for (;;) {
		static uint8_t packet[65536];
		ssize_t n = read(liar.fd, packet, sizeof(packet));
		size_t head, len;
		uint32_t seq;

		if (n < 40 || packet[0] >> 4 != 4 || packet[9] != IPPROTO_TCP)
			continue;
		memcpy(&liar.ip, packet, sizeof(liar.ip));
		memcpy(&liar.tcp, packet + liar.ip.ihl * 4, sizeof(liar.tcp));
		head = (size_t)liar.ip.ihl * 4 + (size_t)liar.tcp.doff * 4;
		len = ntohs(liar.ip.tot_len) - head;
		seq = ntohl(liar.tcp.seq);
		find_timestamp(packet + liar.ip.ihl * 4 + 20, packet + head, liar.tcp.syn);
		if (liar.tcp.syn) {
			liar.isn = seq;
			liar.rcv_nxt = seq + 1;
			liar.snd_nxt = 1000001;
			liar.window = !strcmp(mode, "window") ? 200 : 65535;
			answer(liar.rcv_nxt, true, false);
			/* after the SYN the window is scaled by 2^7: 200 becomes 128 or 256 */
			liar.window = !strcmp(mode, "window") ? 2 : 32767;
			continue;
		}
		if (liar.tcp.fin && seq == liar.rcv_nxt) {
			liar.rcv_nxt = seq + (uint32_t)len + 1;
			answer(liar.rcv_nxt, false, true);
			break;
		}
		if (!len)
			continue;
		if (seq == liar.rcv_nxt) {
			uint32_t before = liar.rcv_nxt, at = seq - liar.isn - 1;

			for (size_t i = 0; i < len; i++)
				right = right &&
					packet[head + i] == pattern[(at + i) % PATTERN_BYTES];
			liar.rcv_nxt += (uint32_t)len;
			if (!strcmp(mode, "split"))
				for (uint32_t i = 1; i < 10; i++, lies++)
					answer(before + (uint32_t)len * i / 10, false, false);
		}
		answer(liar.rcv_nxt, false, false);
		if (!strcmp(mode, "optimistic") && ++lies)
			answer(liar.rcv_nxt + 20 * mss, false, false);
		if (!strcmp(mode, "unsent") && ++lies)
			answer(liar.rcv_nxt + (1u << 30), false, false);
		lies += liar.lie_ts;
	}
	fprintf(out, "bytes,right,lies\n%u,%d,%llu\n", liar.rcv_nxt - liar.isn - 2, right,
		(unsigned long long)lies);
	fclose(out);
	sleep_us(500000);
	return 0;
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		int operands;
		int (*run)(char **args);
	} commands[] = {
		{"send", 4, run_send}, {"recv", 2, run_recv},	{"rr", 6, run_rr},
		{"echo", 1, run_echo}, {"short", 5, run_short}, {"capture", 2, run_capture},
		{"liar", 3, run_liar},
	};
	unsigned long long at;
	int option;

	signal(SIGPIPE, SIG_IGN);
	make_pattern();
	for (size_t i = 0; argc > 1 && i < LENGTH(commands); i++) {
		if (strcmp(argv[1], commands[i].name))
			continue;
		argc--;
		argv++;
		while ((option = getopt(argc, argv, "+c:pq:r:n:z:b:S:")) > 0) {
			switch (option) {
			case 'c':
				control = optarg;
				break;
			case 'p':
				paced = true;
				break;
			case 'q':
				first_seq = (uint32_t)strtoul(optarg, NULL, 0);
				break;
			case 'r':
				receive_buffer = atoi(optarg);
				break;
			case 'n':
				connections = atoi(optarg);
				break;
			case 'z':
				if (sscanf(optarg, "%llu:%u", &at, &pause_ms) != 2)
					die("-z %s", optarg);
				pause_at_bytes = at;
				break;
			case 'b':
				block_bytes = strtoull(optarg, NULL, 10);
				break;
			case 'S':
				sample_ms = (unsigned int)atoi(optarg);
				break;
			default:
				return 2;
			}
		}
		if (argc - optind < commands[i].operands)
			break;
		return commands[i].run(argv + optind);
	}
	fputs("usage: see the head of wire.c\n", stderr);
	return 2;
}
