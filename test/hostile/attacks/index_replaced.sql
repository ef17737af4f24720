-- as: creator
-- An index of the name of the engine's with another predicate.
DROP INDEX fairq.due_of_theirs, fairq.key_of_theirs;
CREATE INDEX due_of_theirs ON fairq.q_theirs (run_at) WHERE state <> 's' AND attack.sneaky('due');
CREATE INDEX key_of_theirs ON fairq.q_theirs (unique_key COLLATE "C") WHERE attack.sneaky('key') AND headers IS NOT NULL;
