/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * mod_imtcp: a ProFTPD that asks imtcp's advice service while it sends [EN ch. 4].
 *
 *   RETR ─▶ data connection opens ─▶ ask, at most ImtcpTimeout ─▶ set ─▶ 150, the file
 *                                                                  ▲         │
 *                                        answer: set │ none: default         ▼ timer at the
 *                                                    └──── ask, nobody waits ◀ advised time
 *
 * mod_imtcp.c         when a transfer begins and ends; the timer
 * imtcp_directives.c  what the administrator wrote
 * imtcp_ask.c         the question: HTTP, by libcurl
 * imtcp_answer.c      what an answer says, by json-c
 * imtcp_socket.c      congestion control and send buffer of a connection
 * imtcp_arrived.c     how much of a transfer has arrived
 *
 * All of it is of one session: ProFTPD has a process for each, and one transfer at a time in it.
 */
#ifndef MOD_IMTCP_H
#define MOD_IMTCP_H

/* ProFTPD's headers in place of the C library's: they decide which of those a module may use. */
#include "conf.h"
#include "privs.h"

#include <stdbool.h>

#define MOD_IMTCP_VERSION "mod_imtcp/0.1"

/* TCP_CA_NAME_MAX of the kernel, which tells only itself. */
#define IMTCP_NAME_BYTES 16

/* The meaning of an answer for the connection. */
enum imtcp_case {
	IMTCP_OFF,     /* congestion control may be left out of account [EN §2.3] */
	IMTCP_BG,      /* take only spare bandwidth */
	IMTCP_MEASURE, /* share as usual */
	IMTCP_UNKNOWN, /* "I don't know" is an answer */
	IMTCP_CASES,
};

struct imtcp_advice {
	enum imtcp_case which;
	int buffer_bytes; /* 0: not known */
	int ask_again_s;
	char because[160];
};

/* The names of the kernel's congestion controls; NULL leaves the connection its default. */
struct imtcp_controls {
	const char *name[IMTCP_CASES];
};

/* Where to ask, with what a session in a chroot could no longer find out. */
struct imtcp_service {
	const char *url;
	const char *addresses; /* curl's HOST:PORT:ADDRESS; NULL: the host is an address itself */
	const char *ca_pem;    /* NULL for http */
	size_t ca_bytes;
	const char *unusable; /* why, where the host's name told no address */
};

/* The connection as it was before the first advice. */
struct imtcp_before {
	char control[IMTCP_NAME_BYTES];
	int sndbuf_bytes;
	int locked; /* SO_BUF_LOCK */
};

enum imtcp_heard { IMTCP_NOT_YET, IMTCP_ADVISED, IMTCP_NO_ADVICE };

/* mod_imtcp.c: a line into ImtcpLog, else among ProFTPD's debugging messages. */
void imtcp_log(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* imtcp_directives.c */
extern const struct imtcp_controls imtcp_default_controls;
extern conftable imtcp_directives[];

/* imtcp_answer.c: NULL, or what is wrong with the answer. */
struct json_object;
const char *imtcp_read_answer(struct json_object *answer, struct imtcp_advice *advice);

/* imtcp_ask.c */
const char *imtcp_find_service(pool *p, const char *url, const char *ca_file,
			       struct imtcp_service *service);
/* Sends the question, of which there is one at a time. */
void imtcp_ask(const struct imtcp_service *service, const char *dst, off_t bytes, int limit_ms);
/* Waits for the answer, but not longer than this; why is set where there is no advice. */
enum imtcp_heard imtcp_hear(int wait_ms, struct imtcp_advice *advice, const char **why);
void imtcp_forget_question(void);

/* imtcp_socket.c */
int imtcp_look(int fd, struct imtcp_before *before);
/* advice NULL: as it was. */
void imtcp_set(int fd, const struct imtcp_before *before, const struct imtcp_controls *controls,
	       const struct imtcp_advice *advice);

#endif
