-- as: owner
-- A sequence of another type, not logged.
ALTER SEQUENCE fairq.ids_of_theirs AS smallint MAXVALUE 1100;
ALTER SEQUENCE fairq.ids_of_theirs OWNED BY NONE;
\set ON_ERROR_STOP off
SELECT fairq.enqueue_many('theirs', array_fill('1'::jsonb, ARRAY[2500]));
