-- What every system shares: the payload, and the groups of a million tasks.
-- Expects the queue 'bench' to exist, empty, and bench_pgfairq.fill().

-- About 100 bytes of jsonb. Immutable, so that it is a constant in every plan.
CREATE FUNCTION bench.payload() RETURNS jsonb
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$ SELECT '{"kind": "thumbnail", "file": "uploads/2024/05/17/0001234.jpg", "width": 640, "user": 1234567}'::jsonb $$;

CREATE FUNCTION bench.payloads(n int) RETURNS jsonb[]
LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$ SELECT array_fill(bench.payload(), ARRAY[n]) $$;

-- Tasks for a table whose other columns have defaults.
CREATE PROCEDURE bench.fill(target regclass, n bigint, groups int)
LANGUAGE plpgsql
AS $$
BEGIN
	FOR i IN 1 .. n BY 10000 LOOP
		EXECUTE format('INSERT INTO %s (group_key, payload)'
			' SELECT ''g'' || floor(random() * $1)::int, bench.payload() FROM generate_series($2, least($3, $2 + 9999))', target)
			USING groups, i, n;
		COMMIT;
	END LOOP;
END
$$;

-- A million tasks of a thousand groups, with the addresses the queue gives
-- them, in the order given: one by one, and in hundreds.
CALL bench_pgfairq.fill('bench', 1000000, 1000);

CREATE TABLE bench.source (n int NOT NULL, address fairq.address, group_key text NOT NULL);
INSERT INTO bench.source
	SELECT row_number() OVER (ORDER BY id) - 1, address, group_key FROM fairq.q_bench;
ALTER TABLE bench.source ADD PRIMARY KEY (n);

CREATE TABLE bench.batch (k int NOT NULL, addresses fairq.address[], group_keys text[] NOT NULL)
	WITH (toast_tuple_target = 8160);
INSERT INTO bench.batch
	SELECT n / 100, array_agg(address ORDER BY n), array_agg(group_key ORDER BY n)
	FROM bench.source GROUP BY n / 100;
ALTER TABLE bench.batch ADD PRIMARY KEY (k);

VACUUM ANALYZE bench.source, bench.batch;
