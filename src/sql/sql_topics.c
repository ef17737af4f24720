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
#include "verbs/topics.h"

PG_FUNCTION_INFO_V1(fairq_subscribe);
PG_FUNCTION_INFO_V1(fairq_unsubscribe);
PG_FUNCTION_INFO_V1(fairq_publish);

/* The topic, argument 0, or a pattern of topics. */
static text *
topic_argument(FunctionCallInfo fcinfo, const char *function, bool pattern)
{
	text	   *topic;
	const char *problem;
	const char *hint;

	if (PG_ARGISNULL(0))
		arguments_bad(function, "topic", "is null", "Give a topic.");
	topic = PG_GETARG_TEXT_PP(0);
	problem = topics_check(topic, pattern, &hint);
	if (problem != NULL)
		arguments_bad(function, "topic",
					  psprintf("is %s, which %s",
							   arguments_quote(VARDATA_ANY(topic), VARSIZE_ANY_EXHDR(topic)),
							   problem), hint);
	return topic;
}

/* The queue, argument 1. */
static text *
subscriber_argument(FunctionCallInfo fcinfo, const char *function)
{
	if (PG_ARGISNULL(1))
		arguments_bad(function, "queue", "is null", "Give the name of a queue.");
	return PG_GETARG_TEXT_PP(1);
}

Datum
fairq_subscribe(PG_FUNCTION_ARGS)
{
	const char *function = "fairq.subscribe()";
	text	   *topic;

	arguments_begin(function);
	topic = topic_argument(fcinfo, function, true);
	topics_subscribe(topic, subscriber_argument(fcinfo, function));
	PG_RETURN_VOID();
}

Datum
fairq_unsubscribe(PG_FUNCTION_ARGS)
{
	const char *function = "fairq.unsubscribe()";
	text	   *topic;

	arguments_begin(function);
	topic = topic_argument(fcinfo, function, true);
	PG_RETURN_BOOL(topics_unsubscribe(topic, subscriber_argument(fcinfo, function)));
}

/* What a queue does not take of the task is an error that names the queue. */
static void
check_for_queue(QueueInfo *info, void *task)
{
	arguments_concern(cstring_to_text(info->name));
	arguments_check_task("fairq.publish()", info, task);
}

Datum
fairq_publish(PG_FUNCTION_ARGS)
{
	const char *function = "fairq.publish()";
	text	   *topic;
	NewTask		task = {0};

	arguments_begin(function);
	topic = topic_argument(fcinfo, function, false);
	arguments_task(fcinfo, function, &task);
	PG_RETURN_INT32(topics_publish(topic, &task, check_for_queue, &task));
}
