-- Nothing that an owner does to his sequence or writes into his table keeps anybody
-- busy without end.
-- Seen to fail: without advance_sequence() (no new ids); without the bound of
-- queue_relation_new_ids() (for ever); without id_sequence in relcache_callback() (altered
-- and not noticed); with (int) around the class in queue_relation_overflow_after()
-- (for ever, with CHECK_FOR_INTERRUPTS in seek_lost() until the time-out).
\set VERBOSITY terse
\pset format unaligned
\pset tuples_only on
SET client_min_messages = warning;
SET statement_timeout = '20 s';
SELECT fairq.create_queue('bounded', buckets => 1, max_ready_per_group => 2), fairq.subscribe('#', 'bounded');
-- Set back, as by TRUNCATE ... RESTART IDENTITY: ids go on, and the sequence with them.
SELECT setval('fairq.ids_of_bounded', 5000000001) > 0, fairq.enqueue('bounded', '1') > 5000000000;
SELECT setval('fairq.ids_of_bounded', 1) > 0, cardinality(fairq.enqueue_many('bounded', array_fill('1'::jsonb, '{5000}')));
SELECT min(id) > 5000000000, count(*) = count(DISTINCT id), (SELECT last_value > 5000000000 FROM fairq.ids_of_bounded) FROM fairq.tasks('bounded');
TRUNCATE fairq.q_bounded RESTART IDENTITY;
SELECT fairq.publish('a', '1'), cardinality(fairq.enqueue_many('bounded', array_fill('1'::jsonb, '{3000}')));
SELECT min(id) > 5000000000, count(*) FROM fairq.tasks('bounded');
TRUNCATE fairq.q_bounded;

-- Altered since the queue was opened in this session, in each way.
SELECT fairq.enqueue('bounded', '1') > 0;
ALTER SEQUENCE fairq.ids_of_bounded INCREMENT -1000 MINVALUE -9223372036854775808 MAXVALUE 1 CYCLE RESTART 1;
SELECT fairq.publish('a', '1');
SELECT fairq.enqueue('bounded', '1');
ALTER SEQUENCE fairq.ids_of_bounded INCREMENT 1000 NO MINVALUE MAXVALUE 3000 CYCLE RESTART 1;
SELECT fairq.enqueue('bounded', '1');
-- At its end.
ALTER SEQUENCE fairq.ids_of_bounded NO CYCLE;
SELECT cardinality(fairq.enqueue_many('bounded', array_fill('1'::jsonb, '{3000}')));
ALTER SEQUENCE fairq.ids_of_bounded NO MAXVALUE;
SELECT cardinality(fairq.enqueue_many('bounded', array_fill('1'::jsonb, '{3000}')));
-- While it is being used: by a default of the queue that is published to first.
SELECT fairq.create_queue('bounded 2'), fairq.subscribe('#', 'bounded 2');
SELECT cardinality(fairq.enqueue_many('bounded 2', array_fill('1'::jsonb, '{1000}')));
CREATE FUNCTION pg_temp.alter_it() RETURNS int LANGUAGE plpgsql AS $$
BEGIN
    ALTER SEQUENCE fairq."ids_of_bounded 2" INCREMENT -1 MINVALUE -9223372036854775808 MAXVALUE 9223372036854775807 CYCLE RESTART 1;
    RETURN 1;
END $$;
ALTER TABLE fairq.q_bounded ADD altered int;
ALTER TABLE fairq.q_bounded ALTER altered SET DEFAULT pg_temp.alter_it();
SELECT fairq.publish('a', '1');
ALTER TABLE fairq.q_bounded DROP altered;
SELECT fairq.publish('a', '1');
SELECT fairq.drop_queue('bounded 2');

-- Priorities that are no classes, and are taken for one when they are cut to 32 bits.
\set priority 4294967296
SELECT fairq.drop_queue('bounded');
SELECT fairq.create_queue('bounded', buckets => 1, max_ready_per_group => 2), fairq.enqueue('bounded', '1', 'g') > 0;
ALTER TABLE fairq.q_bounded DISABLE TRIGGER fairq_row_written;
INSERT INTO fairq.q_bounded (id, enqueued_at, priority, cost, attempts, state, group_key, payload)
    SELECT n, now(), CASE WHEN n < 600 THEN :priority ELSE 0 END, 1, 0, 'o', 'g', '1' FROM generate_series(500, 610) n WHERE n < 511 OR n >= 600;
ALTER TABLE fairq.q_bounded ENABLE ALWAYS TRIGGER fairq_row_written;
SELECT fairq.maintain('bounded') >= 0, fairq.maintain('bounded') >= 0;
SELECT count(*) > 0 FROM fairq.pop('bounded', 10);
-- All others are found, also by the sweep, which has the overflow read from a task on.
DO $$
DECLARE
    until timestamptz := clock_timestamp() + '15 s';
BEGIN
    LOOP
        PERFORM fairq.maintain('bounded');
        PERFORM FROM fairq.pop('bounded', 1);
        COMMIT;
        EXIT WHEN NOT EXISTS (SELECT FROM fairq.q_bounded WHERE priority = 0) AND clock_timestamp() > until - interval '13 s' OR clock_timestamp() > until;
        PERFORM pg_sleep(0.05);
    END LOOP;
END $$;
SELECT count(*) FROM fairq.q_bounded WHERE priority = 0;
SELECT fairq.drop_queue('bounded');
