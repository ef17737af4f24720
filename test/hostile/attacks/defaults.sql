-- as: owner
-- Defaults of columns of his own, and of ours.
ALTER TABLE fairq.q_theirs ADD COLUMN mine boolean DEFAULT attack.ran('default'), ADD COLUMN mine2 boolean NOT NULL DEFAULT attack.sneaky('x');
ALTER TABLE fairq.q_theirs ALTER COLUMN headers SET DEFAULT to_jsonb(attack.ran('default of headers')), ALTER COLUMN id SET DEFAULT attack.ran('default of id')::int;
ALTER TABLE fairq.done_theirs ADD COLUMN mine boolean DEFAULT (attack.ran('default of the archive') AND attack.escape());
