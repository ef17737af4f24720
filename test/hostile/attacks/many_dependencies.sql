-- as: producer
-- Tasks that wait for as many others as there may be, long chains, one for which thousands wait, and ends of all of them; at last one that is not committed.
-- Fails when look_after() of successors.c reads more rows at a time than there is room for.
SELECT array_agg(fairq.enqueue('theirs', '"p"', group_key => 'p' || n % 5, run_at => CASE WHEN n % 2 = 0 THEN '2100-01-01'::timestamptz END)) AS many FROM generate_series(1, 10000) n \gset
SELECT count(fairq.enqueue('theirs', '"fan-in"', after => :'many', on_dead => (ARRAY['hold', 'cancel', 'run'])[n])) FROM generate_series(1, 3) n;
CREATE FUNCTION attack.chain(length int, how text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
	head bigint := fairq.enqueue('theirs', '"head"', group_key => 'chain', expires_at => clock_timestamp() + interval '200 ms');
	last bigint := head;
BEGIN
	FOR n IN 1 .. length LOOP
		last := fairq.enqueue('theirs', '"link"', group_key => 'chain', after => ARRAY[last], on_dead => how);
	END LOOP;
	RETURN head;
END
$$;
SELECT attack.chain(5000, 'cancel'), attack.chain(2000, 'run'), attack.chain(2000, 'hold');
SELECT fairq.enqueue('theirs', '"one"', group_key => 'one') AS one, fairq.enqueue('theirs', '"dead"', group_key => 'dead', expires_at => clock_timestamp() + interval '10 ms') AS dead \gset
SELECT count(fairq.enqueue('theirs', '"fan-out"', group_key => 'out', after => ARRAY[:one])) FROM generate_series(1, 5000) n;
SELECT count(fairq.enqueue('theirs', '"fan-out"', group_key => 'out', after => ARRAY[:one, :dead], on_dead => 'cancel')) FROM generate_series(1, 2000) n;
SELECT count(fairq.enqueue('theirs', '"k"', unique_key => 'many ' || n % 3, on_duplicate => 'replace', after => ARRAY[:one, :dead, n], on_dead => 'run')) FROM generate_series(1, 300) n;
\set ON_ERROR_STOP off
SELECT fairq.enqueue('theirs', '1', after => :'many'::bigint[] || ARRAY(SELECT generate_series(1, 1000)::bigint));
SELECT fairq.enqueue('theirs', '1', after => array_fill(:one::bigint, ARRAY[10000000]));
SELECT fairq.enqueue('theirs', '1', after => ARRAY(SELECT generate_series(1, 1000000)::bigint));
SELECT fairq.enqueue('theirs', '1', after => ARRAY[n]) FROM unnest('{0,-1,NULL,9223372036854775807,-9223372036854775808,1000000000}'::bigint[]) n;
SELECT fairq.enqueue('theirs', '1', after => ARRAY[ARRAY[:one], ARRAY[:dead]], on_dead => 'cancel');
SELECT fairq.enqueue('theirs', '1', after => ARRAY[:one], on_dead => how) FROM unnest(ARRAY['', 'HOLD', repeat('x', 1000000), NULL]) how;
SELECT fairq.cancel('theirs', :one);
-- Whoever has a part rolled back has none of it; and what is open when the victims come is with nobody.
BEGIN;
SAVEPOINT s;
SELECT attack.chain(1000, 'cancel');
SELECT count(fairq.enqueue('theirs', '1', after => ARRAY[:one, :dead])) FROM generate_series(1, 1000) n;
ROLLBACK TO s;
SELECT attack.chain(1000, 'run');
SELECT count(fairq.enqueue('theirs', '1', after => :'many')) FROM generate_series(1, 2) n;
SELECT count(fairq.enqueue('theirs', '1', unique_key => 'k', on_duplicate => 'replace', after => ARRAY[:one])) FROM generate_series(1, 10) n;
