SELECT coalesce(pgq.next_batch('bench_0', 'worker'), 0) AS batch \gset
\if :batch
SELECT count(*) FROM pgq.get_batch_events(:batch);
SELECT pgq.finish_batch(:batch);
\else
\sleep 10 ms
\endif
