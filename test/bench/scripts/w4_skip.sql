WITH claimed AS (UPDATE bench.skip SET state = 'running', attempts = attempts + 1, locked_until = now() + '30 s' WHERE id = ANY (ARRAY(SELECT id FROM bench.skip WHERE state = 'ready' ORDER BY priority, id LIMIT 100 FOR UPDATE SKIP LOCKED)) RETURNING id, payload) SELECT coalesce(array_agg(id), '{}') AS ids FROM claimed \gset
DELETE FROM bench.skip WHERE id = ANY (:ids::bigint[]);
