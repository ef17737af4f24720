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

extern void queue_open_register(void);
extern QueueInfo *queue_open(const text *name, LOCKMODE lockmode,
							 AclMode privileges, Relation *rel);
extern QueueInfo *queue_open_relation(Oid relation, LOCKMODE lockmode,
									  AclMode privileges, Relation *rel);

#endif							/* FAIRQ_QUEUE_OPEN_H */
