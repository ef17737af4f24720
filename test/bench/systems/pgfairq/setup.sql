-- Fills commit every 10,000 tasks. users: of each group; 0 for a queue without subgroups.
CREATE PROCEDURE bench_pgfairq.fill(queue text, n bigint, groups int, users int DEFAULT 0)
LANGUAGE plpgsql
AS $$
DECLARE
	batch bigint;
BEGIN
	WHILE n > 0 LOOP
		batch := least(n, 10000);
		IF users > 0 THEN
			PERFORM fairq.enqueue_many(queue, bench.payloads(1),
				(SELECT array_agg('g' || floor(random() * groups)::int) FROM generate_series(1, batch)),
				subgroup_keys => (SELECT array_agg('u' || floor(random() * users)::int) FROM generate_series(1, batch)));
		ELSE
			PERFORM fairq.enqueue_many(queue, bench.payloads(1),
				(SELECT array_agg('g' || floor(random() * groups)::int) FROM generate_series(1, batch)));
		END IF;
		COMMIT;
		n := n - batch;
	END LOOP;
END
$$;

-- Takes n tasks away, as workers would.
CREATE PROCEDURE bench_pgfairq.finish(queue text, n bigint)
LANGUAGE plpgsql
AS $$
BEGIN
	FOR i IN 1 .. n BY 1000 LOOP
		PERFORM fairq.ack_many(ARRAY(SELECT receipt FROM fairq.claim(queue, 1000)));
		COMMIT;
	END LOOP;
END
$$;
