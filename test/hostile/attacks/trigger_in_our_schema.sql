-- as: creator
-- A trigger whose function is in schema fairq, and not ours.
CREATE FUNCTION fairq.attack_fire() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM attack.ran('trigger in fairq'); RETURN NEW; END $$;
DROP TRIGGER fairq_row_written ON fairq.q_theirs;
CREATE TRIGGER fairq_row_written AFTER INSERT OR UPDATE OR DELETE ON fairq.q_theirs FOR EACH ROW EXECUTE FUNCTION fairq.attack_fire();
ALTER TABLE fairq.q_theirs ENABLE ALWAYS TRIGGER fairq_row_written;
CREATE TRIGGER z BEFORE INSERT ON fairq.q_theirs FOR EACH ROW EXECUTE FUNCTION fairq.attack_fire();
