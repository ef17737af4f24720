\set id :base + :n * :clients + :client_id
DELETE FROM bench.floor WHERE id = :id;
\set n :n + 1
