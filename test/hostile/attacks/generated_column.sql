-- as: owner
-- Generated columns on both tables.
ALTER TABLE fairq.q_theirs ADD COLUMN mine boolean GENERATED ALWAYS AS (attack.sneaky(group_key)) STORED;
ALTER TABLE fairq.done_theirs ADD COLUMN mine boolean GENERATED ALWAYS AS (attack.sneaky(group_key)) STORED;
