-- Tasks that expire: expires_at and expire_after. The queues of this file start with
-- "dl". The tests hold with and without a worker.
--
-- Seen to fail: without the look in claim_grant() the claims below get what has
-- expired; without that in unique_keys_take() an enqueue keeps it; without that in
-- put_back() it comes back after a nack; without groups_refund() the group below
-- waits behind virtual time; without that in unique_keys_guess() a task is behind
-- those that came after it.
\i test/sql/include/helpers.sql
-- How many tasks of a queue have ended as expired.
CREATE FUNCTION pg_temp.ended(q text) RETURNS bigint LANGUAGE sql AS $$
    SELECT expired_tasks FROM fairq.queue_stats WHERE queue = q
$$;
\pset format unaligned
\pset tuples_only on
\pset null (null)

-- What may be given.
SELECT fairq.create_queue('dl', buckets => 2, keep_done => '1 day', backoff_base => '1 h', lease => '1 h');
SELECT fairq.enqueue('dl', '1', expires_at => '-infinity');
SELECT fairq.enqueue('dl', '1', run_at => '2100-01-01', expires_at => '2099-12-31');
SELECT fairq.enqueue('dl', '1', run_at => '2100-01-01 00:00Z', expires_at => '2100-01-01 00:00Z');
SELECT fairq.enqueue('dl', '1', run_at => '2000-01-01 00:00Z', expires_at => '1999-01-01 00:00Z');
SELECT fairq.create_queue('dlbad', expire_after => '-1 s');
SELECT fairq.create_queue('dlbad', expire_after => '11 years');
SELECT fairq.alter_queue('dl', expire_after => '-1 s');
SELECT fairq.enqueue('dl', '"never"', expires_at => 'infinity');
SELECT fairq.enqueue('dl', '"none"', expires_at => NULL);
SELECT payload, expires_at FROM fairq.tasks('dl') ORDER BY id;
SELECT fairq.purge('dl');

-- A claim never returns a task that has expired, nor does pop or peek; in whatever
-- bucket, with groups given or not. Which of the others comes first depends on how many
-- a pass has ended before: at a proxy each enqueue is committed by itself.
BEGIN;
SELECT count(fairq.enqueue('dl', to_jsonb(i), 'g' || i % 3, expires_at => '2020-01-01')) FROM generate_series(1, 20) i;
SELECT count(fairq.enqueue('dl', to_jsonb(i), 'g' || i % 3, expires_at => '2100-01-01')) FROM generate_series(21, 26) i;
COMMIT;
SELECT payload FROM fairq.peek('dl', 100) ORDER BY id;
SELECT count(*), min(payload::int) > 20, bool_and(expires_at = '2100-01-01') FROM fairq.claim('dl', 3, group_keys => '{g0,g1}');
SELECT payload::int > 20 FROM fairq.pop('dl', 1);
SELECT count(*) FROM fairq.claim('dl', 100);
CALL pg_temp.maintain_until('dl', $$pg_temp.ended('dl') = 20$$);
SELECT outcome, count(*), min(attempts), bool_and(claimed_at IS NULL) FROM fairq.done_dl GROUP BY 1 ORDER BY 1;
SELECT ready, leased, scheduled, overflow, held, dead, expired, expired_tasks, cancelled FROM fairq.queue_stats WHERE queue = 'dl';
SELECT count(*), sum(ready), sum(leased) FROM fairq.group_stats WHERE queue = 'dl';
SELECT count(*) FROM fairq.ack_many((SELECT array_agg(receipt) FROM fairq.leases WHERE queue = 'dl'));

-- In every state: those of the overflow have no address; one waits for a retry, one is
-- held behind its key, and one is set aside, for its group is at its limit; and the
-- queue is paused.
SELECT fairq.create_queue('dlstate', buckets => 1, max_ready_per_group => 2, backoff_base => '1 h', lease => '1 h', keep_done => '1 day');
SELECT fairq.set_group('dlstate', 'limit', max_leased => 1);
SELECT fairq.enqueue('dlstate', '"first of the key"', 'key', unique_key => 'k') > 0;
SELECT fairq.enqueue('dlstate', '"of the limit"', 'limit') > 0;
SELECT count(*) FROM fairq.claim('dlstate', 2);
SELECT fairq.enqueue('dlstate', '"held"', 'key', unique_key => 'k', expires_at => '2100-01-01') > 0;
SELECT fairq.enqueue('dlstate', '"set aside"', 'limit', expires_at => '2100-01-01') > 0;
SELECT fairq.enqueue('dlstate', '"retry"', 'r', expires_at => '2100-01-01') > 0;
SELECT count(fairq.nack(receipt, 'again')) FROM fairq.claim('dlstate', 1, group_keys => '{r}');
SELECT count(*) FROM fairq.claim('dlstate', 1, group_keys => '{limit}');
SELECT fairq.enqueue('dlstate', to_jsonb('many ' || i), 'many', expires_at => '2100-01-01') > 0 FROM generate_series(1, 5) i;
SELECT fairq.enqueue('dlstate', '"stays"', 'many') > 0;
SELECT state, count(*) FROM fairq.tasks('dlstate') WHERE expires_at IS NOT NULL GROUP BY 1 ORDER BY 1;
SELECT fairq.pause('dlstate');
UPDATE fairq.q_dlstate SET expires_at = '2020-01-01' WHERE expires_at IS NOT NULL;
CALL pg_temp.maintain_until('dlstate', $$pg_temp.ended('dlstate') = 8$$);
SELECT payload, attempts, last_error FROM fairq.done_dlstate WHERE outcome = 'expired' ORDER BY payload;
SELECT fairq.resume('dlstate');
SELECT ready, leased, scheduled, overflow, held, dead, expired_tasks FROM fairq.queue_stats WHERE queue = 'dlstate';
SELECT group_key, ready, overflow, leased FROM fairq.group_stats WHERE queue = 'dlstate' ORDER BY 1;
SELECT payload FROM fairq.claim('dlstate', 10);

-- A leased task may go on after its expires_at: it is acknowledged, or it does not come
-- back.
SELECT fairq.create_queue('dlrun', buckets => 1, backoff_base => '0', lease => '1 h', keep_done => '1 day', max_attempts => 2);
SELECT count(fairq.enqueue('dlrun', to_jsonb(p), p, expires_at => '2100-01-01')) FROM unnest('{ack,nack,release,snooze,lease,dead,cancel}'::text[]) p;
SELECT count(fairq.nack(receipt, 'first')) FROM fairq.claim('dlrun', 1, group_keys => '{dead}');
CREATE TEMP TABLE l AS SELECT * FROM fairq.claim('dlrun', 10);
UPDATE fairq.q_dlrun SET expires_at = '2020-01-01';
-- The pass comes to them while they are leased.
SELECT fairq.maintain('dlrun');
SELECT fairq.ack(receipt) FROM l WHERE group_key = 'ack';
SELECT fairq.nack(receipt, 'too late') FROM l WHERE group_key = 'nack';
SELECT fairq.nack(receipt, 'dead') FROM l WHERE group_key = 'dead';
SELECT fairq.release(receipt) FROM l WHERE group_key = 'release';
SELECT fairq.release(receipt, '1 h') FROM l WHERE group_key = 'snooze';
SELECT fairq.cancel('dlrun', id) FROM l WHERE group_key = 'cancel';
SELECT payload FROM fairq.tasks('dlrun') ORDER BY 1;
SELECT fairq.extend(receipt, '0.01 s') IS NOT NULL FROM l WHERE group_key = 'lease';
CALL pg_temp.maintain_until('dlrun', $$pg_temp.ended('dlrun') = 4$$);
SELECT payload, outcome, attempts, lost, pg_temp.masked(last_error), claimed_at IS NOT NULL FROM fairq.done_dlrun ORDER BY payload;
SELECT payload, state, attempts FROM fairq.tasks('dlrun');
SELECT acked, nacked, released, expired, expired_tasks, cancelled, dead_total FROM fairq.queue_stats WHERE queue = 'dlrun';
-- Dead tasks do not expire. What is revived has as long as a new one.
SELECT fairq.maintain('dlrun');
SELECT fairq.revive('dlrun', id) FROM l WHERE group_key = 'dead';
SELECT payload, state, expires_at FROM fairq.tasks('dlrun');
SELECT fairq.purge('dlrun');

-- Unique keys: what has expired is not the task that waits.
SELECT fairq.create_queue('dlkey', buckets => 1, keep_done => '1 day');
BEGIN;
SELECT fairq.enqueue('dlkey', '"old"', unique_key => 'k', expires_at => '2020-01-01') AS old \gset
SELECT fairq.enqueue('dlkey', '"new"', unique_key => 'k') <> :old;
COMMIT;
SELECT payload FROM fairq.tasks('dlkey');
SELECT fairq.enqueue('dlkey', '"kept"', unique_key => 'k') = (SELECT id FROM fairq.tasks('dlkey'));
-- A replaced task has what the call gives.
SELECT fairq.enqueue('dlkey', '"replaced"', unique_key => 'k', on_duplicate => 'replace', expires_at => '2100-01-01') > 0;
SELECT payload, expires_at = '2100-01-01' FROM fairq.tasks('dlkey');
SELECT fairq.enqueue('dlkey', '"replaced again"', unique_key => 'k', on_duplicate => 'replace') > 0;
SELECT payload, expires_at FROM fairq.tasks('dlkey');
SELECT payload FROM fairq.pop('dlkey');
-- Who is held behind one that expires as it waits for a retry goes on.
SELECT fairq.enqueue('dlkey', '"retry"', unique_key => 'k', expires_at => '2100-01-01') > 0;
SELECT receipt FROM fairq.claim('dlkey') \gset
SELECT fairq.enqueue('dlkey', '"behind"', unique_key => 'k') > 0;
SELECT fairq.nack(:'receipt', delay => '1 h');
UPDATE fairq.q_dlkey SET expires_at = '2020-01-01' WHERE expires_at IS NOT NULL;
CALL pg_temp.maintain_until('dlkey', $$(SELECT count(*) = 1 AND min(state) = 'ready' FROM fairq.tasks('dlkey'))$$);
SELECT payload FROM fairq.claim('dlkey');
SELECT outcome, payload FROM fairq.done_dlkey ORDER BY id;
-- A task that takes the place of one that has expired is not behind those that were given after it.
BEGIN;
SELECT fairq.enqueue('dlkey', '"old"', unique_key => 'o', expires_at => '2020-01-01') > 0;
SELECT cardinality(fairq.enqueue_many('dlkey', '{1,2,3}', unique_keys => '{o,NULL,p}'));
COMMIT;
SELECT payload FROM fairq.pop('dlkey', 3);

-- expire_after, from when a task may be claimed first; also of enqueue_many and publish.
SELECT fairq.create_queue('dlafter', expire_after => '1 h');
SELECT expire_after FROM fairq.queues WHERE queue = 'dlafter';
SELECT fairq.enqueue('dlafter', '1') > 0;
SELECT fairq.enqueue('dlafter', '2', run_at => '2100-01-01 00:00Z') > 0;
SELECT fairq.enqueue('dlafter', '3', run_at => '2000-01-01') > 0;
SELECT fairq.enqueue('dlafter', '4', expires_at => 'infinity') > 0;
SELECT fairq.enqueue('dlafter', '5', expires_at => '2100-01-01') > 0;
SELECT cardinality(fairq.enqueue_many('dlafter', '{6,6}'));
SELECT fairq.subscribe('dl.topic', 'dlafter');
SELECT fairq.publish('dl.topic', '7');
SELECT fairq.publish('dl.topic', '8', expires_at => '2100-01-01');
SELECT fairq.publish('dl.topic', '9', run_at => '2100-01-01 00:00Z', expires_at => '2099-01-01 00:00Z');
SELECT payload, CASE WHEN expires_at - enqueued_at = '1 h' THEN '1 h' ELSE (expires_at AT TIME ZONE 'UTC')::text END FROM fairq.tasks('dlafter') ORDER BY id;
SELECT fairq.alter_queue('dlafter', expire_after => '0');
SELECT expire_after FROM fairq.queues WHERE queue = 'dlafter';
SELECT fairq.enqueue('dlafter', '10') > 0;
SELECT count(*) FROM fairq.tasks('dlafter') WHERE expires_at IS NULL;
SELECT fairq.purge('dlafter');

-- Rows written with SQL.
SELECT count(fairq.enqueue('dlafter', to_jsonb(i))) FROM generate_series(1, 3) i;
UPDATE fairq.q_dlafter SET expires_at = '2020-01-01' WHERE payload = '2';
CALL pg_temp.maintain_until('dlafter', $$pg_temp.ended('dlafter') = 1$$);
SELECT payload FROM fairq.claim('dlafter', 10) ORDER BY id;

-- A group whose tasks expire as they wait is not charged for them: it is served beside
-- the others, not after all that these have.
SELECT fairq.create_queue('dlfair', buckets => 1);
SELECT count(fairq.enqueue('dlfair', to_jsonb(i), 'late', expires_at => '2020-01-01')) FROM generate_series(1, 50) i;
SELECT count(fairq.enqueue('dlfair', to_jsonb(i), 'other')) FROM generate_series(1, 20) i;
CALL pg_temp.maintain_until('dlfair', $$pg_temp.ended('dlfair') = 50$$);
SELECT count(fairq.enqueue('dlfair', to_jsonb(i), 'late')) FROM generate_series(1, 20) i;
SELECT count(*) FILTER (WHERE group_key = 'late') BETWEEN 8 AND 10 FROM fairq.claim('dlfair', 20);

-- If others of the group are left, which keep their places, what it was charged is made
-- up for by the next.
SELECT fairq.create_queue('dlrefund', buckets => 1);
SELECT count(fairq.enqueue('dlrefund', to_jsonb(i), 'late', expires_at => CASE WHEN i < 11 THEN timestamptz '2020-01-01' END)) FROM generate_series(1, 11) i;
CALL pg_temp.maintain_until('dlrefund', $$pg_temp.ended('dlrefund') = 10$$);
SELECT count(fairq.enqueue('dlrefund', to_jsonb(i), 'other')) FROM generate_series(1, 40) i;
SELECT count(fairq.enqueue('dlrefund', to_jsonb(i), 'late')) FROM generate_series(12, 30) i;
SELECT group_key, array_agg(payload ORDER BY n) FROM (SELECT row_number() OVER () n, * FROM fairq.claim('dlrefund', 24)) c GROUP BY 1 ORDER BY 1;

-- Code of the owner's that fails keeps tasks from ending, and nothing else.
SELECT fairq.create_queue('dlfail', buckets => 1, keep_done => '1 day');
ALTER TABLE fairq.done_dlfail ADD CHECK (payload <> '"bad"');
SELECT count(fairq.enqueue('dlfail', p::jsonb, expires_at => '2020-01-01')) FROM unnest('{"\"good\"","\"bad\"","\"better\""}'::text[]) p;
SELECT fairq.enqueue('dlfail', '"live"') > 0;
SET client_min_messages = error;
CALL pg_temp.maintain_until('dlfail', $$pg_temp.ended('dlfail') = 2$$);
RESET client_min_messages;
SELECT payload FROM fairq.peek('dlfail', 10);
SELECT payload FROM fairq.claim('dlfail', 10);
SELECT payload FROM fairq.done_dlfail ORDER BY id;

SELECT count(fairq.drop_queue(queue)) FROM fairq.queues WHERE queue LIKE 'dl%';
