-- What the extension consists of, and what a queue's table does: a line for each
-- fact, without oids and without what columns were dropped. test/t/lib/FairqUpgrade.pm
-- compares a database that was updated with a new one.
\pset tuples_only on
\pset format unaligned
SET search_path = '';
CREATE TEMP VIEW members AS
    SELECT classid, objid, refobjid AS extension, pg_catalog.pg_describe_object(classid, objid, 0) AS what
        FROM pg_catalog.pg_depend
        WHERE refclassid = 'pg_catalog.pg_extension'::regclass AND deptype = 'e'
            AND refobjid = (SELECT oid FROM pg_catalog.pg_extension WHERE extname = :'extension');
-- The extension's, and those of the queue that the test names.
CREATE TEMP VIEW relations AS
    SELECT c.* FROM pg_catalog.pg_class c WHERE oid IN (SELECT objid FROM pg_temp.members WHERE classid = 'pg_catalog.pg_class'::regclass)
        OR (relnamespace = 'fairq'::regnamespace AND relname IN ('q_mail', 'done_mail'));
CREATE TEMP VIEW columns AS
    SELECT c.oid::regclass AS relation, row_number() OVER (PARTITION BY c.oid ORDER BY attnum) AS n, attrelid, attnum, attname,
            atttypid, atttypmod, attcollation, attstorage, attnotnull, attacl
        FROM pg_temp.relations c JOIN pg_catalog.pg_attribute a ON attrelid = c.oid AND attnum > 0 AND NOT attisdropped;

SELECT 'member: ' || what || ': ' || coalesce(pg_catalog.obj_description(objid, classid::regclass::name), '-')
    FROM pg_temp.members ORDER BY what COLLATE "C";
SELECT 'extension: ' || pg_catalog.row_to_json(e)::text
    FROM (SELECT extversion, extrelocatable, extnamespace::regnamespace, extconfig::regclass[], extcondition
          FROM pg_catalog.pg_extension WHERE extname = :'extension') e;
SELECT 'function: ' || pg_catalog.pg_get_functiondef(p.oid) || ' owner ' || proowner::regrole || ' for ' || coalesce(proacl::text, '-')
    FROM pg_catalog.pg_proc p WHERE oid IN (SELECT objid FROM pg_temp.members WHERE classid = 'pg_catalog.pg_proc'::regclass)
    ORDER BY p.oid::regprocedure::text COLLATE "C";
SELECT 'schema: ' || nspname || ' for ' || coalesce(nspacl::text, '-') FROM pg_catalog.pg_namespace
    WHERE oid IN (SELECT objid FROM pg_temp.members WHERE classid = 'pg_catalog.pg_namespace'::regclass) ORDER BY nspname;
SELECT 'type: ' || oid::regtype || ' for ' || coalesce(typacl::text, '-') || ', '
        || pg_catalog.array_to_string(ARRAY[typinput, typoutput, typreceive, typsend]::regprocedure[]::text[], ' ')
    FROM pg_catalog.pg_type WHERE oid IN (SELECT objid FROM pg_temp.members WHERE classid = 'pg_catalog.pg_type'::regclass)
    ORDER BY oid::regtype::text COLLATE "C";
SELECT 'operator: ' || oid::regoperator || ' ' || oprcode::regprocedure FROM pg_catalog.pg_operator
    WHERE oid IN (SELECT objid FROM pg_temp.members WHERE classid = 'pg_catalog.pg_operator'::regclass)
    ORDER BY oid::regoperator::text COLLATE "C";
SELECT 'support: ' || amprocfamily || ' ' || amprocnum || ' ' || amproc::regprocedure FROM (
        SELECT pg_catalog.pg_describe_object('pg_catalog.pg_opfamily'::regclass, amprocfamily, 0) AS amprocfamily, amprocnum, amproc, amprocfamily AS family
            FROM pg_catalog.pg_amproc) p
    WHERE family IN (SELECT objid FROM pg_temp.members WHERE classid = 'pg_catalog.pg_opfamily'::regclass)
    ORDER BY amprocfamily COLLATE "C", amprocnum;
SELECT 'relation: ' || oid::regclass || ' ' || relkind::text || ' owner ' || relowner::regrole || ' for ' || coalesce(relacl::text, '-') || ' with ' || coalesce(reloptions::text, '-')
    || CASE WHEN relkind = 'v' THEN pg_catalog.pg_get_viewdef(oid) ELSE '' END
    FROM pg_temp.relations ORDER BY oid::regclass::text COLLATE "C";
SELECT 'column: ' || c.relation || ' ' || n || ' ' || attname || ' ' || pg_catalog.format_type(atttypid, atttypmod)
        || ' collate ' || coalesce((SELECT collname FROM pg_catalog.pg_collation l WHERE l.oid = attcollation), '-')
        || ' storage ' || attstorage::text || CASE WHEN attnotnull THEN ' not null' ELSE '' END || ' for ' || coalesce(attacl::text, '-')
        || ' default ' || coalesce(pg_catalog.pg_get_expr(d.adbin, d.adrelid), '-')
        || ': ' || coalesce(pg_catalog.col_description(attrelid, attnum), '-')
    FROM pg_temp.columns c LEFT JOIN pg_catalog.pg_attrdef d ON d.adrelid = attrelid AND d.adnum = attnum
    ORDER BY c.relation::text COLLATE "C", n;
SELECT 'constraint: ' || conrelid::regclass || ' ' || conname || ' ' || pg_catalog.pg_get_constraintdef(oid) FROM pg_catalog.pg_constraint
    WHERE conrelid IN (SELECT oid FROM pg_temp.relations) ORDER BY conrelid::regclass::text COLLATE "C", conname COLLATE "C";
SELECT 'index: ' || pg_catalog.pg_get_indexdef(indexrelid) FROM pg_catalog.pg_index
    WHERE indrelid IN (SELECT oid FROM pg_temp.relations) ORDER BY pg_catalog.pg_get_indexdef(indexrelid) COLLATE "C";
-- Those of foreign keys have oids in their names.
SELECT 'trigger: ' || tgrelid::regclass || ' ' || CASE WHEN tgisinternal THEN '' ELSE tgname END || ' ' || tgfoid::regprocedure || ' ' || tgtype || ' ' || tgenabled::text
    FROM pg_catalog.pg_trigger WHERE tgrelid IN (SELECT oid FROM pg_temp.relations)
    ORDER BY tgrelid::regclass::text COLLATE "C", tgfoid::regprocedure::text COLLATE "C";
SELECT 'dumped without: ' || pg_catalog.pg_describe_object(classoid, objoid, objsubid) || ' ' || initprivs::text
    FROM pg_catalog.pg_init_privs i WHERE EXISTS (SELECT FROM pg_temp.members WHERE classid = classoid AND objid = objoid)
    ORDER BY pg_catalog.pg_describe_object(classoid, objoid, objsubid) COLLATE "C";
