/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * How much of a transfer has arrived, from the kernel. ProFTPD counts the bytes of sendfile(2) only
 * when all are sent.
 *
 * This file has none of ProFTPD's headers. They include the C library's <netinet/tcp.h>, which
 * excludes the kernel's. Its struct tcp_info lacks these fields.
 */
#include "imtcp_arrived.h"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

long long imtcp_arrived_bytes(int fd)
{
	struct tcp_info info = {0};
	socklen_t bytes = sizeof(info);

	if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &bytes) < 0)
		return 0;
	return (long long)info.tcpi_bytes_acked;
}
