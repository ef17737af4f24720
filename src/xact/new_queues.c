/*-------------------------------------------------------------------------
 *
 * new_queues.c
 *	  Queues whose tables were created in this transaction.
 *
 * Such a queue may have a shared state already.  If its table is rolled back
 * there never was one, and the state goes.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "utils/lsyscache.h"

#include "shmem/queue_lifecycle.h"
#include "shmem/queue_state.h"
#include "xact/new_queues.h"

/* The tables, with the subtransactions that created them. */
#define MAX_CREATED		64

static struct
{
	Oid			relation;
	SubTransactionId subid;
}			created[MAX_CREATED];
static int	created_count = 0;

/*
 * A queue's state was set up whose table is new in this transaction.  Beyond
 * MAX_CREATED of them a rollback leaves states behind, until the next restart.
 */
void
new_queues_add(Oid relation, SubTransactionId subid)
{
	for (int i = 0; i < created_count; i++)
	{
		if (created[i].relation == relation)
			return;
	}
	if (created_count < MAX_CREATED)
	{
		created[created_count].relation = relation;
		created[created_count].subid = subid;
		created_count++;
	}
}

/*
 * A subtransaction is part of its parent now.
 */
void
new_queues_at_subcommit(SubTransactionId subid, SubTransactionId parent)
{
	for (int i = 0; i < created_count; i++)
	{
		if (created[i].subid >= subid)
			created[i].subid = parent;
	}
}

/*
 * A subtransaction, or with InvalidSubTransactionId all of the transaction, is rolled
 * back.  Never fails.
 */
void
new_queues_at_abort(SubTransactionId subid)
{
	int			kept = 0;

	for (int i = 0; i < created_count; i++)
	{
		if (created[i].subid >= subid)
			queue_lifecycle_release(MyDatabaseId, created[i].relation);
		else
			created[kept++] = created[i];
	}
	created_count = kept;
}

/*
 * Should a prepared transaction be rolled back nobody would tell us.
 */
void
new_queues_check_prepare(void)
{
	if (created_count > 0)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot PREPARE a transaction that has created a queue and used it"),
				 errdetail("Its table is \"%s\".", get_rel_name(created[0].relation)),
				 errhint("Create queues in a transaction that is not prepared.")));
}

/*
 * The transaction is over.
 */
void
new_queues_forget(void)
{
	created_count = 0;
}
