/*-------------------------------------------------------------------------
 *
 * class_shares.c
 *	  Priority classes that share a queue by weights.
 *
 * Without class_weights a lower class goes first for as long as it has work.
 * With them classes are served as groups are, by start-time fair queueing
 * (Goyal, Vin and Cheng 1996) one level up: the class with the least start tag
 * is next, and its tag moves on by the cost of what it was served, divided by
 * its weight.  A class that had nothing starts at virtual time, which is the
 * tag of the class that was served last.  So between two classes that both
 * have work, what they were served for their weights differs by no more than
 * one task of each, and by what other claims have in hand.
 *
 * A turn is charged when it begins, by the class's usual cost, or claims that
 * come at once would all turn to one class; what it took is put right when it
 * ends.  A claim that fails in between has charged its class for nothing, once.
 * Nothing of this is kept over a restart: all classes begin level.
 *
 * Locking: the mutex guards all of ClassShares, and is held for some
 * instructions.  Nothing is locked under it.  No function here fails.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "shmem/queue_state.h"

/* Tags are moved back from here, so that a small charge still moves them. */
#define REBASE_AT		1e9

/* Of what a turn's tasks cost, how much goes into what the next is charged. */
#define NEW_COST		0.25

/*
 * Set up the shares of a queue that is being made: all classes are level, and a
 * task usually costs 1.  The queue is not yet found by others.
 */
void
class_shares_init(ClassShares *shares)
{
	SpinLockInit(&shares->mutex);
	shares->time = 0;
	for (int i = 0; i < FAIRQ_CLASSES; i++)
	{
		shares->tags[i] = 0;
		shares->costs[i] = 1;
	}
}

/*
 * Give a turn to the class that is to be served next, of those in the bitmap
 * classes: to up to max tasks, but not so many that another of them would have
 * been next meanwhile.  weights are those of all classes, above zero.  Returns
 * false if the bitmap is empty, and *turn is of no class.
 *
 * The class is charged for turn->most tasks of its usual cost.  The caller
 * says with class_shares_end what came of it.
 */
bool
class_shares_begin(ClassShares *shares, const double *weights, uint32 classes, int max,
				   ClassTurn *turn)
{
	double		least = INFINITY;
	double		next = INFINITY;	/* of the others */
	double		step;

	Assert(max > 0);
	turn->class = -1;
	SpinLockAcquire(&shares->mutex);
	for (int i = 0; i < FAIRQ_CLASSES; i++)
	{
		double		tag = Max(shares->tags[i], shares->time);

		if ((classes & (1 << i)) == 0)
			continue;
		if (tag < least)
		{
			next = least;
			least = tag;
			turn->class = i;
		}
		else
			next = Min(next, tag);
	}
	if (turn->class >= 0)
	{
		turn->weight = weights[turn->class];
		Assert(turn->weight > 0);
		step = shares->costs[turn->class] / turn->weight;
		turn->most = (int) Max(1, Min(ceil((next - least) / step), max));
		turn->charged = turn->most * step;
		turn->start = least;
		shares->time = least;
		shares->tags[turn->class] = least + turn->charged;
		/* Tags are differences only: let virtual time begin again. */
		for (int i = 0; i < FAIRQ_CLASSES && shares->time > REBASE_AT; i++)
			shares->tags[i] = Max(shares->tags[i] - shares->time, 0);
		if (shares->time > REBASE_AT)
			shares->time = 0;
	}
	SpinLockRelease(&shares->mutex);
	return turn->class >= 0;
}

/*
 * A turn has ended: so many tasks were served, which cost so much in all,
 * before it is divided by the weight.  The class is charged that, and not what
 * class_shares_begin charged it.  To be called once for a turn.
 */
void
class_shares_end(ClassShares *shares, const ClassTurn *turn, int served, double cost)
{
	double	   *tag = &shares->tags[turn->class];
	double	   *usual = &shares->costs[turn->class];

	Assert(served >= 0 && cost >= 0);
	SpinLockAcquire(&shares->mutex);
	*tag = Max(*tag + cost / turn->weight - turn->charged, 0);
	if (served > 0 && cost > 0)
	{
		/* Virtual time is where the last began, unless it has begun anew. */
		if (turn->start <= shares->time)
			shares->time = Max(shares->time, turn->start +
							   cost / turn->weight * (served - 1) / served);
		*usual += NEW_COST * (cost / served - *usual);
	}
	SpinLockRelease(&shares->mutex);
}
