/*-------------------------------------------------------------------------
 *
 * compat.h
 *	  The differences between PostgreSQL 15, 16, 17 and 18, in one place.
 *
 * Everything else is written for the newest of them in the terms below; no
 * other file looks at PG_VERSION_NUM.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_COMPAT_H
#define FAIRQ_COMPAT_H

#include "access/genam.h"
#include "access/heapam.h"
#include "access/tableam.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "catalog/pg_database.h"
#include "catalog/pg_namespace.h"
#include "nodes/execnodes.h"
#include "storage/bufmgr.h"
#include "storage/lock.h"
#include "storage/proc.h"
#include "storage/procarray.h"
#include "storage/sinvaladt.h"
#include "utils/acl.h"
#include "utils/guc.h"
#include "utils/rel.h"
#include "utils/wait_event.h"
#if PG_VERSION_NUM >= 160000
#include "varatt.h"
#endif

#if PG_VERSION_NUM < 150000
#error "pgfairq needs PostgreSQL 15 or later"
#endif

/* Shared by some of our files and by no other library: as cheap as static. */
#ifdef __GNUC__
#define FAIRQ_PRIVATE __attribute__((visibility("hidden")))
#else
#define FAIRQ_PRIVATE
#endif

/* Reads pages without a pin, on purpose: the sanitizer need not say so. */
#ifdef __SANITIZE_ADDRESS__
#define FAIRQ_LOOKS_UNPINNED __attribute__((no_sanitize("address")))
#else
#define FAIRQ_LOOKS_UNPINNED
#endif

/* 17 has wait events of extensions' own. */
#if PG_VERSION_NUM >= 170000
#define fairq_new_wait_event(name) WaitEventExtensionNew(name)
#else
#define fairq_new_wait_event(name) ((void) (name), PG_WAIT_EXTENSION)
#endif

/* 16 renamed the file of a relation and gave it a type. */
#if PG_VERSION_NUM >= 160000
#define fairq_relation_file(rel) ((rel)->rd_locator.relNumber)
#define fairq_relation_locator(rel) ((rel)->rd_locator)
#define fairq_relation_rewritten(rel) \
	((rel)->rd_firstRelfilelocatorSubid != InvalidSubTransactionId)
#else
typedef Oid RelFileNumber;
#define InvalidRelFileNumber InvalidOid
#define fairq_relation_file(rel) ((rel)->rd_node.relNode)
#define fairq_relation_locator(rel) ((rel)->rd_node)
#define fairq_relation_rewritten(rel) \
	((rel)->rd_firstRelfilenodeSubid != InvalidSubTransactionId)
#endif

/* 18 may log that a lock could not be had. */
#if PG_VERSION_NUM >= 180000
#define fairq_transaction_has_ended(xid) ConditionalXactLockTableWait(xid, false)
#else
#define fairq_transaction_has_ended(xid) ConditionalXactLockTableWait(xid)
#endif

/* 17 calls the number of a backend that of its process. */
#if PG_VERSION_NUM >= 170000
#define fairq_process_struct(vxid) ProcNumberGetProc((vxid).procNumber)
#else
#define fairq_process_struct(vxid) BackendIdGetProc((vxid).backendId)
#endif

/* The process of a virtual transaction; 0: it has none, being prepared. */
static inline int
fairq_process_of(VirtualTransactionId vxid)
{
	PGPROC	   *proc = VirtualTransactionIdIsRecoveredPreparedXact(vxid) ? NULL :
		fairq_process_struct(vxid);

	return proc == NULL ? 0 : proc->pid;
}

/* 16 has one function for the privileges on all kinds of objects. */
#if PG_VERSION_NUM >= 160000
#define fairq_namespace_aclcheck(oid, role, mode) \
	object_aclcheck(NamespaceRelationId, oid, role, mode)
#define fairq_relation_ownercheck(oid, role) \
	object_ownercheck(RelationRelationId, oid, role)
#define fairq_database_ownercheck(oid, role) \
	object_ownercheck(DatabaseRelationId, oid, role)
#else
#define fairq_namespace_aclcheck(oid, role, mode) \
	pg_namespace_aclcheck(oid, role, mode)
#define fairq_relation_ownercheck(oid, role) \
	pg_class_ownercheck(oid, role)
#define fairq_database_ownercheck(oid, role) \
	pg_database_ownercheck(oid, role)
#endif

/* 17 has a search_path for maintenance commands; before it is set by hand. */
#if PG_VERSION_NUM >= 170000
#define fairq_restrict_search_path() RestrictSearchPath()
#else
#define fairq_restrict_search_path() \
	((void) set_config_option("search_path", "pg_catalog, pg_temp", \
							  PGC_USERSET, PGC_S_SESSION, \
							  GUC_ACTION_SAVE, true, 0, false))
#endif

/* 18 counts index searches for EXPLAIN; we have none to show. */
#if PG_VERSION_NUM >= 180000
#define fairq_index_beginscan(heap, index, snapshot, nkeys) \
	index_beginscan(heap, index, snapshot, NULL, nkeys, 0)
#else
#define fairq_index_beginscan(heap, index, snapshot, nkeys) \
	index_beginscan(heap, index, snapshot, nkeys, 0)
#endif

/* 18 has NOT NULL constraints that are not valid: rows may have nulls. */
#if PG_VERSION_NUM >= 180000
#define fairq_column_not_null(tupdesc, i) \
	(TupleDescCompactAttr(tupdesc, i)->attnullability == ATTNULLABLE_VALID)
#else
#define fairq_column_not_null(tupdesc, i) (TupleDescAttr(tupdesc, i)->attnotnull)
#endif

/* 17 is told whether a stronger lock will do as well. */
#if PG_VERSION_NUM >= 170000
#define fairq_lock_held_by_me(tag, mode) LockHeldByMe(tag, mode, false)
#else
#define fairq_lock_held_by_me(tag, mode) LockHeldByMe(tag, mode)
#endif

/* 17 has indexes keep something between inserts. */
#if PG_VERSION_NUM >= 170000
#define fairq_index_insert_cleanup(index, info) index_insert_cleanup(index, info)
#else
#define fairq_index_insert_cleanup(index, info) ((void) 0)
#endif

/*
 * 16 has indexes that sum up blocks (BRIN), whose columns may change in a row
 * that stays where all other indexes lead.
 */
#if PG_VERSION_NUM >= 160000
#define fairq_index_sums_up(info) ((info)->ii_Summarizing)
#else
#define fairq_index_sums_up(info) false
#endif

/* The indexes that are to have an entry of the new version of a row. */
typedef enum IndexEntries
{
	ENTRIES_NONE,
	ENTRIES_OF_SUMS,			/* those that sum up */
	ENTRIES_ALL,
} IndexEntries;

/*
 * 16 tells which indexes an update concerns instead of whether any.  Returns
 * the result of heap_update and which need new entries.  An entry of a
 * heap-only tuple in another index would outlive it: pruning frees the line
 * pointer of such a one without asking indexes, and the next row there would
 * be found by it.
 *
 * heap_update itself must not be told not to wait (it asserts that no other
 * transaction has the row then).  So the row is locked first, which can be
 * had without waiting, as strongly as any update needs it.
 */
static inline TM_Result
fairq_heap_update(Relation rel, ItemPointer tid, HeapTuple tuple,
				  CommandId cid, bool wait, TM_FailureData *tmfd,
				  IndexEntries *entries)
{
	LockTupleMode lockmode;
	TM_Result	result;
#if PG_VERSION_NUM >= 160000
	TU_UpdateIndexes update_indexes;
#endif

	if (!wait)
	{
		HeapTupleData old = {.t_self = *tid};
		Buffer		buffer;

		result = heap_lock_tuple(rel, &old, cid, LockTupleExclusive,
								 LockWaitSkip, false, &buffer, tmfd);
		ReleaseBuffer(buffer);
		*entries = ENTRIES_NONE;
		if (result != TM_Ok)
			return result;
	}
#if PG_VERSION_NUM >= 160000
	result = heap_update(rel, tid, tuple, cid, InvalidSnapshot, true, tmfd,
						 &lockmode, &update_indexes);
	*entries = result != TM_Ok || update_indexes == TU_None ? ENTRIES_NONE :
		update_indexes == TU_Summarizing ? ENTRIES_OF_SUMS : ENTRIES_ALL;
#else
	result = heap_update(rel, tid, tuple, cid, InvalidSnapshot, true, tmfd,
						 &lockmode);
	*entries = result == TM_Ok && !HeapTupleIsHeapOnly(tuple) ? ENTRIES_ALL : ENTRIES_NONE;
#endif
	return result;
}

#endif							/* FAIRQ_COMPAT_H */
