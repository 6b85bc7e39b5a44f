/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Sets the congestion control and the send buffer of a data connection, and restores them.
 *
 * Both are socket options, so this also works below mod_tls.
 */
#include "mod_imtcp.h"

#include <linux/socket.h>
#include <netinet/tcp.h>

int imtcp_look(int fd, struct imtcp_before *before)
{
	socklen_t control = sizeof(before->control), number = sizeof(int);

	memset(before, 0, sizeof(*before));
	if (getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, before->control, &control) < 0 ||
	    getsockopt(fd, SOL_SOCKET, SO_SNDBUF, &before->sndbuf_bytes, &number) < 0)
		return -1;
	before->control[IMTCP_NAME_BYTES - 1] = '\0';
	number = sizeof(int);
	if (getsockopt(fd, SOL_SOCKET, SO_BUF_LOCK, &before->locked, &number) < 0)
		before->locked = 0;
	return 0;
}

static int set_control(int fd, const char *name)
{
	return setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, strlen(name));
}

static bool has_control(int fd, const char *name)
{
	char now[IMTCP_NAME_BYTES] = "";
	socklen_t bytes = sizeof(now);

	return getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, now, &bytes) == 0 &&
	       strncmp(now, name, sizeof(now)) == 0;
}

static void back_to_default(int fd, const struct imtcp_before *before)
{
	if (!has_control(fd, before->control) && set_control(fd, before->control) < 0)
		imtcp_log("congestion control %s does not come back: %s", before->control,
			  strerror(errno));
}

/* True if the connection has the control now. */
static bool switch_control(int fd, const char *name)
{
	if (has_control(fd, name) || set_control(fd, name) == 0)
		return true;
	if (errno == ENOENT)
		imtcp_log("this kernel has no congestion control %s: is it loaded (imtcp up)?",
			  name);
	else if (errno == EPERM)
		imtcp_log("the kernel does not let this session choose congestion control %s",
			  name);
	else
		imtcp_log("congestion control %s: %s", name, strerror(errno));
	return false;
}

/* Restores the kernel's own sizing. A size once set would prevent that. */
static void free_buffer(int fd, const struct imtcp_before *before)
{
	int half = before->sndbuf_bytes / 2, lock = before->locked;

	/* The kernel doubles the value. */
	if (before->locked & SOCK_SNDBUF_LOCK)
		setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &half, sizeof(half));
	else
		setsockopt(fd, SOL_SOCKET, SO_BUF_LOCK, &lock, sizeof(lock));
}

/*
 * Sets the whole advised buffer or none, because a smaller buffer would limit a transfer that the
 * kernel's own sizing does not. Returns the bytes that were set.
 */
static int set_buffer(int fd, const struct imtcp_before *before, int bytes)
{
	int got = 0;
	socklen_t number = sizeof(got);

	if (bytes > 0 && bytes <= INT_MAX / 2 &&
	    setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes)) == 0 &&
	    getsockopt(fd, SOL_SOCKET, SO_SNDBUF, &got, &number) == 0 && got >= 2 * bytes)
		return bytes;
	free_buffer(fd, before);
	if (bytes > 0)
		imtcp_log("a send buffer of %d bytes is more than net.core.wmem_max allows: "
			  "the kernel goes on choosing",
			  bytes);
	return 0;
}

void imtcp_set(int fd, const struct imtcp_before *before, const struct imtcp_controls *controls,
	       const struct imtcp_advice *advice)
{
	const char *name = advice ? controls->name[advice->which] : NULL;
	int buffer_bytes;

	if (name == NULL || !switch_control(fd, name)) {
		back_to_default(fd, before);
		name = before->control;
	}
	buffer_bytes = set_buffer(fd, before, advice ? advice->buffer_bytes : 0);
	imtcp_log("congestion control %s, send buffer %d%s", name, buffer_bytes,
		  buffer_bytes ? " bytes" : " (the kernel's choice)");
	if (advice && advice->which == IMTCP_OFF && strcmp(name, "imtcp_nocc") == 0)
		/* It harms everybody on the path, so the system's log has each use. */
		pr_log_pri(PR_LOG_NOTICE, MOD_IMTCP_VERSION
			   ": no congestion control (nocc) for a transfer, as advised");
}
