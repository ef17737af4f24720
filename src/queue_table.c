/*-------------------------------------------------------------------------
 *
 * queue_table.c
 *	  What the table of a queue has to be like.
 *
 * Rows are read and written directly (queue_relation.c), past the executor.
 * What the executor would have honoured and we do not is found out here, once
 * a table is made known to a session, and refused with a clear error.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/relation.h"
#include "catalog/pg_am_d.h"
#include "catalog/pg_index.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_opclass.h"
#include "catalog/pg_type_d.h"
#include "commands/defrem.h"
#include "commands/trigger.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

#include "compat.h"
#include "queue_catalog.h"
#include "queue_table.h"

/* Our columns, as queue_admin.c makes them; the type of address is looked up. */
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
};

static void
unfit_table(Relation rel, const char *detail)
{
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_TABLE_DEFINITION),
			 errmsg("table \"%s.%s\" cannot be used as the table of a queue",
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
 * Find the indexes that the engine walks.  Other indexes are maintained.
 */
static void
examine_indexes(QueueInfo *info, Relation rel)
{
	List	   *indexes = RelationGetIndexList(rel);
	ListCell   *lc;
	char		due_name[NAMEDATALEN];
	char		overflow_name[NAMEDATALEN];
	char		key_name[NAMEDATALEN];
	char		held_name[NAMEDATALEN];

	snprintf(due_name, sizeof(due_name), "due_of_%s", info->name);
	snprintf(overflow_name, sizeof(overflow_name), "overflow_of_%s", info->name);
	snprintf(key_name, sizeof(key_name), "key_of_%s", info->name);
	snprintf(held_name, sizeof(held_name), "held_of_%s", info->name);
	info->id_index = InvalidOid;
	info->address_index = InvalidOid;
	info->due_index = InvalidOid;
	info->overflow_index = InvalidOid;
	info->key_index = InvalidOid;
	info->held_index = InvalidOid;
	foreach(lc, indexes)
	{
		Relation	index = index_open(lfirst_oid(lc), AccessShareLock);
		Form_pg_index form = index->rd_index;

		if (form->indisexclusion || !form->indimmediate)
			unfit_table(rel, psprintf("Index \"%s\" belongs to an exclusion constraint or to one that is deferrable.",
									  RelationGetRelationName(index)));
		if (form->indisvalid && index->rd_rel->relam == BTREE_AM_OID &&
			form->indnkeyatts == 1 && form->indnatts == 1 &&
			index->rd_indoption[0] == 0 &&
			index->rd_opfamily[0] ==
			get_opclass_family(GetDefaultOpClass(index->rd_opcintype[0], BTREE_AM_OID)))
		{
			List	   *predicate = RelationGetIndexPredicate(index);

			if (form->indkey.values[0] == info->columns[COLUMN_ID] &&
				form->indisunique && predicate == NIL)
				info->id_index = RelationGetRelid(index);

			/* Others on the same column are maintained, but not walked. */
			if (form->indkey.values[0] == info->columns[COLUMN_ADDRESS] &&
				!form->indisunique && list_length(predicate) == 1 &&
				IsA(linitial(predicate), NullTest) &&
				linitial_node(NullTest, predicate)->nulltesttype == IS_NOT_NULL)
				info->address_index = RelationGetRelid(index);
			if (form->indkey.values[0] == info->columns[COLUMN_RUN_AT] &&
				!form->indisunique && predicate != NIL &&
				strcmp(RelationGetRelationName(index), due_name) == 0)
				info->due_index = RelationGetRelid(index);
			if (form->indkey.values[0] == info->columns[COLUMN_UNIQUE_KEY] &&
				!form->indisunique && predicate != NIL &&
				strcmp(RelationGetRelationName(index), key_name) == 0)
				info->key_index = RelationGetRelid(index);
			if (form->indkey.values[0] == info->columns[COLUMN_ID] &&
				!form->indisunique && predicate != NIL &&
				strcmp(RelationGetRelationName(index), held_name) == 0)
				info->held_index = RelationGetRelid(index);
		}
		if (form->indisvalid && index->rd_rel->relam == BTREE_AM_OID &&
			form->indnkeyatts == 3 && !form->indisunique &&
			form->indkey.values[0] == 0 &&
			form->indkey.values[1] == info->columns[COLUMN_PRIORITY] &&
			form->indkey.values[2] == info->columns[COLUMN_ID] &&
			strcmp(RelationGetRelationName(index), overflow_name) == 0)
			info->overflow_index = RelationGetRelid(index);
		index_close(index, AccessShareLock);
	}
	list_free(indexes);
	if (!OidIsValid(info->id_index))
		unfit_table(rel, "It has no valid unique index on column \"id\".");
	if (!OidIsValid(info->address_index))
		unfit_table(rel, "It has no valid index on column \"address\".");
	if (!OidIsValid(info->due_index))
		unfit_table(rel, psprintf("It has no valid index \"due_of_%s\" on column \"run_at\".",
								  info->name));
	if (!OidIsValid(info->overflow_index))
		unfit_table(rel, psprintf("It has no valid index \"overflow_of_%s\" on groups and ids.",
								  info->name));
	if (!OidIsValid(info->key_index))
		unfit_table(rel, psprintf("It has no valid index \"key_of_%s\" on column \"unique_key\".",
								  info->name));
	if (!OidIsValid(info->held_index))
		unfit_table(rel, psprintf("It has no valid index \"held_of_%s\" on column \"id\".",
								  info->name));
}

/*
 * Our own row trigger has to be there, and no other: we do not fire triggers.
 */
static void
examine_triggers(Relation rel)
{
	TriggerDesc *triggers = rel->trigdesc;
	Oid			schema = queue_catalog_schema(false);
	bool		ours = false;

	for (int i = 0; triggers != NULL && i < triggers->numtriggers; i++)
	{
		Trigger    *trigger = &triggers->triggers[i];

		if (get_func_namespace(trigger->tgfoid) == schema)
			ours |= (trigger->tgenabled == TRIGGER_FIRES_ALWAYS);
		else if (trigger->tgenabled != TRIGGER_DISABLED)
			unfit_table(rel, OidIsValid(trigger->tgconstraint) ?
						psprintf("Constraint \"%s\" would not be checked.",
								 get_constraint_name(trigger->tgconstraint)) :
						psprintf("Trigger \"%s\" would not be fired.", trigger->tgname));
	}
	if (!ours)
		unfit_table(rel, "Its trigger \"fairq_row_written\" is missing or not enabled ALWAYS.");
}

/*
 * Find in the table of a queue, which is open and locked, what the engine works with:
 * *info says which columns and indexes, and which sequence.  Raises an error
 * if something is missing, or there that the engine would pass over.
 */
void
queue_table_examine(QueueInfo *info, Relation rel)
{
	char		sequence[NAMEDATALEN];

	if (rel->rd_rel->relkind != RELKIND_RELATION)
		unfit_table(rel, "It is not an ordinary table.");
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

	snprintf(sequence, sizeof(sequence), "ids_of_%s", info->name);
	info->id_sequence = get_relname_relid(sequence, RelationGetNamespace(rel));
	if (!OidIsValid(info->id_sequence))
		unfit_table(rel, psprintf("Its sequence \"%s\" is missing.", sequence));
}
