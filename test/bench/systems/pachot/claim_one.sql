BEGIN;
SELECT id, payload FROM bench_pachot.task ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED \gset
DELETE FROM bench_pachot.task WHERE id = :id;
COMMIT;
