/*-------------------------------------------------------------------------
 *
 * task_history.c
 *	  How the last runs of a task have ended.
 *
 * Column "history" of a queue's table is an array of objects, the earliest
 * first: of each run that failed, or was lost, when that was, which attempt,
 * by which worker, after how many seconds, and the error.  It has HISTORY_ENDS
 * of them at most, with texts of at most HISTORY_TEXT bytes: what is kept is
 * bounded.  A task that never fails has none, and costs nothing.
 *
 * An owner may have written something else there with SQL: what is no array is
 * replaced.
 *
 * Locking: none; works on the row that was read.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type_d.h"
#include "mb/pg_wchar.h"
#include "utils/datetime.h"
#include "utils/fmgrprotos.h"
#include "utils/json.h"
#include "utils/jsonb.h"
#include "utils/timestamp.h"

#include "shmem/sessions.h"
#include "verbs/ended_tasks.h"

#define HISTORY_ENDS	10
#define HISTORY_TEXT	500

static void
push_key(JsonbParseState **state, const char *key)
{
	JsonbValue	value;

	value.type = jbvString;
	value.val.string.val = unconstify(char *, key);
	value.val.string.len = strlen(key);
	pushJsonbValue(state, WJB_KEY, &value);
}

static void
push_text(JsonbParseState **state, const char *key, const char *text, int length)
{
	JsonbValue	value;

	push_key(state, key);
	value.type = jbvString;
	value.val.string.val = unconstify(char *, text);
	value.val.string.len = pg_mbcliplen(text, length, HISTORY_TEXT);
	pushJsonbValue(state, WJB_VALUE, &value);
}

static void
push_number(JsonbParseState **state, const char *key, Numeric number)
{
	JsonbValue	value;

	push_key(state, key);
	value.type = jbvNumeric;
	value.val.numeric = number;
	pushJsonbValue(state, WJB_VALUE, &value);
}

/*
 * Which worker has, or had, a lease: for people to read.
 */
const char *
task_history_worker(const LeaseInfo *lease)
{
	StringInfoData text;
	SessionInfo session;

	initStringInfo(&text);
	if (lease->session != NO_SESSION && sessions_look(lease->session, &session))
	{
		appendStringInfo(&text, "session \"%s\"", session.name);
		if (session.client[0] != '\0')
			appendStringInfo(&text, " at %s", session.client);
		if (session.pid != 0)
			appendStringInfo(&text, ", process %d", session.pid);
	}
	else if (lease->pid != 0)
		appendStringInfo(&text, "process %d", lease->pid);
	else
		appendStringInfoString(&text, "a worker of before the restart");
	return text.data;
}

/*
 * The run of a lease on the task that row has read has ended: it has failed, or
 * was lost.  error is NULL if nothing was said.
 */
void
task_history_add(RowReader *row, const LeaseInfo *lease, bool lost, const text *error)
{
	JsonbParseState *state = NULL;
	TimestampTz now = GetCurrentTimestamp();
	const char *worker = task_history_worker(lease);
	char		at[MAXDATELEN + 1];
	int			utc = 0;

	pushJsonbValue(&state, WJB_BEGIN_ARRAY, NULL);
	if (!row_is_null(row, COLUMN_HISTORY))
	{
		Jsonb	   *before = DatumGetJsonbP(row_value(row, COLUMN_HISTORY));
		int			n = JB_ROOT_IS_ARRAY(before) ? JB_ROOT_COUNT(before) : 0;

		for (int i = Max(n - HISTORY_ENDS + 1, 0); i < n; i++)
			pushJsonbValue(&state, WJB_ELEM, getIthJsonbValueFromContainer(&before->root, i));
	}
	pushJsonbValue(&state, WJB_BEGIN_OBJECT, NULL);
	JsonEncodeDateTime(at, TimestampTzGetDatum(now), TIMESTAMPTZOID, &utc);
	push_text(&state, "at", at, strlen(at));
	push_number(&state, "attempt", int64_to_numeric(lease->attempt));
	push_text(&state, "end", lost ? "lost" : "failed", lost ? 4 : 6);
	push_text(&state, "worker", worker, strlen(worker));
	/* to the nearest millisecond */
	push_number(&state, "seconds",
				int64_div_fast_to_numeric((Max(now - lease->started, 0) + 500) / 1000, 3));
	if (error != NULL)
		push_text(&state, "error", VARDATA_ANY(error), VARSIZE_ANY_EXHDR(error));
	pushJsonbValue(&state, WJB_END_OBJECT, NULL);
	row_value(row, COLUMN_HISTORY) =
		JsonbPGetDatum(JsonbValueToJsonb(pushJsonbValue(&state, WJB_END_ARRAY, NULL)));
	row_is_null(row, COLUMN_HISTORY) = false;
}
