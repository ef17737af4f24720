-- as: owner
-- Schedules whose role may not enqueue any more: one's own right is taken back, and the table is locked against oneself.
SELECT count(fairq.schedule('revoked ' || n, 'theirs', '* * * * * *', overlap => true, catch_up => 'all')) FROM generate_series(1, 200) n;
REVOKE ALL ON fairq.q_theirs FROM owner;
SELECT pg_sleep(2);
GRANT INSERT ON fairq.q_theirs TO owner;
ALTER TABLE fairq.q_theirs ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
SELECT pg_sleep(2);
REVOKE INSERT ON fairq.q_theirs FROM owner;
\set ON_ERROR_STOP off
SELECT fairq.schedule('revoked later', 'theirs', '* * * * * *');
SELECT count(*) FROM fairq.schedules WHERE failures = 0;
