/*-------------------------------------------------------------------------
 *
 * engine_link.c
 *	  The library pgfairq, as the library of a proxy finds it.
 *
 * Nothing of it is called but by the table that it has in a rendezvous
 * variable: so neither library has a symbol of the other to resolve, in
 * whichever order the server loads them.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "fmgr.h"

#include "cluster/engine_link.h"

const FairqEngine *engine = NULL;

/*
 * Find it, loaded if it is not yet.  False: that was done before.
 *
 * A server that preloads this library alone comes back here from the load of
 * pgfairq, which preloads this one.
 *
 * One without a table, or with that of another version, was loaded before the
 * files of both were replaced.
 */
bool
engine_link(void)
{
	void	  **place = find_rendezvous_variable(FAIRQ_ENGINE);
	const FairqEngine *found;

	if (*place == NULL)
		(void) load_external_function("$libdir/pgfairq", "_PG_init", false, NULL);
	if (engine != NULL)
		return false;
	found = *place;
	if (found == NULL || strcmp(found->version, FAIRQ_VERSION) != 0)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("library pgfairq_cluster is of version %s, and library pgfairq of %s",
						FAIRQ_VERSION, found == NULL ? "an earlier one" : found->version),
				 errhint("Install both of one version, and restart the server.")));
	engine = found;
	return true;
}
