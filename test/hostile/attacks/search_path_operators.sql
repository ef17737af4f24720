-- as: creator
-- Operators, functions, types and tables in schema fairq that somebody could find instead of pg_catalog's.
CREATE FUNCTION fairq.sneaky(text, text) RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN PERFORM attack.ran('operator'); RETURN true; END $$;
CREATE OPERATOR fairq.= (LEFTARG = text, RIGHTARG = text, FUNCTION = fairq.sneaky);
CREATE OPERATOR fairq.|| (LEFTARG = text, RIGHTARG = text, FUNCTION = fairq.sneaky);
CREATE FUNCTION fairq.sneaky(name, text) RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN PERFORM attack.ran('operator'); RETURN true; END $$;
CREATE OPERATOR fairq.= (LEFTARG = name, RIGHTARG = text, FUNCTION = fairq.sneaky);
CREATE FUNCTION fairq.count(bigint) RETURNS bigint LANGUAGE plpgsql AS $$ BEGIN PERFORM attack.ran('count'); RETURN 1; END $$;
CREATE FUNCTION fairq.hashtextextended(text, bigint) RETURNS bigint LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN PERFORM attack.ran('hashtextextended'); RETURN 1; END $$;
CREATE FUNCTION fairq.pg_has_role(text, text) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN PERFORM attack.ran('pg_has_role'); RETURN true; END $$;
CREATE FUNCTION fairq.now() RETURNS timestamptz LANGUAGE plpgsql AS $$ BEGIN PERFORM attack.ran('now'); RETURN clock_timestamp(); END $$;
CREATE FUNCTION fairq.equal(fairq.address, fairq.address) RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN PERFORM attack.ran('address'); RETURN true; END $$;
CREATE DOMAIN fairq.text AS pg_catalog.text CHECK (attack.ran('text'));
CREATE DOMAIN fairq.int8 AS pg_catalog.int8 CHECK (attack.ran('int8'));
CREATE DOMAIN fairq.bigint AS pg_catalog.int8 CHECK (attack.ran('bigint'));
CREATE TABLE fairq.pg_class (LIKE pg_catalog.pg_class);
CREATE TABLE fairq.fairq_finished (LIKE fairq.done_theirs);
