/*-------------------------------------------------------------------------
 *
 * sql_front.c
 *	  How far a queue has got in virtual time, that it goes on from there, and
 *	  who attends to it.
 *
 * For whoever spreads the groups of one queue over several servers: claims go
 * to the server whose next task has the lowest start tag, and the floor of one
 * that had nothing to do is raised to where the others are.
 *
 * What is looked at is what a claim looks at: the fronts of lanes, and the
 * turns of groups that only wait for those.  Where a claim would have to read
 * on in the index, the look does it, and the claim finds it done.
 *
 * The floor of a class is its virtual time: a group that has nothing starts
 * there.  To raise it is as if a task of that start tag were claimed.  So it is
 * never raised beyond the first task that is ready, for no claim can be there
 * yet.  Else groups that come would start behind all of the backlog that
 * another group has, and invariant I7 would not hold between them.
 *
 * Tasks of transactions that are open have their places already: it is as if
 * claims had made virtual time pass meanwhile.  All that is only memory.  After
 * a crash virtual time begins at the first row, or at 0, and whoever raises
 * floors does so anew.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/relation.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/timestamp.h"
#include "utils/uuid.h"

#include "common/address.h"
#include "common/virtual_time.h"
#include "shmem/leases.h"
#include "shmem/limit_table.h"
#include "shmem/queue_state.h"
#include "shmem/sessions.h"
#include "shmem/waiter_seats.h"
#include "sql/arguments.h"
#include "sql/inspect_tasks.h"
#include "sql/result_rows.h"
#include "storage/queue_open.h"
#include "storage/recovery.h"
#include "verbs/claim.h"

PG_FUNCTION_INFO_V1(fairq_front);
PG_FUNCTION_INFO_V1(fairq_raise_floor);
PG_FUNCTION_INFO_V1(fairq_attendance);

/* What of a class a claim would come to. */
typedef struct ClassFront
{
	int64		ready;			/* tasks in memory; 0: there is nothing */
	VirtualTime first;			/* the start tag of the next one */
} ClassFront;

static void
note_first(ClassFront *front, VirtualTime start, int64 ready)
{
	if (front->ready == 0 || virtual_time_compare(start, front->first) < 0)
		front->first = start;
	front->ready += ready;
}

/*
 * Look at a class.  Tasks that were claimed or have gone since they were
 * entered may be among those that are counted, and one of them be the first,
 * until a claim comes to it.
 */
static ClassFront
look_at_class(Relation rel, QueueInfo *info, int class)
{
	QueueState *state = info->state;
	ClassFront	front = {0};
	Lane	   *lane;

	for (int b = 0; (lane = lanes_next(&state->orders[class].lanes, &b)) != NULL; b++)
	{
		LaneTop		top;

		if (claim_look(rel, info, lane, &top))
		{
			VirtualTime start = {top.first.block, top.first.fraction};

			note_first(&front, start, Max(lanes_count(lane) + lanes_have_turns(lane), 1));
		}
	}
	return front;
}

static Datum
numeric_of(VirtualTime t)
{
	FairqAddress address = {.block = t.whole,.fraction = t.fraction};

	return address_block(&address);
}

/*
 * Where a group that has nothing starts.  While the rows have not been read
 * since the start virtual time is not known unless something was claimed: it
 * begins at the first row then, so nearly.
 */
static VirtualTime
floor_of(QueueState *state, int class, const ClassFront *front)
{
	const VirtualTime none = {0, 0};
	VirtualTime v = queue_order_virtual_time(&state->orders[class]);

	if (state->recovery.groups != QUEUE_KNOWN && virtual_time_compare(v, none) == 0 &&
		front->ready > 0)
		v = virtual_time_max(none, virtual_time_at_most(front->first, FAIRQ_TAGS_START));
	return v;
}

static void
put_class(ReturnSetInfo *rsinfo, QueueInfo *info, int class, const ClassFront *front)
{
	WaiterList *list = waiter_seats_list(queue_state_number(info->state));
	bool		ready = front->ready > 0;
	bool		fair = info->policy == QUEUE_FAIR;
	ResultRow	row = {0};

	result_rows_add(&row, Int32GetDatum(class));
	result_rows_add(&row, Int64GetDatum(front->ready));
	result_rows_add(&row, Int32GetDatum((int32) waiter_seats_count(list)));
	result_rows_add_if(&row, ready, ready ? numeric_of(front->first) : (Datum) 0);
	result_rows_add_if(&row, fair, fair ? numeric_of(floor_of(info->state, class, front)) :
					   (Datum) 0);
	result_rows_end(&row, rsinfo);
}

/*
 * fairq.front(queue): a row for each class that has anything ready; if none
 * has, one for class 0.  Nothing of a queue that is paused can be claimed.
 */
Datum
fairq_front(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	const ClassFront nothing = {0};
	Relation	rel;
	QueueInfo  *info;
	bool		any = false;

	arguments_begin(fcinfo);
	info = queue_open(arguments_queue(fcinfo), AccessShareLock, ACL_SELECT, &rel);
	result_rows_begin(fcinfo);
	if (!info->paused)
		recovery_classes(rel, info);
	for (int class = 0; class < info->state->classes && !info->paused; class++)
	{
		ClassFront	front = look_at_class(rel, info, class);

		if (front.ready > 0)
			put_class(rsinfo, info, class, &front);
		any |= (front.ready > 0);
	}
	if (!any)
		put_class(rsinfo, info, 0, &nothing);
	relation_close(rel, AccessShareLock);
	return (Datum) 0;
}

/*
 * A virtual time that a floor may be raised to: argument number.  From
 * FAIRQ_TAGS_LEAP on it could only have been made up.
 */
static VirtualTime
block_argument(FunctionCallInfo fcinfo, int number)
{
	FairqAddress address;
	VirtualTime block;
	char	   *value;

	if (PG_ARGISNULL(number))
		arguments_null(fcinfo, "block", "Give a virtual time, such as \"front\" of fairq.front().");
	value = DatumGetCString(DirectFunctionCall1(numeric_out, PG_GETARG_DATUM(number)));
	if (!address_read_block(value, &address) || address.block < 0 ||
		address.block >= FAIRQ_TAGS_LEAP)
		arguments_invalid(fcinfo, "block", arguments_clip(value, (int) strlen(value)),
						  psprintf("It must be from 0 to below " INT64_FORMAT ".",
								   FAIRQ_TAGS_LEAP));
	block.whole = address.block;
	block.fraction = address.fraction;
	return block;
}

/*
 * fairq.raise_floor(queue, class, block)
 */
Datum
fairq_raise_floor(PG_FUNCTION_ARGS)
{
	Relation	rel;
	QueueInfo  *info;
	VirtualTime floor;
	int			class;
	bool		raised = false;
	text	   *queue;

	arguments_begin(fcinfo);
	queue = arguments_queue(fcinfo);
	class = arguments_number(fcinfo, 1, "class", 0, FAIRQ_CLASSES - 1,
							 "Give a class of priority.");
	floor = block_argument(fcinfo, 2);
	info = queue_open(queue, AccessShareLock, ACL_SELECT | ACL_UPDATE, &rel);
	if (info->policy == QUEUE_FAIR)
	{
		ClassFront	front;

		/* Without this virtual time would not begin at the first row. */
		recovery_tags(rel, info);
		recovery_classes(rel, info);
		front = look_at_class(rel, info, class);
		if (front.ready > 0 && virtual_time_compare(front.first, floor) < 0)
			floor = front.first;
		raised = queue_order_raise(&info->state->orders[class], floor);
	}
	relation_close(rel, AccessShareLock);
	PG_RETURN_BOOL(raised);
}

/* How many sessions of this database have leases, without one of them. */
static int
working_sessions(uint32 but)
{
	SessionInfo *sessions;
	TimestampTz now = GetCurrentTimestamp();
	int			n = sessions_list(&sessions);
	int			working = 0;

	for (int i = 0; i < n; i++)
		working += (sessions[i].database == MyDatabaseId && sessions[i].leases > 0 &&
					sessions[i].deadline > now && sessions[i].ref.number != but);
	return working;
}

/* What is counted of some queues. */
typedef struct Attendance
{
	int64		ready;
	int			waiting;
	int			leased;
} Attendance;

/*
 * Count a queue in.  Returns false if it is not there, may not be looked at, is
 * locked or is unfit.
 */
static bool
attend_queue(const text *name, Attendance *counts)
{
	Oid			relation = queue_catalog_relation(text_to_cstring(name));
	Relation	rel;
	QueueInfo  *info;
	int			number;
	int			of_overflow;

	if (!OidIsValid(relation) || queue_open_missing(relation, ACL_SELECT) != 0)
		return false;
	info = visible_queues_open(relation, &rel);
	if (info == NULL)
		return false;
	number = queue_state_number(info->state);
	if (!info->paused)
		recovery_classes(rel, info);
	for (int class = 0; class < info->state->classes && !info->paused; class++)
		counts->ready += look_at_class(rel, info, class).ready;
	counts->waiting = Max(counts->waiting,
						  (int) waiter_seats_count(waiter_seats_list(number)));
	counts->leased += leases_count(number, &of_overflow);
	relation_close(rel, AccessShareLock);
	return true;
}

/*
 * fairq_internal.attendance(queues, session): how many tasks are ready, how
 * many wait for tasks, and how many work on some.  The session is that of the
 * worker who asks, who is none of them.
 *
 * A queue that cannot be looked at counts as empty, for that is no reason for a
 * worker to do without the others.  If it is so with all of them, that is the
 * first one's error.
 *
 * Leases are not looked at one by one.  So a session that works on other queues
 * may be counted, but not more of them than these queues have leases.
 */
Datum
fairq_attendance(PG_FUNCTION_ARGS)
{
	SessionInfo asker = {.ref.number = NO_SESSION};
	Attendance	counts = {0};
	bool		any = false;
	text	  **queues;
	int			working = 0;
	int			n;
	ResultRow	row = {0};

	arguments_begin(fcinfo);
	n = arguments_queues(fcinfo, &queues);
	if (!PG_ARGISNULL(1) && !sessions_find(PG_GETARG_UUID_P(1), &asker))
		asker.leases = 0;
	for (int i = 0; i < n; i++)
		any |= attend_queue(queues[i], &counts);
	if (!any)
	{
		Relation	rel;

		(void) queue_open(queues[0], AccessShareLock, ACL_SELECT, &rel);
		relation_close(rel, AccessShareLock);
	}
	counts.leased -= asker.leases;
	if (counts.leased > 0)
		working = Min(Max(working_sessions(asker.ref.number), 1), counts.leased);
	InitMaterializedSRF(fcinfo, 0);
	result_rows_add(&row, Int64GetDatum(counts.ready));
	result_rows_add(&row, Int32GetDatum(counts.waiting));
	result_rows_add(&row, Int32GetDatum(working));
	result_rows_end(&row, (ReturnSetInfo *) fcinfo->resultinfo);
	return (Datum) 0;
}
