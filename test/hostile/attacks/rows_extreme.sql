-- as: producer
-- Rows that the engine would never write.
INSERT INTO fairq.q_theirs (id, address, enqueued_at, state, group_key, payload, priority, cost, attempts, run_at, lease, max_attempts, unique_key)
SELECT 600000 + row_number() OVER (), a::fairq.address, e::timestamptz, s::"char", g, '{}', p, c::real, t, r::timestamptz, l::interval, m, u
FROM (VALUES
	(NULL, 'infinity', 'r', 'x', 0, '1', 0, NULL, NULL, NULL, NULL),
	(NULL, '-infinity', 's', 'x', 3, 'NaN', -1, '-infinity', '-1 day', -1, 'k'),
	(NULL, '290000-01-01', 's', 'x', 9, '-1', 2147483647, 'infinity', '178000000 years', 2147483647, 'k'),
	('(1,0,0)', '2000-01-01', 'o', '', 2, 'Infinity', 0, NULL, '0', 0, 'k'),
	(NULL, '2000-01-01', 'o', 'x', 1, '0', 0, 'infinity', NULL, NULL, NULL),
	(NULL, '2000-01-01', 'h', 'x', 1, '0', 0, NULL, NULL, NULL, 'k'),
	(NULL, '2000-01-01', 'h', 'x', 1, '0', 0, NULL, NULL, NULL, NULL),
	(NULL, '2000-01-01', 'd', 'x', 1, '1e30', 0, NULL, NULL, NULL, 'k'),
	('(0,5,5)', '2000-01-01', '', 'x', 1, '1', 0, NULL, NULL, NULL, NULL),
	('(1023,77,1)', '2000-01-01', 'x', 'x', 1, '1', -2147483648, NULL, NULL, NULL, NULL),
	(NULL, '2000-01-01', 'o', 'y', 1, '1', 0, NULL, NULL, NULL, NULL)) v (a, e, s, g, p, c, t, r, l, m, u);
INSERT INTO fairq.q_theirs (id, enqueued_at, state, group_key, payload, priority, cost, attempts)
	SELECT 650000 + n, now(), (ARRAY['o', 's', 'h', 'd'])[n]::"char", (SELECT string_agg(md5(i::text), '') FROM generate_series(1, 9000) i), '{}', 0, 1, 0 FROM generate_series(1, 4) n;
INSERT INTO fairq.q_theirs (id, address, enqueued_at, state, group_key, payload, priority, cost, attempts)
	VALUES (660000, '(0,3,3)', now(), 'r', (SELECT string_agg(md5(i::text), '') FROM generate_series(1, 9001) i), '{}', 0, 1, 0);
INSERT INTO fairq.q_theirs (id, enqueued_at, state, group_key, payload, priority, cost, attempts)
	VALUES (-1, now(), 's', 'neg', '{}', 0, 1, 0), (9223372036854775807, now(), 'o', 'max', '{}', 0, 1, 0), (-9223372036854775808, now(), 'o', 'min', '{}', 0, 1, 0);
\set ON_ERROR_STOP off
INSERT INTO fairq.q_theirs (id, enqueued_at, state, group_key, payload, priority, cost, attempts) VALUES (700000, now(), 'o', 'p', '{}', 4294967296, 1, 0);
INSERT INTO fairq.q_theirs (id, enqueued_at, state, group_key, payload, priority, cost, attempts) VALUES (700001, now(), 'o', 'p', '{}', -1, 1, 0);
INSERT INTO fairq.q_theirs (id, address, enqueued_at, state, group_key, payload, priority, cost, attempts)
	VALUES (700002, '(2000000000,0,0)', now(), 'r', 'p', '{}', 0, 1, 0);
