/*-------------------------------------------------------------------------
 *
 * settings.h
 *	  The settings pgfairq.*, and those of the server that its worker overrides.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_SETTINGS_H
#define FAIRQ_SETTINGS_H

extern int	settings_max_queues;
extern int	settings_max_lanes;
extern int	settings_max_groups;
extern int	settings_max_limits;
extern int	settings_max_leases;
extern int	settings_max_sessions;
extern int	settings_max_workers;
extern int	settings_max_names;
extern int	settings_sweep_interval;	/* milliseconds; 0: off */
extern int	settings_max_schedules;

extern void settings_define(void);
extern void settings_of_worker(void);

#endif							/* FAIRQ_SETTINGS_H */
