/*-------------------------------------------------------------------------
 *
 * cluster_functions.c
 *	  The SQL functions of pgfairq_cluster that an application calls, and the
 *	  way that each takes to the nodes.
 *
 * They have the names and arguments of the functions of pgfairq, of which
 * sql/cluster makes them.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "fmgr.h"

#include "cluster/routes.h"

#define ROUTED(name, way) \
	PG_FUNCTION_INFO_V1(fairq_cluster_##name); \
	Datum \
	fairq_cluster_##name(PG_FUNCTION_ARGS) \
	{ \
		return way; \
	} \
	extern int	no_such_variable

/* To the nodes of the group, or of the key. */
ROUTED(enqueue, route_enqueue(fcinfo));
ROUTED(enqueue_many, route_enqueue_many(fcinfo));
ROUTED(publish, route_publish(fcinfo));

/* To one node after the other. */
ROUTED(claim, route_claim(fcinfo));
ROUTED(claim_any, route_claim_any(fcinfo));
ROUTED(ack_and_claim, route_ack_and_claim(fcinfo));
ROUTED(pop, route_pop(fcinfo));
ROUTED(open_session, route_open_session(fcinfo));
ROUTED(peek, route_peek(fcinfo));

/* To the node of the receipt, or the session. */
ROUTED(ack, route_by_uuid(fcinfo));
ROUTED(nack, route_by_uuid(fcinfo));
ROUTED(release, route_by_uuid(fcinfo));
ROUTED(extend, route_by_uuid(fcinfo));
ROUTED(set_progress, route_by_uuid(fcinfo));
ROUTED(heartbeat, route_by_uuid(fcinfo));
ROUTED(close_session, route_by_uuid(fcinfo));

/* To the nodes of the receipts. */
ROUTED(ack_many, route_by_receipts(fcinfo));
ROUTED(nack_many, route_by_receipts(fcinfo));
ROUTED(release_many, route_by_receipts(fcinfo));
ROUTED(extend_many, route_by_receipts(fcinfo));

/* To the node of the id. */
ROUTED(get_task, route_by_id(fcinfo, false, 0));
ROUTED(get_task_position, route_position(fcinfo));
ROUTED(await, route_await(fcinfo));
ROUTED(cancel, route_by_id(fcinfo, true, 0));
ROUTED(revive, route_by_id(fcinfo, true, 0));

/* To all nodes: their rows, or their sum, or nothing. */
ROUTED(tasks, route_all_rows(fcinfo));
ROUTED(get_task_by_key, route_all_rows(fcinfo));
ROUTED(get_done_task, route_all_rows(fcinfo));
ROUTED(rows_of_view, route_view(fcinfo));
ROUTED(revive_group, route_everywhere(fcinfo, false));
ROUTED(revive_all, route_everywhere(fcinfo, false));
ROUTED(purge, route_everywhere(fcinfo, false));
ROUTED(purge_group, route_everywhere(fcinfo, false));
ROUTED(forget_keys, route_everywhere(fcinfo, false));
ROUTED(maintain, route_everywhere(fcinfo, false));
ROUTED(create_queue, route_create_queue(fcinfo));
ROUTED(alter_queue, route_everywhere(fcinfo, true));
ROUTED(drop_queue, route_everywhere(fcinfo, true));
ROUTED(pause, route_everywhere(fcinfo, true));
ROUTED(resume, route_everywhere(fcinfo, true));
ROUTED(pause_group, route_everywhere(fcinfo, true));
ROUTED(resume_group, route_everywhere(fcinfo, true));
ROUTED(set_group, route_set_limits(fcinfo, 1, 3));
ROUTED(reset_group, route_everywhere(fcinfo, true));
ROUTED(set_group_defaults, route_set_limits(fcinfo, -1, 2));
ROUTED(set_subgroup, route_everywhere(fcinfo, true));
ROUTED(set_subgroup_defaults, route_everywhere(fcinfo, true));
ROUTED(subscribe, route_everywhere(fcinfo, true));
ROUTED(unsubscribe, route_everywhere(fcinfo, true));
ROUTED(forget_key, route_everywhere(fcinfo, true));
ROUTED(reset_stats, route_everywhere(fcinfo, true));
ROUTED(schedule, route_schedule(fcinfo));
ROUTED(unschedule, route_unschedule(fcinfo));

/* To one by its number: of administration, for functions with a twin each. */
ROUTED(of_node, route_at_number(fcinfo, NODE_CALL_LONG, node_call_at));
ROUTED(look_at_node, route_at_number(fcinfo, 0, node_call_at));
ROUTED(of_server, route_at_number(fcinfo, 0, node_call_of_server));
ROUTED(place_task, route_place_task(fcinfo));
ROUTED(place_schedule, route_place_schedule(fcinfo));

/* To one node after the other, for a slice of time each. */
ROUTED(wait, route_wait(fcinfo));
ROUTED(wait_any, route_wait_any(fcinfo));

/* To all nodes, of which one is chosen. */
ROUTED(attended_node, route_worker_node(fcinfo));

/* To none. */
ROUTED(my_buckets, route_my_buckets(fcinfo));
