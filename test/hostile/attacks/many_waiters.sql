-- as: creator
-- Waiters on many connections: for any of 32 queues each, for the same task, for tasks that are none; they are woken at once, again and again.
SELECT count(fairq.create_queue('theirs ' || n, buckets => 1)) FROM generate_series(1, 31) n;
SELECT fairq.enqueue('theirs', '1', run_at => '2100-01-01') AS id \gset
\setenv PGHOST :HOST
\setenv PGUSER :USER
\setenv PGDATABASE :DBNAME
\setenv TASK :id
\! all=$(echo theirs; seq -f 'theirs %.0f' 31); all="{$(echo "$all" | paste -sd,)}"; for n in $(seq 8); do psql -X -c "SET statement_timeout = '12 s'" -c "SELECT count(*) FROM fairq.claim_any('$all', 5, wait => '1 h')" -c "CALL fairq.wait_any('$all', '1 h')" -c "SELECT fairq.await('theirs', $TASK, '1 h')" -c "SELECT fairq.await('theirs', 1000000 + $n, '1 h')" >/dev/null 2>&1 </dev/null & done
\! for n in $(seq 8); do psql -X -c "SET statement_timeout = '12 s'" -c "SELECT fairq.await('theirs', $TASK, '1 h')" >/dev/null 2>&1 </dev/null & done
CREATE PROCEDURE attack.wake() LANGUAGE plpgsql AS $$
BEGIN
	FOR n IN 1 .. 200 LOOP
		PERFORM fairq.enqueue('theirs ' || n % 31 + 1, '1'), fairq.enqueue('theirs', '1');
		COMMIT;
		PERFORM fairq.purge('theirs ' || n % 31 + 1);
		ROLLBACK;
	END LOOP;
END
$$;
CALL attack.wake();
SELECT pg_sleep(1);
SELECT fairq.cancel('theirs', :id);
