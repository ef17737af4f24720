-- as: creator
-- Expressions of indexes, on the queue and on the archive.
CREATE INDEX ON fairq.q_theirs (attack.sneaky(group_key));
CREATE INDEX ON fairq.q_theirs (run_at, attack.sneaky('expression of none')) WHERE state = 's';
CREATE UNIQUE INDEX ON fairq.done_theirs (id, done_at, attack.sneaky('archive'));
