-- as: producer
-- Tasks of odd sizes and times, through enqueue.
SELECT fairq.enqueue('theirs', to_jsonb(repeat('x', 5000000)), headers => to_jsonb(repeat('y', 5000000)), group_key => repeat('g', 1024));
SELECT fairq.enqueue('theirs', '1', unique_key => repeat('u', 1024), group_key => E'\u0001\U0010FFFF''"\\', cost => 0.001);
SELECT fairq.enqueue_many('theirs', array_fill('1'::jsonb, ARRAY[2000]), group_keys => ARRAY(SELECT 'g' || n FROM generate_series(1, 2000) n));
\set ON_ERROR_STOP off
SELECT fairq.enqueue('theirs', '1', run_at => '-infinity');
SELECT fairq.enqueue('theirs', '1', run_at => 'infinity');
SELECT fairq.enqueue('theirs', '1', run_at => '294276-12-31 23:59:59');
SELECT fairq.enqueue('theirs', '1', cost => 'NaN');
SELECT fairq.enqueue('theirs', '1', priority => 9223372036854775807);
SELECT fairq.enqueue('theirs', '1', lease => '-1 day', max_attempts => -1);
SELECT fairq.enqueue('theirs', '1', unique_key => repeat('u', 3000000));
