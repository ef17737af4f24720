SELECT coalesce(array_agg(receipt), '{}') AS receipts FROM fairq.claim('bench', 100) \gset
SELECT count(*) FROM fairq.ack_many(:receipts::uuid[]);
