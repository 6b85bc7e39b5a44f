/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * mod_imtcp: a module for ProFTPD that asks imtcp's advice service while it sends [EN ch. 4].
 *
 *   RETR ─▶ data connection opens ─▶ ask, at most ImtcpTimeout ─▶ set ─▶ 150, the file
 *                                                                  ▲         │
 *                                        answer: set │ none: default         ▼ timer at the
 *                                                    └──── ask, nobody waits ◀ advised time
 *
 *   mod_imtcp.c         start and end of a transfer; the timer
 *   imtcp_directives.c  the administrator's configuration
 *   imtcp_ask.c         the question: HTTP, by libcurl
 *   imtcp_answer.c      the answer, by json-c
 *   imtcp_socket.c      congestion control and send buffer of a connection
 *   imtcp_arrived.c     bytes of a transfer that have arrived
 *
 * All state belongs to one session. ProFTPD has a process for each session, with one transfer at a
 * time.
 */
#ifndef MOD_IMTCP_H
#define MOD_IMTCP_H

/* ProFTPD's headers replace the C library's: they decide which of those a module may use. */
#include "conf.h"
#include "privs.h"

#include <stdbool.h>

#define MOD_IMTCP_VERSION "mod_imtcp/0.1"

/* The kernel's TCP_CA_NAME_MAX, which no header exports. */
#define IMTCP_NAME_BYTES 16

/* The cases of an answer. */
enum imtcp_case {
	IMTCP_OFF,     /* congestion control may be omitted [EN §2.3] */
	IMTCP_BG,      /* take only spare bandwidth */
	IMTCP_MEASURE, /* share as usual */
	IMTCP_UNKNOWN, /* "I don't know" is an answer */
	IMTCP_CASES,
};

struct imtcp_advice {
	enum imtcp_case which;
	int buffer_bytes; /* 0: unknown */
	int ask_again_s;
	char because[160];
};

/* Names of the kernel's congestion controls. NULL leaves the default. */
struct imtcp_controls {
	const char *name[IMTCP_CASES];
};

/* The service, with all that a session in a chroot could not look up. */
struct imtcp_service {
	const char *url;
	const char *addresses; /* curl's HOST:PORT:ADDRESS; NULL: the host is an address itself */
	const char *ca_pem;    /* NULL for http */
	size_t ca_bytes;
	const char *unusable; /* the reason if the host's name has no address */
};

/* The connection before the first advice. */
struct imtcp_before {
	char control[IMTCP_NAME_BYTES];
	int sndbuf_bytes;
	int locked; /* SO_BUF_LOCK */
};

enum imtcp_heard { IMTCP_NOT_YET, IMTCP_ADVISED, IMTCP_NO_ADVICE };

/* mod_imtcp.c: writes a line into ImtcpLog, or else into ProFTPD's debug messages. */
void imtcp_log(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* imtcp_directives.c */
extern const struct imtcp_controls imtcp_default_controls;
extern conftable imtcp_directives[];

/* imtcp_answer.c: returns NULL, or the fault of the answer. */
struct json_object;
const char *imtcp_read_answer(struct json_object *answer, struct imtcp_advice *advice);

/* imtcp_ask.c */
const char *imtcp_find_service(pool *p, const char *url, const char *ca_file,
			       struct imtcp_service *service);
/* Sends the question. There is one at a time. */
void imtcp_ask(const struct imtcp_service *service, const char *dst, off_t bytes, int limit_ms);
/* Waits for the answer, at most this long. Sets why if there is no advice. */
enum imtcp_heard imtcp_hear(int wait_ms, struct imtcp_advice *advice, const char **why);
void imtcp_forget_question(void);

/* imtcp_socket.c */
int imtcp_look(int fd, struct imtcp_before *before);
/* Restores the original settings if advice is NULL. */
void imtcp_set(int fd, const struct imtcp_before *before, const struct imtcp_controls *controls,
	       const struct imtcp_advice *advice);

#endif
