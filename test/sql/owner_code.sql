-- What the owner of a queue attaches to its tables runs as him, whoever it is that
-- does something with the queue, and only where a row is written.
-- Seen to fail: with RelationGetIndexPredicate() in examine_indexes() or in
-- fit_index() of archive.c (who looks, publishes and acknowledges runs "index predicate");
-- without write_as_owner() in row_writer.c, at each of its three places.
\set VERBOSITY terse
\pset format unaligned
\pset tuples_only on
SET client_min_messages = warning;
CREATE ROLE regress_fairq_code_owner;
CREATE ROLE regress_fairq_code_user;
CREATE ROLE regress_fairq_code_monitor;
GRANT pg_monitor TO regress_fairq_code_monitor;
CREATE SCHEMA regress_fairq_code;
GRANT ALL ON SCHEMA regress_fairq_code TO regress_fairq_code_owner;
GRANT USAGE ON SCHEMA regress_fairq_code TO PUBLIC;
GRANT CREATE ON SCHEMA fairq TO regress_fairq_code_owner;

SET ROLE regress_fairq_code_owner;
CREATE TABLE regress_fairq_code.seen (who name DEFAULT current_user, what text);
GRANT INSERT ON regress_fairq_code.seen TO PUBLIC;
-- Says as whom it is called; true, and immutable as far as anybody can tell.
CREATE FUNCTION regress_fairq_code.note(what text) RETURNS boolean LANGUAGE plpgsql AS
$$BEGIN INSERT INTO regress_fairq_code.seen (what) VALUES (what); RETURN true; END$$;
CREATE FUNCTION regress_fairq_code.is_so(what text) RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS
$$BEGIN RETURN regress_fairq_code.note(what); END$$;
CREATE FUNCTION regress_fairq_code.is_so(what text, id bigint) RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS
$$BEGIN RETURN regress_fairq_code.note(what); END$$;
CREATE FUNCTION regress_fairq_code.is_written() RETURNS trigger LANGUAGE plpgsql AS
$$BEGIN PERFORM regress_fairq_code.note(tg_argv[0]); RETURN new; END$$;
CREATE DOMAIN regress_fairq_code.yes AS boolean DEFAULT regress_fairq_code.is_so('domain default') CHECK (regress_fairq_code.is_so('domain check', 1));
SELECT fairq.create_queue('code', keep_done => '1 day', max_attempts => 1, max_ready_per_group => 2, durable_leases => true), fairq.subscribe('#', 'code');
GRANT SELECT, INSERT, UPDATE, DELETE ON fairq.q_code TO regress_fairq_code_user;

-- All that there can be, on the queue's table and on its archive.
ALTER TABLE fairq.q_code
    ADD added boolean DEFAULT regress_fairq_code.is_so('default'),
    ADD of_domain regress_fairq_code.yes DEFAULT true,
    ADD CHECK (regress_fairq_code.is_so('check')),
    ADD CHECK (regress_fairq_code.is_so('check of a row', id));
CREATE INDEX ON fairq.q_code (id) WHERE regress_fairq_code.is_so('index predicate');
CREATE INDEX ON fairq.q_code (id) WHERE regress_fairq_code.is_so('index predicate of a row', id);
CREATE INDEX ON fairq.q_code (regress_fairq_code.is_so('index expression'));
CREATE INDEX ON fairq.q_code (regress_fairq_code.is_so('index expression of a row', id));
SELECT fairq.create_queue('code index');
CREATE INDEX ON fairq."q_code index" (id) WHERE regress_fairq_code.is_so('only an index', id);
GRANT SELECT, INSERT, UPDATE, DELETE ON fairq."q_code index" TO regress_fairq_code_user;
CREATE STATISTICS regress_fairq_code.statistics ON (regress_fairq_code.is_so('statistics')), id FROM fairq.q_code;
ALTER TABLE fairq.done_code
    ADD added boolean DEFAULT regress_fairq_code.is_so('archive default'),
    ADD of_domain regress_fairq_code.yes,
    ADD made boolean GENERATED ALWAYS AS (regress_fairq_code.is_so('archive generated', id)) STORED,
    ADD CHECK (regress_fairq_code.is_so('archive check'));
CREATE INDEX ON fairq.done_code (done_at, id) WHERE regress_fairq_code.is_so('archive index predicate');
CREATE INDEX ON fairq.done_code (regress_fairq_code.is_so('archive index expression'));
CREATE TRIGGER noted BEFORE INSERT ON fairq.done_code FOR EACH ROW WHEN (regress_fairq_code.is_so('archive when')) EXECUTE FUNCTION regress_fairq_code.is_written('archive before');
CREATE CONSTRAINT TRIGGER noted_after AFTER INSERT ON fairq.done_code FOR EACH ROW EXECUTE FUNCTION regress_fairq_code.is_written('archive after');
ALTER TABLE fairq.done_code ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY p ON fairq.done_code USING (regress_fairq_code.is_so('archive policy')) WITH CHECK (regress_fairq_code.is_so('archive policy'));
-- And functions in the schema that calls without a cast might find.
CREATE FUNCTION fairq.tasks(text, text) RETURNS SETOF fairq.task_status LANGUAGE plpgsql AS $$BEGIN PERFORM regress_fairq_code.note('another tasks()'); RETURN; END$$;
RESET ROLE;
-- The owner may do as he likes, and has.
TRUNCATE regress_fairq_code.seen;

-- In sessions that know nothing of the queue yet: who looks.
\connect
SET client_min_messages = warning;
SET ROLE regress_fairq_code_monitor;
SELECT count(*) FROM fairq.queue_stats WHERE queue = 'code';
\connect
SET client_min_messages = warning;
SELECT count(*) FROM fairq.group_stats WHERE queue = 'code';
\connect
SET client_min_messages = warning;
SELECT (SELECT count(*) FROM fairq.bucket_stats WHERE queue = 'code'), (SELECT count(*) FROM fairq.leases WHERE queue = 'code'),
    (SELECT count(*) FROM fairq.dead_tasks WHERE queue = 'code'), (SELECT count(*) FROM fairq.done_tasks WHERE queue = 'code'),
    (SELECT count(*) FROM fairq.queues WHERE queue = 'code'), (SELECT count(*) FROM fairq.topics WHERE queue = 'code'),
    (SELECT count(*) FROM fairq.peek('code')), (SELECT count(*) FROM fairq.tasks('code', NULL::text, NULL::text)), (SELECT count(*) FROM fairq.get_task('code', 1)),
    fairq.get_task_position('code', 1), (SELECT count(*) FROM fairq.claim('code')), fairq.cancel('code', 1);
TABLE regress_fairq_code.seen;

-- Who writes.
\connect
SET client_min_messages = warning;
SET ROLE regress_fairq_code_user;
SELECT fairq.publish('a.b', '1') > 0, fairq.enqueue('code index', '1') > 0;
SELECT count(fairq.enqueue('code', '2', group_key => 'g')) FROM generate_series(1, 4);
SELECT cardinality(fairq.enqueue_many('code', '{3,4}', unique_keys => '{k,l}'));
SELECT fairq.enqueue('code', '5', unique_key => 'k', on_duplicate => 'replace') > 0;
SELECT count(fairq.enqueue('code', '6', run_at => now() + n * interval '10 ms')) FROM generate_series(1, 2) n;
\connect
SET client_min_messages = warning;
SET ROLE regress_fairq_code_user;
SELECT count(fairq.ack(receipt)) FROM fairq.claim('code', 1);
SELECT count(fairq.nack(receipt)) FROM fairq.claim('code', 1);
SELECT count(fairq.release(receipt)) FROM fairq.claim('code', 1);
SELECT count(fairq.extend(receipt)) FROM fairq.claim('code', 1);
SELECT count(*) FROM fairq.pop('code', 1);
SELECT fairq.revive_all('code');
SELECT fairq.maintain('code') >= 0;
SELECT count(fairq.cancel('code', id)) FROM (SELECT id FROM fairq.tasks('code', NULL::text, NULL::text) LIMIT 1) t;
RESET ROLE;
SELECT fairq.alter_queue('code', keep_done => '1 ms'), fairq.set_group('code', 'g', weight => 2), fairq.pause('code'), fairq.resume('code');
SELECT pg_sleep(0.01), fairq.maintain('code') >= 0;
SET ROLE regress_fairq_code_user;
SELECT fairq.purge('code') > 0;
RESET ROLE;
SELECT who, string_agg(DISTINCT what, ', ' ORDER BY what) FROM regress_fairq_code.seen GROUP BY who;
-- Nothing is left of having been him.
SELECT current_user = session_user, current_setting('search_path');
SELECT fairq.drop_queue('code'), fairq.drop_queue('code index');
SELECT DISTINCT who FROM regress_fairq_code.seen;

REVOKE CREATE ON SCHEMA fairq FROM regress_fairq_code_owner;
DROP OWNED BY regress_fairq_code_owner CASCADE;
DROP SCHEMA regress_fairq_code CASCADE;
DROP ROLE regress_fairq_code_owner, regress_fairq_code_user, regress_fairq_code_monitor;
