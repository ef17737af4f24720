/*-------------------------------------------------------------------------
 *
 * engine_link.h
 *	  The library pgfairq, as the library of a proxy finds it.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_ENGINE_LINK_H
#define FAIRQ_ENGINE_LINK_H

#include "engine.h"

/* What is called of it; engine_link() comes before all else. */
extern const FairqEngine *engine;

extern bool engine_link(void);

#endif							/* FAIRQ_ENGINE_LINK_H */
