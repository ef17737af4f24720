-- as: owner
-- What waits for what in others' queues, read, written, locked and altered, in the table itself and through the view; and in the owner's, behind the engine's back.
-- Fails with GRANT ALL ON fairq.dependency TO PUBLIC.
SELECT fairq.enqueue('theirs', '"p"') AS p \gset
SELECT count(fairq.enqueue('theirs', '"s"', after => ARRAY[:p], on_dead => (ARRAY['hold', 'cancel', 'run'])[1 + n % 3])) FROM generate_series(1, 30) n;
\set ON_ERROR_STOP off
TABLE fairq.dependency;
SELECT * FROM fairq.dependency FOR UPDATE;
SELECT queue, task FROM fairq.dependencies WHERE attack.ran(queue || task) AND queue <> 'theirs';
SELECT * FROM fairq.dependencies FOR UPDATE;
INSERT INTO fairq.dependency (queue, task, predecessor, on_dead) VALUES ('still', 1, 2, 'h');
INSERT INTO fairq.dependencies (queue, task, predecessor, on_dead) VALUES ('still', 1, 2, 'h');
UPDATE fairq.dependency SET failed = true;
UPDATE fairq.dependencies SET failed = true;
DELETE FROM fairq.dependency;
DELETE FROM fairq.dependencies;
MERGE INTO fairq.dependency d USING (VALUES (1)) v (x) ON true WHEN MATCHED THEN DELETE;
COPY fairq.dependency TO STDOUT;
COPY (SELECT * FROM fairq.dependencies WHERE queue = 'still') TO STDOUT;
TRUNCATE fairq.dependency;
ALTER TABLE fairq.dependency RENAME COLUMN queue TO q;
ALTER TABLE fairq.dependency RENAME TO dependency_of_others;
ALTER TABLE fairq.dependency SET SCHEMA attack;
ALTER TABLE fairq.dependency DISABLE TRIGGER ALL;
ALTER TABLE fairq.dependency ADD CHECK (attack.ran('dependency'));
ALTER TABLE fairq.dependency ENABLE ROW LEVEL SECURITY;
ALTER TABLE fairq.dependency OWNER TO owner;
ALTER VIEW fairq.dependencies RENAME COLUMN queue TO q;
DROP TABLE fairq.dependency CASCADE;
DROP INDEX fairq.dependency_by_task;
CREATE INDEX mine ON fairq.dependency (attack.sneaky(queue));
CREATE RULE mine AS ON INSERT TO fairq.dependency DO INSTEAD NOTHING;
CREATE TRIGGER mine AFTER INSERT ON fairq.dependency FOR EACH ROW EXECUTE FUNCTION fairq_internal.dependency_written();
CREATE TRIGGER mine AFTER INSERT OR UPDATE OR DELETE ON fairq.q_theirs FOR EACH ROW EXECUTE FUNCTION fairq_internal.dependency_written();
SELECT fairq.enqueue('theirs', '1', after => ARRAY[:p]);
DROP TRIGGER mine ON fairq.q_theirs;
SELECT fairq_internal.dependency_written();
CREATE TABLE attack.child () INHERITS (fairq.dependency);
CREATE TABLE attack.referencing (q text, t bigint, p bigint, FOREIGN KEY (q, t, p) REFERENCES fairq.dependency (queue, task, predecessor));
CREATE POLICY mine ON fairq.dependency USING (attack.ran('policy'));
CREATE STATISTICS attack.mine ON (attack.sneaky(queue)), task FROM fairq.dependency;
ALTER EXTENSION pgfairq DROP TABLE fairq.dependency;
VACUUM FULL fairq.dependency;
CLUSTER fairq.dependency USING dependency_by_task;
REINDEX TABLE fairq.dependency;
-- After tasks of others, by ids that mean nothing in his queue.
SELECT fairq.enqueue('theirs', '1', after => ARRAY[id]) FROM generate_series(1, 50) id;
SELECT fairq.enqueue('still', '1', after => ARRAY[1::bigint]);
-- A temporary table of that name, and his own rows moved, deleted and doubled behind the engine's back.
CREATE TEMP TABLE dependency (queue text, task bigint, predecessor bigint, on_dead text DEFAULT attack.sneaky('temp')::text CHECK (attack.ran('temporary table')), failed boolean);
SET search_path = pg_temp, attack, fairq;
SELECT fairq.enqueue('theirs', '"s"', after => ARRAY[:p]);
RESET search_path;
UPDATE fairq.q_theirs SET id = id + 500000 WHERE state = 'h' AND id % 4 = 0;
UPDATE fairq.q_theirs SET state = 'o' WHERE state = 'h' AND id % 4 = 1;
DELETE FROM fairq.q_theirs WHERE state = 'h' AND id % 4 = 2;
UPDATE fairq.q_theirs SET state = 'h', address = NULL WHERE state = 'r';
SELECT fairq.cancel('theirs', :p);
SELECT fairq.maintain('theirs');
-- The locks are tried last, and the transaction stays open: they would hold up all others.
BEGIN;
SAVEPOINT s;
LOCK TABLE fairq.dependency IN ACCESS SHARE MODE;
ROLLBACK TO s;
LOCK TABLE fairq.dependency IN ACCESS EXCLUSIVE MODE;
ROLLBACK TO s;
LOCK TABLE fairq.dependencies IN ACCESS EXCLUSIVE MODE;
ROLLBACK TO s;
