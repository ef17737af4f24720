/*-------------------------------------------------------------------------
 *
 * node_call.h
 *	  A call of an application, carried to one node after the other.
 *
 *-------------------------------------------------------------------------
 */
#ifndef FAIRQ_NODE_CALL_H
#define FAIRQ_NODE_CALL_H

#include "executor/spi.h"
#include "fmgr.h"
#include "utils/elog.h"

#include "cluster/cluster_nodes.h"

/* A function that is called at nodes: its twin in fairq_internal. */
typedef struct NodeFunction
{
	Oid			twin;			/* the key */
	char		name[NAMEDATALEN];	/* the application's */
	int			arguments;
	Oid			types[FUNC_MAX_ARGS];	/* beginning with the place */
	bool		returns_set;
	SPIPlanPtr	plan;
} NodeFunction;

/* A call under way.  values[0] is the place; the arguments follow. */
typedef struct NodeCall
{
	NodeFunction *function;
	bool		writes;			/* and is not undone with the transaction */
	bool		elsewhere;		/* another node may have it if one has no room */
	Datum		values[FUNC_MAX_ARGS];
	char		nulls[FUNC_MAX_ARGS];	/* as SPI has them */
	int64		wait;			/* microseconds that the call itself takes, such
								 * as waiting; NODE_CALL_LONG */
	bool		too_long;		/* it has taken longer than it may */
} NodeCall;

/* A call that may take long, such as one of administration. */
#define NODE_CALL_LONG	(-1)

/* What has come of it at a node. */
typedef enum NodeAnswer
{
	NODE_ANSWERED,
	NODE_NOT_ASKED,				/* nothing was done there: no connection, or
								 * it has sent us elsewhere */
	NODE_SILENT,				/* connection lost: the outcome is unknown */
	NODE_REFUSED,				/* the node has raised an error */

	/* Within node_call.c only: */
	NODE_LEFT,					/* as silent, and the connection is open */
	NODE_CANCELLED				/* the statement is cancelled */
} NodeAnswer;

/* Position of an argument in NodeCall, from its position in SQL. */
#define ARGUMENT(number)	((number) + 1)

extern void node_call_begin(FunctionCallInfo fcinfo, NodeCall *call, bool by_number);
extern void node_call_other(NodeCall *call, const char *name, int arguments);
extern void node_call_set(NodeCall *call, int number, Datum value, bool isnull);
extern NodeAnswer node_call_ask(NodeCall *call, ClusterNode *node, ErrorData **error);
extern NodeAnswer node_call_try(NodeCall *call, ClusterNode *node, ErrorData **error);
extern NodeAnswer node_call_look(NodeCall *call, ClusterNode *node, ErrorData **error);
extern void node_call_at(NodeCall *call, ClusterNode *node);
extern void node_call_of_server(NodeCall *call, ClusterNode *node);
extern Datum node_call_value(NodeCall *call, bool *isnull);
extern void node_call_refuse_in_transaction(FunctionCallInfo fcinfo);
extern void node_call_writes_own(void);
extern void node_call_settings_define(void);

/* call_limit.c */
/* What has ended a call. */
typedef enum CallEnd
{
	CALL_ENDED,					/* it has: with an answer, or its own error */
	CALL_TOO_LONG,				/* its time is over */
	CALL_SILENT,				/* the server does not answer the probe */
	CALL_CANCELLED				/* the statement is cancelled */
} CallEnd;

/* No limit. */
#define CALL_UNLIMITED	(-1)

extern ErrorData *call_limit_run(void (*work) (void *arg), void *arg, int server, int64 msecs,
								 CallEnd *end);

/* called_nodes.c */
extern void called_nodes_note(const NodeCall *call, const ClusterNode *node);
extern int	called_nodes_mark(void);
extern void called_nodes_forget(int mark);

#endif							/* FAIRQ_NODE_CALL_H */
