/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The question to the advice service, by libcurl.
 *
 * A session that sends must not stand still for it, so the question runs beside the transfer
 * (curl's multi interface), and whoever asked looks after it. It must not look up names either: it
 * may live in a chroot without resolv.conf, and a resolver cannot be broken off. So names and certificates are looked
 * up when the configuration is read.
 */
#include "mod_imtcp.h"

#include <curl/curl.h>
#include <json-c/json.h>

/* An answer from a year of history has 58 kB. */
#define MOST_ANSWER_BYTES (1 << 20)
/* An answer has four levels; deeper ones are no answers, and cost the reader's stack. */
#define MOST_LEVELS 16
/* A bundle of certificates of Debian's has 220 kB. */
#define MOST_CA_BYTES (8 << 20)

static CURLM *multi;
/* Kept with its connection from question to question. */
static CURL *easy;

static struct {
	bool under_way;
	CURLU *url;
	struct curl_slist *addresses;
	struct json_tokener *reader;
	struct json_object *answer;
	size_t bytes;
	char error[CURL_ERROR_SIZE];
} question;

static bool is_loopback(const char *host)
{
	struct in_addr v4;

	if (strcmp(host, "localhost") == 0 || strcmp(host, "[::1]") == 0)
		return true;
	return inet_pton(AF_INET, host, &v4) == 1 && ntohl(v4.s_addr) >> 24 == 127;
}

static bool is_address(const char *host)
{
	struct in_addr v4;

	return host[0] == '[' || inet_pton(AF_INET, host, &v4) == 1;
}

static char *part(pool *p, CURLU *url, CURLUPart what, unsigned int flags)
{
	char *text = NULL, *copy = NULL;

	if (curl_url_get(url, what, &text, flags) == CURLUE_OK)
		copy = pstrdup(p, text);
	curl_free(text);
	return copy;
}

static const char *read_ca(pool *p, const char *file, struct imtcp_service *service)
{
	struct stat st;
	char *pem;
	ssize_t got;
	int fd;

	if (file == NULL)
		file = curl_version_info(CURLVERSION_NOW)->cainfo;
	if (file == NULL)
		return "libcurl knows no file of certificates: name one after the URL";
	fd = open(file, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size > MOST_CA_BYTES) {
		if (fd >= 0)
			close(fd);
		return pstrcat(p, file, " cannot be read as a file of certificates", NULL);
	}
	pem = palloc(p, st.st_size + 1);
	got = read(fd, pem, st.st_size);
	close(fd);
	if (got != st.st_size)
		return pstrcat(p, file, " cannot be read", NULL);
	pem[got] = '\0';
	if (strstr(pem, "-----BEGIN CERTIFICATE-----") == NULL)
		return pstrcat(p, file, " has no certificate (PEM)", NULL);
	service->ca_pem = pem;
	service->ca_bytes = got;
	return NULL;
}

/* A name without address is not fatal: the service may be away when the server starts. */
static void resolve(pool *p, const char *host, const char *port, struct imtcp_service *service)
{
	const pr_netaddr_t *address = pr_netaddr_get_addr(p, host, NULL);
	bool v6;

	if (address == NULL) {
		service->unusable = pstrcat(p, "the name ", host,
					    " had no address when this was read", NULL);
		return;
	}
	v6 = pr_netaddr_get_family(address) == AF_INET6;
	service->addresses = pstrcat(p, host, ":", port, ":", v6 ? "[" : "",
				     pr_netaddr_get_ipstr(address), v6 ? "]" : "", NULL);
}

static const char *find(pool *p, CURLU *url, const char *ca_file, struct imtcp_service *service)
{
	const char *scheme = part(p, url, CURLUPART_SCHEME, 0);
	const char *host = part(p, url, CURLUPART_HOST, 0);
	const char *path = part(p, url, CURLUPART_PATH, 0);
	const char *wrong = NULL;
	bool tls = scheme && strcmp(scheme, "https") == 0;

	if (scheme == NULL || host == NULL || path == NULL || (!tls && strcmp(scheme, "http") != 0))
		return "write http://127.0.0.1:8750, or https:// and a host";
	if (part(p, url, CURLUPART_USER, 0) || part(p, url, CURLUPART_QUERY, 0) ||
	    part(p, url, CURLUPART_FRAGMENT, 0))
		return "a user, a query or a fragment is not supported";
	if (!tls && !is_loopback(host))
		return "http:// is for this machine alone (localhost, 127.0.0.1, [::1]); write "
		       "https://, for others can change an answer on its way";
	if (!tls && ca_file)
		return "a file of certificates goes with https://";
	if (tls)
		wrong = read_ca(p, ca_file, service);
	if (wrong)
		return wrong;
	/* curl knows localhost without asking anybody. */
	if (!is_address(host) && strcmp(host, "localhost") != 0)
		resolve(p, host, part(p, url, CURLUPART_PORT, CURLU_DEFAULT_PORT), service);
	if (path[strlen(path) - 1] == '/')
		path = pstrndup(p, path, strlen(path) - 1);
	path = pstrcat(p, path, "/v1/advice", NULL);
	if (curl_url_set(url, CURLUPART_PATH, path, 0) != CURLUE_OK)
		return "its path is wrong";
	service->url = part(p, url, CURLUPART_URL, 0);
	return service->url ? NULL : "it is no URL";
}

const char *imtcp_find_service(pool *p, const char *text, const char *ca_file,
			       struct imtcp_service *service)
{
	CURLU *url = curl_url();
	const char *wrong = "write http://127.0.0.1:8750, or https:// and a host";

	memset(service, 0, sizeof(*service));
	if (url && curl_url_set(url, CURLUPART_URL, text, 0) == CURLUE_OK)
		wrong = find(p, url, ca_file, service);
	curl_url_cleanup(url);
	return wrong;
}

/* curl's callback for what comes; anything but the length ends the question. */
static size_t take(char *chunk, size_t one, size_t bytes, void *nothing)
{
	struct json_object *whole;

	(void)one;
	(void)nothing;
	question.bytes += bytes;
	if (question.bytes > MOST_ANSWER_BYTES)
		return 0;
	whole = json_tokener_parse_ex(question.reader, chunk, (int)bytes);
	if (whole) {
		json_object_put(question.answer);
		question.answer = whole;
		return bytes;
	}
	return json_tokener_get_error(question.reader) == json_tokener_continue ? bytes : 0;
}

void imtcp_forget_question(void)
{
	if (question.under_way)
		curl_multi_remove_handle(multi, easy);
	curl_url_cleanup(question.url);
	curl_slist_free_all(question.addresses);
	if (question.reader)
		json_tokener_free(question.reader);
	json_object_put(question.answer);
	memset(&question, 0, sizeof(question));
}

static void set_options(const struct imtcp_service *service, int limit_ms)
{
	struct curl_blob ca = {(void *)service->ca_pem, service->ca_bytes, CURL_BLOB_NOCOPY};

	/* All but the connections. */
	curl_easy_reset(easy);
	curl_easy_setopt(easy, CURLOPT_CURLU, question.url);
	curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, (long)limit_ms);
	/* SIGALRM is ProFTPD's. */
	curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
	/* The environment of whoever started the server has no say. */
	curl_easy_setopt(easy, CURLOPT_PROXY, "");
	curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
	curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
	curl_easy_setopt(easy, CURLOPT_USERAGENT, MOD_IMTCP_VERSION);
	curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, take);
	curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, question.error);
	if (question.addresses)
		curl_easy_setopt(easy, CURLOPT_RESOLVE, question.addresses);
	if (service->ca_pem) {
		curl_easy_setopt(easy, CURLOPT_CAPATH, NULL);
		curl_easy_setopt(easy, CURLOPT_CAINFO_BLOB, &ca);
	}
}

static bool add_to_query(const char *format, const char *text)
{
	char pair[128];

	snprintf(pair, sizeof(pair), format, text);
	return curl_url_set(question.url, CURLUPART_QUERY, pair,
			    CURLU_APPENDQUERY | CURLU_URLENCODE) == CURLUE_OK;
}

void imtcp_ask(const struct imtcp_service *service, const char *dst, off_t bytes, int limit_ms)
{
	char length[24];

	imtcp_forget_question();
	if (service->unusable) {
		snprintf(question.error, sizeof(question.error), "%s", service->unusable);
		return;
	}
	snprintf(length, sizeof(length), "%lld", (long long)bytes);
	multi = multi ? multi : curl_multi_init();
	easy = easy ? easy : curl_easy_init();
	question.url = curl_url();
	question.reader = json_tokener_new_ex(MOST_LEVELS);
	if (service->addresses)
		question.addresses = curl_slist_append(NULL, service->addresses);
	if (multi == NULL || easy == NULL || question.url == NULL || question.reader == NULL ||
	    curl_url_set(question.url, CURLUPART_URL, service->url, 0) != CURLUE_OK ||
	    !add_to_query("dst=%s", dst) || !add_to_query("bytes=%s", length)) {
		snprintf(question.error, sizeof(question.error), "there is no memory to ask with");
		return;
	}
	json_tokener_set_flags(question.reader, JSON_TOKENER_STRICT | JSON_TOKENER_VALIDATE_UTF8);
	set_options(service, limit_ms);
	question.under_way = curl_multi_add_handle(multi, easy) == CURLM_OK;
}

/* A refusal's own words (RFC 9457), where it has some. */
static void refused(long status)
{
	struct json_object *detail;
	bool has_words = json_object_is_type(question.answer, json_type_object) &&
			 json_object_object_get_ex(question.answer, "detail", &detail) &&
			 json_object_is_type(detail, json_type_string);

	snprintf(question.error, sizeof(question.error), "HTTP status %ld%s%s", status,
		 has_words ? ": " : "", has_words ? json_object_get_string(detail) : "");
}

static enum imtcp_heard judge(CURLcode result, struct imtcp_advice *advice)
{
	const char *wrong = NULL;
	long status = 0;

	curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
	if (question.bytes > MOST_ANSWER_BYTES)
		wrong = "the answer is larger than 1 MiB";
	else if (status != 0 && status != 200)
		refused(status);
	else if (result == CURLE_WRITE_ERROR)
		wrong = "the answer is no JSON";
	else if (result == CURLE_OK && question.answer == NULL)
		wrong = "the answer is empty, or no whole JSON";
	else if (result != CURLE_OK)
		wrong = question.error[0] ? NULL : curl_easy_strerror(result);
	else if ((wrong = imtcp_read_answer(question.answer, advice)) == NULL)
		return IMTCP_ADVISED;
	if (wrong)
		snprintf(question.error, sizeof(question.error), "%s", wrong);
	return IMTCP_NO_ADVICE;
}

static long now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

enum imtcp_heard imtcp_hear(int wait_ms, struct imtcp_advice *advice, const char **why)
{
	long until_ms = now_ms() + wait_ms, left_ms;
	int running, queued;
	CURLMsg *message;

	*why = question.error;
	if (!question.under_way)
		return IMTCP_NO_ADVICE;
	for (;;) {
		curl_multi_perform(multi, &running);
		message = curl_multi_info_read(multi, &queued);
		if (message && message->msg == CURLMSG_DONE)
			return judge(message->data.result, advice);
		left_ms = until_ms - now_ms();
		if (left_ms <= 0)
			return IMTCP_NOT_YET;
		/* A signal ends it early; ProFTPD sees to the signal afterwards. */
		curl_multi_poll(multi, NULL, 0, (int)left_ms, NULL);
	}
}
