-- as: owner
-- Policies are code that runs as whoever reads.
ALTER TABLE fairq.q_theirs ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY evil ON fairq.q_theirs USING (attack.ran('policy')) WITH CHECK (attack.ran('policy'));
ALTER TABLE fairq.done_theirs ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY evil ON fairq.done_theirs USING (attack.ran('policy of the archive')) WITH CHECK (attack.ran('policy of the archive'));
GRANT SELECT ON fairq.done_theirs TO PUBLIC;
