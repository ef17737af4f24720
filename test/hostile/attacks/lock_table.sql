-- as: owner
-- may wait: users, views by monitor, views by superuser, dump
-- Holds his table. Who reads the tables of all queues (dead_tasks, done_tasks, pg_dump) waits for it.
BEGIN;
LOCK TABLE fairq.q_theirs, fairq.done_theirs IN ACCESS EXCLUSIVE MODE;
