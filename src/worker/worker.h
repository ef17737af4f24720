/*-------------------------------------------------------------------------
 *
 * worker.h
 *	  The background processes, and what the worker of a database does.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_WORKER_H
#define FAIRQ_WORKER_H

#include "datatype/timestamp.h"
#include "storage/queue_catalog.h"

/* launcher.c */
extern void launcher_register(void);
extern PGDLLEXPORT void launcher_main(Datum arg);

/* database_worker.c */
extern PGDLLEXPORT void database_worker_main(Datum arg);

/* database_hooks.c */
extern void database_hooks_install(void);

/* queue_passes.c */
extern void queue_passes_begin(void);
extern TimestampTz queue_passes_run(Oid relation);
extern void queue_passes_retry(void);

/* queue_reader.c */
extern bool queue_reader_reads(Relation rel, QueueInfo *info);
extern void queue_reader_end(void);
extern PGDLLEXPORT void queue_reader_main(Datum arg);

/* schedule_worker.c */
extern void schedule_worker_begin(void);
extern TimestampTz schedule_worker_run(int slot);

/* lease_handover.c */
extern void lease_handover_begin(void);

#endif							/* FAIRQ_WORKER_H */
