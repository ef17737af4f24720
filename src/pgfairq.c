/*-------------------------------------------------------------------------
 *
 * pgfairq.c
 *	  A fair task queue: what happens when the library is loaded.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "fmgr.h"
#include "miscadmin.h"

#include "common/settings.h"
#include "shared_state.h"
#include "storage/archive.h"
#include "storage/queue_catalog.h"
#include "verbs/unique_keys.h"
#include "worker/database_hooks.h"
#include "worker/launcher.h"
#include "xact/handover.h"

PG_MODULE_MAGIC;

extern PGDLLEXPORT void _PG_init(void);

/*
 * Without preload there is no shared memory, so there is nothing to set up.
 * The library loads all the same: pg_upgrade and CREATE EXTENSION need it to.
 * Each function refuses by itself, with a hint.
 */
void
_PG_init(void)
{
	if (!process_shared_preload_libraries_in_progress)
		return;

	settings_define();
	shared_state_request();
	queue_catalog_register();
	archive_register();
	handover_register();
	unique_keys_register();
	database_hooks_install();
	launcher_register();
}
