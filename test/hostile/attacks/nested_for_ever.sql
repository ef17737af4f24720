-- as: owner
-- A task makes a task makes a task.
ALTER TABLE fairq.q_theirs ADD CHECK (fairq.enqueue('theirs', '1') > 0) NOT VALID;
ALTER TABLE fairq.done_theirs ADD CHECK (fairq.publish('news', '1') > 0) NOT VALID;
\set ON_ERROR_STOP off
SELECT fairq.enqueue('theirs', '1');
SELECT fairq.ack(receipt) FROM fairq.claim('theirs');
