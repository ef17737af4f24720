/*-------------------------------------------------------------------------
 *
 * page_hints.h
 *	  Where pages of queues were seen in shared buffers.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_PAGE_HINTS_H
#define FAIRQ_PAGE_HINTS_H

#include "storage/buf.h"
#include "storage/itemptr.h"
#include "utils/relcache.h"

#include "common/compat.h"

extern Size page_hints_shmem_size(void);
extern void page_hints_shmem_init(void *area, bool found);
extern FAIRQ_PRIVATE Buffer page_hints_read(Relation rel, BlockNumber block);
extern FAIRQ_PRIVATE void page_hints_fetch_page(Relation rel, const ItemPointerData *tid);
extern FAIRQ_PRIVATE void page_hints_fetch_row(Relation rel, const ItemPointerData *tid);

#endif							/* FAIRQ_PAGE_HINTS_H */
