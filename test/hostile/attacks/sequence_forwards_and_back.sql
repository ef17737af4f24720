-- as: owner
-- Ids that were given out already, and steps that are not ours.
ALTER SEQUENCE fairq.ids_of_theirs INCREMENT BY 1 CYCLE CACHE 1000;
SELECT setval('fairq.ids_of_theirs', 1);
\set ON_ERROR_STOP off
SELECT fairq.enqueue_many('theirs', array_fill('1'::jsonb, ARRAY[2500]));
SELECT fairq.enqueue('theirs', '1');
