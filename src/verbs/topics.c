/*-------------------------------------------------------------------------
 *
 * topics.c
 *	  Topics: which queues want what is published.
 *
 * A subscription is a row of fairq.topic: a queue and a pattern of topics.  The
 * row refers to the queue's settings and goes when they go, so a queue that is
 * dropped leaves none behind, and one created later under its name starts
 * without.
 *
 * Publishing reads all subscriptions as they are now, whatever the isolation
 * level, as enqueue and claim look at the present.  Tasks go into the queues
 * that are there: each is locked as enqueue locks it, and then the
 * subscriptions are looked at again if anything has changed meanwhile, for the
 * queue may have been dropped, and another made in its name.
 *
 * Locking: who subscribes or unsubscribes a queue has its table locked in
 * ShareUpdateExclusiveLock mode until the end of the transaction: one at a
 * time, and not while it is dropped.  That does not keep anybody from
 * publishing.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/relation.h"
#include "access/table.h"
#include "catalog/pg_type_d.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "nodes/value.h"
#include "storage/sinval.h"
#include "utils/builtins.h"

#include "storage/own_table.h"
#include "storage/queue_open.h"
#include "verbs/enqueue.h"
#include "verbs/queue_admin.h"

/* Columns of fairq.topic. */
#define TOPIC_COLUMN_TOPIC	1
#define TOPIC_COLUMN_QUEUE	2

static const char *
topic_hint(void)
{
	return psprintf("A topic is words joined by dots, of 1 to %d bytes altogether.",
					TOPIC_MAX);
}

/*
 * What a topic, or a pattern of topics, has to be, as a hint; NULL: it is.
 */
const char *
topics_check(const text *topic, bool pattern)
{
	const char *word = VARDATA_ANY(topic);
	const char *end = word + VARSIZE_ANY_EXHDR(topic);

	if (end - word > TOPIC_MAX)
		return topic_hint();
	for (;;)
	{
		const char *dot = memchr(word, '.', end - word);
		int			len = (dot != NULL ? dot : end) - word;

		if (len == 0)
			return topic_hint();
		if ((!pattern || len > 1) &&
			(memchr(word, '*', len) != NULL || memchr(word, '#', len) != NULL))
			return pattern ?
				"The wildcards * and # are words of their own, between dots." :
				"Wildcards are for fairq.subscribe(): publish to one topic.";
		if (dot == NULL)
			return NULL;
		word = dot + 1;
	}
}

/* A walk over the words of a topic. */
typedef struct Word
{
	const char *start;			/* NULL: there are no more */
	int			len;
	const char *end;			/* of the topic */
} Word;

static inline void
word_at(Word *word, const char *start, const char *end)
{
	const char *dot = memchr(start, '.', end - start);

	word->start = start;
	word->len = (dot != NULL ? dot : end) - start;
	word->end = end;
}

static inline void
word_next(Word *word)
{
	const char *after = word->start + word->len;

	if (after == word->end)
		word->start = NULL;
	else
		word_at(word, after + 1, word->end);
}

static inline bool
word_is(const Word *word, char wildcard)
{
	return word->start != NULL && word->len == 1 && *word->start == wildcard;
}

/*
 * Does a topic match a pattern?
 *
 * If it does not go on after a #, that # takes one word more.  There is never a
 * need to go back to an earlier one, since what is between them matches where
 * it is first found.  So it takes (words of the pattern) x (words of the topic)
 * steps at most, however many # there are.
 */
static bool
matches_topic(const char *pattern, int pattern_len, const char *topic, int topic_len)
{
	Word		want;
	Word		have;
	Word		after_any;		/* of the pattern, behind the last # */
	Word		taken = {0};	/* of the topic: that # ends before this one */

	word_at(&want, pattern, pattern + pattern_len);
	word_at(&have, topic, topic + topic_len);
	while (have.start != NULL)
	{
		if (word_is(&want, '#'))
		{
			word_next(&want);
			if (want.start == NULL)
				return true;
			after_any = want;
			taken = have;
		}
		else if (want.start != NULL &&
				 (word_is(&want, '*') ||
				  (want.len == have.len && memcmp(want.start, have.start, want.len) == 0)))
		{
			word_next(&want);
			word_next(&have);
		}
		else if (taken.start != NULL)
		{
			word_next(&taken);
			want = after_any;
			have = taken;
		}
		else
			return false;
	}
	while (word_is(&want, '#'))
		word_next(&want);
	return want.start == NULL;
}

/* Run a command on the subscription of a queue, for its owner. */
static uint64
execute(const char *command, const text *topic, const text *queue)
{
	Relation	rel;
	QueueInfo  *info = queue_admin_open(queue, false, &rel);
	Oid			types[] = {TEXTOID, TEXTOID};
	Datum		values[] = {PointerGetDatum(topic), CStringGetTextDatum(info->name)};
	uint64		rows;

	SPI_connect();
	rows = queue_admin_execute(command, 2, types, values, "  ");
	SPI_finish();
	relation_close(rel, NoLock);
	return rows;
}

/*
 * Let a queue have what is published to a topic.
 */
void
topics_subscribe(const text *topic, const text *queue)
{
	(void) execute("INSERT INTO fairq.topic (topic, queue) VALUES ($1, $2)"
				   " ON CONFLICT DO NOTHING", topic, queue);
}

/*
 * End that.  Returns false if there is no such subscription.
 */
bool
topics_unsubscribe(const text *topic, const text *queue)
{
	return execute("DELETE FROM fairq.topic WHERE topic OPERATOR(pg_catalog.=) $1"
				   " AND queue OPERATOR(pg_catalog.=) $2", topic, queue) > 0;
}

/*
 * The names of the queues that want what is published to a topic, each once,
 * in the order of the index, so that all publishers lock them in the same one:
 * a list of String.
 */
static List *
subscribed_queues(const text *topic)
{
	List	   *names = NIL;
	Relation	rel = own_table_open(QUEUE_SCHEMA, "topic", AccessShareLock);
	Relation	index = own_table_index(rel, "topic_pkey");
	SysScanDesc scan = systable_beginscan_ordered(rel, index, NULL, 0, NULL);
	HeapTuple	tuple;

	while ((tuple = systable_getnext_ordered(scan, ForwardScanDirection)) != NULL)
	{
		text	   *pattern = DatumGetTextPP(own_table_column(rel, tuple, TOPIC_COLUMN_TOPIC));
		char	   *queue;

		CHECK_FOR_INTERRUPTS();
		if (!matches_topic(VARDATA_ANY(pattern), VARSIZE_ANY_EXHDR(pattern),
						   VARDATA_ANY(topic), VARSIZE_ANY_EXHDR(topic)))
			continue;
		queue = TextDatumGetCString(own_table_column(rel, tuple, TOPIC_COLUMN_QUEUE));
		if (names == NIL || strcmp(strVal(llast(names)), queue) != 0)
			names = lappend(names, makeString(queue));
	}
	systable_endscan_ordered(scan);
	index_close(index, AccessShareLock);
	table_close(rel, AccessShareLock);
	return names;
}

/* A queue that is published to. */
typedef struct Receiver
{
	Relation	rel;
	QueueInfo  *info;
	NewTask		task;			/* with what the queue says of it */
} Receiver;

/*
 * Open a queue, unless it has been dropped.
 */
static bool
open_receiver(const char *name, Receiver *receiver)
{
	Oid			relation = queue_catalog_relation(name);

	if (!OidIsValid(relation))
		return false;
	receiver->info = queue_open_relation(relation, RowExclusiveLock,
										 ACL_INSERT, &receiver->rel);
	return receiver->info != NULL;
}

/*
 * Put a task into each queue that wants what is published to a topic.  check is
 * called for each, with the task as that is to have it, before there is one in
 * any.  Returns how many queues.
 */
int
topics_publish(const text *topic, const NewTask *task, TopicCheck check, void *arg)
{
	uint64		changes = SharedInvalidMessageCounter;
	List	   *names = subscribed_queues(topic);
	Receiver   *receivers = palloc_array(Receiver, list_length(names) + 1);
	ListCell   *lc;
	int			n = 0;
	int			left = 0;

	foreach(lc, names)
	{
		if (open_receiver(strVal(lfirst(lc)), &receivers[n]))
			n++;
	}

	/*
	 * While we waited for a lock the queue may have been dropped, and another
	 * created.  Now that they are locked they stay, so that one more look is
	 * enough.
	 */
	if (changes != SharedInvalidMessageCounter)
		names = subscribed_queues(topic);
	for (int i = 0; i < n; i++)
	{
		if (list_member(names, makeString(receivers[i].info->name)))
		{
			receivers[i].task = *task;
			check(receivers[i].info, &receivers[i].task, arg);
			receivers[left++] = receivers[i];
		}
		else
			relation_close(receivers[i].rel, NoLock);
	}

	for (int i = 0; i < left; i++)
	{
		int64		id;

		enqueue_tasks(receivers[i].rel, receivers[i].info, 1, &receivers[i].task, &id);
		relation_close(receivers[i].rel, NoLock);
	}
	return left;
}
