/*-------------------------------------------------------------------------
 *
 * sql_topics.c
 *	  The functions of schema fairq about topics: arguments and privileges, as
 *	  sql_tasks.c has them for the others.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/builtins.h"

#include "sql/arguments.h"
#include "verbs/enqueue.h"

PG_FUNCTION_INFO_V1(fairq_subscribe);
PG_FUNCTION_INFO_V1(fairq_unsubscribe);
PG_FUNCTION_INFO_V1(fairq_publish);

/* The topic, argument 0, or a pattern of topics. */
static text *
topic_argument(FunctionCallInfo fcinfo, bool pattern)
{
	text	   *topic;
	const char *hint;

	if (PG_ARGISNULL(0))
		arguments_null(fcinfo, "topic", "Give a topic.");
	topic = PG_GETARG_TEXT_PP(0);
	hint = topics_check(topic, pattern);
	if (hint != NULL)
		arguments_invalid(fcinfo, "topic",
						  arguments_clip(VARDATA_ANY(topic), VARSIZE_ANY_EXHDR(topic)), hint);
	return topic;
}

/* The queue, argument 1. */
static text *
subscriber_argument(FunctionCallInfo fcinfo)
{
	if (PG_ARGISNULL(1))
		arguments_null(fcinfo, "queue", "Give the name of a queue.");
	return PG_GETARG_TEXT_PP(1);
}

Datum
fairq_subscribe(PG_FUNCTION_ARGS)
{
	text	   *topic;

	arguments_begin(fcinfo);
	topic = topic_argument(fcinfo, true);
	topics_subscribe(topic, subscriber_argument(fcinfo));
	PG_RETURN_VOID();
}

Datum
fairq_unsubscribe(PG_FUNCTION_ARGS)
{
	text	   *topic;

	arguments_begin(fcinfo);
	topic = topic_argument(fcinfo, true);
	PG_RETURN_BOOL(topics_unsubscribe(topic, subscriber_argument(fcinfo)));
}

/* What a queue does not take of the task is an error that names the queue. */
static void
check_for_queue(QueueInfo *info, NewTask *task, void *arg)
{
	arguments_concern(cstring_to_text(info->name));
	arguments_check_task((FunctionCallInfo) arg, info, task);
}

Datum
fairq_publish(PG_FUNCTION_ARGS)
{
	NewTask		task = {0};
	text	   *topic;

	arguments_begin(fcinfo);
	topic = topic_argument(fcinfo, false);
	arguments_task(fcinfo, 14, &task);
	PG_RETURN_INT32(topics_publish(topic, &task, check_for_queue, fcinfo));
}
