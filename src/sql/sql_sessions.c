/*-------------------------------------------------------------------------
 *
 * sql_sessions.c
 *	  The functions of schema fairq about sessions.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/relation.h"
#include "catalog/pg_authid_d.h"
#include "catalog/pg_type_d.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"
#include "utils/uuid.h"

#include "shmem/leases.h"
#include "shmem/sessions.h"
#include "sql/arguments.h"
#include "sql/result_rows.h"
#include "storage/node_table.h"
#include "storage/queue_open.h"
#include "verbs/settle.h"
#include "xact/pending_queue.h"

PG_FUNCTION_INFO_V1(fairq_open_session);
PG_FUNCTION_INFO_V1(fairq_heartbeat);
PG_FUNCTION_INFO_V1(fairq_close_session);
PG_FUNCTION_INFO_V1(fairq_my_buckets);
PG_FUNCTION_INFO_V1(fairq_open_sessions);

static pg_uuid_t *
session_argument(FunctionCallInfo fcinfo, int number)
{
	if (PG_ARGISNULL(number))
		arguments_null(fcinfo, "session",
					   "Give the session that fairq.open_session() returned.");
	return PG_GETARG_UUID_P(number);
}

/*
 * fairq.open_session(name, ttl, bound)
 */
Datum
fairq_open_session(PG_FUNCTION_ARGS)
{
	char	   *name = PG_ARGISNULL(0) ? "" : text_to_cstring(PG_GETARG_TEXT_PP(0));
	pg_uuid_t  *uuid = palloc(sizeof(pg_uuid_t));
	SessionRef	session;
	int64		ttl;
	bool		own_node;

	arguments_begin(fcinfo);
	proxy_calls_check_new(false);
	if (strlen(name) >= NAMEDATALEN)
		arguments_bad_length(fcinfo, "name", (int) strlen(name),
							 psprintf("It may have %d bytes.", NAMEDATALEN - 1));
	ttl = arguments_duration(fcinfo, 1, "ttl", 10 * USECS_PER_SEC, false);
	sessions_open(name, ttl, !PG_ARGISNULL(2) && PG_GETARG_BOOL(2),
				  node_table_read(&own_node), &session);
	sessions_to_uuid(&session, uuid);
	PG_RETURN_UUID_P(uuid);
}

/*
 * fairq.heartbeat(session)
 */
Datum
fairq_heartbeat(PG_FUNCTION_ARGS)
{
	SessionInfo session;

	arguments_require_preload(fcinfo);
	if (!sessions_find(session_argument(fcinfo, 0), &session))
		PG_RETURN_BOOL(false);
	arguments_session_owner(&session);
	PG_RETURN_BOOL(sessions_heartbeat(&session.ref));
}

/*
 * fairq.close_session(session)
 */
Datum
fairq_close_session(PG_FUNCTION_ARGS)
{
	SessionInfo session;
	Settlement	settlement;
	LeaseRef   *leases;
	int			n;
	int			released = 0;

	arguments_begin(fcinfo);
	if (!sessions_find(session_argument(fcinfo, 0), &session))
		PG_RETURN_INT32(0);
	arguments_session_owner(&session);

	n = leases_of_session(&session.ref, &leases);
	settle_begin(&settlement, SETTLE_RELEASE);
	for (int i = 0; i < n; i++)
		released += settle_lease(&settlement, &leases[i]);
	settle_end(&settlement);
	pending_session_closed(&session.ref);
	PG_RETURN_INT32(released);
}

/*
 * fairq.my_buckets(queue, session)
 */
Datum
fairq_my_buckets(PG_FUNCTION_ARGS)
{
	Relation	rel;
	QueueInfo  *info;
	uint32		session;
	int		   *buckets;
	Datum	   *values;
	int			n;

	arguments_begin(fcinfo);
	info = queue_open(arguments_queue(fcinfo), AccessShareLock,
					  ACL_SELECT, &rel);
	(void) session_argument(fcinfo, 1);
	session = arguments_session(fcinfo, 1).number;
	buckets = palloc(info->buckets * sizeof(int));
	n = sessions_deal(info->state, info->buckets, session, buckets);
	if (n < 0)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("too many sessions own buckets"),
				 errhint("Close sessions, or claim without buckets.")));
	values = palloc((n + 1) * sizeof(Datum));
	for (int i = 0; i < n; i++)
		values[i] = Int32GetDatum(buckets[i]);
	relation_close(rel, NoLock);
	PG_RETURN_ARRAYTYPE_P(result_rows_array(values, n, INT4OID));
}

/*
 * fairq_internal.open_sessions(): what is behind the view fairq.sessions.
 */
Datum
fairq_open_sessions(PG_FUNCTION_ARGS)
{
	SessionInfo *sessions;
	TimestampTz now = GetCurrentTimestamp();
	int			n;

	arguments_require_preload(fcinfo);
	InitMaterializedSRF(fcinfo, 0);
	n = sessions_list(&sessions);
	for (int i = 0; i < n; i++)
	{
		SessionInfo *session = &sessions[i];
		ResultRow	row = {0};
		pg_uuid_t	uuid;

		/* One that is over and has no leases is about to be forgotten. */
		if (session->deadline <= now && session->leases == 0)
			continue;
		if (session->database != MyDatabaseId ||
			(!has_privs_of_role(GetUserId(), session->role) &&
			 !has_privs_of_role(GetUserId(), ROLE_PG_MONITOR)))
			continue;
		sessions_to_uuid(&session->ref, &uuid);
		result_rows_add(&row, UUIDPGetDatum(&uuid));
		result_rows_add_if(&row, session->name[0] != '\0', CStringGetTextDatum(session->name));
		result_rows_add(&row, ObjectIdGetDatum(session->role));
		result_rows_add(&row, TimestampTzGetDatum(session->opened_at));
		result_rows_add_usecs(&row, true, session->ttl);
		/* Null if it is over. */
		result_rows_add_if(&row, session->deadline > now, TimestampTzGetDatum(session->deadline));
		result_rows_add(&row, BoolGetDatum(session->bound));
		result_rows_add(&row, Int32GetDatum(session->pid));
		result_rows_add(&row, Int32GetDatum(session->leases));
		result_rows_add_if(&row, session->client[0] != '\0', CStringGetTextDatum(session->client));
		result_rows_add(&row, BoolGetDatum(quarantine_is_on(session->ref.number)));
		result_rows_end(&row, (ReturnSetInfo *) fcinfo->resultinfo);
	}
	return (Datum) 0;
}
