/*-------------------------------------------------------------------------
 *
 * queue_admin.h
 *	  Creating, altering and dropping queues; what groups and subgroups are given,
 *	  and that it is taken away; giving this database its number as a node.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_QUEUE_ADMIN_H
#define FAIRQ_QUEUE_ADMIN_H

#include "storage/queue_settings.h"

/* queue_admin.c */
extern void queue_admin_create(const text *name, const QueueSettings *settings,
							   bool if_not_exists);
extern void queue_admin_alter(const text *name, const QueueSettings *settings, bool divided);
extern bool queue_admin_drop(const text *name);
extern QueueInfo *queue_admin_open(const text *name, bool divided, Relation *rel);
extern uint64 queue_admin_execute(const char *command, int n, Oid *types,
								  Datum *values, const char *nulls);

/* group_admin.c */
extern bool group_admin_set(const text *queue, const text *group, const text *subgroup,
							const QueueSettings *settings);

/* node_admin.c */
extern void node_admin_set(int node, bool force);

#endif							/* FAIRQ_QUEUE_ADMIN_H */
