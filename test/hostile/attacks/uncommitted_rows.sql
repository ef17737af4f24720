-- as: producer
-- A transaction that is open, with many tasks and locks.
BEGIN;
SELECT fairq.enqueue_many('theirs', array_fill('1'::jsonb, ARRAY[5000]), group_keys => ARRAY(SELECT 'g' || n % 100 FROM generate_series(1, 5000) n));
SELECT fairq.enqueue('theirs', '1', unique_key => 'open');
LOCK TABLE fairq.q_theirs IN ROW EXCLUSIVE MODE;
