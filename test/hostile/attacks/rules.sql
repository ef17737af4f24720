-- as: owner
-- Rules that add commands of his to those of others.
CREATE TABLE attack.t (x boolean);
CREATE RULE also AS ON INSERT TO fairq.done_theirs DO ALSO INSERT INTO attack.t VALUES (attack.ran('rule of the archive'));
CREATE RULE gone AS ON DELETE TO fairq.done_theirs DO INSTEAD NOTHING;
CREATE RULE also AS ON INSERT TO fairq.q_theirs DO ALSO INSERT INTO attack.t VALUES (attack.ran('rule'));
CREATE RULE gone AS ON DELETE TO fairq.q_theirs DO INSTEAD SELECT attack.ran('rule');
