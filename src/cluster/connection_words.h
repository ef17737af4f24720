/*-------------------------------------------------------------------------
 *
 * connection_words.h
 *	  What the connection string of a node says of its servers.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_CONNECTION_WORDS_H
#define FAIRQ_CONNECTION_WORDS_H

extern char *connection_words_address(const char *connection, int *hosts);

#endif							/* FAIRQ_CONNECTION_WORDS_H */
