/*-------------------------------------------------------------------------
 *
 * fronts.h
 *	  How far each node has got with a queue, as a claim last heard.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_FRONTS_H
#define FAIRQ_FRONTS_H

#include "cluster/cluster_nodes.h"

extern void fronts_put_first(const text *queue, ClusterNode **nodes, int n);
extern void fronts_note_claim(const text *queue, const ClusterNode *node);

#endif							/* FAIRQ_FRONTS_H */
