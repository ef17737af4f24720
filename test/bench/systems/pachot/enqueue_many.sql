\set lo (:n * :clients + :client_id) % 10000 * 100
\set hi :lo + 100
INSERT INTO bench_pachot.task (group_key, payload) SELECT s.group_key, bench.payload() FROM bench.source s WHERE s.n >= :lo AND s.n < :hi;
\set n :n + 1
