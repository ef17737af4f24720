\set lo (:n * :clients + :client_id) % 10000 * 100
\set hi :lo + 100
SELECT count(pgq.insert_event('bench_0', 'task', bench.payload()::text, s.group_key, NULL, NULL, NULL)) FROM bench.source s WHERE s.n >= :lo AND s.n < :hi;
\set n :n + 1
