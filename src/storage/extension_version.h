/*-------------------------------------------------------------------------
 *
 * extension_version.h
 *	  Is the SQL of this database of the library's version?
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_EXTENSION_VERSION_H
#define FAIRQ_EXTENSION_VERSION_H

extern bool extension_version_is_ours;	/* found out, and nothing has changed
										 * since */

extern void extension_version_register(void);
extern bool extension_version_matches(int elevel);
extern void extension_version_altered(Oid extension);

/*
 * Raise an error unless the SQL is of the library's version (55000).
 */
static inline void
extension_version_require(void)
{
	if (unlikely(!extension_version_is_ours))
		(void) extension_version_matches(ERROR);
}

#endif							/* FAIRQ_EXTENSION_VERSION_H */
