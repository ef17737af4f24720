-- as: owner
-- A trigger with the name of ours and a function of his.
CREATE FUNCTION attack.fire() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM attack.ran('trigger'); RETURN NEW; END $$;
DROP TRIGGER fairq_row_written ON fairq.q_theirs;
CREATE TRIGGER fairq_row_written AFTER INSERT OR UPDATE OR DELETE ON fairq.q_theirs FOR EACH ROW EXECUTE FUNCTION attack.fire();
ALTER TABLE fairq.q_theirs ENABLE ALWAYS TRIGGER fairq_row_written;
