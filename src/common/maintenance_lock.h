/*-------------------------------------------------------------------------
 *
 * maintenance_lock.h
 *	  The lock that whoever makes a pass over a queue has.
 *
 * It is an object lock on a part of the queue's table that no table has.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_MAINTENANCE_LOCK_H
#define FAIRQ_MAINTENANCE_LOCK_H

#include "catalog/pg_class.h"
#include "miscadmin.h"
#include "storage/lock.h"

#include "common/compat.h"

static inline void
maintenance_lock_tag(Oid relation, LOCKTAG *tag)
{
	SET_LOCKTAG_OBJECT(*tag, MyDatabaseId, RelationRelationId, relation, PG_UINT16_MAX);
}

/* Is it this process that makes a pass over the queue of a table? */
static inline bool
maintenance_lock_held(Oid relation)
{
	LOCKTAG		tag;

	maintenance_lock_tag(relation, &tag);
	return fairq_lock_held_by_me(&tag, ExclusiveLock);
}

#define AssertMaintenanceLocked(rel) Assert(maintenance_lock_held(RelationGetRelid(rel)))

#endif							/* FAIRQ_MAINTENANCE_LOCK_H */
