-- as: owner
-- The tables are empty after a crash and cannot be read on a standby.
ALTER TABLE fairq.q_theirs SET UNLOGGED;
ALTER TABLE fairq.done_theirs SET UNLOGGED;
