/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Reads an answer of GET /v1/advice.
 *
 *   ── field ────────── values ───────────────────────────────────────────────────────────
 *   congestion_control  "off": may be omitted; "on": see mode
 *   mode                "bg" or "measure", as in imtcp run
 *   verdict             "unknown": the path is unknown; any other or none: it is advice
 *   buffer_bytes        bytes, or null
 *   at, next_advice_at, valid_until   RFC 3339
 *
 * Times count from `at`, because the service's clock may differ from this host's. One invalid field
 * makes the whole answer invalid.
 */
#define _GNU_SOURCE
#include "mod_imtcp.h"

#include <json-c/json.h>
#include <time.h>

/* ProFTPD's timers count seconds. */
#define LEAST_S 1
/* The service's setting next_max_s. */
#define MOST_S 86400

static const char *text(struct json_object *answer, const char *key)
{
	struct json_object *value;

	if (!json_object_object_get_ex(answer, key, &value) ||
	    !json_object_is_type(value, json_type_string))
		return NULL;
	return json_object_get_string(value);
}

/* Seconds since 1970; false if it is no time. */
static bool moment(struct json_object *answer, const char *key, time_t *seconds)
{
	const char *rest, *written = text(answer, key);
	struct tm tm = {0};
	long east_s;

	rest = written ? strptime(written, "%Y-%m-%dT%H:%M:%S", &tm) : NULL;
	if (rest && *rest == '.')
		rest += 1 + strspn(rest + 1, "0123456789");
	rest = rest ? strptime(rest, "%z", &tm) : NULL;
	if (rest == NULL || *rest != '\0')
		return false;
	/* timegm() takes the fields as UTC, and drops the offset. */
	east_s = tm.tm_gmtoff;
	*seconds = timegm(&tm) - east_s;
	return true;
}

static bool which_case(struct json_object *answer, enum imtcp_case *which)
{
	const char *control = text(answer, "congestion_control"), *mode = text(answer, "mode");
	const char *verdict = text(answer, "verdict");

	if (control == NULL || mode == NULL)
		return false;
	if (strcmp(control, "off") == 0)
		*which = IMTCP_OFF;
	else if (strcmp(control, "on") != 0)
		return false;
	else if (verdict && strcmp(verdict, "unknown") == 0)
		*which = IMTCP_UNKNOWN;
	else if (strcmp(mode, "bg") == 0)
		*which = IMTCP_BG;
	else if (strcmp(mode, "measure") == 0)
		*which = IMTCP_MEASURE;
	else
		return false;
	return true;
}

static bool buffer(struct json_object *answer, int *bytes)
{
	struct json_object *value;
	int64_t n;

	*bytes = 0;
	if (!json_object_object_get_ex(answer, "buffer_bytes", &value))
		return false;
	if (json_object_is_type(value, json_type_null))
		return true;
	if (!json_object_is_type(value, json_type_int))
		return false;
	n = json_object_get_int64(value);
	if (n < 0)
		return false;
	*bytes = n < INT_MAX ? (int)n : INT_MAX;
	return true;
}

const char *imtcp_read_answer(struct json_object *answer, struct imtcp_advice *advice)
{
	const char *because;
	time_t at, next, until;

	memset(advice, 0, sizeof(*advice));
	if (!json_object_is_type(answer, json_type_object))
		return "the answer is no JSON object";
	if (!which_case(answer, &advice->which))
		return "the answer has no congestion_control and mode that are known here";
	if (!buffer(answer, &advice->buffer_bytes))
		return "the answer has no buffer_bytes";
	if (!moment(answer, "at", &at) || !moment(answer, "next_advice_at", &next) ||
	    !moment(answer, "valid_until", &until))
		return "the answer has no times (at, next_advice_at, valid_until)";
	/* When new advice is due, or earlier if this one expires earlier. */
	next = (next < until ? next : until) - at;
	advice->ask_again_s = next < LEAST_S ? LEAST_S : next > MOST_S ? MOST_S : (int)next;
	because = text(answer, "because");
	snprintf(advice->because, sizeof(advice->because), "%s", because ? because : "");
	return NULL;
}
