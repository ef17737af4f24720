/*-------------------------------------------------------------------------
 *
 * page_hints.c
 *	  Where pages of queues were seen in shared buffers.
 *
 * By table and number of the page.  It saves a look into the server's own
 * table, whose entries, unlike those of neighbouring pages here, are far apart
 * in memory, and which has to be locked.
 *
 * Locking: none.  An entry is a hint for all processes, which is read and
 * written without a lock; whoever follows it checks that the page is there.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "port/pg_bitutils.h"
#include "storage/buf_internals.h"
#include "storage/bufmgr.h"
#include "storage/shmem.h"

#include "common/compat.h"
#include "common/contracts.h"
#include "storage/row_reader.h"

static Buffer *seen = NULL;
static uint32 seen_mask;

Size
page_hints_shmem_size(void)
{
	return mul_size(pg_nextpower2_32(NBuffers), sizeof(Buffer));
}

void
page_hints_shmem_init(void *area, bool found)
{
	seen = area;
	seen_mask = pg_nextpower2_32(NBuffers) - 1;
	if (!found)
		memset(area, 0, page_hints_shmem_size());
}

static inline volatile Buffer *
seen_at(Relation rel, BlockNumber block)
{
	return &seen[(fairq_relation_file(rel) * 0x9E3779B1U + block) & seen_mask];
}

/*
 * A block of a table, pinned.
 */
Buffer
page_hints_read(Relation rel, BlockNumber block)
{
	volatile Buffer *hint = seen_at(rel, block);
	Buffer		buffer = *hint;

	if (buffer <= 0 ||
		!ReadRecentBuffer(fairq_relation_locator(rel), MAIN_FORKNUM, block, buffer))
		*hint = buffer = ReadBuffer(rel, block);
	return buffer;
}

/*
 * Rows are going to be read, from blocks that the table has.  Have their pages
 * fetched, from disk if they are there, and their line pointers into the
 * processor's caches; then the rows: each for all of them, before the first is
 * read.  In a large queue neighbours of an order are far apart in the table,
 * and to wait for memory for each by itself is a quarter of what a claim
 * costs.
 *
 * Pages are looked at without a pin: all that depends on it is what is fetched.
 */
void
page_hints_fetch_page(Relation rel, const ItemPointerData *tid)
{
	BlockNumber block = ItemPointerGetBlockNumberNoCheck(tid);
	OffsetNumber offset = ItemPointerGetOffsetNumberNoCheck(tid);
	volatile Buffer *hint;
	Buffer		buffer;

	AssertRelationLocked(rel, AccessShareLock);
	if (offset > MaxHeapTuplesPerPage)
		return;
	hint = seen_at(rel, block);
	buffer = *hint;
	if (buffer <= 0 || GetBufferDescriptor(buffer - 1)->tag.blockNum != block)
		*hint = buffer = PrefetchBuffer(rel, MAIN_FORKNUM, block).recent_buffer;
	if (buffer > 0)
	{
		__builtin_prefetch(GetBufferDescriptor(buffer - 1), 1);
		__builtin_prefetch(BufferGetPage(buffer));
		__builtin_prefetch(PageGetItemId(BufferGetPage(buffer), offset));
	}
}

/*
 * Have a row fetched into the processor's caches, when its page has been.
 */
FAIRQ_LOOKS_UNPINNED
void
page_hints_fetch_row(Relation rel, const ItemPointerData *tid)
{
	OffsetNumber offset = ItemPointerGetOffsetNumberNoCheck(tid);
	Buffer		buffer = *seen_at(rel, ItemPointerGetBlockNumberNoCheck(tid));

	if (buffer > 0 && offset <= MaxHeapTuplesPerPage)
	{
		Page		page = BufferGetPage(buffer);
		ItemId		item = &((PageHeader) page)->pd_linp[offset - 1];
		char	   *tuple = (char *) page + ItemIdGetOffset(item) % BLCKSZ;

		for (int line = 0; line < 4; line++)
			__builtin_prefetch(tuple + line * 64);
	}
}
