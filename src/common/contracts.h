/*-------------------------------------------------------------------------
 *
 * contracts.h
 *	  What a function expects of its caller, as assertions.
 *
 * A comment that says "locked" is one that nothing checks, so here are words
 * for that.  They cost nothing in production builds.
 *
 * A structure in shared memory has a checker besides, called where its lock is
 * taken and let go; what may be large is looked at whole now and then only
 * (contract_is_due).
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_CONTRACTS_H
#define FAIRQ_CONTRACTS_H

#include "access/xact.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "storage/lwlock.h"
#include "storage/spin.h"

#include "common/compat.h"

/*
 * A lock is held by this process.  The postmaster, which is alone then, does
 * without.
 */
#define AssertLocked(lock) \
	Assert(!IsUnderPostmaster || LWLockHeldByMe((LWLock *) (lock)))
#define AssertLockedExclusively(lock) \
	Assert(!IsUnderPostmaster || LWLockHeldByMeInMode((LWLock *) (lock), LW_EXCLUSIVE))

/* It is not, for it is going to be taken. */
#define AssertNotLocked(lock) \
	Assert(!LWLockHeldByMe((LWLock *) (lock)))

/* A spinlock is held, as far as can be known: by some process. */
#ifdef SpinLockFree
#define AssertSpinLocked(mutex) Assert(!SpinLockFree((slock_t *) (mutex)))
#else
#define AssertSpinLocked(mutex) ((void) true)
#endif

/* A relation is locked by this process, in a mode or a stronger one. */
#define AssertRelationLocked(rel, mode) \
	Assert(CheckRelationLockedByMe(rel, mode, true))

/* So is one that is not at hand, and is known by its oid, in any mode. */
#define AssertOidLocked(relation) Assert(contract_oid_locked(relation))

/* The caller is in a transaction: what is noted now has an end to wait for. */
#define AssertInTransaction()	Assert(IsTransactionState())

/*
 * What is between these must not fail, and so not allocate: in a critical
 * section the server looks after that.
 */
#ifdef USE_ASSERT_CHECKING
#define BEGIN_NO_FAILURE()	START_CRIT_SECTION()
#define END_NO_FAILURE()	END_CRIT_SECTION()
#else
#define BEGIN_NO_FAILURE()	((void) 0)
#define END_NO_FAILURE()	((void) 0)
#endif

#ifdef USE_ASSERT_CHECKING
static inline bool
contract_oid_locked(Oid relation)
{
	LOCKTAG		tag;

	SET_LOCKTAG_RELATION(tag, MyDatabaseId, relation);
	for (LOCKMODE mode = AccessShareLock; mode <= MaxLockMode; mode++)
	{
		if (fairq_lock_held_by_me(&tag, mode))
			return true;
	}
	return false;
}

/* This look at something large is one of those that are made. */
static inline bool
contract_is_due(uint32 *looks, uint32 every)
{
	return (*looks)++ % every == 0;
}
#endif

#endif							/* FAIRQ_CONTRACTS_H */
