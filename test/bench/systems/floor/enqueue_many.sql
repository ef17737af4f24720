\set lo (:n * :clients + :client_id) % 10000 * 100
\set hi :lo + 100
INSERT INTO bench_floor.task (address, group_key, payload@COLUMNS@) SELECT s.address, s.group_key, bench.payload()@VALUES@ FROM bench.source s WHERE s.n >= :lo AND s.n < :hi;
\set n :n + 1
