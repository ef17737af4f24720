/*-------------------------------------------------------------------------
 *
 * parked_tree.c
 *	  The entries that a group has parked, in order.
 *
 * A treap for each group, its priorities a hash of the entries' numbers: most
 * entries come at the end and go at the front, but what comes back does not,
 * nor what is removed, and a group may have ten thousand.
 *
 * Locking: the lock of a group's limit, see limit_table.c, guards its tree; a
 * spinlock, the entries that are free.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/hashfn.h"
#include "storage/spin.h"

#include "common/settings.h"
#include "shmem/fixed_table.h"
#include "shmem/limit_private.h"
#include "shmem/parking.h"

/* Entries that can be parked, of all groups. */
#define MAX_PARKED		(2 * settings_max_limits)

typedef struct ParkedTable
{
	slock_t		mutex;			/* guards the next */
	FreeEntries free;
} ParkedTable;

static ParkedTable *table = NULL;
static ParkedEntry *entries = NULL;

#define TABLE_SIZE	CACHELINEALIGN(sizeof(ParkedTable))

Size
parked_tree_shmem_size(void)
{
	return add_size(TABLE_SIZE, mul_size(MAX_PARKED, sizeof(ParkedEntry)));
}

void
parked_tree_shmem_init(void *area, bool found)
{
	table = (ParkedTable *) area;
	entries = (ParkedEntry *) ((char *) area + TABLE_SIZE);
	if (found)
		return;
	SpinLockInit(&table->mutex);
	table->free = all_entries_free;
}

static uint32
new_entry(void)
{
	uint32		number;

	SpinLockAcquire(&table->mutex);
	number = free_entries_take(&table->free, MAX_PARKED, entries, left);
	SpinLockRelease(&table->mutex);
	return number;
}

static void
free_entry(uint32 number)
{
	SpinLockAcquire(&table->mutex);
	free_entries_give(&table->free, number, &entries[number].left);
	SpinLockRelease(&table->mutex);
}

/* Is a nearer to the root than b? */
static inline bool
above(uint32 a, uint32 b)
{
	return murmurhash32(a) > murmurhash32(b);
}

/* The order of parked entries across lanes. */
static inline int
compare_entries(int class, const LaneEntry *entry, const ParkedEntry *other)
{
	if (class != other->lane->class)
		return class < other->lane->class ? -1 : 1;
	return lanes_compare(entry, &other->entry);
}

/*
 * Is an address before an entry (< 0), at it, or after it?  Whatever the TID:
 * that may be of a heap-only tuple.
 */
static int
compare_with_parked(const FairqAddress *address, const ParkedEntry *parked)
{
	LaneEntry	entry;

	lanes_entry(&entry, address, &parked->entry.tid);
	return compare_entries(address->class, &entry, parked);
}

#ifdef USE_ASSERT_CHECKING

/* A tree of so many entries is looked at whole, a larger one now and then. */
#define CHECK_ALL_UPTO	32
#define CHECK_ALL_EVERY	256

static uint32 looks = 0;

/* A part of a tree is in order, from *last on, and each is above its own. */
static int
check_part(uint32 number, const ParkedEntry **last)
{
	const ParkedEntry *parked = &entries[number];
	int			n = 1;

	if (number == NO_PARKED)
		return 0;
	Assert(number < (uint32) MAX_PARKED);
	Assert(parked->left == NO_PARKED || above(number, parked->left));
	Assert(parked->right == NO_PARKED || above(number, parked->right));
	n += check_part(parked->left, last);
	Assert(*last == NULL ||
		   compare_entries((*last)->lane->class, &(*last)->entry, parked) < 0);
	*last = parked;
	return n + check_part(parked->right, last);
}

/* The tree of a group is a treap, of as many entries as are counted. */
void
parked_tree_check(const GroupLimit *limit)
{
	const ParkedEntry *last = NULL;

	Assert((limit->parked == 0) == (limit->root == NO_PARKED));
	if (limit->parked <= CHECK_ALL_UPTO || contract_is_due(&looks, CHECK_ALL_EVERY))
		Assert(check_part(limit->root, &last) == limit->parked);
}

#endif							/* USE_ASSERT_CHECKING */

/* The first entry of a group, or NULL. */
const ParkedEntry *
parked_tree_first(const GroupLimit *limit)
{
	uint32		number = limit->root;

	AssertLimitLocked(limit);
	if (number == NO_PARKED)
		return NULL;
	while (entries[number].left != NO_PARKED)
		number = entries[number].left;
	return &entries[number];
}

/*
 * Is an entry parked that comes before this address?
 */
bool
parked_tree_precedes(const GroupLimit *limit, const FairqAddress *address)
{
	const ParkedEntry *first = parked_tree_first(limit);

	return first != NULL && compare_with_parked(address, first) > 0;
}

/* Count the entries of a tree that come before an address, up to max. */
static int
count_before(uint32 number, const FairqAddress *address, int max)
{
	int			n = 0;

	while (number != NO_PARKED && n < max)
	{
		if (compare_with_parked(address, &entries[number]) > 0)
		{
			n += 1 + count_before(entries[number].left, address, max - n - 1);
			number = entries[number].right;
		}
		else
			number = entries[number].left;
	}
	return n;
}

int
parked_tree_before(const GroupLimit *limit, const FairqAddress *address, int max)
{
	AssertLimitLocked(limit);
	return count_before(limit->root, address, max);
}

/* Is there an entry at a position; any_tid: wherever its row is? */
static bool
search(const GroupLimit *limit, int class, LaneEntry entry, bool any_tid)
{
	uint32		number = limit->root;

	AssertLimitLocked(limit);
	while (number != NO_PARKED)
	{
		int			c;

		if (any_tid)
			entry.tid = entries[number].entry.tid;
		c = compare_entries(class, &entry, &entries[number]);
		if (c == 0)
			return true;
		number = c < 0 ? entries[number].left : entries[number].right;
	}
	return false;
}

/* Is there an entry of an address? */
bool
parked_tree_has(const GroupLimit *limit, const FairqAddress *address)
{
	ItemPointerData none;
	LaneEntry	entry;

	ItemPointerSet(&none, 0, 0);
	lanes_entry(&entry, address, &none);
	return search(limit, address->class, entry, true);
}

static void
enter(GroupLimit *limit, uint32 number)
{
	ParkedEntry *parked = &entries[number];
	uint32	   *link = &limit->root;
	uint32	   *left = &parked->left;
	uint32	   *right = &parked->right;
	uint32		rest;

	AssertLimitLockedExclusively(limit);
	while (*link != NO_PARKED && above(*link, number))
		link = compare_entries(parked->lane->class, &parked->entry, &entries[*link]) < 0 ?
			&entries[*link].left : &entries[*link].right;

	/* What was there is parted: before the new one, and after it. */
	rest = *link;
	*link = number;
	while (rest != NO_PARKED)
	{
		if (compare_entries(parked->lane->class, &parked->entry, &entries[rest]) < 0)
		{
			*right = rest;
			right = &entries[rest].left;
			rest = *right;
		}
		else
		{
			*left = rest;
			left = &entries[rest].right;
			rest = *left;
		}
	}
	*left = NO_PARKED;
	*right = NO_PARKED;
	limit->parked++;
	parked_tree_check(limit);
}

/*
 * Add an entry to those of a group, unless it is there already: a lane that
 * was read again leads to the same rows.  Returns false if there is no room.
 */
bool
parked_tree_add(GroupLimit *limit, Lane *lane, const LaneEntry *entry, uint32 group,
				double charge)
{
	uint32		number;

	if (search(limit, lane->class, *entry, false))
		return true;
	number = new_entry();
	if (number == NO_PARKED)
		return false;
	entries[number].entry = *entry;
	entries[number].lane = lane;
	entries[number].group = group;
	entries[number].charge = charge;
	enter(limit, number);
	return true;
}

static void
remove_at(GroupLimit *limit, uint32 *link)
{
	uint32		number = *link;
	uint32		left = entries[number].left;
	uint32		right = entries[number].right;

	AssertLimitLockedExclusively(limit);
	Assert(limit->parked > 0 && *link != NO_PARKED);
	while (left != NO_PARKED && right != NO_PARKED)
	{
		if (above(left, right))
		{
			*link = left;
			link = &entries[left].right;
			left = *link;
		}
		else
		{
			*link = right;
			link = &entries[right].left;
			right = *link;
		}
	}
	*link = (left != NO_PARKED) ? left : right;
	free_entry(number);
	limit->parked--;
	parked_tree_check(limit);
}

void
parked_tree_remove_first(GroupLimit *limit)
{
	uint32	   *link = &limit->root;

	Assert(limit->root != NO_PARKED);
	while (entries[*link].left != NO_PARKED)
		link = &entries[*link].left;
	remove_at(limit, link);
}

/* Remove the entries of an address.  Returns whether there were any. */
bool
parked_tree_remove(GroupLimit *limit, const FairqAddress *address)
{
	bool		found = false;
	uint32	   *link = &limit->root;

	AssertLimitLockedExclusively(limit);
	while (*link != NO_PARKED)
	{
		ParkedEntry *parked = &entries[*link];
		int			c = compare_with_parked(address, parked);

		if (c == 0)
		{
			remove_at(limit, link);
			found = true;
		}
		else
			link = c < 0 ? &parked->left : &parked->right;
	}
	return found;
}
