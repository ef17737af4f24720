-- as: owner
-- Both tables as partitions, with triggers that come from above.
CREATE FUNCTION attack.fire() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM attack.ran('trigger from above'); RETURN NEW; END $$;
CREATE FUNCTION attack.hash(text) RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN PERFORM attack.ran('partition key'); RETURN 1; END $$;
CREATE TABLE attack.p (LIKE fairq.done_theirs) PARTITION BY LIST (attack.hash(group_key));
CREATE TRIGGER above AFTER INSERT ON attack.p FOR EACH ROW EXECUTE FUNCTION attack.fire();
ALTER TABLE attack.p ATTACH PARTITION fairq.done_theirs FOR VALUES IN (1);
CREATE TABLE attack.q (LIKE fairq.q_theirs) PARTITION BY LIST (attack.hash(group_key));
CREATE TRIGGER above AFTER INSERT ON attack.q FOR EACH ROW EXECUTE FUNCTION attack.fire();
ALTER TABLE attack.q ATTACH PARTITION fairq.q_theirs FOR VALUES IN (1);
