-- as: owner
-- Rows written while the trigger that looks at them is off: classes that are none, and keys that go round.
ALTER TABLE fairq.q_theirs DISABLE TRIGGER fairq_row_written;
INSERT INTO fairq.q_theirs (id, enqueued_at, state, group_key, payload, priority, cost, attempts)
	SELECT 800000 + n, now(), s, 'p' || n % 3, '{}', p, 1, 0
	FROM generate_series(1, 20) n, unnest('{o,s,h}'::"char"[]) WITH ORDINALITY x (s, i), unnest('{0,4294967296,-1,9223372036854775807,12}'::bigint[]) p
	WHERE n % 15 = (i - 1) * 5 + CASE p WHEN 0 THEN 0 WHEN 12 THEN 1 WHEN -1 THEN 2 WHEN 4294967296 THEN 3 ELSE 4 END;
INSERT INTO fairq.q_theirs (id, address, enqueued_at, state, group_key, payload, priority, cost, attempts)
	VALUES (900000, '(1023,9223372036854775807,9223372036854775807)', now(), 'r', 'p0', '{}', 77, 1, 0);
ALTER TABLE fairq.q_theirs ENABLE ALWAYS TRIGGER fairq_row_written;
\set ON_ERROR_STOP off
SET statement_timeout = '10s';
SELECT fairq.maintain('theirs');
SELECT fairq.claim('theirs', 100);
VACUUM FULL fairq.q_theirs;
SELECT fairq.claim('theirs', 100);
