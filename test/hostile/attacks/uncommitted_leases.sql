-- as: worker
-- may wait: users
-- Leases and settlements of a transaction that stays open.  Whoever cancels a task that
-- it has settled waits for it.
BEGIN;
SELECT fairq.claim('theirs', 5);
SELECT fairq.ack(receipt) FROM fairq.claim('theirs', 3);
SELECT fairq.nack(receipt) FROM fairq.claim('theirs', 1);
