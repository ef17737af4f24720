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
								 * overflow is found by it */
	uint64		high;			/* with a seed that is new at each start */
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
	return name;
}

#endif							/* FAIRQ_GROUP_NAME_H */
