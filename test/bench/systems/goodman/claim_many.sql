\set b (:n + :client_id) % 16
\set n :n + 1
WITH picked AS (SELECT bucket, exec_time, id FROM bench_goodman.task WHERE bucket = :b AND exec_time <= now() AND status = 'queued' ORDER BY exec_time, id LIMIT @BATCH@ FOR UPDATE SKIP LOCKED), claimed AS (UPDATE bench_goodman.task t SET status = 'locked', attempts = t.attempts + 1, locked_at = now() FROM picked p WHERE (t.bucket, t.exec_time, t.id) = (p.bucket, p.exec_time, p.id) RETURNING t.exec_time, t.id, t.payload) SELECT coalesce(array_agg(exec_time), '{}') AS times, coalesce(array_agg(id), '{}') AS ids FROM claimed \gset
DELETE FROM bench_goodman.task t USING unnest(:times::timestamptz[], :ids::bigint[]) AS u(exec_time, id) WHERE t.bucket = :b AND t.exec_time = u.exec_time AND t.id = u.id;
