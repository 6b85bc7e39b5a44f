/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * How much of a transfer has arrived, by the kernel: ProFTPD counts what sendfile(2) sends only when
 * it has sent all.
 *
 * A file of its own, without ProFTPD's headers: they bring the C library's <netinet/tcp.h>, whose
 * struct tcp_info ends before these fields, and which excludes the kernel's.
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
