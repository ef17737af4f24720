-- as: creator
-- Other access methods, with code of his in them.
CREATE FUNCTION attack.distance(float8, float8) RETURNS float8 LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN PERFORM attack.ran('distance'); RETURN $1 - $2; END $$;
CREATE TYPE attack.span AS RANGE (subtype = float8, subtype_diff = attack.distance);
ALTER TABLE fairq.q_theirs ADD COLUMN span attack.span DEFAULT attack.span(random(), 2);
CREATE INDEX ON fairq.q_theirs USING gist (span);
CREATE INDEX ON fairq.q_theirs USING hash (group_key);
CREATE INDEX ON fairq.q_theirs USING brin (id);
CREATE INDEX ON fairq.q_theirs USING gin (payload) WHERE attack.sneaky('gin');
