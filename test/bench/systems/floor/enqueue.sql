\set g random(0, 999)
\set a (:n * :clients + :client_id) % 65536 + 1
INSERT INTO bench_floor.task (address, group_key, payload@COLUMNS@) VALUES ((bench_floor.addresses())[:a], 'g' || :g, bench.payload()@VALUES@);
\set n :n + 1
