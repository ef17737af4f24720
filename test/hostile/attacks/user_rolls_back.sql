-- as: tenant
-- then: shares 10
-- Tasks that are claimed and rolled back, released and failed, again and again, seven at a time; at last a transaction stays open with some.
SELECT count(fairq.enqueue_many('theirs', array_fill('1'::jsonb, '{5000}'), group_keys => '{hog}', subgroup_keys => ARRAY(SELECT 'mallory ' || n % 5 FROM generate_series(1, 5000) n)));
CREATE PROCEDURE attack.again() LANGUAGE plpgsql AS $$
BEGIN
	FOR i IN 1 .. 200 LOOP
		PERFORM count(*) FROM fairq.claim('theirs', 7, group_keys => '{hog}');
		ROLLBACK;
		PERFORM attack.try(format('SELECT fairq.enqueue(''theirs'', ''2'', ''hog'', subgroup_key => ''never %s'')', i));
		ROLLBACK;
		PERFORM fairq.pop('theirs', 3, group_keys => '{hog}');
		ROLLBACK;
		PERFORM fairq.release(receipt) FROM fairq.claim('theirs', 3, group_keys => '{hog}');
		COMMIT;
		PERFORM fairq.nack(receipt, 'no', '0') FROM fairq.claim('theirs', 3, group_keys => '{hog}');
		COMMIT;
		BEGIN
			PERFORM count(*) FROM fairq.claim('theirs', 5, group_keys => '{hog}');
			RAISE 'to a savepoint';
		EXCEPTION WHEN raise_exception THEN
			NULL;
		END;
		COMMIT;
	END LOOP;
END $$;
CALL attack.again();
BEGIN;
SELECT count(*) FROM fairq.claim('theirs', 2, group_keys => '{hog}');
SELECT fairq.ack(receipt) FROM fairq.claim('theirs', 1, group_keys => '{hog}');
SELECT fairq.enqueue('theirs', '1', 'hog', subgroup_key => 'not committed');
