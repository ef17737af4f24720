/*-------------------------------------------------------------------------
 *
 * class_shares.h
 *	  Priority classes that share a queue by weights.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_CLASS_SHARES_H
#define FAIRQ_CLASS_SHARES_H

#include "shmem/queue_state.h"

/* A turn that a class was given: the claim's own copy. */
typedef struct ClassTurn
{
	int			class;
	int			most;			/* tasks that it may take */
	double		weight;
	double		start;			/* its tag */
	double		charged;		/* in advance */
} ClassTurn;

extern void class_shares_init(ClassShares *shares);
extern bool class_shares_begin(ClassShares *shares, const double *weights,
							   uint32 classes, int max, ClassTurn *turn);
extern void class_shares_end(ClassShares *shares, const ClassTurn *turn, int served,
							 double cost);

#endif							/* FAIRQ_CLASS_SHARES_H */
