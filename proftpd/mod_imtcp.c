/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The module: start and end of a transfer, and the timer in between (mod_imtcp.h). */
#include "mod_imtcp.h"
#include "imtcp_arrived.h"

#include <ctype.h>
#include <curl/curl.h>

module imtcp_module;

/* The default of imtcp-advice serve. */
#define DEFAULT_URL "http://127.0.0.1:8750"
/* A service on this machine answers in a few milliseconds. Clients notice hundreds. */
#define DEFAULT_TIMEOUT_MS 300
/* How long a transfer waits for an answer that is there at once. */
#define GLANCE_MS 20
/* Nobody waits for an answer during a transfer. ProFTPD's timers check for it each second. */
#define LATER_LIMIT_MS 5000
#define LOOK_S 1
/* Time without questions after a service that did not answer, as in imtcp run --advise. */
#define RETRY_S 30

static int log_fd = -1;
static const struct imtcp_service *default_service;
/* No questions before this time (CLOCK_MONOTONIC), or many small files would each wait. */
static time_t quiet_until_s;

/* The one transfer of this session. */
static struct {
	/* RETR runs, and its connection is not open yet. */
	cmd_rec *waiting;
	/* The module has handled its connection. */
	bool under_way;
	bool asking;
	int timer;
	char dst[64];
	off_t bytes;
	struct imtcp_before before;
	const struct imtcp_service *service;
	const struct imtcp_controls *controls;
} transfer = {.timer = -1};

static int look_again(CALLBACK_FRAME);

void imtcp_log(const char *format, ...)
{
	char line[512], *c;
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(line, sizeof(line), format, arguments);
	va_end(arguments);
	/* Parts of the line are foreign, and must not begin a new line. */
	for (c = line; *c != '\0'; c++)
		if (!isprint((unsigned char)*c))
			*c = '?';
	if (log_fd >= 0)
		(void)pr_log_writefile(log_fd, MOD_IMTCP_VERSION, "%s", line);
	else
		pr_log_debug(DEBUG3, MOD_IMTCP_VERSION ": %s", line);
}

static time_t now_s(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec;
}

/* --- a transfer --- */

static void set_timer(int seconds)
{
	transfer.timer = pr_timer_add(seconds, -1, &imtcp_module, look_again, "imtcp advice");
}

static void follow(int fd, const struct imtcp_advice *advice)
{
	static const char *const means[] = {"congestion control off", "bg", "measure",
					    "path unknown"};

	imtcp_log("%s: %s, for %s; asking again in %d s", transfer.dst, means[advice->which],
		  advice->because[0] ? advice->because : "no reason given", advice->ask_again_s);
	imtcp_set(fd, &transfer.before, transfer.controls, advice);
	set_timer(advice->ask_again_s);
}

/* Without advice the connection stays as it is without the module. */
static void go_on_without(int fd, const char *why)
{
	imtcp_log("%s: no advice: %s; asking again in %d s", transfer.dst, why, RETRY_S);
	imtcp_set(fd, &transfer.before, transfer.controls, NULL);
	quiet_until_s = now_s() + RETRY_S;
	set_timer(RETRY_S);
}

static void conclude(int fd, enum imtcp_heard heard, const struct imtcp_advice *advice,
		     const char *why)
{
	transfer.asking = false;
	if (heard == IMTCP_ADVISED)
		follow(fd, advice);
	else
		go_on_without(fd, heard == IMTCP_NOT_YET ? "it did not answer in time" : why);
	imtcp_forget_question();
}

/* The data connection while it sends, else -1. */
static int sending_fd(void)
{
	if (!transfer.under_way || session.d == NULL || session.d->outstrm == NULL)
		return -1;
	return PR_NETIO_FD(session.d->outstrm);
}

/* ProFTPD's timer: new advice is due, or an answer may have come. */
static int look_again(CALLBACK_FRAME)
{
	struct imtcp_advice advice;
	enum imtcp_heard heard;
	const char *why;
	off_t left_bytes;
	int fd = sending_fd();

	(void)p1, (void)p2, (void)p3, (void)data;
	transfer.timer = -1;
	if (fd < 0)
		return 0;
	if (!transfer.asking) {
		left_bytes = transfer.bytes - imtcp_arrived_bytes(fd);
		transfer.asking = true;
		/* TLS adds some bytes. */
		imtcp_ask(transfer.service, transfer.dst, left_bytes > 0 ? left_bytes : 0,
			  LATER_LIMIT_MS);
	}
	heard = imtcp_hear(GLANCE_MS, &advice, &why);
	if (heard == IMTCP_NOT_YET)
		set_timer(LOOK_S);
	else
		conclude(fd, heard, &advice, why);
	/* This timer is done, because the next one is set. */
	return 0;
}

static void *setting(const char *name)
{
	return get_param_ptr(CURRENT_CONF, name, FALSE);
}

static off_t remaining_bytes(const cmd_rec *cmd)
{
	const off_t *offset = pr_table_get(cmd->notes, "mod_xfer.file-offset", NULL);

	if (session.range_len > 0)
		return session.range_len;
	return session.xfer.file_size - (offset ? *offset : 0);
}

static void set_destination(pool *p, const pr_netaddr_t *address)
{
	/* A path has one name in the history, whichever socket the client used. */
	if (pr_netaddr_is_v4mappedv6(address) == TRUE)
		address = pr_netaddr_v6tov4(p, address);
	snprintf(transfer.dst, sizeof(transfer.dst), "%s", pr_netaddr_get_ipstr(address));
}

/* The data connection of a RETR is open, and nothing has been sent on it. */
static void begin(int fd, const pr_netaddr_t *address)
{
	cmd_rec *cmd = transfer.waiting;
	const int *engine = setting("ImtcpEngine"), *set_ms = setting("ImtcpTimeout");
	int timeout_ms = set_ms ? *set_ms : DEFAULT_TIMEOUT_MS;
	struct imtcp_advice advice;
	enum imtcp_heard heard;
	const char *why;

	transfer.waiting = NULL;
	transfer.bytes = remaining_bytes(cmd);
	if (engine == NULL || !*engine || transfer.bytes <= 0)
		return;
	transfer.service = setting("ImtcpAdviceURL");
	if (transfer.service == NULL)
		transfer.service = default_service;
	transfer.controls = setting("ImtcpControls");
	if (transfer.controls == NULL)
		transfer.controls = &imtcp_default_controls;
	set_destination(cmd->tmp_pool, address);
	if (imtcp_look(fd, &transfer.before) < 0) {
		imtcp_log("%s: the data connection is not one of TCP: %s", transfer.dst,
			  strerror(errno));
		return;
	}
	transfer.under_way = true;
	if (now_s() < quiet_until_s) {
		imtcp_log("%s: not asked, for there was no answer just now", transfer.dst);
		set_timer((int)(quiet_until_s - now_s()) + 1);
		return;
	}
	imtcp_ask(transfer.service, transfer.dst, transfer.bytes, timeout_ms);
	heard = imtcp_hear(timeout_ms, &advice, &why);
	conclude(fd, heard, &advice, why);
}

static void forget_transfer(void)
{
	if (transfer.timer >= 0)
		(void)pr_timer_remove(transfer.timer, &imtcp_module);
	imtcp_forget_question();
	memset(&transfer, 0, sizeof(transfer));
	transfer.timer = -1;
}

/* --- events of ProFTPD --- */

/* Active mode: just before the server connects to the client. */
static void on_data_connect(const void *event, void *nothing)
{
	const struct socket_ctx *socket = event;

	(void)nothing;
	if (transfer.waiting)
		begin(socket->sockfd, &session.data_addr);
}

/*
 * Passive mode: there is no event for the client's connection. The first line on the control
 * connection after it is 150.
 */
static void on_control_write(const void *event, void *nothing)
{
	(void)event;
	(void)nothing;
	if (transfer.waiting && (session.sf_flags & (SF_PASSIVE | SF_EPSV_ALL)) && session.d &&
	    session.d->outstrm && session.d->remote_addr)
		begin(PR_NETIO_FD(session.d->outstrm), session.d->remote_addr);
}

MODRET before_retr(cmd_rec *cmd)
{
	/* The previous transfer ended with its command. None of its state may remain. */
	forget_transfer();
	transfer.waiting = cmd;
	return PR_DECLINED(cmd);
}

MODRET after_retr(cmd_rec *cmd)
{
	(void)cmd;
	forget_transfer();
	return PR_DECLINED(cmd);
}

/* --- the module's life --- */

static void open_log(void)
{
	const char *path = get_param_ptr(main_server->conf, "ImtcpLog", FALSE);
	int result, error;

	if (path == NULL || strcasecmp(path, "none") == 0)
		return;
	pr_signals_block();
	PRIVS_ROOT
	result = pr_log_openfile(path, &log_fd, PR_LOG_SYSTEM_MODE);
	error = errno;
	PRIVS_RELINQUISH
	pr_signals_unblock();
	if (result == 0)
		return;
	log_fd = -1;
	pr_log_pri(PR_LOG_NOTICE, MOD_IMTCP_VERSION ": ImtcpLog %s cannot be opened: %s", path,
		   result == PR_LOG_WRITABLE_DIR ? "others can write to its directory"
		   : result == PR_LOG_SYMLINK	 ? "it is a symbolic link"
						 : strerror(error));
}

/* HOST chose another virtual server. */
static void on_session_reinit(const void *event, void *nothing)
{
	(void)event;
	(void)nothing;
	if (log_fd >= 0)
		(void)close(log_fd);
	log_fd = -1;
	open_log();
}

static int start_session(void)
{
	pr_event_register(&imtcp_module, "core.data-connect", on_data_connect, NULL);
	pr_event_register(&imtcp_module, "core.ctrl-write", on_control_write, NULL);
	pr_event_register(&imtcp_module, "core.session-reinit", on_session_reinit, NULL);
	open_log();
	return 0;
}

#ifdef PR_SHARED_MODULE
static void on_unload(const void *event, void *nothing)
{
	(void)nothing;
	if (strcmp("mod_imtcp.c", event) == 0)
		pr_event_unregister(&imtcp_module, NULL, NULL);
}
#endif

static int start(void)
{
	struct imtcp_service *service = pcalloc(permanent_pool, sizeof(*service));

	/* Once, before there are sessions: later it is unsafe if other modules have threads. */
	if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK ||
	    imtcp_find_service(permanent_pool, DEFAULT_URL, NULL, service) != NULL) {
		pr_log_pri(PR_LOG_ERR, MOD_IMTCP_VERSION ": libcurl does not start");
		return -1;
	}
	default_service = service;
#ifdef PR_SHARED_MODULE
	pr_event_register(&imtcp_module, "core.module-unload", on_unload, NULL);
#endif
	return 0;
}

static cmdtable commands[] = {
	{.cmd_type = PRE_CMD, .command = C_RETR, .group = G_NONE, .handler = before_retr},
	{.cmd_type = LOG_CMD, .command = C_RETR, .group = G_NONE, .handler = after_retr},
	{.cmd_type = LOG_CMD_ERR, .command = C_RETR, .group = G_NONE, .handler = after_retr},
	{.command = NULL},
};

module imtcp_module = {
	.api_version = 0x20,
	.name = "imtcp",
	.conftable = imtcp_directives,
	.cmdtable = commands,
	.init = start,
	.sess_init = start_session,
	.module_version = MOD_IMTCP_VERSION,
};
