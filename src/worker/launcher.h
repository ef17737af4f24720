/*-------------------------------------------------------------------------
 *
 * launcher.h
 *	  The process that starts a worker for each database with the extension.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_LAUNCHER_H
#define FAIRQ_LAUNCHER_H

extern void launcher_register(void);
extern PGDLLEXPORT void launcher_main(Datum arg);

#endif							/* FAIRQ_LAUNCHER_H */
