/*-------------------------------------------------------------------------
 *
 * group_id.h
 *	  What names a group whose key is too long to be shown.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_GROUP_ID_H
#define FAIRQ_GROUP_ID_H

#include "utils/uuid.h"

extern void group_id(const char *key, int len, pg_uuid_t *id);

#endif							/* FAIRQ_GROUP_ID_H */
