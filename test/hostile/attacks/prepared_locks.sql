-- as: owner
-- may wait: users, views by monitor, views by superuser, dump
-- Locks that no session holds.
BEGIN;
ALTER TABLE fairq.q_theirs ADD COLUMN mine int;
LOCK TABLE fairq.done_theirs IN ACCESS EXCLUSIVE MODE;
PREPARE TRANSACTION 'hostile';
