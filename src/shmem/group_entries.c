/*-------------------------------------------------------------------------
 *
 * group_entries.c
 *	  Where the entries of groups are, for all files that work on them.
 *
 * Set when shared memory is (group_table.c), and never changed.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "shmem/group_private.h"

FairGroup  *group_entries = NULL;
