-- as: nobody
-- may wait: update of the extension
-- An open transaction that reads all it may.
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT * FROM fairq.queues;
SELECT * FROM fairq.topics;
SELECT * FROM fairq.queue_stats;
SELECT fairq.open_session(ttl => '1 s');
