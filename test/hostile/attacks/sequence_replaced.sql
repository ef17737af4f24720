-- as: creator
-- Something else with the name of the sequence.
DROP SEQUENCE fairq.ids_of_theirs CASCADE;
CREATE VIEW fairq.ids_of_theirs AS SELECT attack.ran('view')::int AS last_value, 0 AS log_cnt, true AS is_called;
\set ON_ERROR_STOP off
SELECT fairq.enqueue('theirs', '1');
DROP VIEW fairq.ids_of_theirs;
CREATE TABLE fairq.ids_of_theirs (last_value text, log_cnt int, is_called boolean);
SELECT fairq.enqueue('theirs', '1');
