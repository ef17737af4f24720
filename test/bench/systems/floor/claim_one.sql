\set id :base + :n * :clients + :client_id
DELETE FROM bench_floor.task WHERE id = :id;
\set n :n + 1
