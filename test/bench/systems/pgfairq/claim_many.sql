SELECT coalesce(array_agg(receipt), '{}') AS receipts FROM fairq.claim('bench', @BATCH@) \gset
SELECT count(*) FROM fairq.ack_many(:receipts::uuid[]);
