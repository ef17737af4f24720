-- as: owner
-- may wait: users
-- Tasks of a transaction that is prepared, and a claim that cannot be.
BEGIN;
SELECT fairq.enqueue_many('theirs', array_fill('1'::jsonb, ARRAY[100]));
DELETE FROM fairq.q_theirs WHERE id % 2 = 0;
PREPARE TRANSACTION 'hostile rows';
\set ON_ERROR_STOP off
BEGIN;
SELECT fairq.claim('theirs', 5);
PREPARE TRANSACTION 'hostile claim';
