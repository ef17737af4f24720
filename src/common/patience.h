/*-------------------------------------------------------------------------
 *
 * patience.h
 *	  How long the worker waits for others in one piece of work.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_PATIENCE_H
#define FAIRQ_PATIENCE_H

#include "datatype/timestamp.h"
#include "utils/elog.h"

/* Owner's code that goes on after it was cancelled is not run for so long. */
#define PATIENCE_REST_USECS		(300 * USECS_PER_SEC)

extern void patience_register(void);
extern void patience_begin(void);
extern void patience_end(void);
extern void patience_of(TimestampTz *rests_until);
extern bool patience_lost(void);
extern bool patience_gave_up(void);
extern void patience_own_work(bool own);
extern void patience_explain(ErrorData *error);

#endif							/* FAIRQ_PATIENCE_H */
