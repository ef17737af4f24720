/*-------------------------------------------------------------------------
 *
 * node_probe.h
 *	  The process that finds out which servers of nodes answer.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_NODE_PROBE_H
#define FAIRQ_NODE_PROBE_H

extern PGDLLEXPORT void node_probe_main(Datum arg);
extern void node_probe_start(void);

#endif							/* FAIRQ_NODE_PROBE_H */
