-- Nothing that an owner does to his sequence or writes into his table keeps anybody
-- busy without end.
-- Seen to fail: without id_sequence_advance() (no new ids); without the bound of
-- row_writer_new_ids() (for ever); without id_sequence in relcache_callback() (altered
-- and not noticed); with (int) around the class in queue_index_overflow_after()
-- (for ever, with CHECK_FOR_INTERRUPTS in find_of_class() until the time-out); without
-- check_block() (taken), virtual_time_leap() (blocks of 2^63 - 1 and 2^62 - 1, and then in
-- order of group), its like for the finish in queue_order_advance(), FAIRQ_TAGS_GROUPS
-- (after VACUUM FULL), FAIRQ_TAGS_START (in the new queue).
\set VERBOSITY terse
\pset format unaligned
\pset tuples_only on
SET client_min_messages = warning;
SET statement_timeout = '20 s';
SELECT fairq.create_queue('bounded', buckets => 1, max_ready_per_group => 2, default_priority => 0), fairq.subscribe('#', 'bounded');
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
SELECT fairq.create_queue('bounded 2', default_priority => 0), fairq.subscribe('#', 'bounded 2');
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
SELECT fairq.create_queue('bounded', buckets => 1, max_ready_per_group => 2, default_priority => 0), fairq.enqueue('bounded', '1', 'g') > 0;
ALTER TABLE fairq.q_bounded DISABLE TRIGGER fairq_row_written;
INSERT INTO fairq.q_bounded (id, enqueued_at, priority, cost, attempts, state, group_key, payload)
    SELECT n, now(), CASE WHEN n < 600 THEN :priority ELSE 0 END, 1, 0, 'o', 'g', '1' FROM generate_series(500, 610) n WHERE n < 511 OR n >= 600;
ALTER TABLE fairq.q_bounded ENABLE ALWAYS TRIGGER fairq_row_written;
SELECT fairq.maintain('bounded') >= 0, fairq.maintain('bounded') >= 0;
SELECT count(*) > 0 FROM fairq.pop('bounded', 10);
-- All others are found, also by the sweep, which has the overflow read from a task on.
-- (That takes many passes, and so longer than one of them may.)
SET statement_timeout = '70 s';
DO $$
DECLARE
    started timestamptz := clock_timestamp();
BEGIN
    LOOP
        PERFORM fairq.maintain('bounded');
        PERFORM FROM fairq.pop('bounded', 1);
        COMMIT;
        EXIT WHEN NOT EXISTS (SELECT FROM fairq.q_bounded WHERE priority = 0) AND clock_timestamp() > started + interval '2 s'
            OR clock_timestamp() > started + interval '60 s';
        PERFORM pg_sleep(0.05);
    END LOOP;
END $$;
SET statement_timeout = '20 s';
SELECT count(*) FROM fairq.q_bounded WHERE priority = 0;
SELECT fairq.drop_queue('bounded');

-- Blocks that nobody was charged for: virtual time does not get used up by them.
SELECT fairq.create_queue('bounded', buckets => 1, default_priority => 0);
CREATE FUNCTION pg_temp.put(block text, key text, trigger boolean) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    hint text;
BEGIN
    IF NOT trigger THEN
        ALTER TABLE fairq.q_bounded DISABLE TRIGGER fairq_row_written;
    END IF;
    INSERT INTO fairq.q_bounded (id, address, enqueued_at, priority, cost, attempts, state, group_key, payload)
        VALUES (-(SELECT 1 + count(*) FROM fairq.q_bounded), format('(0,%s,1)', block)::fairq.address, now(), 0, 1, 0, 'r', key, '"by sql"');
    IF NOT trigger THEN
        ALTER TABLE fairq.q_bounded ENABLE ALWAYS TRIGGER fairq_row_written;
    END IF;
    RETURN 'taken';
EXCEPTION WHEN OTHERS THEN
    GET STACKED DIAGNOSTICS hint = PG_EXCEPTION_HINT;
    RETURN SQLSTATE || ': ' || SQLERRM || ' ' || hint;
END
$$;
-- Two tasks of each of two groups: how far their blocks are from the bounds, 2^61 and
-- five eighths of 2^62, and in which order they come.
CREATE FUNCTION pg_temp.order_of_new() RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    v numeric;
    result text;
BEGIN
    PERFORM fairq.enqueue('bounded', to_jsonb(k), k) FROM unnest('{new 1,new 1,new 1,new 2,new 2,new 2}'::text[]) k;
    SELECT min(fairq.block(address)) INTO v FROM fairq.q_bounded WHERE group_key LIKE 'new%';
    SELECT string_agg(fairq.block(address) - v || ' of ' || group_key, ', ' ORDER BY address) INTO result
        FROM fairq.q_bounded WHERE group_key LIKE 'new%' AND payload <> '"by sql"';
    RETURN CASE WHEN v BETWEEN 2::numeric ^ 61 AND 2::numeric ^ 61 + 1e10 THEN 'at 2^61'
                WHEN v BETWEEN 5 * 2::numeric ^ 59 AND 5 * 2::numeric ^ 59 + 1e10 THEN 'at 5/8 of 2^62'
                WHEN v < 1e6 THEN 'low' ELSE 'at ' || v END || ': ' || result;
END
$$;
SELECT fairq.enqueue('bounded', '1', 'g') > 0;
SELECT pg_temp.put(block, 'g', true) FROM unnest('{9223372036854775807,4611686018427387904}'::text[]) block;
UPDATE fairq.q_bounded SET address = '(0,9223372036854775807.5,1)';
-- It is claimed, by who wants that group only and by who takes what there is.
SELECT pg_temp.put('4611686018427387903.5', 'made up', true);
SELECT count(*) FROM fairq.pop('bounded', 1, group_keys => '{made up}');
SELECT pg_temp.order_of_new();
SELECT count(*) FROM fairq.pop('bounded', 10);
SELECT pg_temp.put('4611686018427387903.5', 'made up', true), pg_temp.put('9223372036854775807.5', 'made up', false);
SELECT count(*) FROM fairq.pop('bounded', 10);
SELECT pg_temp.order_of_new();
-- Such a row of the group itself, also one from behind the trigger, and all is read anew.
SELECT pg_temp.put(block, 'new 1', trigger) FROM (VALUES ('4611686018427387903', true), ('9223372036854775807', false)) v (block, trigger);
VACUUM FULL fairq.q_bounded;
SELECT pg_temp.order_of_new();
-- Such a row is the first that there is, as after a restart.
SELECT fairq.drop_queue('bounded');
SELECT fairq.create_queue('bounded', buckets => 1, default_priority => 0), pg_temp.put('4611686018427387903', 'made up', true);
SELECT pg_temp.order_of_new();
SELECT count(*) FROM fairq.pop('bounded', 100);
-- And what is written is accepted by a restore.
SELECT pg_temp.order_of_new();
CREATE TEMP TABLE kept AS SELECT * FROM fairq.q_bounded;
DELETE FROM fairq.q_bounded;
INSERT INTO fairq.q_bounded SELECT * FROM kept;
SELECT count(*) FROM fairq.pop('bounded', 100);
SELECT fairq.drop_queue('bounded');
-- The other policies order by what is given.
SELECT fairq.create_queue('bounded', policy => 'priority'), fairq.enqueue('bounded', '"last"', priority => 9223372036854775807) > 0;
UPDATE fairq.q_bounded SET payload = '"still last"';
SELECT payload FROM fairq.pop('bounded', 1);
SELECT fairq.drop_queue('bounded');
