\set b (:n + :client_id) % 16
\set n :n + 1
UPDATE bench_goodman.task t SET status = 'locked', attempts = t.attempts + 1, locked_at = now() FROM (SELECT bucket, exec_time, id FROM bench_goodman.task WHERE bucket = :b AND exec_time <= now() AND status = 'queued' ORDER BY exec_time, id LIMIT 1 FOR UPDATE SKIP LOCKED) p WHERE (t.bucket, t.exec_time, t.id) = (p.bucket, p.exec_time, p.id) RETURNING t.exec_time, t.id, t.payload \gset
DELETE FROM bench_goodman.task WHERE bucket = :b AND exec_time = :exec_time AND id = :id;
