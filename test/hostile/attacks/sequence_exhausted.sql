-- as: owner
-- There are no more ids.
SELECT setval('fairq.ids_of_theirs', 9223372036854775000);
\set ON_ERROR_STOP off
SELECT fairq.enqueue_many('theirs', array_fill('1'::jsonb, ARRAY[2500]));
SELECT fairq.enqueue('theirs', '1');
