-- PgQ 3.5. A queue has ticks, and what a consumer gets is all that came between
-- two of them: so there is a queue for each claimer, 'bench_0' and so on, which its
-- one consumer reads, and for claims of n the ticks are made after every n events.
-- (pgqd, which makes them otherwise, makes them by time.) A producer writes to
-- 'bench_0' alone.
CREATE EXTENSION pgq;

-- Made as they are needed: each has four tables.
CREATE PROCEDURE bench_pgq.create_queues(queues int)
LANGUAGE plpgsql
AS $$
BEGIN
	FOR i IN 0 .. queues - 1 LOOP
		IF pgq.create_queue('bench_' || i) = 1 THEN
			PERFORM pgq.set_queue_config('bench_' || i, 'ticker_max_count', '1');
			-- A sequence that was never used says the same as after its first value, which would
			-- make depth() one too few; so it has been used before the consumer comes.
			PERFORM pgq.insert_event('bench_' || i, 'none', NULL) FROM generate_series(1, 2);
			COMMIT;
			PERFORM pgq.ticker('bench_' || i);
			COMMIT;
			PERFORM pgq.register_consumer('bench_' || i, 'worker');
		END IF;
		COMMIT;
	END LOOP;
END
$$;

CREATE PROCEDURE bench_pgq.drop_queues()
LANGUAGE plpgsql
AS $$
DECLARE
	name text;
BEGIN
	FOR name IN SELECT queue_name FROM pgq.queue LOOP
		PERFORM pgq.drop_queue(name, true);
		COMMIT;
	END LOOP;
END
$$;

-- As many for each claimer, counting what it has. A tick is as far as the
-- transactions that have ended before it.
CREATE PROCEDURE bench_pgq.fill(n bigint, groups int, queues int, batch int)
LANGUAGE plpgsql
AS $$
DECLARE
	target bigint;
	missing bigint;
BEGIN
	CALL bench_pgq.create_queues(queues);
	target := (n + bench_pgq.depth() + queues - 1) / queues;
	FOR i IN 0 .. queues - 1 LOOP
		missing := target - bench_pgq.depth('bench_' || i);
		WHILE missing > 0 LOOP
			PERFORM pgq.insert_event('bench_' || i, 'task', bench.payload()::text,
									 'g' || floor(random() * groups)::int, NULL, NULL, NULL)
				FROM generate_series(1, batch);
			COMMIT;
			PERFORM pgq.ticker('bench_' || i);
			COMMIT;
			missing := missing - batch;
		END LOOP;
	END LOOP;
END
$$;

-- Events after the consumer's last finished batch, of one queue or of all.
CREATE FUNCTION bench_pgq.depth(queue text DEFAULT NULL) RETURNS bigint
LANGUAGE sql
AS $$
	SELECT coalesce(sum(pgq.seq_getval(q.queue_event_seq) - t.tick_event_seq), 0)::bigint
	FROM pgq.queue q
	JOIN pgq.subscription s ON s.sub_queue = q.queue_id
	JOIN pgq.tick t ON t.tick_queue = q.queue_id AND t.tick_id = s.sub_last_tick
	WHERE queue IS NULL OR q.queue_name = queue
$$;
