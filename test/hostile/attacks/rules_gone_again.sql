-- as: owner
-- A rule that was dropped leaves relhasrules behind.
CREATE RULE gone AS ON DELETE TO fairq.q_theirs DO INSTEAD NOTHING;
DROP RULE gone ON fairq.q_theirs;
CREATE RULE gone AS ON INSERT TO fairq.done_theirs DO INSTEAD NOTHING;
DROP RULE gone ON fairq.done_theirs;
