\set lo (:n * :clients + :client_id) % 10000 * 100
\set hi :lo + 100
SELECT count(pgq.insert_event('bench_' || :client_id, 'task', bench.payload()::text, s.group_key, NULL, NULL, NULL)) FROM bench.source s WHERE s.n >= :lo AND s.n < :hi;
\set n :n + 1
SELECT pgq.ticker('bench_' || :client_id);
SELECT coalesce(pgq.next_batch('bench_' || :client_id, 'worker'), 0) AS batch \gset
\if :batch
SELECT count(*) FROM pgq.get_batch_events(:batch);
SELECT pgq.finish_batch(:batch);
\endif
