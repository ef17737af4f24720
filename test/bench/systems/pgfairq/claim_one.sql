SELECT receipt, payload FROM fairq.claim('bench', 1) \gset
SELECT fairq.ack(:receipt::uuid);
