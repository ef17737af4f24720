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

#define ROUTED(name, route) \
	PG_FUNCTION_INFO_V1(fairq_cluster_##name); \
	Datum \
	fairq_cluster_##name(PG_FUNCTION_ARGS) \
	{ \
		return route(fcinfo); \
	} \
	extern int	no_such_variable

/* To the nodes of the group, or of the key. */
ROUTED(enqueue, route_enqueue);
ROUTED(enqueue_many, route_enqueue_many);
ROUTED(publish, route_publish);

/* To one node after the other. */
ROUTED(claim, route_claim);
ROUTED(claim_any, route_claim_any);
ROUTED(ack_and_claim, route_ack_and_claim);
ROUTED(pop, route_pop);
ROUTED(open_session, route_open_session);
ROUTED(peek, route_peek);

/* To the node of the receipt, or the session. */
ROUTED(ack, route_by_uuid);
ROUTED(nack, route_by_uuid);
ROUTED(release, route_by_uuid);
ROUTED(extend, route_by_uuid);
ROUTED(set_progress, route_by_uuid);
ROUTED(heartbeat, route_by_uuid);
ROUTED(close_session, route_by_uuid);

/* To the nodes of the receipts. */
ROUTED(ack_many, route_by_receipts);
ROUTED(nack_many, route_by_receipts);
ROUTED(release_many, route_by_receipts);
ROUTED(extend_many, route_by_receipts);

/* To the node of the id. */
ROUTED(get_task, route_look_by_id);
ROUTED(get_task_position, route_position);
ROUTED(await, route_await);
ROUTED(cancel, route_by_id);
ROUTED(revive, route_by_id);

/* To all nodes: their rows, or their sum, or nothing. */
ROUTED(tasks, route_all_rows);
ROUTED(get_task_by_key, route_all_rows);
ROUTED(get_done_task, route_all_rows);
ROUTED(rows_of_view, route_view);
ROUTED(revive_group, route_sum);
ROUTED(revive_all, route_sum);
ROUTED(purge, route_sum);
ROUTED(purge_group, route_sum);
ROUTED(forget_keys, route_sum);
ROUTED(maintain, route_sum);
ROUTED(create_queue, route_create_queue);
ROUTED(alter_queue, route_everywhere);
ROUTED(drop_queue, route_everywhere);
ROUTED(pause, route_everywhere);
ROUTED(resume, route_everywhere);
ROUTED(pause_group, route_everywhere);
ROUTED(resume_group, route_everywhere);
ROUTED(set_group, route_set_group);
ROUTED(reset_group, route_everywhere);
ROUTED(set_group_defaults, route_set_group_defaults);
ROUTED(pause_subgroup, route_everywhere);
ROUTED(resume_subgroup, route_everywhere);
ROUTED(set_subgroup, route_everywhere);
ROUTED(reset_subgroup, route_everywhere);
ROUTED(set_subgroup_defaults, route_everywhere);
ROUTED(subscribe, route_everywhere);
ROUTED(unsubscribe, route_everywhere);
ROUTED(forget_key, route_everywhere);
ROUTED(reset_stats, route_everywhere);
ROUTED(schedule, route_schedule);
ROUTED(unschedule, route_unschedule);

/* To one by its number: of administration, for functions with a twin each. */
ROUTED(of_node, route_of_node);
ROUTED(look_at_node, route_look_at_node);
ROUTED(of_server, route_of_server);
ROUTED(place_task, route_place_task);
ROUTED(place_schedule, route_place_schedule);

/* To one node after the other, for a slice of time each. */
ROUTED(wait, route_wait);
ROUTED(wait_any, route_wait_any);

/* To all nodes, of which one is chosen. */
ROUTED(attended_node, route_worker_node);

/* To none. */
ROUTED(my_buckets, route_my_buckets);
