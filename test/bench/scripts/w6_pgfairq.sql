\set k (:n * :clients + :client_id) % 10000
SELECT cardinality(fairq.enqueue_many('bench', bench.payloads(100), b.group_keys)) FROM bench.batch b WHERE b.k = :k;
\set n :n + 1
SELECT coalesce(array_agg(receipt), '{}') AS receipts FROM fairq.claim('bench', 100) \gset
SELECT count(*) FROM fairq.ack_many(:receipts::uuid[]);
