/*-------------------------------------------------------------------------
 *
 * queue_open.h
 *	  Opening queues.
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

extern void queue_open_register(void);
extern AclMode queue_open_missing(Oid relation, AclMode rights);
extern void queue_open_unknown(const char *name);
extern QueueInfo *queue_open(const text *name, LOCKMODE lockmode,
							 AclMode rights, Relation *rel);
extern QueueInfo *queue_open_relation(Oid relation, LOCKMODE lockmode,
									  AclMode rights, Relation *rel);
extern bool queue_open_is_known(Oid relation);

#endif							/* FAIRQ_QUEUE_OPEN_H */
