// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// client ADDRESS PORT BYTES [SECONDS]: connects, prints the congestion control and the mark of
// its socket, sends, holds the connection open for so long, and waits until the peer closes.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	static char data[65536];
	struct sockaddr_in peer = {.sin_family = AF_INET};
	int s = socket(AF_INET, SOCK_STREAM, 0), tos = -1;
	socklen_t tos_len = sizeof(tos), name_len = 16;
	char name[17] = "";
	long left;

	if (argc < 4)
		return 2;
	peer.sin_port = htons(atoi(argv[2]));
	inet_pton(AF_INET, argv[1], &peer.sin_addr);
	if (connect(s, (struct sockaddr *)&peer, sizeof(peer)))
		return perror("connect"), 1;
	getsockopt(s, IPPROTO_TCP, TCP_CONGESTION, name, &name_len);
	getsockopt(s, IPPROTO_IP, IP_TOS, &tos, &tos_len);
	printf("control=%s tos=%d\n", name, tos);
	fflush(stdout);
	for (left = atol(argv[3]); left > 0;) {
		ssize_t n = write(s, data, left < (long)sizeof(data) ? left : (long)sizeof(data));

		if (n < 0)
			return perror("write"), 1;
		left -= n;
	}
	if (argc > 4)
		sleep(atoi(argv[4]));
	shutdown(s, SHUT_WR);
	while (read(s, data, sizeof(data)) > 0)
		;
	return 0;
}
