/*-------------------------------------------------------------------------
 *
 * sql_schedules.h
 *	  The functions of schema fairq about schedules.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_SQL_SCHEDULES_H
#define FAIRQ_SQL_SCHEDULES_H

extern void sql_schedules_register(void);

#endif							/* FAIRQ_SQL_SCHEDULES_H */
