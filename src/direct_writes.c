/*-------------------------------------------------------------------------
 *
 * direct_writes.c
 *	  Rows of queues that are written by others than us.
 *
 * A queue is an ordinary table, and users write to it: with SQL, with COPY,
 * through logical replication.  The row trigger of the table, which is
 * fired always, tells the engine of such rows, so that they are handed
 * over like all others.  Our own writes fire no triggers.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/relation.h"
#include "commands/trigger.h"
#include "fmgr.h"
#include "utils/rel.h"

#include "handover.h"
#include "placement.h"
#include "shared_state.h"

PG_FUNCTION_INFO_V1(fairq_row_written);

/* Read the address and state of a row.  Returns whether it has an address. */
static bool
row_address(QueueInfo *info, HeapTuple tuple, TupleDesc tupdesc,
			FairqAddress *address, bool *dead)
{
	bool		isnull;
	Datum		value;

	value = heap_getattr(tuple, info->columns[COLUMN_STATE], tupdesc, &isnull);
	*dead = !isnull && DatumGetChar(value) == TASK_DEAD;
	value = heap_getattr(tuple, info->columns[COLUMN_ADDRESS], tupdesc, &isnull);
	if (!isnull)
		*address = *DatumGetFairqAddressP(value);
	return !isnull;
}

/*
 * fairq.row_written(): row trigger after INSERT, UPDATE or DELETE.
 */
Datum
fairq_row_written(PG_FUNCTION_ARGS)
{
	TriggerData *trigger = (TriggerData *) fcinfo->context;
	QueueInfo  *info;
	QueueState *state;
	Relation	rel;
	TupleDesc	tupdesc;
	FairqAddress address;
	bool		dead;

	if (!CALLED_AS_TRIGGER(fcinfo) || !TRIGGER_FIRED_FOR_ROW(trigger->tg_event) ||
		!TRIGGER_FIRED_AFTER(trigger->tg_event))
		ereport(ERROR,
				(errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
				 errmsg("function \"%s\" is a row trigger after INSERT, UPDATE or DELETE",
						"fairq.row_written"),
				 errhint("fairq.create_queue() sets it up.")));

	/* Not preloaded: there is no engine to tell. */
	if (!shared_state_ready())
		PG_RETURN_POINTER(NULL);
	info = queue_catalog_open_relation(RelationGetRelid(trigger->tg_relation),
									   NoLock, 0, &rel);
	if (info == NULL)
		PG_RETURN_POINTER(NULL);
	state = info->state;
	tupdesc = RelationGetDescr(rel);

	if (!TRIGGER_FIRED_BY_INSERT(trigger->tg_event))
	{
		/* The old row is as it was if this is rolled back. */
		if (row_address(info, trigger->tg_trigtuple, tupdesc, &address, &dead))
		{
			handover_offer_at_abort(placement_lane(info, &address), &address,
									&trigger->tg_trigtuple->t_self);
			handover_count(state, QUEUE_ADDRESSED, -1);
		}
		else if (dead)
			handover_count(state, QUEUE_DEAD, -1);
	}
	if (!TRIGGER_FIRED_BY_DELETE(trigger->tg_event))
	{
		HeapTuple	tuple = TRIGGER_FIRED_BY_INSERT(trigger->tg_event) ?
			trigger->tg_trigtuple : trigger->tg_newtuple;

		if (row_address(info, tuple, tupdesc, &address, &dead))
		{
			handover_offer_at_commit(placement_lane(info, &address), &address,
									 &tuple->t_self);
			handover_count(state, QUEUE_ADDRESSED, 1);
		}
		else if (dead)
			handover_count(state, QUEUE_DEAD, 1);
	}
	relation_close(rel, NoLock);
	PG_RETURN_POINTER(NULL);
}
