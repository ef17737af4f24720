SELECT coalesce(pgq.next_batch('bench_' || :client_id, 'worker'), 0) AS batch \gset
SELECT ev_id, ev_data FROM pgq.get_batch_events(:batch) \gset
SELECT pgq.finish_batch(:batch);
