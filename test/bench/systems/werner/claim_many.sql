\set b (:client_id + :clients * :n) % 64
\set n :n + 1
WITH alive AS MATERIALIZED (SELECT s.id FROM bench_werner.session s JOIN bench_werner.bucket b ON b.session = s.id WHERE s.id = :client_id AND b.bucket = :b AND s.alive_until > now() FOR SHARE), claimed AS (UPDATE bench_werner.task t SET session = :client_id FROM alive WHERE t.bucket = :b AND t.id = ANY (ARRAY(SELECT id FROM bench_werner.task WHERE bucket = :b AND session IS NULL ORDER BY id LIMIT @BATCH@)) RETURNING t.id, t.payload) SELECT coalesce(array_agg(id), '{}') AS ids FROM claimed \gset
WITH alive AS MATERIALIZED (SELECT id FROM bench_werner.session WHERE id = :client_id AND alive_until > now() FOR SHARE) DELETE FROM bench_werner.task t USING alive WHERE t.bucket = :b AND t.id = ANY (:ids::bigint[]) AND t.session = alive.id;
