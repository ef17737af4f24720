-- What others have built upon a function (views, defaults, functions in SQL) is not ours to
-- drop, nor a reason to stay behind. Such a function stays, under another name and as no
-- part of the extension, and only says that it is gone. Included by an update script, which
-- drops this when it is done.
CREATE FUNCTION fairq_internal.retire(retired regprocedure, version text)
RETURNS void LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    suffix text := '_' || replace(substring(version FROM '^\d+\.\d+'), '.', '_');
    was text := replace(retired::text, suffix || '(', '(');
    extension name := (SELECT e.extname FROM pg_depend d JOIN pg_extension e ON e.oid = d.refobjid
        WHERE d.classid = 'pg_proc'::regclass AND d.objid = retired AND d.refclassid = 'pg_extension'::regclass);
    f pg_proc;
    users text;
BEGIN
    EXECUTE format('DROP FUNCTION %s', retired);
EXCEPTION WHEN dependent_objects_still_exist THEN
    GET STACKED DIAGNOSTICS users = PG_EXCEPTION_DETAIL;
    SELECT * INTO f FROM pg_proc WHERE oid = retired;
    IF right(f.proname, length(suffix)) <> suffix THEN
        f.proname := f.proname || suffix;
        EXECUTE format('ALTER FUNCTION %s RENAME TO %I', retired, f.proname);
    END IF;
    EXECUTE format('CREATE OR REPLACE FUNCTION %s.%I(%s) RETURNS %s LANGUAGE plpgsql AS %L',
        f.pronamespace::regnamespace, f.proname, pg_get_function_arguments(retired), pg_get_function_result(retired),
        format('BEGIN RAISE EXCEPTION %L USING ERRCODE = %L, HINT = %L; END', was || ' is gone with version ' || version,
            'undefined_function', 'Call that of this version.'));
    EXECUTE format('ALTER EXTENSION %I DROP FUNCTION %s', extension, retired);
    RAISE WARNING 'function % is gone, and others are built upon it', was
        USING DETAIL = users, HINT = format('Have them call that of this version, and drop %s, which they have in its place.', retired);
END
$$;
