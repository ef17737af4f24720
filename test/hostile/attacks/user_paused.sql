-- as: landlord
-- then: shares
-- Users with much to do are paused and let go on, are limited and are not any more, again and again; some stay so.
SELECT count(fairq.enqueue_many('theirs', array_fill('1'::jsonb, '{20000}'), group_keys => '{hog}', subgroup_keys => ARRAY(SELECT 'mallory ' || n % 20 FROM generate_series(1, 20000) n)));
CREATE PROCEDURE attack.again() LANGUAGE plpgsql AS $$
BEGIN
	FOR i IN 1 .. 200 LOOP
		PERFORM fairq.pause_subgroup('theirs', 'hog', 'mallory ' || i % 20);
		COMMIT;
		PERFORM fairq.ack(receipt) FROM fairq.claim('theirs', 5, group_keys => '{hog}');
		COMMIT;
		PERFORM fairq.resume_subgroup('theirs', 'hog', 'mallory ' || i * 7 % 20);
		PERFORM fairq.set_subgroup('theirs', 'hog', 'mallory ' || i * 3 % 20, max_leased => i % 3, weight => 0.5 + i % 7);
		COMMIT;
		PERFORM fairq.pause_subgroup('theirs', 'hog', 'mallory 0'), fairq.set_subgroup_defaults('theirs', max_leased => i % 4);
		ROLLBACK;
	END LOOP;
END $$;
CALL attack.again();
SELECT fairq.reset_subgroup('theirs', 'hog', 'mallory ' || i), fairq.set_subgroup('theirs', 'hog', 'mallory ' || i, weight => 1) FROM generate_series(0, 19) i;
SELECT fairq.pause_subgroup('theirs', 'hog', 'mallory ' || i) FROM generate_series(0, 9) i;
