/*-------------------------------------------------------------------------
 *
 * queue_admin.h
 *	  Creating, altering and dropping queues.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_QUEUE_ADMIN_H
#define FAIRQ_QUEUE_ADMIN_H

#include "storage/queue_settings.h"

extern void queue_admin_create(const text *name, const QueueSettings *settings,
							   bool if_not_exists);
extern void queue_admin_alter(const text *name, const QueueSettings *settings);
extern void queue_admin_require_subgroups(const QueueInfo *info);
extern void queue_admin_set_subgroups(const text *name, const QueueSettings *settings);
extern bool queue_admin_drop(const text *name);
extern QueueInfo *queue_admin_open(const text *name, Relation *rel);
extern uint64 queue_admin_execute(const char *command, int n, Oid *types,
								  Datum *values, const char *nulls);

#endif							/* FAIRQ_QUEUE_ADMIN_H */
