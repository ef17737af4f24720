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
#include "access/htup_details.h"
#include "access/relation.h"
#include "access/table.h"
#include "catalog/pg_type_d.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "storage/sinval.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"

#include "storage/own_table.h"
#include "storage/queue_open.h"
#include "verbs/queue_admin.h"
#include "verbs/topics.h"

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

static void
set_parameters(const text *topic, const QueueInfo *info, Oid *types, Datum *values)
{
	types[0] = types[1] = TEXTOID;
	values[0] = PointerGetDatum(topic);
	values[1] = CStringGetTextDatum(info->name);
}

/*
 * Let a queue have what is published to a topic.  For its owner.
 */
void
topics_subscribe(const text *topic, const text *queue)
{
	Relation	rel;
	QueueInfo  *info = queue_admin_open(queue, &rel);
	Oid			types[2];
	Datum		values[2];

	set_parameters(topic, info, types, values);
	SPI_connect();
	queue_admin_execute("INSERT INTO fairq.topic (topic, queue) VALUES ($1, $2)"
						" ON CONFLICT DO NOTHING",
						2, types, values, "  ");
	SPI_finish();
	relation_close(rel, NoLock);
}

/*
 * End that.  Returns false if there is no such subscription.
 */
bool
topics_unsubscribe(const text *topic, const text *queue)
{
	Relation	rel;
	QueueInfo  *info = queue_admin_open(queue, &rel);
	Oid			types[2];
	Datum		values[2];
	uint64		deleted;

	set_parameters(topic, info, types, values);
	SPI_connect();
	deleted = queue_admin_execute("DELETE FROM fairq.topic WHERE topic OPERATOR(pg_catalog.=) $1"
								  " AND queue OPERATOR(pg_catalog.=) $2",
								  2, types, values, "  ");
	SPI_finish();
	relation_close(rel, NoLock);
	return deleted > 0;
}

static int
compare_names(const ListCell *a, const ListCell *b)
{
	return strcmp(lfirst(a), lfirst(b));
}

static bool
has_name(List *names, const char *name)
{
	ListCell   *lc;

	foreach(lc, names)
	{
		if (strcmp(lfirst(lc), name) == 0)
			return true;
	}
	return false;
}

/*
 * The names of the queues that want what is published to a topic, each once,
 * in order, so that all publishers lock them in the same one.
 */
static List *
subscribed_queues(const text *topic)
{
	List	   *names = NIL;
	Relation	rel = own_table_open(QUEUE_SCHEMA, "topic", AccessShareLock);
	TupleDesc	tupdesc = RelationGetDescr(rel);
	SysScanDesc scan = systable_beginscan(rel, InvalidOid, false, NULL, 0, NULL);
	HeapTuple	tuple;

	while ((tuple = systable_getnext(scan)) != NULL)
	{
		bool		isnull;
		text	   *pattern = DatumGetTextPP(heap_getattr(tuple, TOPIC_COLUMN_TOPIC,
														  tupdesc, &isnull));
		char	   *queue;

		CHECK_FOR_INTERRUPTS();
		if (!matches_topic(VARDATA_ANY(pattern), VARSIZE_ANY_EXHDR(pattern),
						   VARDATA_ANY(topic), VARSIZE_ANY_EXHDR(topic)))
			continue;
		queue = TextDatumGetCString(heap_getattr(tuple, TOPIC_COLUMN_QUEUE,
												 tupdesc, &isnull));
		names = lappend(names, queue);
	}
	systable_endscan(scan);
	table_close(rel, AccessShareLock);
	list_sort(names, compare_names);
	for (int i = list_length(names) - 1; i > 0; i--)
	{
		if (strcmp(list_nth(names, i), list_nth(names, i - 1)) == 0)
			names = list_delete_nth_cell(names, i);
	}
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
	char		relname[NAMEDATALEN];
	Oid			relation;

	queue_catalog_relation_name(name, relname);
	relation = get_relname_relid(relname, queue_catalog_schema(false));
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
		if (open_receiver(lfirst(lc), &receivers[n]))
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
		if (has_name(names, receivers[i].info->name))
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
