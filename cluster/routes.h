/*-------------------------------------------------------------------------
 *
 * routes.h
 *	  The ways that calls take to nodes.  Each is the body of SQL functions.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_ROUTES_H
#define FAIRQ_ROUTES_H

#include "datatype/timestamp.h"
#include "fmgr.h"
#include "utils/array.h"
#include "utils/uuid.h"

#include "cluster/node_call.h"

/* route.c: what they share */
extern void route_begin(FunctionCallInfo fcinfo, NodeCall *call, bool writes);
extern Datum route_end(FunctionCallInfo fcinfo, Datum value, bool isnull);
extern void route_put_rows(FunctionCallInfo fcinfo);
extern Datum route_answer(FunctionCallInfo fcinfo, NodeCall *call);
extern NodeAnswer route_try(NodeCall *call, ClusterNode **nodes, int n, ErrorData **error);
extern Datum route_first(FunctionCallInfo fcinfo, NodeCall *call, ClusterNode **nodes, int n);
extern Datum route_any_node(FunctionCallInfo fcinfo, NodeCall *call);
extern int	route_node_of_uuid(const pg_uuid_t *uuid);
extern char *route_name_nodes(List *numbers);
extern void route_warn_missing(List *numbers);
extern int64 route_waits(const Interval *interval);
extern int64 route_slice(int64 waited);
extern void route_rest(int64 usecs);
extern void route_unsupported(FunctionCallInfo fcinfo, const char *why, const char *hint);

/*
 * Arrays of a call that are divided between nodes: each has an element for each
 * of n tasks or receipts, or a single one, for all.
 */
#define DIVIDED_ARGUMENTS	11

typedef struct Divided
{
	int			n;
	int			lengths[DIVIDED_ARGUMENTS];
	Datum	   *values[DIVIDED_ARGUMENTS];	/* NULL: not given */
	bool	   *nulls[DIVIDED_ARGUMENTS];
	Oid			types[DIVIDED_ARGUMENTS];
	ClusterNode **nodes;		/* of each element; NULL: none, or done with */
} Divided;

extern void route_read_array(Divided *divided, int number, ArrayType *array);
extern void route_set_part(NodeCall *call, const Divided *divided, ClusterNode *node);

/* route_produce.c */
extern Datum route_enqueue(FunctionCallInfo fcinfo);
extern Datum route_enqueue_many(FunctionCallInfo fcinfo);
extern Datum route_publish(FunctionCallInfo fcinfo);

/* route_claim.c */
extern Datum route_claim(FunctionCallInfo fcinfo);
extern Datum route_pop(FunctionCallInfo fcinfo);
extern Datum route_claim_any(FunctionCallInfo fcinfo);
extern Datum route_ack_and_claim(FunctionCallInfo fcinfo);
extern Datum route_open_session(FunctionCallInfo fcinfo);

/* route_settle.c */
extern Datum route_by_uuid(FunctionCallInfo fcinfo);
extern Datum route_by_receipts(FunctionCallInfo fcinfo);
extern bool route_ack_many(ArrayType *receipts);

/* route_look.c */
extern Datum route_by_id(FunctionCallInfo fcinfo, bool writes, int64 waits);
extern Datum route_await(FunctionCallInfo fcinfo);
extern Datum route_position(FunctionCallInfo fcinfo);
extern Datum route_peek(FunctionCallInfo fcinfo);
extern Datum route_all_rows(FunctionCallInfo fcinfo);
extern Datum route_view(FunctionCallInfo fcinfo);

/* route_administer.c */
extern Datum route_everywhere(FunctionCallInfo fcinfo, bool locked);
extern Datum route_create_queue(FunctionCallInfo fcinfo);
extern bool route_lock_nodes(void);
extern void route_let_nodes_go(bool locked);
extern Datum route_at_number(FunctionCallInfo fcinfo, int64 wait,
							 void (*make) (NodeCall *call, ClusterNode *node));
extern Datum route_place_task(FunctionCallInfo fcinfo);
extern Datum route_my_buckets(FunctionCallInfo fcinfo);

/* route_wait.c */
extern Datum route_wait(FunctionCallInfo fcinfo);
extern Datum route_wait_any(FunctionCallInfo fcinfo);

/* route_worker.c */
extern Datum route_worker_node(FunctionCallInfo fcinfo);

/* route_schedule.c */
extern Datum route_schedule(FunctionCallInfo fcinfo);
extern Datum route_unschedule(FunctionCallInfo fcinfo);
extern Datum route_place_schedule(FunctionCallInfo fcinfo);

/* route_limits.c */
extern Datum route_set_limits(FunctionCallInfo fcinfo, int group, int number);

#endif							/* FAIRQ_ROUTES_H */
