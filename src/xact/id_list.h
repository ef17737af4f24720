/*-------------------------------------------------------------------------
 *
 * id_list.h
 *	  A list of ids in a pending action: a transaction that writes a million rows
 *	  notes one action.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_ID_LIST_H
#define FAIRQ_ID_LIST_H

#include "utils/memutils.h"

/* How many ids the first array has room for. */
#define ID_LIST_FIRST	64

typedef struct IdList
{
	int64		n;
	int64		size;			/* of ids; 0: there is the first one only */
	int64		first;
	int64	   *ids;
} IdList;

static inline int64
id_list_get(const IdList *list, int64 i)
{
	Assert(i >= 0 && i < list->n);
	return list->size > 0 ? list->ids[i] : list->first;
}

static inline void
id_list_add(IdList *list, int64 id)
{
	if (list->n == 0)
	{
		list->first = id;
		list->n = 1;
		return;
	}
	if (list->size == 0)
	{
		list->ids = MemoryContextAlloc(TopMemoryContext, ID_LIST_FIRST * sizeof(int64));
		list->ids[0] = list->first;
		list->size = ID_LIST_FIRST;
	}
	else if (list->n == list->size)
	{
		list->ids = repalloc_huge(list->ids, 2 * list->size * sizeof(int64));
		list->size *= 2;
	}
	list->ids[list->n++] = id;
}

static inline void
id_list_free(IdList *list)
{
	if (list->size > 0)
		pfree(list->ids);
	list->size = list->n = 0;
}

#endif							/* FAIRQ_ID_LIST_H */
