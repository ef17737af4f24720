-- Fills commit every 10,000 tasks.
CREATE PROCEDURE bench_pgfairq.fill(queue text, n bigint, groups int)
LANGUAGE plpgsql
AS $$
DECLARE
	batch bigint;
BEGIN
	WHILE n > 0 LOOP
		batch := least(n, 10000);
		PERFORM fairq.enqueue_many(queue, bench.payloads(1),
			(SELECT array_agg('g' || floor(random() * groups)::int) FROM generate_series(1, batch)));
		COMMIT;
		n := n - batch;
	END LOOP;
END
$$;
