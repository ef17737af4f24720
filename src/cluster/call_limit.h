/*-------------------------------------------------------------------------
 *
 * call_limit.h
 *	  How long a call at a node may take, and how it ends before that.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_CALL_LIMIT_H
#define FAIRQ_CALL_LIMIT_H

#include "utils/elog.h"

/* What has ended a call. */
typedef enum CallEnd
{
	CALL_ENDED,					/* it has: with an answer, or its own error */
	CALL_TOO_LONG,				/* its time is over */
	CALL_SILENT,				/* the server does not answer the probe */
	CALL_CANCELLED				/* the statement is cancelled */
} CallEnd;

/* No limit. */
#define CALL_UNLIMITED	(-1)

extern ErrorData *call_limit_run(void (*work) (void *arg), void *arg, int server, int64 msecs,
								 CallEnd *end);

#endif							/* FAIRQ_CALL_LIMIT_H */
