-- as: creator
-- Constraints that take more than an entry in an index.
CREATE FUNCTION attack.span(bigint) RETURNS int8range LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN PERFORM attack.ran('exclusion'); RETURN int8range($1, $1, '[]'); END $$;
ALTER TABLE fairq.q_theirs ADD EXCLUDE USING gist (attack.span(id) WITH &&);
