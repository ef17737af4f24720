-- as: owner
-- Ids that go backwards: there is none to be found.
SELECT fairq.subscribe('#', 'theirs');
ALTER SEQUENCE fairq.ids_of_theirs INCREMENT BY -1 MINVALUE -9223372036854775808 MAXVALUE 1 CYCLE RESTART WITH 1;
\set ON_ERROR_STOP off
SET statement_timeout = '2s';
SELECT fairq.enqueue_many('theirs', array_fill('1'::jsonb, ARRAY[999]));
SELECT fairq.enqueue_many('theirs', array_fill('1'::jsonb, ARRAY[1001]));
