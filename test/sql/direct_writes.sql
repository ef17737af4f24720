-- A queue is an ordinary table: what users do to it with SQL of their own, to
-- its rows and to its definition. What the engine cannot honour it refuses.
-- The queues of this file start with "dir".
\i test/sql/include/helpers.sql
\pset format unaligned
\pset tuples_only on
\pset null (null)
-- The queue anew with tasks 1 to most.
CREATE PROCEDURE pg_temp.refill(most int) LANGUAGE plpgsql AS $$
BEGIN
    PERFORM fairq.drop_queue('dir'), fairq.create_queue('dir', buckets => 1, lease => '1 h', max_attempts => 3, default_priority => 0);
    COMMIT;
    PERFORM fairq.enqueue('dir', to_jsonb(n)) FROM generate_series(1, most) n;
END
$$;
-- Claim and acknowledge all there is; what was got.
CREATE FUNCTION pg_temp.drain() RETURNS text LANGUAGE sql AS $$
    WITH c AS (SELECT * FROM fairq.claim('dir', 1000))
    SELECT coalesce(string_agg((payload #>> '{}') || CASE WHEN fairq.ack(receipt) THEN '' ELSE ' (not acked)' END, ' '), 'nothing') FROM c
$$;

-- INSERT of a copy of an addressed row: a task like any other.
CALL pg_temp.refill(3);
INSERT INTO fairq.q_dir SELECT (jsonb_populate_record(q, jsonb_build_object('id', id + 100000, 'payload', 'copy of ' || (payload #>> '{}')))).*
    FROM fairq.q_dir q WHERE payload IN ('1', '3');
SELECT ready FROM fairq.queue_stats WHERE queue = 'dir';
SELECT pg_temp.drain();
SELECT pg_temp.all_of('dir');
-- COPY, too.
CALL pg_temp.refill(0);
COPY fairq.q_dir (id, address, enqueued_at, priority, cost, attempts, state, group_key, payload) FROM STDIN;
11	(0,5,1)	2020-02-02 02:02:02+00	0	1	0	r		"copied"
12	(0,3:7,1)	2020-02-02 02:02:02+00	3	1	0	r	bob	"of class 3"
13	(0,4,1)	2020-02-02 02:02:02+00	0	1	2	r		"and before"
14	\N	2020-02-02 02:02:02+00	0	1	3	d		"dead"
\.
SELECT ready, dead FROM fairq.queue_stats WHERE queue = 'dir';
SELECT payload, priority, attempt, fairq.ack(receipt) FROM fairq.claim('dir', 10);
SELECT pg_temp.all_of('dir');
-- One that is not claimable: without an address.
CALL pg_temp.refill(1);
INSERT INTO fairq.q_dir SELECT (jsonb_populate_record(q, jsonb_build_object('id', id + 100000, 'payload', 'no address'))).* FROM fairq.q_dir q;
UPDATE fairq.q_dir SET address = NULL, state = 'd' WHERE payload = '"no address"';
SELECT pg_temp.drain();
SELECT payload, state FROM fairq.tasks('dir');
SELECT fairq.revive_all('dir');
SELECT pg_temp.drain();
-- Claimed while it is being removed by a statement that fails: it comes again, in order.
CALL pg_temp.refill(5);
SELECT payload FROM fairq.pop('dir');
DELETE FROM fairq.q_dir WHERE payload = '2' RETURNING payload, (SELECT count(*) FROM fairq.claim('dir', 2)), 1 / (id - id);
BEGIN;
SAVEPOINT a;
DELETE FROM fairq.q_dir WHERE payload = '3' RETURNING payload, (SELECT count(*) FROM fairq.claim('dir', 2)), 1 / (id - id);
ROLLBACK TO a;
SELECT pg_temp.drain();
COMMIT;
-- Rolled back it never was.
CALL pg_temp.refill(1);
BEGIN;
INSERT INTO fairq.q_dir SELECT (jsonb_populate_record(q, jsonb_build_object('id', id + 100000, 'payload', 'rolled back'))).* FROM fairq.q_dir q;
SELECT pg_temp.drain();
ROLLBACK;
SELECT pg_temp.drain();
-- An address that cannot be one of this queue, a row without what it takes.
CALL pg_temp.refill(1);
SELECT pg_temp.try($$ UPDATE fairq.q_dir SET address = '(1024,1,1)' $$);
SELECT pg_temp.try($$ UPDATE fairq.q_dir SET address = '(0,9:1,1)' $$);
SELECT pg_temp.try($$ INSERT INTO fairq.q_dir (id) VALUES (0) $$);
SELECT pg_temp.try($$ INSERT INTO fairq.q_dir SELECT * FROM fairq.q_dir $$);
SELECT pg_temp.drain();

-- UPDATE of a ready task's payload.
CALL pg_temp.refill(3);
UPDATE fairq.q_dir SET payload = '"changed"' WHERE payload = '2';
SELECT string_agg(payload #>> '{}', ' ') FROM fairq.peek('dir');
SELECT pg_temp.drain();
-- To one that does not fit where it was.
CALL pg_temp.refill(3);
UPDATE fairq.q_dir SET headers = (SELECT jsonb_agg(md5(n::text || id)) FROM generate_series(1, 10000) n);
SELECT count(*), min(jsonb_array_length(headers)) FROM fairq.tasks('dir');
SELECT pg_temp.drain();
-- Again and again, in one transaction and in many.
CALL pg_temp.refill(2);
DO $$
BEGIN
    FOR i IN 1..500 LOOP
        UPDATE fairq.q_dir SET headers = to_jsonb(repeat('x', i)) WHERE payload = '1';
        IF i % 3 = 0 THEN COMMIT; END IF;
        IF i % 7 = 0 THEN ROLLBACK; END IF;
    END LOOP;
END
$$;
SELECT pg_temp.drain();
-- Of its address: claimed in the new order.
CALL pg_temp.refill(3);
UPDATE fairq.q_dir a SET address = (SELECT address FROM fairq.q_dir b WHERE b.payload = to_jsonb(4 - a.payload::int));
SELECT pg_temp.drain();
-- Of its group, its priority, its attempts.
CALL pg_temp.refill(2);
UPDATE fairq.q_dir SET group_key = 'moved', attempts = 1, lease = '2 h' WHERE payload = '1';
SELECT payload, group_key, attempt, lease_until > now() + interval '90 min' FROM fairq.claim('dir', 10, group_keys => '{moved}');
SELECT payload, group_key, attempt, lease_until > now() + interval '90 min' FROM fairq.claim('dir', 10);

-- UPDATE of the row of a leased task: the lease holds, though the row is elsewhere.
CALL pg_temp.refill(6);
CREATE TEMP TABLE claimed AS SELECT * FROM fairq.claim('dir', 5);
UPDATE fairq.q_dir SET headers = (SELECT jsonb_agg(md5(n::text || id)) FROM generate_series(1, 10000) n);
UPDATE fairq.q_dir SET headers = '"small"', priority = 7;
SELECT pg_temp.all_of('dir');
SELECT string_agg(payload::text, ' ') FROM fairq.claim('dir', 10);
SELECT fairq.ack(pg_temp.receipt(1)), fairq.nack(pg_temp.receipt(2), 'moved', '0'), fairq.release(pg_temp.receipt(3)), fairq.extend(pg_temp.receipt(4)) IS NOT NULL;
SELECT pg_temp.all_of('dir');
SELECT payload, headers, priority, attempt FROM fairq.claim('dir', 10) ORDER BY id;
SELECT fairq.ack(pg_temp.receipt(4)), fairq.ack(pg_temp.receipt(5));
-- Released after a change within its page.
CALL pg_temp.refill(2);
TRUNCATE claimed;
INSERT INTO claimed SELECT * FROM fairq.claim('dir');
UPDATE fairq.q_dir SET headers = '"small"' WHERE payload = '1';
SELECT fairq.release(pg_temp.receipt(1));
SELECT pg_temp.drain();
-- A claim that is rolled back after such a change.
CALL pg_temp.refill(2);
BEGIN;
SELECT count(*) FROM fairq.claim('dir');
UPDATE fairq.q_dir SET headers = '"small"' WHERE payload = '1';
ROLLBACK;
SELECT pg_temp.drain();
CALL pg_temp.refill(2);
UPDATE fairq.q_dir SET headers = '"small"' WHERE payload = '1';
BEGIN;
SELECT count(*) FROM fairq.claim('dir', 2);
ROLLBACK;
SELECT pg_temp.drain();
-- The lease of a changed task that is rolled back, nacked to the dead, cancelled.
CALL pg_temp.refill(3);
TRUNCATE claimed;
INSERT INTO claimed SELECT * FROM fairq.claim('dir', 3);
UPDATE fairq.q_dir SET max_attempts = 1;
SELECT fairq.nack(pg_temp.receipt(1), 'last', '0');
SELECT fairq.cancel('dir', id) FROM claimed WHERE payload = '2';
SELECT fairq.ack(pg_temp.receipt(2));
SELECT pg_temp.all_of('dir');

-- DELETE: of a ready task, of a leased one, of a dead one.
CALL pg_temp.refill(4);
TRUNCATE claimed;
INSERT INTO claimed SELECT * FROM fairq.claim('dir', 2);
DELETE FROM fairq.q_dir WHERE payload IN ('1', '3');
SELECT fairq.ack(pg_temp.receipt(1)), fairq.nack(pg_temp.receipt(1), delay => '0'), fairq.release(pg_temp.receipt(1));
SELECT fairq.ack(pg_temp.receipt(2));
SELECT pg_temp.all_of('dir');
SELECT pg_temp.drain();
SELECT ready, leased, dead FROM fairq.queue_stats WHERE queue = 'dir';
-- Rolled back.
CALL pg_temp.refill(2);
TRUNCATE claimed;
INSERT INTO claimed SELECT * FROM fairq.claim('dir', 1);
BEGIN;
DELETE FROM fairq.q_dir;
SELECT fairq.ack(pg_temp.receipt(1));
SELECT count(*) FROM fairq.claim('dir');
ROLLBACK;
SELECT pg_temp.all_of('dir');
SELECT fairq.ack(pg_temp.receipt(1));
SELECT pg_temp.drain();

-- TRUNCATE: nothing is left, and the queue goes on.
CALL pg_temp.refill(3);
TRUNCATE claimed;
INSERT INTO claimed SELECT * FROM fairq.claim('dir', 1);
TRUNCATE fairq.q_dir;
SELECT fairq.ack(receipt) FROM claimed;
SELECT fairq.release(receipt) FROM claimed;
SELECT pg_temp.drain();
SELECT count(fairq.enqueue('dir', to_jsonb(n))) FROM generate_series(11, 12) n;
SELECT pg_temp.drain();
-- The lease of what is gone is nobody's, and a pass takes it away.
CALL pg_temp.maintain_until('dir', $$ leased = 0 FROM fairq.queue_stats WHERE queue = 'dir' $$);
SELECT ready, leased, dead FROM fairq.queue_stats WHERE queue = 'dir';
-- Rolled back.
CALL pg_temp.refill(3);
BEGIN;
SELECT count(*) FROM fairq.claim('dir');
TRUNCATE fairq.q_dir;
SELECT count(fairq.enqueue('dir', '"into the void"'));
SELECT pg_temp.drain();
ROLLBACK;
SELECT pg_temp.drain();

-- VACUUM FULL and CLUSTER move every row.
CALL pg_temp.refill(4);
TRUNCATE claimed;
INSERT INTO claimed SELECT * FROM fairq.claim('dir', 2);
DELETE FROM fairq.q_dir WHERE payload = '3';
VACUUM FULL fairq.q_dir;
SELECT fairq.ack(pg_temp.receipt(1)), fairq.release(pg_temp.receipt(2));
SELECT pg_temp.drain();
CALL pg_temp.refill(4);
SELECT count(*) FROM fairq.claim('dir', 1);
SELECT conname AS primary_key FROM pg_constraint WHERE conrelid = 'fairq.q_dir'::regclass AND contype = 'p' \gset
CLUSTER fairq.q_dir USING :"primary_key";
SELECT pg_temp.drain();

-- The largest slot that a row can have, and then all are read again: new groups' slots are still numbers that SQL
-- can show and a dump can be restored with. Seen to fail without the comparison with FAIRQ_SLOTS in groups_restore.
SELECT fairq.create_queue('dir slot', buckets => 1, default_priority => 0);
INSERT INTO fairq."q_dir slot" (id, address, enqueued_at, state, group_key, payload, priority, cost, attempts)
    VALUES (500000, '(0,0,9223372036854775807)', now(), 'r', 'x', '"by sql"', 0, 1, 0),
           (500001, '(0,1,4611686018427387903)', now(), 'r', 'y', '"the last slot"', 0, 1, 0);
VACUUM FULL fairq."q_dir slot";
SELECT count(fairq.enqueue('dir slot', to_jsonb(g), g)) FROM unnest('{x,y,z,zz}'::text[]) g;
SELECT string_agg(payload #>> '{}', ', ' ORDER BY id) AS too_large FROM fairq."q_dir slot" WHERE fairq.slot(address) >= 1::bigint << 62;
SELECT fairq.drop_queue('dir slot');

-- A user's index, plain, partial, on an expression, in another access method: kept up by every write.
CALL pg_temp.refill(3);
CREATE INDEX dir_group ON fairq.q_dir (group_key);
CREATE INDEX dir_expression ON fairq.q_dir ((payload::text || group_key)) WHERE attempts > 0;
CREATE INDEX dir_gin ON fairq.q_dir USING gin (payload);
CREATE INDEX dir_hash ON fairq.q_dir USING hash (id);
CREATE INDEX dir_covering ON fairq.q_dir (priority) INCLUDE (id, address);
SELECT cardinality(fairq.enqueue_many('dir', '{"{\"a\": 1}", "{\"a\": 2}"}', '{g}'));
SELECT fairq.nack(receipt, 'again', '0') FROM fairq.claim('dir', 1);
SELECT fairq.nack(receipt, 'again', '0') FROM fairq.claim('dir', 1, group_keys => '{g}');
SET enable_seqscan = off;
SELECT count(*) FROM fairq.q_dir WHERE group_key = 'g';
SELECT count(*) FROM fairq.q_dir WHERE payload::text || group_key = '1' AND attempts > 0;
SELECT count(*) FROM fairq.q_dir WHERE payload @> '{"a": 2}';
SELECT count(*) FROM fairq.q_dir WHERE priority = 0;
RESET enable_seqscan;
CREATE EXTENSION amcheck;
SELECT indexrelid::regclass FROM pg_index JOIN pg_class c ON c.oid = indexrelid, LATERAL bt_index_check(indexrelid, true)
    WHERE indrelid = 'fairq.q_dir'::regclass AND c.relam = (SELECT oid FROM pg_am WHERE amname = 'btree') ORDER BY indexrelid::regclass::text COLLATE "C";
DROP EXTENSION amcheck;
SELECT pg_temp.drain();
-- A unique one is honoured.
CALL pg_temp.refill(2);
CREATE UNIQUE INDEX dir_unique ON fairq.q_dir ((payload ->> 'key'));
SELECT count(fairq.enqueue('dir', '{"key": "a"}'));
SELECT pg_temp.try($$ SELECT fairq.enqueue('dir', '{"key": "a"}') $$);
SELECT pg_temp.try($$ SELECT fairq.enqueue_many('dir', '{"{\"key\": \"b\"}", "{\"key\": \"b\"}"}') $$);
SELECT fairq.nack(receipt, delay => '0') FROM fairq.claim('dir', 3);
SELECT pg_temp.drain();
SELECT count(fairq.enqueue('dir', '{"key": "a"}'));
SELECT pg_temp.drain();
-- An expression that fails: the statement fails, nothing is lost.
CALL pg_temp.refill(2);
CREATE INDEX dir_fails ON fairq.q_dir ((1 / (payload::int - 10)));
SELECT pg_temp.try($$ SELECT fairq.enqueue('dir', '10') $$);
SELECT pg_temp.try($$ SELECT fairq.enqueue_many('dir', '{5,10}') $$);
SELECT pg_temp.drain();
-- One that is being built, or was left invalid, or is gone.
CREATE INDEX CONCURRENTLY dir_concurrently ON fairq.q_dir (cost);
SELECT count(fairq.enqueue('dir', '1'));
DROP INDEX fairq.dir_fails;
REINDEX TABLE fairq.q_dir;
SELECT pg_temp.drain();

-- A CHECK constraint, NOT NULL on a column that may be null: honoured.
CALL pg_temp.refill(2);
ALTER TABLE fairq.q_dir ADD CONSTRAINT dir_small CHECK (payload::int < 100), ADD CONSTRAINT dir_one CHECK (attempts < 2);
SELECT pg_temp.try($$ SELECT fairq.enqueue('dir', '100') $$);
SELECT pg_temp.try($$ SELECT fairq.enqueue_many('dir', '{3,100}') $$);
SELECT count(fairq.enqueue('dir', '99'));
SELECT fairq.nack(receipt, delay => '0') FROM fairq.claim('dir', 3);
TRUNCATE claimed;
INSERT INTO claimed SELECT * FROM fairq.claim('dir', 3);
SELECT pg_temp.try($$ SELECT fairq.nack(pg_temp.receipt(99), delay => '0') $$);
SELECT pg_temp.all_of('dir');
SELECT bool_and(fairq.ack(receipt)) FROM claimed;
CALL pg_temp.refill(2);
UPDATE fairq.q_dir SET headers = '{}';
ALTER TABLE fairq.q_dir ALTER headers SET NOT NULL;
SELECT pg_temp.try($$ SELECT fairq.enqueue('dir', '1') $$);
SELECT count(fairq.enqueue('dir', '3', headers => '{}'));
SELECT pg_temp.drain();

-- A column of the user's: with a default, without, NOT NULL.
CALL pg_temp.refill(2);
ALTER TABLE fairq.q_dir ADD note text DEFAULT 'none', ADD seen timestamptz DEFAULT now(), ADD n serial, ADD free int;
SELECT count(fairq.enqueue('dir', '3'));
SELECT cardinality(fairq.enqueue_many('dir', '{4,5}'));
UPDATE fairq.q_dir SET note = 'changed', free = 1 WHERE payload = '2';
SELECT fairq.nack(receipt, delay => '0') FROM fairq.claim('dir', 3);
SELECT payload, note, seen IS NOT NULL, count(n) OVER (PARTITION BY n), free FROM fairq.q_dir ORDER BY id;
SELECT pg_temp.drain();
CALL pg_temp.refill(1);
ALTER TABLE fairq.q_dir ADD needed int;
UPDATE fairq.q_dir SET needed = 1;
ALTER TABLE fairq.q_dir ALTER needed SET NOT NULL;
SELECT pg_temp.try($$ SELECT fairq.enqueue('dir', '2') $$);
SELECT pg_temp.drain();
CALL pg_temp.refill(0);
CREATE DOMAIN pg_temp.needed AS int NOT NULL;
ALTER TABLE fairq.q_dir ADD needed pg_temp.needed;
SELECT pg_temp.try($$ SELECT count(fairq.enqueue('dir', '2')) $$) <> 'ok 1' AS refused;
SELECT count(*) FROM fairq.q_dir WHERE needed IS NULL;
-- A dropped column of the user's.
CALL pg_temp.refill(1);
ALTER TABLE fairq.q_dir ADD note text DEFAULT 'x';
SELECT count(fairq.enqueue('dir', '2'));
ALTER TABLE fairq.q_dir DROP note;
SELECT count(fairq.enqueue('dir', '3'));
SELECT fairq.nack(receipt, delay => '0') FROM fairq.claim('dir', 1);
SELECT pg_temp.drain();

-- What the engine would pass over is refused, by every verb, with a word on what it is.
CREATE FUNCTION pg_temp.each_verb() RETURNS SETOF text LANGUAGE sql AS $$
    SELECT string_agg(verb, ', ' ORDER BY n) || E'\n' || result FROM (VALUES
        (1, 'enqueue', $v$ SELECT count(fairq.enqueue('dir', '1')) $v$), (2, 'enqueue_many', $v$ SELECT count(fairq.enqueue_many('dir', '{1}')) $v$),
        (3, 'claim', $v$ SELECT count(*) FROM fairq.claim('dir') $v$), (4, 'pop', $v$ SELECT count(*) FROM fairq.pop('dir') $v$),
        (5, 'ack', $v$ SELECT fairq.ack(pg_temp.receipt(1)) $v$), (6, 'nack', $v$ SELECT fairq.nack(pg_temp.receipt(1), delay => '0') $v$),
        (7, 'cancel', $v$ SELECT fairq.cancel('dir', id) FROM claimed WHERE payload = '1' $v$),
        (8, 'purge', $v$ SELECT fairq.purge('dir') $v$)) v(n, verb, statement),
        LATERAL pg_temp.try(statement) result GROUP BY result ORDER BY min(n)
$$;
-- A trigger, for each row or for each statement.
CALL pg_temp.refill(2);
TRUNCATE claimed;
INSERT INTO claimed SELECT * FROM fairq.claim('dir', 1);
CREATE FUNCTION pg_temp.trigger() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';
CREATE TRIGGER dir_trigger BEFORE INSERT ON fairq.q_dir FOR EACH ROW EXECUTE FUNCTION pg_temp.trigger();
SELECT pg_temp.each_verb();
-- Disabled it is not in the way.
ALTER TABLE fairq.q_dir DISABLE TRIGGER dir_trigger;
SELECT count(fairq.enqueue('dir', '3'));
DROP TRIGGER dir_trigger ON fairq.q_dir;
CREATE TRIGGER dir_trigger AFTER DELETE ON fairq.q_dir FOR EACH STATEMENT EXECUTE FUNCTION pg_temp.trigger();
SELECT pg_temp.each_verb();
DROP TRIGGER dir_trigger ON fairq.q_dir;
-- A foreign key, to the table and from it.
CREATE TABLE public.dir_result (task bigint REFERENCES fairq.q_dir);
SELECT pg_temp.each_verb();
DROP TABLE public.dir_result;
CREATE TABLE public.dir_priority (priority bigint PRIMARY KEY);
INSERT INTO public.dir_priority VALUES (0);
ALTER TABLE fairq.q_dir ADD CONSTRAINT dir_known FOREIGN KEY (priority) REFERENCES public.dir_priority;
SELECT pg_temp.each_verb();
ALTER TABLE fairq.q_dir DROP CONSTRAINT dir_known;
DROP TABLE public.dir_priority;
-- A rule, an exclusion constraint, a deferrable one, a generated column.
CREATE RULE dir_rule AS ON DELETE TO fairq.q_dir DO ALSO NOTHING;
SELECT pg_temp.each_verb();
DROP RULE dir_rule ON fairq.q_dir;
SELECT count(fairq.enqueue('dir', '4'));
ALTER TABLE fairq.q_dir ADD CONSTRAINT dir_exclude EXCLUDE USING hash (id WITH =);
SELECT pg_temp.each_verb();
ALTER TABLE fairq.q_dir DROP CONSTRAINT dir_exclude;
ALTER TABLE fairq.q_dir ADD CONSTRAINT dir_deferred UNIQUE (id, priority) DEFERRABLE;
SELECT pg_temp.each_verb();
ALTER TABLE fairq.q_dir DROP CONSTRAINT dir_deferred;
ALTER TABLE fairq.q_dir ADD twice bigint GENERATED ALWAYS AS (priority * 2) STORED;
SELECT pg_temp.each_verb();
ALTER TABLE fairq.q_dir DROP twice;
-- A column of ours that is gone, renamed, or of another type.
ALTER TABLE fairq.q_dir RENAME headers TO footers;
SELECT pg_temp.each_verb();
SELECT pg_temp.try($$ SELECT count(*) FROM fairq.tasks('dir') $$);
ALTER TABLE fairq.q_dir RENAME footers TO headers;
ALTER TABLE fairq.q_dir ALTER cost TYPE float8;
SELECT pg_temp.each_verb();
ALTER TABLE fairq.q_dir ALTER cost TYPE real;
SELECT pg_temp.try($$ SELECT fairq.enqueue('dir', '"fine"') IS NOT NULL $$);
ALTER TABLE fairq.q_dir DROP last_error;
SELECT pg_temp.each_verb();
ALTER TABLE fairq.q_dir ADD last_error text;
SELECT pg_temp.all_of('dir');
-- What rows from before a column read as is not what new ones do.
ALTER TABLE fairq.q_dir DROP last_error, ADD last_error text DEFAULT 'from before';
ALTER TABLE fairq.q_dir ALTER last_error DROP DEFAULT;
SELECT fairq.enqueue('dir', '"new"') AS new \gset
SELECT count(*), count(*) FILTER (WHERE id = :new) AS new, last_error FROM fairq.q_dir GROUP BY last_error ORDER BY last_error;
SELECT fairq.cancel('dir', :new);
-- An index of ours that is gone.
SELECT format('DROP INDEX %s', indexrelid::regclass) AS drop_address, pg_get_indexdef(indexrelid) AS make_address FROM pg_index
    WHERE indrelid = 'fairq.q_dir'::regclass AND pg_get_indexdef(indexrelid) LIKE '%(address)%' \gset
SELECT format('DROP INDEX %s', indexrelid::regclass) AS drop_due, pg_get_indexdef(indexrelid) AS make_due FROM pg_index
    WHERE indrelid = 'fairq.q_dir'::regclass AND pg_get_indexdef(indexrelid) LIKE '%(run_at)%' \gset
:drop_address;
SELECT pg_temp.each_verb();
:make_address;
:drop_due;
SELECT pg_temp.each_verb();
:make_due;
SELECT conname AS primary_key FROM pg_constraint WHERE conrelid = 'fairq.q_dir'::regclass AND contype = 'p' \gset
ALTER TABLE fairq.q_dir DROP CONSTRAINT :"primary_key";
SELECT pg_temp.each_verb();
ALTER TABLE fairq.q_dir ADD CONSTRAINT :"primary_key" PRIMARY KEY (id);
SELECT fairq.ack(pg_temp.receipt(1));
SELECT pg_temp.drain();
-- The row trigger of ours that is gone, disabled, or not fired for replicated rows.
CALL pg_temp.refill(2);
TRUNCATE claimed;
INSERT INTO claimed SELECT * FROM fairq.claim('dir', 1);
ALTER TABLE fairq.q_dir DISABLE TRIGGER ALL;
SELECT pg_temp.each_verb();
ALTER TABLE fairq.q_dir ENABLE TRIGGER fairq_row_written;
SELECT pg_temp.try($$ SELECT count(fairq.enqueue('dir', '1')) $$);
SELECT pg_get_triggerdef(oid) AS make_trigger FROM pg_trigger WHERE tgrelid = 'fairq.q_dir'::regclass \gset
DROP TRIGGER fairq_row_written ON fairq.q_dir;
SELECT pg_temp.try($$ SELECT count(fairq.enqueue('dir', '1')) $$);
:make_trigger;
ALTER TABLE fairq.q_dir ENABLE ALWAYS TRIGGER fairq_row_written;
SELECT fairq.ack(pg_temp.receipt(1));
SELECT pg_temp.drain();

-- Row security: refused for those who are subject to it.
CALL pg_temp.refill(2);
ALTER TABLE fairq.q_dir ENABLE ROW LEVEL SECURITY;
CREATE ROLE regress_fairq_direct;
GRANT SELECT, INSERT, UPDATE, DELETE ON fairq.q_dir TO regress_fairq_direct;
TRUNCATE claimed;
INSERT INTO claimed SELECT * FROM fairq.claim('dir', 1);
GRANT SELECT ON claimed TO regress_fairq_direct;
SET ROLE regress_fairq_direct;
SELECT pg_temp.each_verb();
SELECT pg_temp.try($$ SELECT count(*) FROM fairq.tasks('dir') $$);
SELECT pg_temp.try($$ SELECT count(*) FROM fairq.peek('dir') $$);
RESET ROLE;
SELECT fairq.ack(pg_temp.receipt(1));
ALTER TABLE fairq.q_dir FORCE ROW LEVEL SECURITY;
SELECT pg_temp.drain();
ALTER TABLE fairq.q_dir NO FORCE ROW LEVEL SECURITY, DISABLE ROW LEVEL SECURITY;
REVOKE ALL ON fairq.q_dir FROM regress_fairq_direct;
REVOKE ALL ON claimed FROM regress_fairq_direct;
DROP ROLE regress_fairq_direct;

-- The table renamed, and back; dropped; replaced by something else.
CALL pg_temp.refill(2);
TRUNCATE claimed;
INSERT INTO claimed SELECT * FROM fairq.claim('dir', 1);
ALTER TABLE fairq.q_dir RENAME TO q_elsewhere;
SELECT pg_temp.each_verb();
ALTER TABLE fairq.q_elsewhere RENAME TO q_dir;
SELECT fairq.ack(pg_temp.receipt(1));
SELECT pg_temp.drain();
CALL pg_temp.refill(2);
TRUNCATE claimed;
INSERT INTO claimed SELECT * FROM fairq.claim('dir', 1);
DROP TABLE fairq.q_dir;
SELECT pg_temp.each_verb();
SELECT count(*) FROM fairq.queues WHERE queue = 'dir';
SELECT count(*) FROM fairq.leases WHERE queue = 'dir';
CREATE VIEW fairq.q_dir AS SELECT 1 AS id;
SELECT pg_temp.each_verb();
DROP VIEW fairq.q_dir;
CREATE TABLE fairq.q_dir (id bigint, address fairq.address) PARTITION BY RANGE (id);
SELECT pg_temp.each_verb();
DROP TABLE fairq.q_dir;
CREATE TABLE fairq.q_dir (id bigint);
SELECT pg_temp.each_verb();
DROP TABLE fairq.q_dir;
SELECT fairq.create_queue('dir', default_priority => 0);
SELECT count(fairq.enqueue('dir', '"anew"'));
SELECT pg_temp.drain();
-- A child table, a parent table.
CREATE TABLE public.dir_child () INHERITS (fairq.q_dir);
SELECT pg_temp.each_verb();
DROP TABLE public.dir_child;
SELECT count(fairq.enqueue('dir', '"childless"'));
CREATE TABLE public.dir_parent ();
ALTER TABLE fairq.q_dir INHERIT public.dir_parent;
SELECT pg_temp.each_verb();
ALTER TABLE fairq.q_dir NO INHERIT public.dir_parent;
DROP TABLE public.dir_parent;
SELECT pg_temp.drain();
-- Something depends on the table: it is not dropped.
CREATE VIEW public.dir_view AS SELECT id FROM fairq.q_dir;
SELECT pg_temp.try($$ SELECT fairq.drop_queue('dir') $$);
SELECT count(*) FROM fairq.queues WHERE queue = 'dir';
DROP VIEW public.dir_view;
-- A table of the user's with such a name is no queue.
CREATE TABLE fairq."q_dir fake" (LIKE fairq.q_dir INCLUDING ALL);
SELECT pg_temp.try($$ SELECT fairq.enqueue('dir fake', '1') $$);
SELECT pg_temp.try($$ SELECT fairq.drop_queue('dir fake') $$);
SELECT count(*) FROM fairq.queues WHERE queue = 'dir fake';
DROP TABLE fairq."q_dir fake";

SELECT bool_and(fairq.drop_queue(queue)) FROM fairq.queues WHERE queue LIKE 'dir%';
SELECT queue FROM fairq.queues;
SELECT queue, count(*) FROM fairq.leases GROUP BY queue;
