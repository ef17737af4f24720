/*-------------------------------------------------------------------------
 *
 * table_check.c
 *	  What the table of a queue has to be like.
 *
 * Rows are read and written directly (queue_index.c, row_writer.c), past the
 * executor.  What the executor would have honoured and we do not is found out
 * here, once a table is made known to a session, and refused with a clear
 * error.
 *
 * A role that looks at a queue, or publishes to all that want it, comes here
 * with its own privileges.  So nothing of the owner's is executed:
 * expressions are looked at as they are stored, for what the relcache has of
 * them was simplified, and that calls functions with constant arguments.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/xlog.h"
#include "catalog/namespace.h"
#include "catalog/pg_am_d.h"
#include "catalog/pg_collation_d.h"
#include "catalog/pg_index.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_sequence.h"
#include "catalog/pg_trigger.h"
#include "catalog/pg_type_d.h"
#include "commands/defrem.h"
#include "commands/trigger.h"
#include "parser/parse_collate.h"
#include "parser/parse_expr.h"
#include "parser/parse_relation.h"
#include "parser/parser.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

#include "common/compat.h"
#include "common/contracts.h"
#include "common/run_as.h"
#include "storage/queue_catalog.h"

/*
 * Our columns, as queue_admin.c makes them; the type of address is looked up.
 */
static const struct
{
	const char *name;
	Oid			type;
	bool		not_null;
}			expected_columns[QUEUE_COLUMNS] = {
	{"id", INT8OID, true},
	{"address", InvalidOid, false},
	{"enqueued_at", TIMESTAMPTZOID, true},
	{"priority", INT8OID, true},
	{"cost", FLOAT4OID, true},
	{"attempts", INT4OID, true},
	{"state", CHAROID, true},
	{"run_at", TIMESTAMPTZOID, false},
	{"max_attempts", INT4OID, false},
	{"lease", INTERVALOID, false},
	{"group_key", TEXTOID, true},
	{"payload", JSONBOID, true},
	{"headers", JSONBOID, false},
	{"unique_key", TEXTOID, false},
	{"last_error", TEXTOID, false},
	{"expires_at", TIMESTAMPTZOID, false},
	{"name", TEXTOID, false},
	{"lost", INT4OID, false},
	{"max_lost", INT4OID, false},
	{"history", JSONBOID, false},
	{"subgroup_key", TEXTOID, false},
};

static void
unfit_table(Relation rel, const char *detail)
{
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_TABLE_DEFINITION),
			 errmsg("cannot use table \"%s.%s\" as the table of a queue",
					QUEUE_SCHEMA, RelationGetRelationName(rel)),
			 errdetail_internal("%s", detail),
			 errhint("Undo the change that was made to the table.")));
}

/*
 * Find our columns, and whether there is anything else.
 */
static void
examine_columns(QueueInfo *info, Relation rel)
{
	TupleDesc	tupdesc = RelationGetDescr(rel);
	TupleConstr *constr = tupdesc->constr;
	Oid			address_type;

	address_type = GetSysCacheOid2(TYPENAMENSP, Anum_pg_type_oid,
								   CStringGetDatum("address"),
								   ObjectIdGetDatum(queue_catalog_schema(false)));
	info->natts = tupdesc->natts;
	info->plain = true;
	memset(info->columns, 0, sizeof(info->columns));
	for (int i = 0; i < tupdesc->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(tupdesc, i);
		int			column;

		if (att->attisdropped)
			continue;
		for (column = 0; column < QUEUE_COLUMNS; column++)
		{
			if (strcmp(NameStr(att->attname), expected_columns[column].name) == 0)
				break;
		}
		if (column == QUEUE_COLUMNS)
		{
			if (att->attgenerated != '\0')
				unfit_table(rel, psprintf("Column \"%s\" is generated.", NameStr(att->attname)));
			if (!att->atthasdef && get_typtype(att->atttypid) == TYPTYPE_DOMAIN)
				unfit_table(rel, psprintf("Column \"%s\" is of a domain and has no default.",
										  NameStr(att->attname)));
			if (att->atthasdef || att->attnotnull || att->attidentity != '\0')
				info->plain = false;
			continue;
		}
		/* A constraint that we do not rely on, but the user does. */
		if (att->attnotnull && !expected_columns[column].not_null)
			info->plain = false;
		if (att->atttypid != (OidIsValid(expected_columns[column].type) ?
							  expected_columns[column].type : address_type))
			unfit_table(rel, psprintf("Column \"%s\" has another type.", NameStr(att->attname)));
		info->columns[column] = att->attnum;
	}
	for (int column = 0; column < QUEUE_COLUMNS; column++)
	{
		if (info->columns[column] == 0)
			unfit_table(rel, psprintf("Column \"%s\" is missing.",
									  expected_columns[column].name));
	}

	/* These are read without asking. */
	for (int column = 0; column < QUEUE_COLUMNS; column++)
	{
		if (expected_columns[column].not_null &&
			!fairq_column_not_null(tupdesc, info->columns[column] - 1))
			unfit_table(rel, psprintf("Column \"%s\" may be null.",
									  expected_columns[column].name));
	}
	if (constr != NULL && constr->num_check > 0)
		info->plain = false;
}

/*
 * The expressions (attribute Anum_pg_index_indexprs) or the predicate
 * (Anum_pg_index_indpred) of an index, as they are stored; NULL: it has none.
 */
static Node *
stored_expression(Relation index, AttrNumber attribute)
{
	bool		isnull;
	Datum		value = SysCacheGetAttr(INDEXRELID, index->rd_indextuple, attribute, &isnull);

	return isnull ? NULL : stringToNode(TextDatumGetCString(value));
}

bool
table_check_index_is_partial(Relation index)
{
	return !heap_attisnull(index->rd_indextuple, Anum_pg_index_indpred, NULL);
}

/*
 * What the parser makes of an expression on columns of a table, as it makes it
 * of that of an index; of NULL: NULL.  It finds nothing of a user's: all that
 * the text names is a column that was looked at, or of pg_catalog.
 */
static Node *
parse_expression(Relation rel, const char *text)
{
	ParseState *pstate;
	RawStmt    *raw;
	ResTarget  *target;
	Node	   *result;

	if (text == NULL)
		return NULL;
	pstate = make_parsestate(NULL);
	addNSItemToQuery(pstate,
					 addRangeTableEntryForRelation(pstate, rel, AccessShareLock, NULL, false, true),
					 false, false, true);
	raw = linitial_node(RawStmt, raw_parser(text, RAW_PARSE_PLPGSQL_EXPR));
	target = linitial_node(ResTarget, castNode(SelectStmt, raw->stmt)->targetList);
	result = transformExpr(pstate, target->val, EXPR_KIND_INDEX_EXPRESSION);
	assign_expr_collations(pstate, result);
	free_parsestate(pstate);
	return result;
}

/* Our indexes, as queue_admin.c makes them. */
static const struct
{
	const char *name;			/* with the queue's after it; NULL: any */
	const char *on;				/* for the user */
	int			ncolumns;
	QueueColumn columns[3];		/* the first of three: of its values' hash */
	bool		unique;
	const char *rows;			/* its predicate; NULL: none */
	size_t		oid;			/* where in QueueInfo it is noted */
}			expected_indexes[] = {
	{NULL, "id", 1, {COLUMN_ID}, true, NULL, offsetof(QueueInfo, id_index)},
	{"address_of_", "address", 1, {COLUMN_ADDRESS}, false, "address IS NOT NULL",
	offsetof(QueueInfo, address_index)},
	{"due_of_", "run_at", 1, {COLUMN_RUN_AT}, false, "state OPERATOR(pg_catalog.=) 's'",
	offsetof(QueueInfo, due_index)},
	{"overflow_of_", "group_key, priority, id", 3, {COLUMN_GROUP_KEY, COLUMN_PRIORITY, COLUMN_ID},
	false, "state OPERATOR(pg_catalog.=) 'o'", offsetof(QueueInfo, overflow_index)},
	{"key_of_", "unique_key", 1, {COLUMN_UNIQUE_KEY}, false,
		"unique_key IS NOT NULL AND state OPERATOR(pg_catalog.<>) 'd'",
	offsetof(QueueInfo, key_index)},
	{"held_of_", "id", 1, {COLUMN_ID}, false, "state OPERATOR(pg_catalog.=) 'h'",
	offsetof(QueueInfo, held_index)},
	{"expiry_of_", "column \"expires_at\"", 1, {COLUMN_EXPIRES_AT}, false,
		"expires_at IS NOT NULL AND state OPERATOR(pg_catalog.<>) 'd'",
	offsetof(QueueInfo, expiry_index)},
};

#define INDEX_OID(info, i) (*(Oid *) ((char *) (info) + expected_indexes[i].oid))

/*
 * Does an index begin with what the overflow is found by?  The seed may be a
 * bigint, or an integer that was made one.
 */
static bool
is_overflow_hash(const QueueInfo *info, Relation rel, Relation index)
{
	static const char *const hashes[2][2] = {
		{QUEUE_GROUP_HASH("0"), QUEUE_GROUP_HASH("pg_catalog.int8 '0'")},
		{QUEUE_SUBGROUP_HASH("0"), QUEUE_SUBGROUP_HASH("pg_catalog.int8 '0'")},
	};
	Node	   *stored = stored_expression(index, Anum_pg_index_indexprs);
	bool		result = false;

	for (int i = 0; i < 2; i++)
		result |= equal(stored, list_make1(parse_expression(rel, hashes[info->subgroups][i])));
	return result;
}

/*
 * Is this index number i of ours, whatever it is called?  has_entry
 * (row_writer.c) goes by its predicate, so an index of another one would be
 * spoilt.
 */
static bool
fit_index(QueueInfo *info, Relation rel, Relation index, int i)
{
	Form_pg_index form = index->rd_index;
	int			n = expected_indexes[i].ncolumns;

	if (!form->indisvalid || index->rd_rel->relam != BTREE_AM_OID ||
		form->indnkeyatts != n || form->indnatts != n ||
		form->indisunique != expected_indexes[i].unique)
		return false;
	for (int c = 0; c < n; c++)
	{
		QueueColumn column = expected_indexes[i].columns[c];
		bool		hashed = (n == 3 && c == 0);

		if (form->indkey.values[c] != (hashed ? 0 : info->columns[column]) ||
			index->rd_indoption[c] != 0 ||
			index->rd_opfamily[c] !=
			get_opclass_family(GetDefaultOpClass(index->rd_opcintype[c], BTREE_AM_OID)) ||
			(column == COLUMN_UNIQUE_KEY && index->rd_indcollation[c] != C_COLLATION_OID))
			return false;
		if (hashed && !is_overflow_hash(info, rel, index))
			return false;
	}
	return equal(stored_expression(index, Anum_pg_index_indpred),
				 parse_expression(rel, expected_indexes[i].rows));
}

/*
 * Find the indexes that the engine walks.  Other indexes are maintained.
 *
 * Ours are known by their names and by what they are: a user may have others,
 * on the same columns and with other predicates.  Of unique indexes on all
 * ids any will do.
 */
static void
examine_indexes(QueueInfo *info, Relation rel)
{
	List	   *indexes = RelationGetIndexList(rel);
	ListCell   *lc;

	for (int i = 0; i < (int) lengthof(expected_indexes); i++)
		INDEX_OID(info, i) = InvalidOid;
	foreach(lc, indexes)
	{
		Relation	index = index_open(lfirst_oid(lc), AccessShareLock);
		const char *name = RelationGetRelationName(index);

		if (index->rd_index->indisexclusion || !index->rd_index->indimmediate)
			unfit_table(rel, psprintf("Index \"%s\" belongs to an exclusion constraint or to one that is deferrable.",
									  name));
		for (int i = 0; i < (int) lengthof(expected_indexes); i++)
		{
			const char *prefix = expected_indexes[i].name;

			if ((prefix == NULL ||
				 (strncmp(name, prefix, strlen(prefix)) == 0 &&
				  strcmp(name + strlen(prefix), info->name) == 0)) &&
				fit_index(info, rel, index, i))
				INDEX_OID(info, i) = RelationGetRelid(index);
		}
		index_close(index, AccessShareLock);
	}
	list_free(indexes);
	for (int i = 0; i < (int) lengthof(expected_indexes); i++)
	{
		if (OidIsValid(INDEX_OID(info, i)))
			continue;
		if (expected_indexes[i].name == NULL)
			unfit_table(rel, psprintf("It has no valid unique index on (%s).",
									  expected_indexes[i].on));
		unfit_table(rel, psprintf("It has no valid index \"%s%s\" on (%s%s), such as fairq.create_queue() makes.",
								  expected_indexes[i].name, info->name,
								  info->subgroups && expected_indexes[i].ncolumns == 3 ?
								  "subgroup_key, " : "",
								  expected_indexes[i].on));
	}
}

/*
 * The sequence that ids come from: ours, or ids would come twice, or never.
 */
static void
examine_sequence(QueueInfo *info, Relation rel)
{
	char		name[NAMEDATALEN];
	HeapTuple	tuple;
	bool		fit;

	snprintf(name, sizeof(name), "ids_of_%s", info->name);
	info->id_sequence = get_relname_relid(name, RelationGetNamespace(rel));
	if (!OidIsValid(info->id_sequence))
		unfit_table(rel, psprintf("Its sequence \"%s\" is missing.", name));

	if (get_rel_relkind(info->id_sequence) != RELKIND_SEQUENCE ||
		run_as_owner_of(info->id_sequence) != rel->rd_rel->relowner)
		unfit_table(rel, psprintf("Relation \"%s\" is not a sequence of the table's owner.", name));

	tuple = SearchSysCache1(SEQRELID, ObjectIdGetDatum(info->id_sequence));
	fit = HeapTupleIsValid(tuple) &&
		((Form_pg_sequence) GETSTRUCT(tuple))->seqincrement == QUEUE_ID_BLOCK &&
		!((Form_pg_sequence) GETSTRUCT(tuple))->seqcycle;
	if (HeapTupleIsValid(tuple))
		ReleaseSysCache(tuple);
	if (!fit)
		unfit_table(rel, psprintf("Its sequence \"%s\" has another increment than %d, or begins anew at its end.",
								  name, QUEUE_ID_BLOCK));
}

/*
 * Our own row trigger has to be there, and no other: we do not fire triggers.
 */
static void
examine_triggers(Relation rel)
{
	/* A copy: whoever looks into catalogs may have the relation's made anew. */
	TriggerDesc *triggers = CopyTriggerDesc(rel->trigdesc);
	Oid			schema = get_namespace_oid(INTERNAL_SCHEMA, false);
	bool		ours = false;

	for (int i = 0; triggers != NULL && i < triggers->numtriggers; i++)
	{
		Trigger    *trigger = &triggers->triggers[i];

		if (get_func_namespace(trigger->tgfoid) == schema &&
			strcmp(get_func_name(trigger->tgfoid), "row_written") == 0)
			ours |= (trigger->tgenabled == TRIGGER_FIRES_ALWAYS &&
					 trigger->tgtype == (TRIGGER_TYPE_ROW | TRIGGER_TYPE_AFTER |
										 TRIGGER_TYPE_INSERT | TRIGGER_TYPE_UPDATE |
										 TRIGGER_TYPE_DELETE) &&
					 trigger->tgnattr == 0 && trigger->tgqual == NULL);
		else if (trigger->tgenabled != TRIGGER_DISABLED)
			unfit_table(rel, OidIsValid(trigger->tgconstraint) ?
						psprintf("Constraint \"%s\" would not be checked.",
								 get_constraint_name(trigger->tgconstraint)) :
						psprintf("Trigger \"%s\" would not be fired.", trigger->tgname));
	}
	if (!ours)
		unfit_table(rel, "Its trigger \"fairq_row_written\" is missing or not enabled ALWAYS.");
	FreeTriggerDesc(triggers);
}

/*
 * Find in the table of a queue, which is open, what the engine works with:
 * *info says which columns and indexes, and which sequence.  Raises an error
 * if something is missing, or there that the engine would pass over.
 */
void
table_check(QueueInfo *info, Relation rel)
{
	AssertRelationLocked(rel, AccessShareLock);
	if (rel->rd_rel->relkind != RELKIND_RELATION)
		unfit_table(rel, "It is not an ordinary table.");
	/* Its file is not there before the end of recovery. */
	if (!RelationIsPermanent(rel) && RecoveryInProgress())
		unfit_table(rel, "It is unlogged, and so not on this standby.");
	if (rel->rd_rel->relam != HEAP_TABLE_AM_OID)
		unfit_table(rel, "Its access method is not heap.");
	if (rel->rd_rel->relispartition ||
		(rel->rd_rel->relhassubclass &&
		 find_inheritance_children(RelationGetRelid(rel), NoLock) != NIL))
		unfit_table(rel, "It takes part in partitioning or inheritance.");
	if (rel->rd_rules != NULL)
		unfit_table(rel, "It has rules, which would not be applied.");
	examine_columns(info, rel);
	examine_indexes(info, rel);
	examine_triggers(rel);
	examine_sequence(info, rel);
}
