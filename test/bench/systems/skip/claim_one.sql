UPDATE bench_skip.task SET state = 'running', attempts = attempts + 1, locked_until = now() + '30 s' WHERE id = (SELECT id FROM bench_skip.task WHERE state = 'ready' ORDER BY priority, id LIMIT 1 FOR UPDATE SKIP LOCKED) RETURNING id, payload \gset
DELETE FROM bench_skip.task WHERE id = :id;
