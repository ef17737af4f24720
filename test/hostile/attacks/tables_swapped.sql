-- as: creator
-- The archive of the queue is a view, then a table of other columns; the queue's table is another queue's.
SELECT fairq.create_queue('swap', keep_done => '1 day');
BEGIN;
ALTER TABLE fairq.done_theirs RENAME TO done_old;
CREATE VIEW fairq.done_theirs AS SELECT * FROM fairq.done_old WHERE attack.ran('view for an archive');
COMMIT;
\set ON_ERROR_STOP off
SELECT fairq.ack(receipt) FROM fairq.claim('theirs');
DROP VIEW fairq.done_theirs;
CREATE TABLE fairq.done_theirs (done_at timestamptz, id bigint, x boolean DEFAULT attack.ran('table for an archive'), PRIMARY KEY (done_at, id));
SELECT fairq.ack(receipt) FROM fairq.claim('theirs');
\set ON_ERROR_STOP on
BEGIN;
ALTER TABLE fairq.q_theirs RENAME TO q_tmp;
ALTER TABLE fairq.q_swap RENAME TO q_theirs;
ALTER TABLE fairq.q_tmp RENAME TO q_swap;
COMMIT;
\set ON_ERROR_STOP off
SELECT fairq.claim('theirs'), fairq.claim('swap');
