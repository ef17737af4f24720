-- The archive of finished tasks: keep_done. The queues of this file start with
-- "arc", but for those with odd names, its roles with regress_fairq.
-- The tests hold with and without a worker.
\i test/sql/include/helpers.sql
\pset format unaligned
\pset tuples_only on
\pset null (null)
CREATE ROLE regress_fairq_owner;
CREATE ROLE regress_fairq_worker;
GRANT CREATE ON SCHEMA fairq TO regress_fairq_owner;

-- The table.
SET ROLE regress_fairq_owner;
SELECT fairq.create_queue('arc', keep_done => '1 day', lease => '1 h', max_attempts => 2, backoff_base => '0');
RESET ROLE;
SELECT keep_done FROM fairq.queues WHERE queue = 'arc';
\pset tuples_only off
\d fairq.done_arc
\pset tuples_only on
SELECT relkind, relpersistence, relowner::regrole, relacl FROM pg_class WHERE oid = 'fairq.done_arc'::regclass;
SELECT count(*) FROM pg_depend WHERE deptype IN ('e', 'x') AND objid = 'fairq.done_arc'::regclass;

-- Every way to finish a task.
CREATE FUNCTION pg_temp.new(payload text) RETURNS bigint LANGUAGE sql AS $$ SELECT fairq.enqueue('arc', to_jsonb(payload)) $$;
CREATE VIEW pg_temp.arc AS
    SELECT payload #>> '{}' AS task, outcome, attempts, claimed_at IS NOT NULL AS claimed, last_error FROM fairq.done_arc ORDER BY id;
SELECT pg_temp.new('ack') > 0;
SELECT fairq.ack(receipt) FROM fairq.claim('arc');
SELECT count(pg_temp.new('ack_many')) FROM generate_series(1, 3);
SELECT count(*) FROM fairq.ack_many(ARRAY(SELECT receipt FROM fairq.claim('arc', 3)));
SELECT count(pg_temp.new('ack_and_claim')) FROM generate_series(1, 2);
SELECT count(*) FROM fairq.ack_and_claim('arc', ARRAY(SELECT receipt FROM fairq.claim('arc', 2)));
SELECT count(pg_temp.new('pop')) FROM generate_series(1, 2);
SELECT payload FROM fairq.pop('arc', 2);
-- in one statement
SELECT fairq.cancel('arc', pg_temp.new('cancel'));
SELECT fairq.cancel('arc', fairq.enqueue('arc', '"cancel scheduled"', run_at => '2100-01-01'));
SELECT pg_temp.new('cancel leased') AS id \gset
SELECT receipt FROM fairq.claim('arc') \gset
SELECT fairq.cancel('arc', :id), fairq.ack(:'receipt');
SELECT pg_temp.new('ack at second attempt') > 0;
SELECT fairq.nack(receipt, 'no luck', '0') FROM fairq.claim('arc');
SELECT fairq.ack(receipt) FROM fairq.claim('arc');
-- A dead task stays in the queue, for somebody to look at it and revive it. It is archived when it is removed.
SELECT count(pg_temp.new('dead and ' || what)) FROM unnest('{cancelled,purged,revived}'::text[]) what;
SELECT count(fairq.nack(receipt, 'bad luck', '0')) FROM fairq.claim('arc', 3);
SELECT count(fairq.nack(receipt, 'worse luck', '0')) FROM fairq.claim('arc', 3);
SELECT payload, state, attempts FROM fairq.tasks('arc') ORDER BY id;
SELECT count(*) FROM fairq.done_arc WHERE outcome = 'dead';
SELECT fairq.cancel('arc', id) FROM fairq.tasks('arc') WHERE payload = '"dead and cancelled"';
SELECT fairq.revive('arc', id) FROM fairq.tasks('arc') WHERE payload = '"dead and revived"';
SELECT fairq.ack(receipt) FROM fairq.claim('arc');
-- purge: what is not leased.
SELECT pg_temp.new('in flight') > 0;
SELECT receipt FROM fairq.claim('arc') \gset
SELECT count(pg_temp.new('purged')) FROM generate_series(1, 2);
SELECT fairq.enqueue('arc', '"purge of a group"', group_key => 'g') > 0;
SELECT fairq.purge_group('arc', 'g');
SELECT fairq.purge('arc');
SELECT payload, state FROM fairq.tasks('arc') ORDER BY id;
SELECT fairq.ack(:'receipt');
SELECT * FROM pg_temp.arc;
-- One row for each, and none of them earlier than it can be.
SELECT count(*) = count(DISTINCT id), bool_and(enqueued_at <= done_at AND coalesce(claimed_at BETWEEN enqueued_at AND done_at, true)) FROM fairq.done_arc;
TRUNCATE fairq.done_arc;

-- All that is known of a task is kept.
SELECT fairq.enqueue('arc', jsonb_build_object('small', 1, 'large', repeat(md5('x'), 100000)), group_key => 'some group', priority => 3, cost => 2.5,
    run_at => '2001-02-03 04:05:06+00', unique_key => 'only one', headers => '{"trace": 1}') AS id \gset
CREATE TEMP TABLE original AS SELECT * FROM fairq.q_arc WHERE id = :id;
SELECT fairq.ack(receipt) FROM fairq.claim('arc');
SELECT count(*) FROM original o JOIN fairq.done_arc d USING (id, enqueued_at, run_at, priority, cost, group_key, payload, headers) WHERE o.unique_key IS NOT DISTINCT FROM d.unique_key;
-- In whatever state it was: held behind another one of its key, in the overflow. What waited behind it comes.
SELECT fairq.create_queue('arc states', keep_done => '1 day', max_ready_per_group => 1);
SELECT fairq.enqueue('arc states', '"first"', unique_key => 'k') > 0;
SELECT receipt FROM fairq.claim('arc states') \gset
SELECT fairq.enqueue('arc states', '"held"', unique_key => 'k') AS held \gset
SELECT fairq.enqueue('arc states', '"ready"') > 0;
SELECT count(fairq.enqueue('arc states', '"overflow"')) FROM generate_series(1, 2);
SELECT state, count(*) FROM fairq.tasks('arc states') GROUP BY 1 ORDER BY 1;
SELECT fairq.cancel('arc states', :held);
SELECT fairq.enqueue('arc states', '"held again"', unique_key => 'k') > 0;
SELECT fairq.ack(:'receipt');
SELECT fairq.purge('arc states');
SELECT payload, outcome, unique_key FROM fairq."done_arc states" ORDER BY id;
SELECT fairq.drop_queue('arc states');
-- Values that the table keeps out of line, incompressible ones: after the row they came from is vacuumed away.
SELECT count(fairq.enqueue('arc', to_jsonb((SELECT string_agg(md5(n::text || m), '') FROM generate_series(1, 500) m)))) FROM generate_series(1, 20) n;
CREATE TEMP TABLE originals AS SELECT id, md5(payload::text) AS hash FROM fairq.q_arc;
SELECT count(*) FROM fairq.ack_many(ARRAY(SELECT receipt FROM fairq.claim('arc', 10)));
SELECT count(*) FROM fairq.pop('arc', 5);
SELECT fairq.purge('arc');
VACUUM FULL fairq.q_arc;
SELECT count(*) FROM fairq.done_arc d JOIN originals USING (id) WHERE md5(payload::text) = hash;
TRUNCATE fairq.done_arc;

-- It is there when and only when the transaction commits.
SELECT count(pg_temp.new('t' || n)) FROM generate_series(1, 6) n;
CREATE TEMP TABLE claimed AS SELECT id, payload, receipt FROM fairq.claim('arc', 6) ORDER BY id;
CREATE OR REPLACE FUNCTION pg_temp.receipt(n int) RETURNS uuid LANGUAGE sql AS $$ SELECT receipt FROM claimed WHERE payload = to_jsonb('t' || n) $$;
BEGIN;
SELECT fairq.ack(pg_temp.receipt(1));
SELECT count(*) FROM fairq.done_arc;
ROLLBACK;
SELECT count(*) FROM fairq.done_arc;
BEGIN;
SELECT fairq.ack(pg_temp.receipt(1));
SAVEPOINT a;
SELECT fairq.ack(pg_temp.receipt(2));
SAVEPOINT b;
SELECT fairq.ack(pg_temp.receipt(3));
RELEASE b;
ROLLBACK TO a;
SELECT fairq.ack(pg_temp.receipt(4));
-- twice
SELECT fairq.ack(pg_temp.receipt(4)), fairq.cancel('arc', id) FROM claimed WHERE payload = '"t4"';
COMMIT;
SELECT fairq.ack(pg_temp.receipt(1)), fairq.ack(gen_random_uuid());
SELECT task, outcome FROM pg_temp.arc;
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT fairq.ack(pg_temp.receipt(2));
SELECT count(*) FROM fairq.done_arc;
COMMIT;
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT count(*) FROM fairq.done_arc;
SELECT fairq.ack(pg_temp.receipt(3)), 1 / 0;
ROLLBACK;
SELECT fairq.ack(pg_temp.receipt(3));
SELECT task, outcome FROM pg_temp.arc;
-- Not what was deleted with SQL, or truncated.
DELETE FROM fairq.q_arc WHERE payload = '"t5"';
TRUNCATE fairq.q_arc;
SELECT count(*) FROM fairq.done_arc;
-- Two queues in one call, each with its own; and one without an archive.
SELECT fairq.create_queue('arc other', keep_done => '1 h'), fairq.create_queue('arc none');
SELECT count(fairq.enqueue(q, '"mixed"')) FROM unnest('{arc,arc other,arc none}'::text[]) q, generate_series(1, 3);
SELECT count(*) FROM fairq.ack_many(ARRAY(SELECT receipt FROM unnest('{arc,arc other,arc none}'::text[]) q, LATERAL fairq.claim(q, 3) ORDER BY id));
SELECT queue, outcome, count(*) FROM fairq.done_tasks WHERE payload = '"mixed"' GROUP BY 1, 2 ORDER BY 1;
SELECT relname FROM pg_class WHERE relname LIKE '%arc none%' AND relname LIKE '%done%';
TRUNCATE fairq.done_arc;

-- Privileges: who may acknowledge need not have any on the archive, and cannot read it for that.
GRANT DELETE, SELECT, UPDATE ON fairq.q_arc TO regress_fairq_worker;
SELECT count(pg_temp.new('role')) FROM generate_series(1, 5);
SET ROLE regress_fairq_worker;
SELECT fairq.ack(receipt) FROM fairq.claim('arc');
SELECT count(*) FROM fairq.ack_many(ARRAY(SELECT receipt FROM fairq.claim('arc')));
SELECT count(*) FROM fairq.pop('arc');
SELECT fairq.cancel('arc', id) FROM fairq.peek('arc', 1);
SELECT fairq.purge('arc');
SELECT pg_temp.try('SELECT count(*) FROM fairq.done_arc');
SELECT pg_temp.try('INSERT INTO fairq.done_arc SELECT * FROM fairq.done_arc');
SELECT count(*) FROM fairq.done_tasks;
RESET ROLE;
SELECT outcome, count(*) FROM fairq.done_arc GROUP BY 1 ORDER BY 1;
GRANT SELECT ON fairq.done_arc TO regress_fairq_worker;
SET ROLE regress_fairq_worker;
SELECT queue, outcome, count(*) FROM fairq.done_tasks GROUP BY 1, 2 ORDER BY 2;
SELECT pg_temp.try($$ SELECT fairq.alter_queue('arc', keep_done => '1 h') $$);
RESET ROLE;
-- Policies are not applied by the view: it leaves the table out.
ALTER TABLE fairq.done_arc ENABLE ROW LEVEL SECURITY;
SET ROLE regress_fairq_worker;
SELECT count(*) FROM fairq.done_tasks;
RESET ROLE;
SELECT count(*) > 0 FROM fairq.done_tasks WHERE queue = 'arc';
ALTER TABLE fairq.done_arc DISABLE ROW LEVEL SECURITY;
TRUNCATE fairq.done_arc;

-- What the owner adds to the table is honoured: columns, constraints, indexes, triggers, foreign keys. It is run as the owner.
SET ROLE regress_fairq_owner;
ALTER TABLE fairq.done_arc ADD noted_by text DEFAULT current_user, ADD customer text GENERATED ALWAYS AS (payload ->> 'customer') STORED;
ALTER TABLE fairq.done_arc ADD CONSTRAINT not_forbidden CHECK (payload <> '"forbidden"');
CREATE UNIQUE INDEX ON fairq.done_arc (id);
CREATE INDEX ON fairq.done_arc (customer) WHERE outcome = 'acked';
RESET ROLE;
CREATE SCHEMA regress_fairq;
GRANT ALL ON SCHEMA regress_fairq TO regress_fairq_owner;
SET ROLE regress_fairq_owner;
CREATE TABLE regress_fairq.seen (id bigint, by_user text, by_session text, path text);
CREATE FUNCTION regress_fairq.note() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO regress_fairq.seen VALUES (new.id, current_user, session_user = current_user, current_setting('search_path'));
    -- The next step of a job.
    IF new.payload ? 'then' THEN
        PERFORM fairq.enqueue('arc', new.payload -> 'then');
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER note AFTER INSERT ON fairq.done_arc FOR EACH ROW EXECUTE FUNCTION regress_fairq.note();
RESET ROLE;
SELECT fairq.enqueue('arc', '{"customer": "kim", "then": {"customer": "lee"}}') > 0;
SET ROLE regress_fairq_worker;
SELECT fairq.ack(receipt) FROM fairq.claim('arc');
SELECT payload FROM fairq.pop('arc');
RESET ROLE;
SELECT noted_by, customer FROM fairq.done_arc ORDER BY id;
SELECT by_user, by_session, path FROM regress_fairq.seen ORDER BY id;
SELECT pg_temp.new('forbidden') > 0;
SELECT receipt FROM fairq.claim('arc') \gset
SELECT pg_temp.try(format('SELECT fairq.ack(%L)', :'receipt')) ~ '^23514: .*not_forbidden';
SELECT state FROM fairq.tasks('arc');
ALTER TABLE fairq.done_arc DROP CONSTRAINT not_forbidden;
SELECT fairq.ack(:'receipt');
-- A trigger that fails has the ack fail; a claim and pop in a block of its own is undone as a whole.
CREATE FUNCTION regress_fairq.fail() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'no archive today'; END $$;
CREATE TRIGGER fail BEFORE INSERT ON fairq.done_arc FOR EACH ROW EXECUTE FUNCTION regress_fairq.fail();
SELECT pg_temp.new('after failure') > 0;
SELECT pg_temp.try($$ SELECT payload FROM fairq.pop('arc') $$);
SELECT state FROM fairq.tasks('arc');
DROP TRIGGER fail ON fairq.done_arc;
SELECT payload FROM fairq.pop('arc');
DROP TRIGGER note ON fairq.done_arc;
DROP SCHEMA regress_fairq CASCADE;
ALTER TABLE fairq.done_arc DROP noted_by, DROP customer;
TRUNCATE fairq.done_arc;

-- A table that cannot be the archive any more: whoever finishes a task is told, and the task is not lost.
CREATE FUNCTION pg_temp.finish() RETURNS SETOF text LANGUAGE plpgsql AS $$
BEGIN
    RETURN NEXT pg_temp.try($s$ SELECT fairq.ack(receipt) FROM fairq.claim('arc') $s$);
    -- Looking, and what time does, goes on.
    PERFORM count(*) FROM fairq.done_tasks;
    PERFORM fairq.maintain('arc');
END
$$;
SELECT count(pg_temp.new('unfit')) FROM generate_series(1, 20);
ALTER TABLE fairq.done_arc RENAME payload TO load;
SELECT pg_temp.finish();
ALTER TABLE fairq.done_arc RENAME load TO payload;
SELECT pg_temp.finish();
ALTER TABLE fairq.done_arc ALTER priority TYPE numeric;
SELECT pg_temp.finish();
ALTER TABLE fairq.done_arc ALTER priority TYPE bigint;
SELECT pg_temp.finish();
ALTER TABLE fairq.done_arc DROP CONSTRAINT when_done_of_arc;
SELECT pg_temp.finish();
ALTER TABLE fairq.done_arc ADD PRIMARY KEY (id, done_at);
SELECT pg_temp.finish();
CREATE INDEX ON fairq.done_arc (done_at, id);
SELECT pg_temp.finish();
-- Another's: code that he attached to it is not run as the queue's owner.
ALTER TABLE fairq.done_arc OWNER TO regress_fairq_worker;
SELECT pg_temp.finish();
ALTER TABLE fairq.q_arc OWNER TO regress_fairq_worker;
SELECT pg_temp.finish();
ALTER TABLE fairq.q_arc OWNER TO regress_fairq_owner;
ALTER TABLE fairq.done_arc OWNER TO regress_fairq_owner;
CREATE RULE never AS ON INSERT TO fairq.done_arc DO INSTEAD NOTHING;
SELECT pg_temp.finish();
DROP RULE never ON fairq.done_arc;
SELECT pg_temp.finish();
ALTER TABLE fairq.done_arc RENAME TO done_elsewhere;
SELECT pg_temp.finish();
CREATE VIEW fairq.done_arc AS SELECT * FROM fairq.done_elsewhere;
SELECT pg_temp.finish();
SELECT pg_temp.try($$ SELECT fairq.alter_queue('arc', keep_done => '2 days') $$);
DROP VIEW fairq.done_arc;
DROP TABLE fairq.done_elsewhere CASCADE;
SELECT pg_temp.try($$ SELECT fairq.alter_queue('arc', keep_done => '2 days') $$);
SELECT pg_temp.finish();
SELECT count(*) FROM fairq.done_arc;
SELECT fairq.purge('arc');
CREATE VIEW pg_temp.arc AS
    SELECT payload #>> '{}' AS task, outcome, attempts, claimed_at IS NOT NULL AS claimed, last_error FROM fairq.done_arc ORDER BY id;

-- Take it away, and set it again.
SELECT fairq.alter_queue('arc', lease => '1 h');
SELECT keep_done FROM fairq.queues WHERE queue = 'arc';
SELECT fairq.alter_queue('arc', keep_done => '0');
SELECT keep_done FROM fairq.queues WHERE queue = 'arc';
SELECT count(*) AS before FROM fairq.done_arc \gset
SELECT pg_temp.new('not kept') > 0;
SELECT fairq.ack(receipt) FROM fairq.claim('arc');
SELECT count(*) - :before FROM fairq.done_arc;
-- What is there stays.
UPDATE fairq.done_arc SET done_at = '2001-01-01';
SELECT fairq.maintain('arc');
SELECT count(*) - :before FROM fairq.done_arc;
SELECT fairq.alter_queue('arc', keep_done => '10 years');
SELECT pg_temp.new('kept') > 0;
SELECT fairq.ack(receipt) FROM fairq.claim('arc');
-- And goes again.
CALL pg_temp.maintain_until('arc', 'count(*) = 1 FROM fairq.done_arc');
SELECT task FROM pg_temp.arc;
-- In one transaction, and undone.
BEGIN;
SELECT fairq.create_queue('arc undone', keep_done => '1 h');
SELECT fairq.enqueue('arc undone', '1') > 0;
SELECT fairq.cancel('arc undone', id) FROM fairq.tasks('arc undone');
SELECT count(*) FROM fairq."done_arc undone";
SAVEPOINT s;
SELECT fairq.alter_queue('arc undone', keep_done => '0');
DROP TABLE fairq."done_arc undone";
ROLLBACK TO s;
SELECT fairq.alter_queue('arc none', keep_done => '1 h');
SELECT fairq.enqueue('arc none', '1') > 0;
SELECT fairq.cancel('arc none', id) FROM fairq.tasks('arc none');
SELECT count(*) FROM fairq."done_arc none";
ROLLBACK;
SELECT fairq.enqueue('arc none', '1') > 0;
SELECT fairq.ack(receipt) FROM fairq.claim('arc none');
SELECT relname FROM pg_class WHERE relname LIKE 'done_arc _n%';

-- Retention. A shorter time takes effect at once; nothing is removed before its time.
SELECT count(pg_temp.new('old')) FROM generate_series(1, 3000);
SELECT count(*) FROM fairq.ack_many(ARRAY(SELECT receipt FROM fairq.claim('arc', 3000)));
SELECT fairq.maintain('arc') >= 0, count(*) FROM fairq.done_arc;
UPDATE fairq.done_arc SET done_at = done_at - interval '1 day';
SELECT pg_temp.new('young') > 0;
SELECT fairq.ack(receipt) FROM fairq.claim('arc');
SELECT fairq.maintain('arc') >= 0, count(*) FROM fairq.done_arc;
SELECT fairq.alter_queue('arc', keep_done => '12 h');
CALL pg_temp.maintain_until('arc', 'count(*) = 1 FROM fairq.done_arc');
SELECT task FROM pg_temp.arc;
SELECT fairq.alter_queue('arc', keep_done => '1 microsecond');
CALL pg_temp.maintain_until('arc', 'count(*) = 0 FROM fairq.done_arc');
-- What comes later is found, too; and after the file was changed under it.
SELECT pg_temp.new('short') > 0;
SELECT fairq.ack(receipt) FROM fairq.claim('arc');
CALL pg_temp.maintain_until('arc', 'count(*) = 0 FROM fairq.done_arc');
VACUUM FULL fairq.done_arc;
SELECT count(pg_temp.new('full')) FROM generate_series(1, 10);
SELECT count(*) FROM fairq.pop('arc', 10);
CALL pg_temp.maintain_until('arc', 'count(*) = 0 FROM fairq.done_arc');
CLUSTER fairq.done_arc USING when_done_of_arc;
TRUNCATE fairq.done_arc, fairq.q_arc;
REINDEX TABLE fairq.done_arc;
SELECT pg_temp.new('rewritten') > 0;
SELECT fairq.ack(receipt) FROM fairq.claim('arc');
CALL pg_temp.maintain_until('arc', 'count(*) = 0 FROM fairq.done_arc');
-- In the transaction that acknowledges, in any isolation level.
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT count(*) FROM fairq.done_arc;
SELECT pg_temp.new('own') > 0;
COMMIT;
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT fairq.ack(receipt) FROM fairq.claim('arc');
SELECT fairq.maintain('arc') >= 0;
COMMIT;
CALL pg_temp.maintain_until('arc', 'count(*) = 0 FROM fairq.done_arc');
-- Triggers and foreign keys of the owner are heeded; if they refuse, that is said once, and maintenance goes on.
SELECT fairq.alter_queue('arc', keep_done => '1 h');
SELECT count(pg_temp.new('refused')) FROM generate_series(1, 3);
SELECT count(*) FROM fairq.pop('arc', 3);
ALTER TABLE fairq.done_arc ADD UNIQUE (id);
CREATE TABLE arc_reference (id bigint REFERENCES fairq.done_arc (id));
INSERT INTO arc_reference SELECT min(id) FROM fairq.done_arc;
SELECT pg_temp.new('expires') > 0;
SELECT count(*) FROM fairq.claim('arc', lease => '1 ms');
SET client_min_messages = error;
SELECT fairq.alter_queue('arc', keep_done => '1 microsecond');
CALL pg_temp.maintain_until('arc', $$ count(*) = 1 FROM fairq.tasks('arc', 'ready') $$);
RESET client_min_messages;
SELECT count(*) FROM fairq.done_arc;
DROP TABLE arc_reference;
SELECT fairq.alter_queue('arc', keep_done => '1 microsecond');
CALL pg_temp.maintain_until('arc', 'count(*) = 0 FROM fairq.done_arc');

-- Names: the done table of no queue but one meets another relation of ours.
SELECT pg_temp.try($$ SELECT fairq.create_queue('tasks', keep_done => '1 day') $$);
SELECT count(fairq.create_queue(name, keep_done => '1 day'))
    FROM unnest('{q_arc,done_arc,of_arc,archive,Tasks,a.b,"it''s \"odd\""}'::text[] || repeat('x', 48) || repeat('é', 24)) name;
SELECT count(fairq.enqueue(queue, '1')) FROM fairq.queues WHERE keep_done = '1 day';
SELECT count(fairq.ack(receipt)) FROM fairq.queues, LATERAL fairq.claim(queue, 1 + length(queue) * 0) WHERE keep_done = '1 day';
SELECT queue, count(*) FROM fairq.done_tasks GROUP BY queue ORDER BY queue COLLATE "C";
SELECT bool_and(fairq.drop_queue(queue)) FROM fairq.queues WHERE keep_done = '1 day';
CREATE TABLE fairq."done_arc taken" (id int);
SELECT pg_temp.try($$ SELECT fairq.create_queue('arc taken', keep_done => '1 day') $$);
SELECT count(*) FROM fairq.queues WHERE queue = 'arc taken';
SELECT fairq.create_queue('arc taken');
SELECT pg_temp.try($$ SELECT fairq.alter_queue('arc taken', keep_done => '1 day') $$);
SELECT keep_done FROM fairq.queues WHERE queue = 'arc taken';
-- It is a stranger's: it stays when the queue goes.
SELECT fairq.drop_queue('arc taken');
DROP TABLE fairq."done_arc taken";
-- The owner has lost the right to create tables.
REVOKE CREATE ON SCHEMA fairq FROM regress_fairq_owner;
SELECT fairq.drop_queue('arc other');
ALTER TABLE fairq."q_arc none" OWNER TO regress_fairq_owner;
SELECT pg_temp.try($$ SELECT fairq.alter_queue('arc none', keep_done => '1 day') $$);
GRANT CREATE ON SCHEMA fairq TO regress_fairq_owner;
SELECT pg_temp.try($$ SELECT fairq.alter_queue('arc none', keep_done => '1 day') $$);
SELECT relowner::regrole FROM pg_class WHERE oid = 'fairq."done_arc none"'::regclass;
-- A bad time.
SELECT pg_temp.try($$ SELECT fairq.create_queue('arc bad', keep_done => '-1 s') $$);
SELECT pg_temp.try($$ SELECT fairq.alter_queue('arc', keep_done => '11 years') $$);

-- Gone with the queue, however that goes.
DROP VIEW pg_temp.arc;
SELECT fairq.drop_queue('arc');
DROP TABLE fairq."q_arc none";
SELECT relname FROM pg_class WHERE relname LIKE '%arc%' AND relnamespace = 'fairq'::regnamespace AND relkind <> 'v';
SELECT fairq.create_queue('arc view', keep_done => '1 h');
CREATE VIEW arc_view AS SELECT count(*) FROM fairq."done_arc view";
SELECT pg_temp.try($$ SELECT fairq.drop_queue('arc view') $$);
DROP TABLE fairq."q_arc view" CASCADE;
SELECT relname FROM pg_class WHERE relname LIKE '%arc%' AND relnamespace = 'fairq'::regnamespace AND relkind <> 'v';
SELECT queue FROM fairq.queues;
REVOKE CREATE ON SCHEMA fairq FROM regress_fairq_owner;
DROP ROLE regress_fairq_owner, regress_fairq_worker;
