BEGIN;
WITH picked AS (SELECT id, payload FROM bench_pachot.task ORDER BY id LIMIT @BATCH@ FOR UPDATE SKIP LOCKED) SELECT coalesce(array_agg(id), '{}') AS ids FROM picked \gset
DELETE FROM bench_pachot.task WHERE id = ANY (:ids::bigint[]);
COMMIT;
