\set lo :base + (:n * :clients + :client_id) * @BATCH@
\set hi :lo + @BATCH@
DELETE FROM bench_floor.task WHERE id >= :lo AND id < :hi;
\set n :n + 1
