/*-------------------------------------------------------------------------
 *
 * queue_open.h
 *	  Opening queues, and whether the SQL of this database is of the library's
 *	  version.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_QUEUE_OPEN_H
#define FAIRQ_QUEUE_OPEN_H

#include "storage/queue_catalog.h"

/*
 * In place of privileges: only the owner may.  A bit that no privilege on a
 * table has.
 */
#define QUEUE_OWNER		((AclMode) 1 << 31)

/* queue_open.c */
extern void queue_open_register(void);
extern AclMode queue_open_missing(Oid relation, AclMode rights);
extern void queue_open_unknown(const char *name);
extern QueueInfo *queue_open(const text *name, LOCKMODE lockmode,
							 AclMode rights, Relation *rel);
extern QueueInfo *queue_open_relation(Oid relation, LOCKMODE lockmode,
									  AclMode rights, Relation *rel);
extern bool queue_open_is_known(Oid relation);

/* extension_version.c */
extern bool extension_version_is_ours;	/* found out, and nothing has changed
										 * since */

extern void extension_version_register(void);
extern bool extension_version_matches(int elevel);
extern void extension_version_altered(Oid extension);

/*
 * Raise an error unless the SQL is of the library's version (55000).
 */
static inline void
extension_version_require(void)
{
	if (unlikely(!extension_version_is_ours))
		(void) extension_version_matches(ERROR);
}

#endif							/* FAIRQ_QUEUE_OPEN_H */
