-- as: producer
-- then: restore
-- A row at the end of all slots: who comes next must not get an address beyond.
INSERT INTO fairq.q_theirs (id, address, enqueued_at, state, group_key, payload, priority, cost, attempts)
	VALUES (500000, '(0,1000,9223372036854775807)', now(), 'r', 'x', '{}', 0, 1, 0), (500001, '(1,1000,9223372036854775806)', now(), 'r', 'y', '{}', 0, 1, 0);
