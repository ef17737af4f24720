\set lo (:n * :clients + :client_id) % 10000 * 100
\set hi :lo + 100
INSERT INTO bench.skip (group_key, payload) SELECT s.group_key, bench.payload() FROM bench.source s WHERE s.n >= :lo AND s.n < :hi;
\set n :n + 1
WITH claimed AS (UPDATE bench.skip SET state = 'running', attempts = attempts + 1, locked_until = now() + '30 s' WHERE id = ANY (ARRAY(SELECT id FROM bench.skip WHERE state = 'ready' ORDER BY priority, id LIMIT 100 FOR UPDATE SKIP LOCKED)) RETURNING id, payload) SELECT coalesce(array_agg(id), '{}') AS ids FROM claimed \gset
DELETE FROM bench.skip WHERE id = ANY (:ids::bigint[]);
