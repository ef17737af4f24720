/*-------------------------------------------------------------------------
 *
 * count_dependencies.h
 *	  Counting which tasks others wait for.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_COUNT_DEPENDENCIES_H
#define FAIRQ_COUNT_DEPENDENCIES_H

#include "verbs/pass.h"

extern void count_dependencies(Pass *pass);

#endif							/* FAIRQ_COUNT_DEPENDENCIES_H */
