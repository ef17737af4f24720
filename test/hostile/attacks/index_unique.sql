-- as: creator
-- What the engine writes breaks a unique index: nothing that is due can be made ready.
DELETE FROM fairq.q_theirs WHERE state <> 's' OR id <> (SELECT min(id) FROM fairq.q_theirs WHERE state = 's');
CREATE UNIQUE INDEX ON fairq.q_theirs ((true));
