\set lo (:n * :clients + :client_id) * 100
\set slo :lo % 1000000
\set shi :slo + 100
\set shift :base + :lo - :slo
\set first :base + :lo
\set last :base + :lo + 99
INSERT INTO bench_floor.task (id, address, group_key, payload@COLUMNS@) SELECT s.n + :shift::bigint, s.address, s.group_key, bench.payload()@VALUES@ FROM bench.source s WHERE s.n >= :slo AND s.n < :shi;
DELETE FROM bench_floor.task WHERE id >= :first AND id <= :last;
\set n :n + 1
