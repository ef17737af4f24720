/*-------------------------------------------------------------------------
 *
 * moved_functions.c
 *	  Functions that SQL of version 0.2.0 looks for here, and that are in the
 *	  library pgfairq_cluster since.
 *
 * A proxy has that SQL until it is updated, and pg_upgrade creates it with the
 * libraries as they are now.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "fmgr.h"

/* Call it there.  Where it is is looked up once in a process. */
static Datum
call_moved(FunctionCallInfo fcinfo, const char *name, PGFunction *function)
{
	if (*function == NULL)
		*function = load_external_function("$libdir/pgfairq_cluster", name, true, NULL);
	return (*function) (fcinfo);
}

#define MOVED(name) \
	PG_FUNCTION_INFO_V1(name); \
	Datum \
	name(PG_FUNCTION_ARGS) \
	{ \
		static PGFunction function = NULL; \
		\
		return call_moved(fcinfo, #name, &function); \
	} \
	extern int	no_such_variable

MOVED(fairq_cluster_ack);
MOVED(fairq_cluster_ack_and_claim);
MOVED(fairq_cluster_ack_many);
MOVED(fairq_cluster_alter_queue);
MOVED(fairq_cluster_await);
MOVED(fairq_cluster_cancel);
MOVED(fairq_cluster_claim);
MOVED(fairq_cluster_claim_any);
MOVED(fairq_cluster_close_session);
MOVED(fairq_cluster_create_queue);
MOVED(fairq_cluster_drop_queue);
MOVED(fairq_cluster_enqueue);
MOVED(fairq_cluster_enqueue_many);
MOVED(fairq_cluster_extend);
MOVED(fairq_cluster_extend_many);
MOVED(fairq_cluster_forget_key);
MOVED(fairq_cluster_forget_keys);
MOVED(fairq_cluster_get_done_task);
MOVED(fairq_cluster_get_task);
MOVED(fairq_cluster_get_task_by_key);
MOVED(fairq_cluster_get_task_position);
MOVED(fairq_cluster_heartbeat);
MOVED(fairq_cluster_maintain);
MOVED(fairq_cluster_my_buckets);
MOVED(fairq_cluster_nack);
MOVED(fairq_cluster_nack_many);
MOVED(fairq_cluster_of_node);
MOVED(fairq_cluster_of_server);
MOVED(fairq_cluster_open_session);
MOVED(fairq_cluster_pause);
MOVED(fairq_cluster_pause_group);
MOVED(fairq_cluster_peek);
MOVED(fairq_cluster_place_schedule);
MOVED(fairq_cluster_place_task);
MOVED(fairq_cluster_pop);
MOVED(fairq_cluster_publish);
MOVED(fairq_cluster_purge);
MOVED(fairq_cluster_purge_group);
MOVED(fairq_cluster_release);
MOVED(fairq_cluster_release_many);
MOVED(fairq_cluster_reset_group);
MOVED(fairq_cluster_reset_stats);
MOVED(fairq_cluster_resume);
MOVED(fairq_cluster_resume_group);
MOVED(fairq_cluster_revive);
MOVED(fairq_cluster_revive_all);
MOVED(fairq_cluster_revive_group);
MOVED(fairq_cluster_rows_of_view);
MOVED(fairq_cluster_schedule);
MOVED(fairq_cluster_set_group);
MOVED(fairq_cluster_set_group_defaults);
MOVED(fairq_cluster_set_progress);
MOVED(fairq_cluster_subscribe);
MOVED(fairq_cluster_tasks);
MOVED(fairq_cluster_unschedule);
MOVED(fairq_cluster_unsubscribe);
MOVED(fairq_cluster_wait);
MOVED(fairq_cluster_wait_any);
MOVED(fairq_nodes_of_group);
