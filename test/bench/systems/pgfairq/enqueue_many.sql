\set k (:n * :clients + :client_id) % 10000
SELECT cardinality(fairq.enqueue_many('bench', bench.payloads(100), b.group_keys)) FROM bench.batch b WHERE b.k = :k;
\set n :n + 1
