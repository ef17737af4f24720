/*-------------------------------------------------------------------------
 *
 * database_worker.h
 *	  The process that maintains the queues of a database.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_DATABASE_WORKER_H
#define FAIRQ_DATABASE_WORKER_H

extern PGDLLEXPORT void database_worker_main(Datum arg);

#endif							/* FAIRQ_DATABASE_WORKER_H */
