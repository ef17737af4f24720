-- as: creator
-- Tables, views and sequences with names that a queue's things would have.
CREATE VIEW fairq.q_taken AS SELECT attack.ran('view of a queue') AS id;
CREATE TABLE fairq.done_taken (id int CHECK (attack.ran('archive of no queue')));
CREATE SEQUENCE fairq.ids_of_taken;
CREATE TABLE fairq.q_ (id bigint);
CREATE TABLE fairq.q (id bigint);
CREATE TABLE fairq.done_ (id bigint);
CREATE VIEW fairq.done_work2 AS SELECT 1 AS x;
CREATE TABLE fairq."q_wörk" (LIKE fairq.q_theirs INCLUDING ALL);
CREATE MATERIALIZED VIEW fairq.q_matview AS SELECT 1 AS id;
CREATE TABLE fairq.parts (id int) PARTITION BY LIST (id);
CREATE TABLE fairq.q_part PARTITION OF fairq.parts DEFAULT;
DROP TABLE fairq.parts;
DROP MATERIALIZED VIEW fairq.q_matview;
\set ON_ERROR_STOP off
SELECT fairq.create_queue('taken');
SELECT fairq.peek('taken');
SELECT fairq.peek('');
