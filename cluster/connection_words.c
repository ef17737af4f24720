/*-------------------------------------------------------------------------
 *
 * connection_words.c
 *	  What the connection string of a node says of its servers.
 *
 * A string of keywords and values as libpq reads it.  We need hosts and ports
 * only, and what is not in it, such as a service, is not looked for elsewhere:
 * such a node is not probed.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "lib/stringinfo.h"

#include "cluster/cluster_nodes.h"

static const char *
skip_space(const char *at)
{
	while (isspace((unsigned char) *at))
		at++;
	return at;
}

/* Read a value, which may be quoted, with backslashes; returns what follows. */
static const char *
read_value(const char *at, StringInfo value)
{
	bool		quoted = *at == '\'';

	resetStringInfo(value);
	if (quoted)
		at++;
	for (; *at != '\0'; at++)
	{
		if (quoted ? *at == '\'' : isspace((unsigned char) *at))
			return at + 1;
		if (*at == '\\' && at[1] != '\0')
			at++;
		appendStringInfoChar(value, *at);
	}
	return at;
}

/* The value of a word; NULL: there is none. */
static char *
value_of(const char *connection, const char *word)
{
	const char *at = skip_space(connection);
	StringInfoData value;
	char	   *found = NULL;

	initStringInfo(&value);
	while (*at != '\0')
	{
		const char *name = at;
		int			length = (int) strcspn(at, "= \t\n\r\f\v");

		at = skip_space(at + length);
		if (*at != '=')
			break;
		at = read_value(skip_space(at + 1), &value);
		if (length == (int) strlen(word) && strncmp(name, word, length) == 0)
			found = pstrdup(value.data);
		at = skip_space(at);
	}
	return found;
}

/*
 * The servers as "host,host port,port", in the caller's memory context; NULL:
 * no host is named.  *hosts: how many.
 */
char *
connection_words_address(const char *connection, int *hosts)
{
	char	   *host = value_of(connection, "hostaddr");
	char	   *port = value_of(connection, "port");

	if (host == NULL || host[0] == '\0')
		host = value_of(connection, "host");
	*hosts = 1;
	if (host == NULL || host[0] == '\0')
		return NULL;
	for (const char *at = host; *at != '\0'; at++)
		*hosts += *at == ',';
	return psprintf("%s %s", host, port == NULL ? "" : port);
}
