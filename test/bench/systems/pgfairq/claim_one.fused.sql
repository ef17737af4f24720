SELECT receipt, payload FROM fairq.ack_and_claim('bench', ARRAY[:receipt::uuid], 1) \gset
