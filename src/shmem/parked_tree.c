/*-------------------------------------------------------------------------
 *
 * parked_tree.c
 *	  The places that a group has set aside, in order.
 *
 * A treap for each group, its priorities a hash of the places' numbers: most places
 * come at the end and go at the front, but what comes back does not, nor what is
 * removed, and a group may have ten thousand.
 *
 * Locking: the lock of a group's limit, see limit_table.c, guards its places; a
 * spinlock, those that are free.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/hashfn.h"
#include "storage/shmem.h"
#include "storage/spin.h"

#include "common/settings.h"
#include "shmem/limit_private.h"

#define NO_PLACE		PG_UINT32_MAX

/* Places that can be set aside, of all groups. */
#define MAX_PARKED		(2 * settings_max_limits)

typedef struct PlaceTable
{
	slock_t		mutex;			/* guards the next two */
	uint32		free_head;
	uint32		used;			/* those from here on never were */
} PlaceTable;

static PlaceTable *table = NULL;
static ParkedPlace *places = NULL;

#define TABLE_SIZE	CACHELINEALIGN(sizeof(PlaceTable))

Size
parked_places_shmem_size(void)
{
	return add_size(TABLE_SIZE, mul_size(MAX_PARKED, sizeof(ParkedPlace)));
}

void
parked_places_shmem_init(void *area, bool found)
{
	table = (PlaceTable *) area;
	places = (ParkedPlace *) ((char *) area + TABLE_SIZE);
	if (found)
		return;
	SpinLockInit(&table->mutex);
	table->free_head = NO_PLACE;
	table->used = 0;
}

void
parked_places_init(GroupLimit *limit)
{
	limit->root = NO_PLACE;
	limit->parked = 0;
}

static uint32
new_place(void)
{
	uint32		number;

	SpinLockAcquire(&table->mutex);
	number = table->free_head;
	if (number != NO_PLACE)
		table->free_head = places[number].left;
	else if (table->used < (uint32) MAX_PARKED)
		number = table->used++;
	SpinLockRelease(&table->mutex);
	return number;
}

static void
free_place(uint32 number)
{
	SpinLockAcquire(&table->mutex);
	places[number].left = table->free_head;
	table->free_head = number;
	SpinLockRelease(&table->mutex);
}

/* Is a nearer to the root than b? */
static inline bool
above(uint32 a, uint32 b)
{
	return murmurhash32(a) > murmurhash32(b);
}

/* The order of places across lanes. */
static inline int
compare_places(int class, const LaneEntry *entry, const ParkedPlace *other)
{
	if (class != other->lane->class)
		return class < other->lane->class ? -1 : 1;
	return lanes_compare(entry, &other->entry);
}

/*
 * Is an address before a place (< 0), at it, or after it?  Whatever the TID: that may
 * be of a heap-only tuple.
 */
int
parked_places_compare(const FairqAddress *address, const ParkedPlace *place)
{
	LaneEntry	entry;

	lanes_entry(&entry, address, &place->entry.tid);
	return compare_places(address->class, &entry, place);
}

/* The first place of a group, or NULL. */
const ParkedPlace *
parked_places_first(const GroupLimit *limit)
{
	uint32		number = limit->root;

	if (number == NO_PLACE)
		return NULL;
	while (places[number].left != NO_PLACE)
		number = places[number].left;
	return &places[number];
}

/* Count the places of a tree that come before an address, up to max. */
static int
count_before(uint32 number, const FairqAddress *address, int max)
{
	int			n = 0;

	while (number != NO_PLACE && n < max)
	{
		if (parked_places_compare(address, &places[number]) > 0)
		{
			n += 1 + count_before(places[number].left, address, max - n - 1);
			number = places[number].right;
		}
		else
			number = places[number].left;
	}
	return n;
}

int
parked_places_before(const GroupLimit *limit, const FairqAddress *address, int max)
{
	return count_before(limit->root, address, max);
}

/* Is there a place of an address? */
bool
parked_places_there(const GroupLimit *limit, const FairqAddress *address)
{
	uint32		number = limit->root;

	while (number != NO_PLACE)
	{
		int			c = parked_places_compare(address, &places[number]);

		if (c == 0)
			return true;
		number = c < 0 ? places[number].left : places[number].right;
	}
	return false;
}

/* Note the tasks of the overflow in a tree, as far as there is room for size. */
static void
note_tasks(uint32 number, int64 *tasks, int *n, int size)
{
	while (number != NO_PLACE)
	{
		int64		task = lanes_entry_task(&places[number].entry);

		if (task != 0 && *n < size)
			tasks[(*n)++] = task;
		note_tasks(places[number].left, tasks, n, size);
		number = places[number].right;
	}
}

/* The tasks of the overflow that have places here.  Returns how many. */
int
parked_places_tasks(const GroupLimit *limit, int64 *tasks, int size)
{
	int			n = 0;

	note_tasks(limit->root, tasks, &n, size);
	return n;
}

static bool
has_place(const GroupLimit *limit, int class, const LaneEntry *entry)
{
	uint32		number = limit->root;

	while (number != NO_PLACE)
	{
		int			c = compare_places(class, entry, &places[number]);

		if (c == 0)
			return true;
		number = c < 0 ? places[number].left : places[number].right;
	}
	return false;
}

static void
enter(GroupLimit *limit, uint32 number)
{
	ParkedPlace *place = &places[number];
	uint32	   *link = &limit->root;
	uint32	   *left = &place->left;
	uint32	   *right = &place->right;
	uint32		rest;

	while (*link != NO_PLACE && above(*link, number))
		link = compare_places(place->lane->class, &place->entry, &places[*link]) < 0 ?
			&places[*link].left : &places[*link].right;

	/* What was there is parted: before the new one, and after it. */
	rest = *link;
	*link = number;
	while (rest != NO_PLACE)
	{
		if (compare_places(place->lane->class, &place->entry, &places[rest]) < 0)
		{
			*right = rest;
			right = &places[rest].left;
			rest = *right;
		}
		else
		{
			*left = rest;
			left = &places[rest].right;
			rest = *left;
		}
	}
	*left = NO_PLACE;
	*right = NO_PLACE;
	limit->parked++;
}

/*
 * Add a place to those of a group, unless it is there already: a lane that was read
 * again leads to the same rows.  Returns false if there is no room.
 */
bool
parked_places_add(GroupLimit *limit, Lane *lane, const LaneEntry *entry, double charge)
{
	uint32		number;

	if (has_place(limit, lane->class, entry))
		return true;
	number = new_place();
	if (number == NO_PLACE)
		return false;
	places[number].entry = *entry;
	places[number].lane = lane;
	places[number].charge = charge;
	enter(limit, number);
	return true;
}

static void
remove_at(GroupLimit *limit, uint32 *link)
{
	uint32		number = *link;
	uint32		left = places[number].left;
	uint32		right = places[number].right;

	while (left != NO_PLACE && right != NO_PLACE)
	{
		if (above(left, right))
		{
			*link = left;
			link = &places[left].right;
			left = *link;
		}
		else
		{
			*link = right;
			link = &places[right].left;
			right = *link;
		}
	}
	*link = (left != NO_PLACE) ? left : right;
	free_place(number);
	limit->parked--;
}

void
parked_places_remove_first(GroupLimit *limit)
{
	uint32	   *link = &limit->root;

	while (places[*link].left != NO_PLACE)
		link = &places[*link].left;
	remove_at(limit, link);
}

/* Remove the places of an address.  Returns whether there were any. */
bool
parked_places_remove(GroupLimit *limit, const FairqAddress *address)
{
	bool		found = false;
	uint32	   *link = &limit->root;

	while (*link != NO_PLACE)
	{
		ParkedPlace *place = &places[*link];
		int			c = parked_places_compare(address, place);

		if (c == 0)
		{
			remove_at(limit, link);
			found = true;
		}
		else
			link = c < 0 ? &place->left : &place->right;
	}
	return found;
}
