-- as: worker
-- Leases and settlements of a transaction that stays open.
BEGIN;
SELECT fairq.claim('theirs', 5);
SELECT fairq.ack(receipt) FROM fairq.claim('theirs', 3);
SELECT fairq.nack(receipt) FROM fairq.claim('theirs', 1);
