-- as: nobody
-- The ends of others' tasks, which he may not read.
\set ON_ERROR_STOP off
SELECT fairq.await(q, id, t) FROM unnest('{still,durable,work,news,clock}'::text[]) q, generate_series(0, 3) id, unnest('{0,10 years}'::interval[]) t;
SELECT fairq.await('still', 1);
SELECT fairq.await('work', 9223372036854775807, '1 h');
SELECT fairq.await('theirs', 1, '1 h');
SELECT fairq.ack(gen_random_uuid(), repeat('[', 5000)::jsonb);
SELECT count(fairq.ack(gen_random_uuid(), to_jsonb(repeat('x', 1000000)))) FROM generate_series(1, 20);
