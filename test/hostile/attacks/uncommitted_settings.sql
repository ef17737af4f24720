-- as: owner
-- may wait: users, new queue, update of the extension, views by monitor, views by superuser, dump
-- Settings that are changed and not committed.
BEGIN;
SELECT fairq.alter_queue('theirs', buckets => 7, keep_done => '0');
SELECT fairq.set_group('theirs', 'a', weight => 5), fairq.pause_group('theirs', 'b');
SELECT fairq.subscribe('news.open', 'theirs'), fairq.unsubscribe('news', 'theirs');
