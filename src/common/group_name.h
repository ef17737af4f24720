/*-------------------------------------------------------------------------
 *
 * group_name.h
 *	  The key of a group, with its hashes, made once a call.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_GROUP_NAME_H
#define FAIRQ_GROUP_NAME_H

#include "common/hashfn.h"

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
} GroupKey;

static inline GroupName
group_name(const text *key)
{
	GroupName	name;

	name.text = VARDATA_ANY(key);
	name.len = VARSIZE_ANY_EXHDR(key);
	name.low = hash_bytes_extended((const unsigned char *) name.text, name.len, 0);
	name.high = hash_bytes_extended((const unsigned char *) name.text, name.len,
									shared_memory_seed());
	name.subgroup = false;
	return name;
}

/* A subgroup of a group; NULL is the same as an empty key. */
static inline GroupName
group_name_of_subgroup(const text *key, const text *subgroup_key)
{
	GroupName	group = group_name(key);
	GroupName	name;

	name.text = subgroup_key == NULL ? "" : VARDATA_ANY(subgroup_key);
	name.len = subgroup_key == NULL ? 0 : VARSIZE_ANY_EXHDR(subgroup_key);
	name.low = hash_bytes_extended((const unsigned char *) name.text, name.len, group.low);
	name.high = hash_bytes_extended((const unsigned char *) name.text, name.len, group.high);
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
	GroupName	group;

	Assert(name->subgroup);
	group.text = name->group_text;
	group.len = name->group_len;
	group.low = name->group_low;
	group.high = name->group_high;
	group.subgroup = false;
	return group;
}

#endif							/* FAIRQ_GROUP_NAME_H */
