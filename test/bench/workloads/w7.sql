-- W7: what one claim costs in the server, in microseconds. Only the claim is
-- timed; the ack and the refill that keep the backlog's size are not.
CREATE UNLOGGED TABLE bench.claim_cost (system text, subject text, microseconds float8, claimed int);

CREATE PROCEDURE bench.measure_pgfairq(queue text, repeats int, groups int)
LANGUAGE plpgsql
AS $$
DECLARE
	receipts uuid[];
	start timestamptz;
	taken float8;
BEGIN
	FOR i IN 1 .. repeats + 5 LOOP
		start := clock_timestamp();
		SELECT array_agg(c.receipt) INTO receipts FROM fairq.claim(queue, 100) c;
		taken := extract(epoch FROM clock_timestamp() - start) * 1e6;
		COMMIT;
		PERFORM count(*) FROM fairq.ack_many(receipts);
		PERFORM fairq.enqueue_many(queue, bench.payloads(1),
			(SELECT array_agg('g' || floor(random() * groups)::int) FROM generate_series(1, cardinality(receipts))));
		COMMIT;
		IF i > 5 THEN	-- the first few load caches
			INSERT INTO bench.claim_cost VALUES ('pgfairq', queue, taken, cardinality(receipts));
		END IF;
	END LOOP;
END
$$;

CREATE PROCEDURE bench.measure_skip(subject text, repeats int, groups int)
LANGUAGE plpgsql
AS $$
DECLARE
	ids bigint[];
	start timestamptz;
	taken float8;
BEGIN
	FOR i IN 1 .. repeats + 5 LOOP
		start := clock_timestamp();
		WITH claimed AS (
			UPDATE bench_skip.task
			SET state = 'running', attempts = attempts + 1, locked_until = now() + '30 s'
			WHERE id = ANY (ARRAY(
				SELECT id FROM bench_skip.task WHERE state = 'ready'
				ORDER BY priority, id LIMIT 100 FOR UPDATE SKIP LOCKED))
			RETURNING id, payload)
		SELECT array_agg(id) INTO ids FROM claimed;
		taken := extract(epoch FROM clock_timestamp() - start) * 1e6;
		COMMIT;
		DELETE FROM bench_skip.task WHERE id = ANY (ids);
		INSERT INTO bench_skip.task (group_key, payload)
			SELECT 'g' || floor(random() * groups)::int, bench.payload() FROM generate_series(1, cardinality(ids));
		COMMIT;
		IF i > 5 THEN
			INSERT INTO bench.claim_cost VALUES ('skip', subject, taken, cardinality(ids));
		END IF;
	END LOOP;
END
$$;
