\set g random(0, 999)
SELECT pgq.insert_event('bench_0', 'task', bench.payload()::text, 'g' || :g, NULL, NULL, NULL);
