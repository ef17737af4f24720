\set k (:n * :clients + :client_id) % 10000
INSERT INTO bench_floor.task (address, group_key, payload@COLUMNS@) SELECT u.address, u.group_key, u.payload@VALUES@ FROM bench.batch b, unnest(b.addresses, b.group_keys, bench.payloads(100)) AS u(address, group_key, payload) WHERE b.k = :k;
\set n :n + 1
