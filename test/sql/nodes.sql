-- Numbers of nodes: what ids, receipts and sessions say of where they come from.
-- The queues of this file start with "node". The number is one for the database:
-- what is set here is rolled back, or the last thing is to drop what has ids of it.
-- Restarts, standbys and dumps are tested with test/t/faults_nodes.pl.
--
-- Seen to fail: in queue_state.c without the "next = end" of queue_state_publish()
-- (the ids at hand are used up first) or the second condition of
-- queue_state_give_ids() (blocks of node 0 are taken); in queue_catalog.c without
-- "own_settings |= own_node" (a number that is rolled back has been in force); in
-- node_admin.c without the look at the last ids; in sql_nodes.c without both of what the
-- trigger does (each alone is enough); and when the trigger is not there for a replica.
CREATE FUNCTION pg_temp.try(statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    result text;
    hint text;
BEGIN
    EXECUTE statement INTO result;
    RETURN coalesce(result, '(null)');
EXCEPTION WHEN OTHERS THEN
    GET STACKED DIAGNOSTICS hint = PG_EXCEPTION_HINT;
    RETURN SQLSTATE || ': ' || SQLERRM || coalesce(E'\n  hint: ' || nullif(hint, ''), '');
END
$$;
CREATE FUNCTION pg_temp.node_of_next(queue text) RETURNS int LANGUAGE sql AS $$
    SELECT fairq.node_of_id(fairq.enqueue(queue, '1'))
$$;
SELECT fairq.create_queue('node a', buckets => 1);
SELECT fairq.this_node(), pg_temp.node_of_next('node a');
SELECT fairq.node_of_receipt(receipt), fairq.node_of_session(fairq.open_session('node 0', '1 h')) FROM fairq.claim('node a', lease => '1 h');
-- What is rolled back was never in force, not even for the queue's ids.
BEGIN;
SELECT fairq.set_node(9), fairq.this_node();
SELECT pg_temp.node_of_next('node a');
ROLLBACK;
SELECT fairq.this_node(), pg_temp.node_of_next('node a');
-- From the commit on all say so: ids of queues that are and of those to come,
-- receipts also of leases that were granted before, sessions that are opened.
SELECT receipt FROM fairq.leases WHERE queue = 'node a' \gset
SELECT session FROM fairq.sessions WHERE name = 'node 0' \gset
SELECT fairq.set_node(5);
SELECT fairq.create_queue('node b', buckets => 1);
SELECT fairq.this_node(), pg_temp.node_of_next('node a'), pg_temp.node_of_next('node b');
SELECT array_agg(id - (5::bigint << 48) ORDER BY id) FROM fairq.tasks('node b');
SELECT fairq.node_of_receipt(receipt), fairq.node_of_id(id) FROM fairq.claim('node a', 10, lease => '1 h') ORDER BY id;
SELECT fairq.node_of_session(fairq.open_session('node 5', '1 h'));
-- What was given out before is good.
SELECT fairq.node_of_receipt(:'receipt'), fairq.extend(:'receipt', '2 h') IS NOT NULL, fairq.ack(:'receipt'), fairq.ack(:'receipt');
SELECT fairq.heartbeat(:'session'), fairq.node_of_session(session) FROM fairq.sessions WHERE name = 'node 0';
SELECT fairq.close_session(session) FROM fairq.sessions WHERE name LIKE 'node %';
SELECT count(fairq.ack(receipt)) FROM fairq.leases WHERE queue = 'node a';
-- All ids come once, and they grow, over the change.
SELECT count(fairq.enqueue_many('node a', array_fill('1'::jsonb, ARRAY[2500])));
SELECT fairq.set_node(6);
SELECT count(fairq.enqueue_many('node a', array_fill('1'::jsonb, ARRAY[2500])));
SELECT fairq.node_of_id(id) AS node, count(*), count(DISTINCT id) FROM fairq.tasks('node a') GROUP BY 1 ORDER BY 1;
SELECT count(*) FILTER (WHERE after < id) FROM (SELECT id, lead(id) OVER (ORDER BY fairq.block(address), fairq.slot(address)) AS after FROM (SELECT id, address FROM fairq.tasks('node a')) t) x;
SELECT count(*) FROM fairq.pop('node a', 100000);
-- The number only grows while a queue has ids of it.
SELECT pg_temp.try('SELECT fairq.set_node(4)');
SELECT fairq.set_node(6), fairq.this_node();
-- Written with SQL it counts just so.
UPDATE fairq_internal.node SET number = 7;
SELECT fairq.this_node(), pg_temp.node_of_next('node a');
SET session_replication_role = replica;
UPDATE fairq_internal.node SET number = 8;
RESET session_replication_role;
SELECT fairq.this_node(), pg_temp.node_of_next('node a');
INSERT INTO fairq_internal.node (number) VALUES (9);
UPDATE fairq_internal.node SET number = 40000;
-- Bad input.
SELECT pg_temp.try('SELECT fairq.set_node(NULL)');
SELECT pg_temp.try('SELECT fairq.set_node(-1)');
SELECT pg_temp.try('SELECT fairq.set_node(32768)');
SELECT fairq.node_of_id(0), fairq.node_of_id(-1), fairq.node_of_id(9223372036854775807), fairq.node_of_id(NULL);
SELECT fairq.node_of_receipt('00000000-0000-0000-0000-000000000000'), fairq.node_of_receipt('ffffffff-ffff-ffff-ffff-ffffffffffff'), fairq.node_of_session(NULL);
CREATE ROLE regress_node_user;
GRANT USAGE ON SCHEMA fairq TO regress_node_user;
SET ROLE regress_node_user;
SELECT pg_temp.try('SELECT fairq.set_node(9)');
SELECT pg_temp.try('UPDATE fairq_internal.node SET number = 9');
SELECT fairq.this_node(), fairq.node_of_id(1);
RESET ROLE;
DROP OWNED BY regress_node_user;
DROP ROLE regress_node_user;
-- Back: when no queue has such ids.
SELECT fairq.drop_queue('node a'), fairq.drop_queue('node b');
DELETE FROM fairq_internal.node;
SELECT fairq.this_node();
