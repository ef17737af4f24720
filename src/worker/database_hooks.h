/*-------------------------------------------------------------------------
 *
 * database_hooks.h
 *	  What happens to tables and databases that concerns us.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_DATABASE_HOOKS_H
#define FAIRQ_DATABASE_HOOKS_H

extern void database_hooks_install(void);

#endif							/* FAIRQ_DATABASE_HOOKS_H */
