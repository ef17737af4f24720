\set lo :base + (:n * :clients + :client_id) * 100
\set hi :lo + 100
DELETE FROM bench.floor WHERE id >= :lo AND id < :hi;
\set n :n + 1
