-- Graphile Worker's own tables are made by its own SQL before: see statements.mjs.

-- What it is sent for n jobs. Immutable, so that it is a constant in every plan.
CREATE FUNCTION bench_graphile.jobs(n int) RETURNS text
LANGUAGE sql IMMUTABLE
AS $$ SELECT json_agg(json_build_object('identifier', 'bench', 'payload', bench.payload()))::text FROM generate_series(1, n) $$;
