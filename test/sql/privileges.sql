-- Privileges: INSERT to enqueue, SELECT and UPDATE to claim, nack, extend and
-- release, DELETE to ack, pop, cancel and purge, ownership to alter, pause and
-- drop. The queues of this file start with "pri", its roles with regress_fairq.
\i test/sql/include/helpers.sql
\pset format unaligned
\pset tuples_only on
\pset null (null)
CREATE ROLE regress_fairq_owner;
CREATE ROLE regress_fairq_user;
CREATE ROLE regress_fairq_monitor;
GRANT pg_monitor TO regress_fairq_monitor;
CREATE ROLE regress_fairq_member;
GRANT regress_fairq_owner TO regress_fairq_member;

-- Creating takes CREATE on the schema. The table is the creator's.
SET ROLE regress_fairq_owner;
SELECT pg_temp.try($$ SELECT fairq.create_queue('pri') $$);
RESET ROLE;
GRANT CREATE ON SCHEMA fairq TO regress_fairq_owner;
SET ROLE regress_fairq_owner;
SELECT fairq.create_queue('pri', max_attempts => 1);
SELECT queue, owner FROM fairq.queues;
SELECT relname, relkind, relowner::regrole FROM pg_class WHERE relnamespace = 'fairq'::regnamespace AND relowner = 'regress_fairq_owner'::regrole
    AND relkind IN ('r', 'S') ORDER BY relkind;
-- The owner may do everything.
SELECT count(fairq.enqueue('pri', to_jsonb(n))) FROM generate_series(1, 50) n;
SELECT fairq.subscribe('pri', 'pri');
SELECT fairq.ack(receipt) FROM fairq.claim('pri');
SELECT fairq.nack(receipt, delay => '0') FROM fairq.claim('pri');
SELECT fairq.alter_queue('pri', lease => '1 h');
SELECT ready, dead FROM fairq.queue_stats WHERE queue = 'pri';
RESET ROLE;
CREATE TEMP TABLE claimed AS SELECT * FROM fairq.claim('pri', 20);
CREATE TEMP TABLE dead AS SELECT id FROM fairq.tasks('pri', 'dead');
GRANT SELECT ON claimed, dead TO PUBLIC;

-- Every verb, as the current role; its effect is undone.
CREATE FUNCTION pg_temp.each_verb() RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
    verb text;
    statement text;
BEGIN
    FOR verb, statement IN VALUES
        ('enqueue', $v$ SELECT count(fairq.enqueue('pri', '1')) $v$),
        ('enqueue_many', $v$ SELECT count(fairq.enqueue_many('pri', '{1}')) $v$),
        ('enqueue_many of none', $v$ SELECT count(fairq.enqueue_many('pri', '{}')) $v$),
        ('claim', $v$ SELECT count(*) FROM fairq.claim('pri') $v$),
        ('claim_any', $v$ SELECT count(*) FROM fairq.claim_any('{pri}') $v$),
        ('pop', $v$ SELECT count(*) FROM fairq.pop('pri') $v$),
        ('ack', $v$ SELECT fairq.ack(pg_temp.receipt(5)) $v$),
        ('ack_many', $v$ SELECT count(*) FROM fairq.ack_many(ARRAY[pg_temp.receipt(5)]) $v$),
        ('ack_and_claim', $v$ SELECT count(*) FROM fairq.ack_and_claim('pri', ARRAY[pg_temp.receipt(5)]) $v$),
        ('ack_and_claim with none', $v$ SELECT count(*) FROM fairq.ack_and_claim('pri', '{}') $v$),
        ('nack', $v$ SELECT fairq.nack(pg_temp.receipt(5), delay => '0') $v$),
        ('nack_many', $v$ SELECT count(*) FROM fairq.nack_many(ARRAY[pg_temp.receipt(5)], delay => '0') $v$),
        ('extend', $v$ SELECT fairq.extend(pg_temp.receipt(5)) IS NOT NULL $v$),
        ('extend_many', $v$ SELECT count(*) FROM fairq.extend_many(ARRAY[pg_temp.receipt(5)]) $v$),
        ('release', $v$ SELECT fairq.release(pg_temp.receipt(5)) $v$),
        ('release_many', $v$ SELECT count(*) FROM fairq.release_many(ARRAY[pg_temp.receipt(5)]) $v$),
        ('cancel', $v$ SELECT fairq.cancel('pri', (SELECT id FROM claimed WHERE payload = '5')) $v$),
        ('purge', $v$ SELECT fairq.purge('pri') > 0 $v$),
        ('revive', $v$ SELECT fairq.revive('pri', (SELECT id FROM dead)) $v$),
        ('maintain', $v$ SELECT fairq.maintain('pri') $v$),
        ('peek', $v$ SELECT count(*) FROM fairq.peek('pri', 1) $v$),
        ('get_task', $v$ SELECT count(*) FROM fairq.get_task('pri', (SELECT id FROM dead)) $v$),
        ('tasks', $v$ SELECT count(*) FROM fairq.tasks('pri', 'dead') $v$),
        ('publish', $v$ SELECT fairq.publish('pri', '1') $v$),
        ('subscribe', $v$ SELECT fairq.subscribe('pri', 'pri') $v$),
        ('unsubscribe', $v$ SELECT fairq.unsubscribe('pri', 'pri') $v$),
        ('reset_stats', $v$ SELECT fairq.reset_stats('pri') $v$),
        ('alter_queue', $v$ SELECT fairq.alter_queue('pri', lease => '1 h') $v$),
        ('pause', $v$ SELECT fairq.pause('pri') $v$),
        ('resume', $v$ SELECT fairq.resume('pri') $v$),
        ('drop_queue', $v$ SELECT fairq.drop_queue('pri') $v$)
    LOOP
        BEGIN
            RETURN NEXT rpad(verb, 25) || regexp_replace(regexp_replace(pg_temp.try(statement),
                '^42501: permission denied for queue "pri"\n  hint: The privilege (\w+) on table "fairq.q_pri" is required.$', 'needs \1'),
                '^42501: must be owner of queue "pri"\n  hint: .*$', 'needs ownership');
            RAISE EXCEPTION 'undo' USING ERRCODE = 'UNDOO';
        EXCEPTION WHEN SQLSTATE 'UNDOO' THEN
            NULL;
        END;
    END LOOP;
END
$$;
SET ROLE regress_fairq_user;
SELECT pg_temp.try($$ SELECT fairq.enqueue('pri', '1') $$);
SELECT pg_temp.try($$ SELECT fairq.pause('pri') $$);
SET ROLE regress_fairq_owner;
SELECT pg_temp.each_verb();
-- Who is a member of the owner is as good.
SET ROLE regress_fairq_member;
SELECT pg_temp.each_verb();
-- Another one with no privilege at all.
SET ROLE regress_fairq_user;
SELECT pg_temp.each_verb();
RESET ROLE;
-- With one privilege each.
GRANT INSERT ON fairq."q_pri" TO regress_fairq_user;
SET ROLE regress_fairq_user;
SELECT pg_temp.each_verb();
RESET ROLE;
REVOKE INSERT ON fairq."q_pri" FROM regress_fairq_user;
GRANT SELECT ON fairq."q_pri" TO regress_fairq_user;
SET ROLE regress_fairq_user;
SELECT pg_temp.each_verb();
RESET ROLE;
REVOKE SELECT ON fairq."q_pri" FROM regress_fairq_user;
GRANT UPDATE ON fairq."q_pri" TO regress_fairq_user;
SET ROLE regress_fairq_user;
SELECT pg_temp.each_verb();
RESET ROLE;
REVOKE UPDATE ON fairq."q_pri" FROM regress_fairq_user;
GRANT DELETE ON fairq."q_pri" TO regress_fairq_user;
SET ROLE regress_fairq_user;
SELECT pg_temp.each_verb();
RESET ROLE;
-- A worker's: all but INSERT.
GRANT SELECT, UPDATE ON fairq."q_pri" TO regress_fairq_user;
SET ROLE regress_fairq_user;
SELECT pg_temp.each_verb();
RESET ROLE;
-- A privilege on a column is not one on the queue.
REVOKE ALL ON fairq."q_pri" FROM regress_fairq_user;
GRANT INSERT (payload), SELECT (payload), UPDATE (payload) ON fairq."q_pri" TO regress_fairq_user;
SET ROLE regress_fairq_user;
SELECT pg_temp.each_verb();
RESET ROLE;
REVOKE ALL ON fairq."q_pri" FROM regress_fairq_user;

-- None of that had any effect.
SELECT state, count(*) FROM fairq.tasks('pri') GROUP BY state ORDER BY state;
SELECT count(fairq.ack(receipt)) FROM claimed WHERE payload = '5';

-- An owner who took a privilege from himself.
SET ROLE regress_fairq_owner;
REVOKE INSERT ON fairq."q_pri" FROM regress_fairq_owner;
SELECT pg_temp.try($$ SELECT fairq.enqueue('pri', '1') $$);
GRANT INSERT ON fairq."q_pri" TO regress_fairq_owner;
RESET ROLE;
-- A function with the rights of its owner lends them to its caller.
CREATE FUNCTION public.pri_submit(payload jsonb) RETURNS bigint LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$ SELECT fairq.enqueue('pri', payload) $$;
ALTER FUNCTION public.pri_submit OWNER TO regress_fairq_owner;
SET ROLE regress_fairq_user;
SELECT count(public.pri_submit('"submitted"'));
SELECT pg_temp.try($$ SELECT fairq.enqueue('pri', '"not"') $$);
RESET ROLE;
DROP FUNCTION public.pri_submit;

-- No USAGE on the schema: not even the functions.
REVOKE USAGE ON SCHEMA fairq FROM PUBLIC;
SET ROLE regress_fairq_user;
SELECT pg_temp.try($$ SELECT fairq.enqueue('pri', '1') $$);
SELECT pg_temp.try($$ SELECT count(*) FROM fairq.queues $$);
RESET ROLE;
GRANT USAGE ON SCHEMA fairq TO PUBLIC;

-- The views: pg_monitor sees the figures of all queues, others those of the queues they may read. Payloads are for those who may read the table.
SELECT pg_temp.try($$ SELECT fairq.enqueue('pri', '1') IS NOT NULL $$);
CREATE FUNCTION pg_temp.each_view() RETURNS SETOF text LANGUAGE sql AS $$
    SELECT rpad(view, 15) || pg_temp.try(statement) FROM (VALUES
        (1, 'queues', $v$ SELECT string_agg(queue, ' ') FROM fairq.queues $v$),
        (2, 'queue_stats', $v$ SELECT string_agg(queue || ' ' || leased, ' ') FROM fairq.queue_stats $v$),
        (3, 'bucket_stats', $v$ SELECT count(*) > 0 FROM fairq.bucket_stats $v$),
        (4, 'leases', $v$ SELECT count(*) FROM fairq.leases $v$),
        (5, 'dead_tasks', $v$ SELECT count(*) FROM fairq.dead_tasks $v$),
        (6, 'topics', $v$ SELECT string_agg(topic || ' ' || queue, ', ') FROM fairq.topics $v$),
        (7, 'the table', $v$ SELECT count(*) > 0 FROM fairq."q_pri" $v$)) v(n, view, statement) ORDER BY n
$$;
SET ROLE regress_fairq_owner;
SELECT pg_temp.each_view();
SET ROLE regress_fairq_monitor;
SELECT pg_temp.each_view();
SET ROLE regress_fairq_user;
SELECT pg_temp.each_view();
RESET ROLE;
GRANT SELECT ON fairq."q_pri" TO regress_fairq_user;
SET ROLE regress_fairq_user;
SELECT pg_temp.each_view();

-- The settings are written through functions only.
SET ROLE regress_fairq_owner;
SELECT pg_temp.try($$ UPDATE fairq.queue SET lease = '1 s' $$);
SELECT pg_temp.try($$ DELETE FROM fairq.queue $$);
SELECT pg_temp.try($$ INSERT INTO fairq.queue (queue) VALUES ('x') $$);
SELECT pg_temp.try($$ TRUNCATE fairq.queue $$);
SELECT pg_temp.try($$ UPDATE fairq.topic SET topic = 'other' $$);
SELECT pg_temp.try($$ DELETE FROM fairq.topic $$);
SELECT pg_temp.try($$ INSERT INTO fairq.topic VALUES ('other', 'pri') $$);
-- The trigger function is good for nothing else.
SELECT pg_temp.try($$ SELECT fairq_internal.row_written() $$);
CREATE TEMP TABLE other (id bigint, address fairq.address, state "char");
SELECT pg_temp.try($$ CREATE TRIGGER t AFTER INSERT ON other FOR EACH ROW EXECUTE FUNCTION fairq_internal.row_written() $$);
SELECT pg_temp.try($$ INSERT INTO other VALUES (1, '(0,1,1)', 'r') $$);
DROP TABLE other;

-- An error about another producer's row, which is written as the owner, says what is in it
-- to those who may read the queue; and so does one about a row of its done table.
RESET ROLE;
CREATE FUNCTION pg_temp.told(statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    detail text;
BEGIN
    EXECUTE statement;
    RETURN 'ok';
EXCEPTION WHEN OTHERS THEN
    GET STACKED DIAGNOSTICS detail = PG_EXCEPTION_DETAIL;
    RETURN SQLSTATE || ': ' || regexp_replace(detail, '^.*"hush".*$', 'all of the row');
END
$$;
SELECT fairq.create_queue('pri told', keep_done => '1 h');
SELECT fairq.enqueue('pri told', '{"secret": "hush"}', unique_key => 'k', run_at => now() + interval '1 h') IS NOT NULL;
ALTER TABLE fairq."q_pri told" ADD CHECK (payload ->> 'secret' IS NULL) NOT VALID;
GRANT INSERT ON fairq."q_pri told" TO regress_fairq_user;
SET ROLE regress_fairq_user;
SELECT pg_temp.told($$ SELECT fairq.enqueue('pri told', '1', unique_key => 'k') $$);
RESET ROLE;
GRANT SELECT ON fairq."q_pri told" TO regress_fairq_user;
SET ROLE regress_fairq_user;
SELECT pg_temp.told($$ SELECT fairq.enqueue('pri told', '1', unique_key => 'k') $$);
RESET ROLE;
REVOKE SELECT ON fairq."q_pri told" FROM regress_fairq_user;
ALTER TABLE fairq."q_pri told" DROP CONSTRAINT "q_pri told_payload_check";
ALTER TABLE fairq."done_pri told" ADD CHECK (payload ->> 'secret' IS NULL);
GRANT DELETE ON fairq."q_pri told" TO regress_fairq_user;
SET ROLE regress_fairq_user;
SELECT pg_temp.told($$ SELECT fairq.purge('pri told') $$);
RESET ROLE;
GRANT SELECT ON fairq."q_pri told" TO regress_fairq_user;
SET ROLE regress_fairq_user;
SELECT pg_temp.told($$ SELECT fairq.purge('pri told') $$);
RESET ROLE;
SELECT fairq.drop_queue('pri told');

-- The table given to somebody else: it is his queue then.
RESET ROLE;
ALTER TABLE fairq."q_pri" OWNER TO regress_fairq_user;
SET ROLE regress_fairq_owner;
SELECT pg_temp.try($$ SELECT fairq.pause('pri') $$);
SET ROLE regress_fairq_user;
SELECT pg_temp.try($$ SELECT fairq.alter_queue('pri', max_attempts => 5) $$);
SELECT pg_temp.try($$ SELECT count(fairq.enqueue('pri', '1')) $$);
SELECT pg_temp.try($$ SELECT fairq.drop_queue('pri') $$);
RESET ROLE;
SELECT queue FROM fairq.queues;
SELECT queue, count(*) FROM fairq.leases GROUP BY queue;
REVOKE CREATE ON SCHEMA fairq FROM regress_fairq_owner;
DROP TABLE claimed, dead CASCADE;
DROP ROLE regress_fairq_owner, regress_fairq_user, regress_fairq_monitor, regress_fairq_member;
