/*-------------------------------------------------------------------------
 *
 * fixed_table.h
 *	  What the tables of fixed size have in common: hash chains, free entries.
 *
 * Entries are known, and link to each other, by number.  Such a table has a
 * head of its own (its locks and its FreeEntries), chains, and entries, one
 * after the other in shared memory.  The number of chains is a power of two
 * that is not less than the partitions of any table, so that a chain is in one
 * of them.
 *
 * Locking: the head of each table's file says which lock guards its chains, and
 * which its free entries.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_FIXED_TABLE_H
#define FAIRQ_FIXED_TABLE_H

#include "port/pg_bitutils.h"
#include "storage/shmem.h"

#define NO_ENTRY		PG_UINT32_MAX
#define LEAST_CHAINS	256

/*
 * The free entries of a table: those that were used before, in a list, and all
 * from high_water on.  The table's lock guards both fields.
 *
 * high_water only grows, so a walk over all entries may read it without the
 * lock: it misses entries that are taken meanwhile, and no others.
 */
typedef struct FreeEntries
{
	uint32		head;			/* entries that were used before, linked */
	uint32		high_water;		/* entries from here on never were */
} FreeEntries;

static const FreeEntries all_entries_free = {NO_ENTRY, 0};

/*
 * Take a free one of size entries; NO_ENTRY: there is none.  link is the field
 * by which they are linked while they are free.  An entry that was used before
 * is as it was left, but for the link; one that never was is zero.
 *
 * The caller holds the lock that guards the free entries, and so it does in
 * free_entries_give.  Never fails.
 */
#define free_entries_take(free, size, entries, link) \
	free_entries_take_by(free, size, &(entries)->link, sizeof(*(entries)))

/* What free_entries_take does: links is the link of entry 0. */
static inline uint32
free_entries_take_by(FreeEntries *free, uint32 size, const uint32 *links, Size entry_size)
{
	uint32		number = free->head;

	Assert(free->high_water <= size);
	Assert(number == NO_ENTRY || number < free->high_water);
	if (number != NO_ENTRY)
		free->head = *(const uint32 *) ((const char *) links + number * entry_size);
	else if (free->high_water < size)
		number = free->high_water++;
	return number;
}

/*
 * Entry number, of which this is the link, is free.  Or all entries of a chain
 * are, of which it is the first, and this the link of the last.  Never fails.
 */
static inline void
free_entries_give(FreeEntries *free, uint32 number, uint32 *link)
{
	Assert(number < free->high_water && number != free->head);
	*link = free->head;
	free->head = number;
}

/* The bytes of the chains for so many entries: a power of two of them. */
static inline Size
fixed_table_chains_size(uint32 entries)
{
	return mul_size(pg_nextpower2_32(Max(entries, LEAST_CHAINS)), sizeof(uint32));
}

/* The bytes of a table: its head, its chains and its entries. */
static inline Size
fixed_table_size(Size head, uint32 entries, Size entry_size)
{
	Size		size = add_size(CACHELINEALIGN(head),
								CACHELINEALIGN(fixed_table_chains_size(entries)));

	return add_size(size, mul_size(entries, entry_size));
}

/*
 * Set up the chains behind a table's head, unless that is done (found).
 * Returns where its entries are, which are zero as all new shared memory.
 */
static inline void *
fixed_table_init(void *area, Size head, uint32 entries, bool found, uint32 **chains,
				 uint32 *chain_mask)
{
	Size		size = fixed_table_chains_size(entries);

	*chains = (uint32 *) ((char *) area + CACHELINEALIGN(head));
	*chain_mask = size / sizeof(uint32) - 1;
	if (!found)
		memset(*chains, 0xFF, size);
	return (char *) *chains + CACHELINEALIGN(size);
}

#endif							/* FAIRQ_FIXED_TABLE_H */
