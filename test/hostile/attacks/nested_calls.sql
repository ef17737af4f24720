-- as: owner
-- Code in the queue's table and in the archive uses the queue.
CREATE FUNCTION attack.trick() RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
	IF current_setting('attack.depth', true) = 'in' THEN
		RETURN true;
	END IF;
	PERFORM set_config('attack.depth', 'in', true);
	PERFORM attack.try('SELECT fairq.enqueue_many(''theirs'', array_fill(''1''::jsonb, ARRAY[50]))'), attack.try('SELECT fairq.ack(receipt) FROM fairq.claim(''theirs'', 5)'),
		attack.try('SELECT fairq.nack(receipt, ''x'', ''0'') FROM fairq.claim(''theirs'', 5)'), attack.try('SELECT fairq.pop(''theirs'', 2)'),
		attack.try('SELECT fairq.release(receipt) FROM fairq.claim(''theirs'', 5)'), attack.try('SELECT fairq.maintain(''theirs'')'),
		attack.try('SELECT fairq.publish(''news'', ''1'')'), attack.try('SELECT fairq.purge_group(''theirs'', ''b'')'), attack.try('SELECT fairq.revive_all(''theirs'')'),
		attack.try('SELECT fairq.pause(''theirs''), fairq.resume(''theirs'')'), attack.try('SELECT fairq.alter_queue(''theirs'', buckets => 1 + (random() * 20)::int)'),
		attack.try('SELECT fairq.set_group(''theirs'', ''a'', weight => 2, max_leased => 3)'), attack.try('SELECT fairq.subscribe(''a.#'', ''theirs'')'),
		attack.try('SELECT 1 / count(*) FROM fairq.claim(''theirs'', 3), generate_series(1, 0)'), attack.try('CALL fairq.wait(''theirs'', ''0'')'),
		attack.try('SELECT fairq.cancel(''theirs'', id) FROM fairq.tasks(''theirs'') LIMIT 3'), attack.try('SELECT fairq.close_session(fairq.open_session(bound => true))');
	PERFORM set_config('attack.depth', 'out', true);
	RETURN true;
END
$$;
ALTER TABLE fairq.q_theirs ADD CHECK (attack.trick()) NOT VALID;
ALTER TABLE fairq.done_theirs ADD CHECK (attack.trick()) NOT VALID;
\set ON_ERROR_STOP off
SELECT fairq.enqueue_many('theirs', array_fill('1'::jsonb, ARRAY[20]), group_keys => '{a}');
SELECT fairq.nack(receipt) FROM fairq.claim('theirs', 5);
SELECT fairq.ack_many(array_agg(receipt)) FROM fairq.claim('theirs', 20);
SELECT fairq.enqueue('theirs', '1', unique_key => 'k', on_duplicate => 'replace');
