-- Rows of all lengths and shapes: what a claim returns is what is in the table,
-- and what an ack removes is archived in full.
\i test/sql/include/helpers.sql
SET client_min_messages = warning;
SELECT fairq.create_queue('row', keep_done => '1 day', default_priority => 0);

CREATE FUNCTION pg_temp.noise(n int) RETURNS text LANGUAGE sql
AS $$ SELECT left(string_agg(md5(n::text || i), ''), n) FROM generate_series(0, n / 32) i $$;

-- Lengths around what a row header, a compressed value and a value out of line begin at.
CREATE TEMP TABLE sent AS
SELECT fairq.enqueue('row', to_jsonb(CASE WHEN n % 3 = 0 THEN repeat('x', n) ELSE pg_temp.noise(n) END),
                     group_key => repeat('k', n % 140), priority => n % 4, cost => CASE WHEN n % 5 = 0 THEN 2.5 ELSE 1 END,
                     headers => CASE WHEN n % 2 = 0 THEN to_jsonb(pg_temp.noise(n % 200)) END,
                     unique_key => CASE WHEN n % 7 = 0 THEN 'u' || n END) AS id, n
    FROM (SELECT generate_series(0, 300) UNION ALL SELECT generate_series(1850, 2050, 10)
          UNION ALL SELECT generate_series(3700, 4200, 7) UNION ALL VALUES (20000), (100000), (1000000)) v(n);

-- A user's columns do not come in between.
ALTER TABLE fairq.q_row ADD COLUMN word text DEFAULT 'a word', ADD COLUMN number int DEFAULT 7, ADD COLUMN nothing int;
SELECT DISTINCT word, number, nothing FROM fairq.q_row;
-- What a row is written with later is not taken for what it would read anyhow.
BEGIN;
ALTER TABLE fairq.q_row ALTER COLUMN number SET DEFAULT 8;
SELECT fairq.enqueue('row', '"the number is new"') > 0;
ALTER TABLE fairq.q_row ALTER COLUMN number SET DEFAULT 7, ALTER COLUMN word SET DEFAULT 'another';
SELECT fairq.enqueue('row', '"the word is new"') > 0;
SELECT payload, word, number, nothing FROM fairq.q_row WHERE payload IN ('"the number is new"', '"the word is new"') ORDER BY id;
ROLLBACK;

CREATE TEMP TABLE taken AS SELECT * FROM fairq.claim('row', 100000);
SELECT count(*) = (SELECT count(*) FROM sent) AS all_of_them,
       bool_and(t.payload = q.payload AND t.group_key = q.group_key AND t.headers IS NOT DISTINCT FROM q.headers AND
                t.priority = q.priority AND t.enqueued_at = q.enqueued_at AND t.address::text = q.address::text AND t.attempt = 1 AND
                q.payload #>> '{}' = CASE WHEN s.n % 3 = 0 THEN repeat('x', s.n) ELSE pg_temp.noise(s.n) END) AS as_they_are
    FROM taken t JOIN fairq.q_row q USING (id) JOIN sent s USING (id);
SELECT count(*) = (SELECT count(*) FROM sent) AS acked FROM fairq.ack_many((SELECT array_agg(receipt) FROM taken));
SELECT count(*) = (SELECT count(*) FROM sent) AS all_of_them,
       bool_and(t.payload = d.payload AND t.group_key = d.group_key AND t.headers IS NOT DISTINCT FROM d.headers AND
                t.priority = d.priority AND t.enqueued_at = d.enqueued_at AND d.attempts = 1 AND
                d.cost = CASE WHEN s.n % 5 = 0 THEN 2.5 ELSE 1 END AND
                d.unique_key IS NOT DISTINCT FROM CASE WHEN s.n % 7 = 0 THEN 'u' || s.n END) AS as_they_were
    FROM taken t JOIN fairq.done_row d USING (id) JOIN sent s USING (id);

-- Nothing is in flight, so keys may be used again.
SELECT fairq.enqueue('row', '1', unique_key => 'u7') > 0 AS again;
SELECT attempt, payload FROM fairq.pop('row');

-- Receipts of several queues, forged ones, and ones that come twice, among others.
SELECT fairq.create_queue('row2', default_priority => 0);
SELECT cardinality(fairq.enqueue_many(q, array_fill('1'::jsonb, ARRAY[150]))) FROM unnest('{row,row2}'::text[]) q;
CREATE TEMP TABLE mixed AS
SELECT receipt FROM fairq.claim('row', 150) UNION ALL SELECT receipt FROM fairq.claim('row2', 150);
SELECT count(*), count(DISTINCT r) FROM (
    SELECT fairq.ack_many(array_agg(receipt ORDER BY n)) AS r FROM (
        SELECT receipt, hashtext(receipt::text) AS n FROM mixed
        UNION ALL SELECT receipt, hashtext(receipt::text || 'again') FROM mixed
        UNION ALL SELECT gen_random_uuid(), hashtext(i::text) FROM generate_series(1, 100) i) v) w;
SELECT (SELECT count(*) FROM fairq.q_row) AS left_in_row, (SELECT count(*) FROM fairq.q_row2) AS left_in_row2;
SELECT queue, acked FROM fairq.queue_stats WHERE queue IN ('row', 'row2') ORDER BY queue;
-- Rows from before a user's columns were added, written again: failed, run out, replaced, due. Seen to fail if they are
-- read as if such columns were null (deform in row_reader.c).
SELECT fairq.create_queue('row3', buckets => 1, backoff_base => '0', default_priority => 0);
SELECT cardinality(fairq.enqueue_many('row3', '{"\"fails\"", "\"runs out\""}')),
       fairq.enqueue('row3', '"waits"', unique_key => 'k', priority => 1) > 0, fairq.enqueue('row3', '"scheduled"', run_at => now() + '1 s') > 0;
ALTER TABLE fairq.q_row3 ADD COLUMN word text DEFAULT 'a word', ADD COLUMN number numeric DEFAULT 7.5, ADD COLUMN nothing text;
SELECT fairq.nack(receipt, delay => '0') FROM fairq.claim('row3');
SELECT payload FROM fairq.claim('row3', lease => '1 ms');
SELECT fairq.enqueue('row3', '"replaced"', unique_key => 'k', on_duplicate => 'replace', priority => 1) > 0 AS kept;
CALL pg_temp.maintain_until('row3', $$ count(*) = 4 FROM fairq.q_row3 WHERE state = 'r' AND (attempts = 1 OR lost = 1 OR priority = 1 OR payload = '"scheduled"') $$);
SELECT payload, state, attempts, lost, word, number, nothing FROM fairq.q_row3 ORDER BY id;
SELECT fairq.drop_queue('row'), fairq.drop_queue('row2'), fairq.drop_queue('row3');
