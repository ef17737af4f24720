-- as: worker
-- Results as large as they may be, and larger, deep, and with what no client can read; and each is asked for.
\set ON_ERROR_STOP off
SELECT fairq.ack(receipt, to_jsonb(repeat('x', 30000000))) FROM fairq.claim('theirs');
SELECT fairq.ack(receipt, to_jsonb(repeat('x', 268435455))) FROM fairq.claim('theirs');
SELECT fairq.ack(receipt, to_jsonb(repeat('x', 268435456))) FROM fairq.claim('theirs');
SELECT fairq.ack(receipt, (repeat('[', 2000) || repeat(']', 2000))::jsonb) FROM fairq.claim('theirs');
SELECT fairq.ack(receipt, (repeat('[', 20000) || repeat(']', 20000))::jsonb) FROM fairq.claim('theirs');
SELECT fairq.ack(receipt, (SELECT jsonb_object_agg(n, n) FROM generate_series(1, 100000) n)) FROM fairq.claim('theirs');
SELECT fairq.ack(receipt, jsonb_build_object(E'\n\\', E'\x01\u2028')) FROM fairq.claim('theirs');
SELECT count(fairq.await('theirs', id, '0')) FROM generate_series(1, 30) id;
BEGIN;
SELECT fairq.ack(receipt, to_jsonb(repeat('x', 10000000))) FROM fairq.claim('theirs', 3);
