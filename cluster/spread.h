/*-------------------------------------------------------------------------
 *
 * spread.h
 *	  Which nodes the tasks of a group go to.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_SPREAD_H
#define FAIRQ_SPREAD_H

#include "utils/array.h"
#include "utils/relcache.h"

#include "cluster/cluster_nodes.h"

/* The nodes that may get new tasks, while tasks of one queue are placed. */
typedef struct Spread
{
	const text *queue;
	Relation	table;			/* NULL: it says nothing of any queue */
	int			width;			/* of the queue */
	int			n;
	ClusterNode **nodes;
} Spread;

extern int	spread_candidates(ClusterNode ***result);
extern void spread_begin(Spread *spread, const text *queue);
extern int	spread_of_group(Spread *spread, const text *group, ClusterNode **nodes);
extern void spread_end(Spread *spread);
extern int	spread_nodes(const text *queue, const text *group, ClusterNode ***nodes);
extern bool spread_names(ArrayType *named, int number);
extern ArrayType *spread_numbers(ClusterNode **nodes, int n);
extern bool spread_has_parts(int n);
extern int	spread_of_topic(const text *group, ClusterNode ***nodes);
extern ClusterNode *spread_first(const text *value, ClusterNode **nodes, int n);
extern ClusterNode *spread_node_of_key(const text *queue, const text *key,
									   ClusterNode **nodes, int n);

/* fronts.c */
extern void fronts_put_first(const text *queue, ClusterNode **nodes, int n);
extern void fronts_note_claim(const text *queue, const ClusterNode *node);

#endif							/* FAIRQ_SPREAD_H */
