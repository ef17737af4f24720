-- as: owner
-- Our columns in other types, without their constraints, or gone.
ALTER TABLE fairq.q_theirs ALTER COLUMN payload DROP NOT NULL, ALTER COLUMN group_key DROP NOT NULL, ALTER COLUMN state DROP NOT NULL;
ALTER TABLE fairq.done_theirs ALTER COLUMN payload DROP NOT NULL, ALTER COLUMN outcome DROP NOT NULL, ALTER COLUMN enqueued_at DROP NOT NULL;
INSERT INTO fairq.done_theirs (id, done_at, priority, cost, attempts, group_key) VALUES (1, 'infinity', 0, 1, 0, ''), (2, '-infinity', 0, 1, 0, ''), (3, '4714-11-24 00:00:00+00 BC', 0, 1, 0, '');
\set ON_ERROR_STOP off
INSERT INTO fairq.q_theirs (id, enqueued_at, priority, cost, attempts) VALUES (610000, now(), 0, 1, 0);
