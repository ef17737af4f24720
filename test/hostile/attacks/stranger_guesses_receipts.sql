-- as: nobody
-- Receipts that nobody gave him.
SELECT fairq.ack_many(ARRAY(SELECT overlay(overlay(gen_random_uuid()::text PLACING '8' FROM 15) PLACING (ARRAY['8', '9', 'a', 'b'])[1 + n % 4] FROM 20)::uuid FROM generate_series(1, 2000) n));
SELECT fairq.ack(overlay(gen_random_uuid()::text PLACING '8' FROM 15)::uuid) FROM generate_series(1, 200);
SELECT fairq.extend_many(ARRAY(SELECT gen_random_uuid() FROM generate_series(1, 1000)), '1 year');
SELECT fairq.heartbeat(gen_random_uuid()), fairq.close_session(gen_random_uuid()) FROM generate_series(1, 100);
SELECT fairq.ack('00000000-0000-0000-0000-000000000000'), fairq.ack('ffffffff-ffff-8fff-bfff-ffffffffffff');
