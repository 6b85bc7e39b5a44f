/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The directives. docs/how-to/ftp.md says what each is for.
 *
 * When a transfer begins, all but the log are looked up by the file's place and the user. A log is opened once, before
 * the session enters a chroot.
 */
#include "mod_imtcp.h"

#define MOST_TIMEOUT_MS 10000

const struct imtcp_controls imtcp_default_controls = {
	.name = {[IMTCP_OFF] = "imtcp_nocc",
		 [IMTCP_BG] = "imtcp_bg",
		 [IMTCP_MEASURE] = "imtcp",
		 [IMTCP_UNKNOWN] = "imtcp_bg"},
};

#define ANYWHERE (CONF_ROOT | CONF_VIRTUAL | CONF_GLOBAL | CONF_ANON | CONF_DIR)

static void *keep(cmd_rec *cmd, size_t bytes)
{
	config_rec *c = add_config_param(cmd->argv[0], 1, NULL);

	c->flags |= CF_MERGEDOWN;
	c->argv[0] = pcalloc(c->pool, bytes);
	return c->argv[0];
}

/* usage: ImtcpEngine on|off */
MODRET set_engine(cmd_rec *cmd)
{
	int on;

	CHECK_ARGS(cmd, 1);
	CHECK_CONF(cmd, ANYWHERE | CONF_DYNDIR);
	on = get_boolean(cmd, 1);
	if (on < 0)
		CONF_ERROR(cmd, "write on or off");
	*(int *)keep(cmd, sizeof(int)) = on;
	return PR_HANDLED(cmd);
}

/* usage: ImtcpAdviceURL URL [CA-FILE] */
MODRET set_advice_url(cmd_rec *cmd)
{
	struct imtcp_service *service;
	const char *wrong;

	if (cmd->argc < 2 || cmd->argc > 3)
		CONF_ERROR(cmd, "write a URL, and for https:// a file of certificates if need be");
	CHECK_CONF(cmd, ANYWHERE);
	service = keep(cmd, sizeof(*service));
	wrong = imtcp_find_service(cmd->server->pool, cmd->argv[1],
				   cmd->argc == 3 ? cmd->argv[2] : NULL, service);
	if (wrong)
		CONF_ERROR(cmd, pstrcat(cmd->tmp_pool, "'", cmd->argv[1], "': ", wrong, NULL));
	if (service->unusable)
		pr_log_pri(PR_LOG_WARNING,
			   MOD_IMTCP_VERSION ": %s: %s; transfers go without advice until the next "
					     "start",
			   (char *)cmd->argv[1], service->unusable);
	return PR_HANDLED(cmd);
}

/* usage: ImtcpTimeout MILLISECONDS */
MODRET set_timeout(cmd_rec *cmd)
{
	char *end;
	long ms;

	CHECK_ARGS(cmd, 1);
	CHECK_CONF(cmd, ANYWHERE);
	errno = 0;
	ms = strtol(cmd->argv[1], &end, 10);
	if (errno || end == (char *)cmd->argv[1] || *end != '\0' || ms < 1 || ms > MOST_TIMEOUT_MS)
		CONF_ERROR(cmd, pstrcat(cmd->tmp_pool, "'", cmd->argv[1],
					"': write milliseconds, 1 to 10000", NULL));
	*(int *)keep(cmd, sizeof(int)) = (int)ms;
	return PR_HANDLED(cmd);
}

static bool is_control_name(const char *name)
{
	return name[0] != '\0' && strlen(name) < IMTCP_NAME_BYTES &&
	       name[strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"
				 ".")] == '\0';
}

/* usage: ImtcpControls [off NAME|default] [bg NAME|default] [measure NAME|default]
 *	  [unknown NAME|default], which is bg's where it is not named */
MODRET set_controls(cmd_rec *cmd)
{
	static const char *const cases[] = {"off", "bg", "measure", "unknown"};
	struct imtcp_controls *controls;
	bool named[IMTCP_CASES] = {false};
	unsigned int i, which;

	CHECK_CONF(cmd, ANYWHERE);
	if (cmd->argc < 3 || cmd->argc % 2 == 0)
		CONF_ERROR(cmd,
			   "write pairs: off, bg, measure or unknown, and a congestion control's "
			   "name or default");
	controls = keep(cmd, sizeof(*controls));
	*controls = imtcp_default_controls;
	for (i = 1; i < cmd->argc; i += 2) {
		const char *name = cmd->argv[i + 1];

		for (which = 0; which < IMTCP_CASES; which++)
			if (strcasecmp(cmd->argv[i], cases[which]) == 0)
				break;
		if (which == IMTCP_CASES)
			CONF_ERROR(cmd, pstrcat(cmd->tmp_pool, "'", cmd->argv[i],
						"': write off, bg, measure or unknown", NULL));
		if (named[which])
			CONF_ERROR(cmd, pstrcat(cmd->tmp_pool, "'", cases[which],
						"' is there twice: write each case once", NULL));
		if (!is_control_name(name))
			CONF_ERROR(cmd, pstrcat(cmd->tmp_pool, "'", name,
						"' cannot be a congestion control's name", NULL));
		controls->name[which] = strcasecmp(name, "default") == 0
						? NULL
						: pstrdup(cmd->server->pool, name);
		named[which] = true;
	}
	if (!named[IMTCP_UNKNOWN])
		controls->name[IMTCP_UNKNOWN] = controls->name[IMTCP_BG];
	return PR_HANDLED(cmd);
}

/* The fault of a path for a log, or NULL. Sessions open it, and whoever starts the server sees nothing of
 * that. */
static const char *wrong_log(pool *p, const char *path)
{
	const char *directory;

	if (path[0] != '/')
		return "write an absolute path, or none";
	if (dir_exists2(p, path))
		return "this is a directory: write the path of a file, or none";
	directory = pstrndup(p, path, (size_t)(strrchr(path, '/') - path));
	/* A file in the root has nothing left. */
	if (directory[0] != '\0' && !dir_exists2(p, directory))
		return pstrcat(p, "there is no directory ", directory,
			       ": make it, or write another path, or none", NULL);
	return NULL;
}

/* usage: ImtcpLog PATH|none */
MODRET set_log(cmd_rec *cmd)
{
	const char *path, *wrong;

	CHECK_ARGS(cmd, 1);
	CHECK_CONF(cmd, CONF_ROOT | CONF_VIRTUAL | CONF_GLOBAL);
	path = cmd->argv[1];
	wrong = strcasecmp(path, "none") == 0 ? NULL : wrong_log(cmd->tmp_pool, path);
	if (wrong)
		CONF_ERROR(cmd, pstrcat(cmd->tmp_pool, "'", path, "': ", wrong, NULL));
	(void)add_config_param_str(cmd->argv[0], 1, path);
	return PR_HANDLED(cmd);
}

conftable imtcp_directives[] = {
	{"ImtcpEngine", set_engine, NULL},   {"ImtcpAdviceURL", set_advice_url, NULL},
	{"ImtcpTimeout", set_timeout, NULL}, {"ImtcpControls", set_controls, NULL},
	{"ImtcpLog", set_log, NULL},	     {NULL, NULL, NULL},
};
