-- as: owner
-- Errors that others could take for their own: cancelled, crashed, out of memory.
CREATE FUNCTION attack.fails() RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
	RAISE EXCEPTION 'strange' USING ERRCODE = (ARRAY['57000', '53200', '40001', '40P01', '55P03', '00000', '02000', '01000'])[1 + floor(random() * 5)::int];
END
$$;
ALTER TABLE fairq.q_theirs ADD CHECK (attack.fails()) NOT VALID;
ALTER TABLE fairq.done_theirs ADD CHECK (attack.fails()) NOT VALID;
