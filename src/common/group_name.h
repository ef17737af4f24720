/*-------------------------------------------------------------------------
 *
 * group_name.h
 *	  The key of a group, with its hashes, made once a call; and what names it
 *	  where it is too long to be shown.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_GROUP_NAME_H
#define FAIRQ_GROUP_NAME_H

#include "common/hashfn.h"
#include "utils/uuid.h"

#include "common/compat.h"
#include "common/shared_memory.h"

typedef struct GroupName
{
	const char *text;
	int			len;
	uint64		low;			/* hashtextextended(key, 0) in SQL: the
								 * overflow is found by it; of a subgroup with
								 * that of its group for a seed */
	uint64		high;			/* with a seed that is new at each start */
	bool		divided;		/* a group that has subgroups: as a group
								 * without, it would be another */

	/* Of the group that it is a subgroup of. */
	bool		subgroup;		/* else the rest is not set */
	int			group_len;
	const char *group_text;
	uint64		group_low;
	uint64		group_high;
} GroupName;

/* A group's entries: one for each class of its queue. */
typedef struct GroupKey
{
	uint64		low;
	uint64		high;
	uint16		queue;
	uint8		class;
	uint8		partition;		/* of group_table.c; a subgroup's is its
								 * group's */
	uint32		above;			/* of a subgroup: the number of its group;
								 * FAIRQ_NO_GROUP: it is none */
} GroupKey;

static inline bool
group_key_equal(const GroupKey *a, const GroupKey *b)
{
	return a->low == b->low && a->high == b->high &&
		a->queue == b->queue && a->class == b->class;
}

static inline GroupName
group_name_bytes(const char *text, int len, uint64 low_seed, uint64 high_seed)
{
	GroupName	name;

	name.text = text;
	name.len = len;
	name.low = hash_bytes_extended((const unsigned char *) text, len, low_seed);
	name.high = hash_bytes_extended((const unsigned char *) text, len, high_seed);
	name.divided = name.subgroup = false;
	return name;
}

static inline GroupName
group_name(const text *key)
{
	return group_name_bytes(VARDATA_ANY(key), VARSIZE_ANY_EXHDR(key), 0,
							shared_memory_seed());
}

/* A group that is divided into subgroups. */
static inline GroupName
group_name_divided(const text *key)
{
	GroupName	name = group_name_bytes(VARDATA_ANY(key), VARSIZE_ANY_EXHDR(key), 0,
										~shared_memory_seed());

	name.divided = true;
	return name;
}

/* A subgroup of a group; NULL is the same as an empty key. */
static inline GroupName
group_name_of_subgroup(const text *key, const text *subgroup_key)
{
	GroupName	group = group_name_divided(key);
	GroupName	name = subgroup_key == NULL ? group_name_bytes("", 0, group.low, group.high) :
		group_name_bytes(VARDATA_ANY(subgroup_key), VARSIZE_ANY_EXHDR(subgroup_key),
						 group.low, group.high);

	name.subgroup = true;
	name.group_len = group.len;
	name.group_text = group.text;
	name.group_low = group.low;
	name.group_high = group.high;
	return name;
}

/* The name of the group that a subgroup is of. */
static inline GroupName
group_name_above(const GroupName *name)
{
	Assert(name->subgroup);
	return (GroupName)
	{
		.text = name->group_text,.len = name->group_len,
		.low = name->group_low,.high = name->group_high,.divided = true
	};
}

/* group_id.c */
extern void group_id(const char *key, int len, pg_uuid_t *id);

#endif							/* FAIRQ_GROUP_NAME_H */
