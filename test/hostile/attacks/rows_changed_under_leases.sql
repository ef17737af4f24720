-- as: worker
-- Rows that are leased are changed into everything else.
SELECT fairq.claim('theirs', 8);
UPDATE fairq.q_theirs SET state = (ARRAY['r', 's', 'o', 'h', 'd'])[1 + id % 5]::"char", address = CASE WHEN id % 2 = 0 THEN address END, run_at = now(), attempts = id % 7,
	group_key = 'moved', unique_key = 'k' || id % 2;
UPDATE fairq.q_theirs SET id = -id WHERE id % 3 = 0;
DELETE FROM fairq.q_theirs WHERE id % 3 = 1;
\set ON_ERROR_STOP off
SELECT fairq.nack(receipt) FROM fairq.leases WHERE queue = 'theirs';
SELECT fairq.ack(receipt) FROM fairq.leases WHERE queue = 'theirs';
