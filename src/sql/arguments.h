/*-------------------------------------------------------------------------
 *
 * arguments.h
 *	  Reading and checking the arguments of SQL functions.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_ARGUMENTS_H
#define FAIRQ_ARGUMENTS_H

#include "fmgr.h"
#include "utils/uuid.h"

#include "shmem/sessions.h"
#include "storage/queue_catalog.h"
#include "verbs/claim.h"
#include "verbs/enqueue.h"

/* Tasks that fairq.peek() shows where no number is given. */
#define ARGUMENTS_PEEK_DEFAULT	10

/* Bytes. */
#define MAX_GROUP_KEY	1024
#define MAX_UNIQUE_KEY	1024

/* arguments.c */
extern const char *arguments_function(FunctionCallInfo fcinfo);
extern void arguments_require_preload(FunctionCallInfo fcinfo);
extern void arguments_begin(FunctionCallInfo fcinfo);
extern const char *arguments_call(FunctionCallInfo fcinfo);
extern const char *arguments_clip(const char *value, int len);
extern void arguments_null(FunctionCallInfo fcinfo, const char *argument,
						   const char *hint);
extern void arguments_invalid(FunctionCallInfo fcinfo, const char *argument,
							  const char *value, const char *hint);
extern void arguments_bad_length(FunctionCallInfo fcinfo, const char *argument,
								 int length, const char *hint);
extern text *arguments_queue(FunctionCallInfo fcinfo);
extern int64 arguments_id(FunctionCallInfo fcinfo);
extern int	arguments_queues(FunctionCallInfo fcinfo, text ***names);
extern void arguments_concern(const text *queue);
extern int64 arguments_duration(FunctionCallInfo fcinfo, int number, const char *argument,
								int64 fallback, bool zero_ok);
extern int	arguments_number(FunctionCallInfo fcinfo, int number, const char *argument,
							 int min, int max, const char *if_null);
extern int	arguments_max_tasks(FunctionCallInfo fcinfo, int number, int fallback);
extern SessionRef arguments_session(FunctionCallInfo fcinfo, int number);
extern void arguments_session_owner(const SessionInfo *session);
extern int	arguments_array(FunctionCallInfo fcinfo, int number, const char *argument,
							Oid type, Datum **elements, bool **nulls);
extern int	arguments_word(FunctionCallInfo fcinfo, int number, const char *argument,
						   const char *const *words, const char *hint);
extern pg_uuid_t *arguments_receipt(FunctionCallInfo fcinfo);
extern int	arguments_receipts(FunctionCallInfo fcinfo, int number, Datum **receipts);
extern void arguments_buckets(FunctionCallInfo fcinfo, int number, QueueInfo *info,
							  ClaimRequest *request);
extern void arguments_check_bytes(FunctionCallInfo fcinfo, const char *argument,
								  const text *value, int min, int max, const char *or);
extern text *arguments_group(FunctionCallInfo fcinfo, int number);
extern text *arguments_subgroup(FunctionCallInfo fcinfo);
extern void arguments_groups(FunctionCallInfo fcinfo, int number, ClaimRequest *request);
extern text *arguments_unique_key(FunctionCallInfo fcinfo, int number);
extern void arguments_outside_transaction(FunctionCallInfo fcinfo, const char *instead);

/* arguments_task.c */
extern bool arguments_on_duplicate(FunctionCallInfo fcinfo, int number);
extern float4 arguments_cost(FunctionCallInfo fcinfo, double cost);
extern int64 arguments_unique_for(FunctionCallInfo fcinfo, int number, bool has_keys);
extern void arguments_task(FunctionCallInfo fcinfo, int name, NewTask *task);
extern void arguments_check_task(FunctionCallInfo fcinfo, const QueueInfo *info,
								 NewTask *task);

/* sql_schedules.c: the tasks of schedules are checked as arguments are */
extern void sql_schedules_register(void);

#endif							/* FAIRQ_ARGUMENTS_H */
