-- as: database
-- then: extension
-- A database whose owner has set what is found first, for all who connect, the worker too; then a superuser has queues in it.
CREATE SCHEMA evil;
GRANT USAGE ON SCHEMA evil TO PUBLIC;
CREATE FUNCTION evil.ran(how text) RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
	RAISE LOG 'hostile code: attack as=% session=% by=%', current_user, session_user, how;
	RETURN true;
END
$$;
SELECT format('CREATE FUNCTION evil.compare(%1$s, %2$s) RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS $f$ BEGIN RETURN evil.ran(%3$L); END $f$',
		a::text, b::text, 'operator ' || a || ' ' || b) FROM (VALUES ('text', 'text'), ('name', 'text'), ('name', 'name'), ('oid', 'oid'), ('bigint', 'bigint'), ('bigint', 'int'),
		('int', 'int'), ('"char"', '"char"'), ('timestamptz', 'timestamptz'), ('interval', 'interval'), ('boolean', 'boolean'), ('tid', 'tid')) v (a, b) \gexec
SELECT format('CREATE OPERATOR evil.%3$s (LEFTARG = %1$s, RIGHTARG = %2$s, FUNCTION = evil.compare)', a, b, o) FROM (VALUES ('text', 'text'), ('name', 'text'), ('name', 'name'),
		('oid', 'oid'), ('bigint', 'bigint'), ('bigint', 'int'), ('int', 'int'), ('"char"', '"char"'), ('timestamptz', 'timestamptz'), ('interval', 'interval'), ('boolean', 'boolean'),
		('tid', 'tid')) v (a, b), unnest('{=,<>,<,>,<=,>=,||,+,-}'::text[]) o \gexec
\set ON_ERROR_STOP off
CREATE FUNCTION evil.count(bigint) RETURNS bigint LANGUAGE plpgsql AS $$ BEGIN PERFORM evil.ran('count'); RETURN 1; END $$;
CREATE FUNCTION evil.has_table_privilege(oid, text) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN RETURN evil.ran('has_table_privilege'); END $$;
CREATE FUNCTION evil.pg_has_role(name, text) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN RETURN evil.ran('pg_has_role'); END $$;
CREATE FUNCTION evil.hashtextextended(text, bigint) RETURNS bigint LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN PERFORM evil.ran('hashtextextended'); RETURN 1; END $$;
CREATE DOMAIN evil.int8 AS bigint CHECK (evil.ran('int8'));
CREATE DOMAIN evil.text AS pg_catalog.text CHECK (evil.ran('text'));
CREATE DOMAIN evil.uuid AS pg_catalog.uuid CHECK (evil.ran('uuid'));
CREATE TABLE evil.pg_class (oid oid, relname name);
\set ON_ERROR_STOP on
ALTER DATABASE attack SET search_path = evil, pg_catalog;
ALTER DATABASE attack SET lock_timeout = 1;
ALTER DATABASE attack SET "DateStyle" = 'SQL, DMY';
ALTER DATABASE attack SET "IntervalStyle" = sql_standard;
ALTER DATABASE attack SET "TimeZone" = 'Asia/Kathmandu';
ALTER DATABASE attack SET enable_indexscan = off;
ALTER DATABASE attack SET default_transaction_isolation = serializable;
ALTER DATABASE attack SET default_transaction_deferrable = on;
ALTER DATABASE attack SET bytea_output = escape;
ALTER DATABASE attack SET work_mem = '64kB';
ALTER DATABASE attack SET row_security = off;
