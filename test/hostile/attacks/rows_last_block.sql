-- as: producer
-- then: order
-- Rows at the end of virtual time, of groups of his own and of others: who comes next
-- must find some of it left, and a dump must be restorable.
\set ON_ERROR_STOP off
INSERT INTO fairq.q_theirs (id, address, enqueued_at, state, group_key, payload, priority, cost, attempts)
	VALUES (510000, '(0,9223372036854775807,1)', now(), 'r', 'x', '{}', 0, 1, 0);
INSERT INTO fairq.q_theirs (id, address, enqueued_at, state, group_key, payload, priority, cost, attempts)
	VALUES (510001, '(0,4611686018427387904,1)', now(), 'r', 'x', '{}', 0, 1, 0);
\set ON_ERROR_STOP on
INSERT INTO fairq.q_theirs (id, address, enqueued_at, state, group_key, payload, priority, cost, attempts)
	SELECT 510002 + n, format('(%s,4611686018427387903,1)', n % 2)::fairq.address, now(), 'r', (ARRAY['x', 'a', 'b', 'r'])[n + 1], '{}', 0, 1e30, 0 FROM generate_series(0, 3) n;
