-- as: creator
-- Indexes of his own on the columns that the engine's indexes are on.
CREATE INDEX ON fairq.q_theirs (address) WHERE headers IS NOT NULL;
CREATE INDEX ON fairq.q_theirs (address) WHERE attack.sneaky('x') IS NOT NULL;
CREATE INDEX ON fairq.q_theirs (run_at) WHERE state = 's' AND headers IS NULL;
CREATE INDEX ON fairq.q_theirs (unique_key COLLATE "C") WHERE unique_key IS NOT NULL;
CREATE INDEX ON fairq.q_theirs (id) WHERE state = 'o';
VACUUM FULL fairq.q_theirs;
-- All is claimed all the same.
DO $$
BEGIN
	ASSERT (SELECT count(*) FROM fairq.claim('theirs', 100)) >= 8;
END
$$;
