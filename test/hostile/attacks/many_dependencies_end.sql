-- as: owner
-- Ends at which much hangs: one for which thousands wait is acknowledged, heads of chains are cancelled and die, all in his own queue, whose archive refuses some of them.
-- Others end tasks for which some wait, too; fails without run_as_owner() in write_as_owner() of row_writer.c.
SELECT count(fairq.enqueue('theirs', '"after others"', group_key => 'later', after => ARRAY[id])) FROM fairq.tasks('theirs');
CREATE FUNCTION attack.refuse(outcome text, id bigint) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
	PERFORM attack.ran('end as ' || outcome);
	RETURN outcome <> 'cancelled' OR id % 100 <> 0 OR current_setting('application_name') LIKE 'hostile%';
END
$$;
CREATE FUNCTION attack.chain(length int, how text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
	head bigint := fairq.enqueue('theirs', '"head"', group_key => 'head', max_attempts => 1);
	last bigint := head;
BEGIN
	FOR n IN 1 .. length LOOP
		last := fairq.enqueue('theirs', '"link"', group_key => 'chain', after => ARRAY[last], on_dead => how);
	END LOOP;
	RETURN head;
END
$$;
SELECT attack.chain(5000, 'cancel') AS cancelled, attack.chain(5000, 'cancel') AS refused, attack.chain(3000, 'run') AS run, attack.chain(3000, 'cancel') AS dead \gset
SELECT fairq.enqueue('theirs', '"one"', group_key => 'one') AS one \gset
SELECT count(fairq.enqueue('theirs', '"fan-out"', group_key => 'out', after => ARRAY[:one])) FROM generate_series(1, 10000) n;
SELECT count(fairq.ack(receipt)) FROM fairq.claim('theirs', 10, group_keys => '{one}');
SELECT fairq.cancel('theirs', :cancelled), fairq.cancel('theirs', :run);
ALTER TABLE fairq.q_theirs ADD CHECK (attack.ran('row')) NOT VALID;
ALTER TABLE fairq.done_theirs ADD CHECK (attack.refuse(outcome, id)) NOT VALID;
SELECT fairq.cancel('theirs', :refused);
SELECT fairq.nack(receipt, 'dead') FROM fairq.claim('theirs', 10, group_keys => '{head}');
SELECT fairq.revive('theirs', :dead);
-- One whose end is not committed, and for which thousands wait.
SELECT fairq.enqueue('theirs', '"open"', group_key => 'open') AS open \gset
SELECT count(fairq.enqueue('theirs', '"fan-out"', group_key => 'out', after => ARRAY[:open], on_dead => 'cancel')) FROM generate_series(1, 5000) n;
BEGIN;
SELECT count(fairq.ack(receipt)) FROM fairq.claim('theirs', 10, group_keys => '{open}');
