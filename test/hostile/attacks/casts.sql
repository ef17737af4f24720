-- as: owner
-- Casts and types of his own for columns that the engine fills.
CREATE TYPE attack.box AS (content text);
CREATE FUNCTION attack.to_box(jsonb) RETURNS attack.box LANGUAGE plpgsql AS $$ BEGIN PERFORM attack.ran('cast'); RETURN ROW($1::text); END $$;
CREATE FUNCTION attack.from_box(attack.box) RETURNS jsonb LANGUAGE plpgsql AS $$ BEGIN PERFORM attack.ran('cast back'); RETURN to_jsonb(($1).content); END $$;
CREATE CAST (jsonb AS attack.box) WITH FUNCTION attack.to_box(jsonb) AS IMPLICIT;
CREATE CAST (attack.box AS jsonb) WITH FUNCTION attack.from_box(attack.box) AS IMPLICIT;
ALTER TABLE fairq.done_theirs ALTER COLUMN headers TYPE attack.box USING attack.to_box(headers);
ALTER TABLE fairq.q_theirs ALTER COLUMN headers TYPE attack.box USING attack.to_box(headers);
