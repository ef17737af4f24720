CREATE FUNCTION fairq.open_session(name text DEFAULT NULL, ttl interval DEFAULT '10 s', bound boolean DEFAULT false)
RETURNS uuid LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_open_session';
COMMENT ON FUNCTION fairq.open_session(text, interval, boolean) IS
'Open a session, a worker''s liveness, and return it. Takes no privilege. It is over when no heartbeat comes for ttl (above 0, up to 10 years), and if bound also when the connection that opened it closes. Opened at once, a rollback does not undo it. Errors: 22023, 53400 (too many sessions).';

CREATE FUNCTION fairq.heartbeat(session uuid)
RETURNS boolean LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_heartbeat';
COMMENT ON FUNCTION fairq.heartbeat(uuid) IS
'A sign of life: the session goes on for another ttl from now. Returns false if it is over: stop working, its leases are lost. In force at once, a rollback does not undo it. Works in a read-only transaction, too. For the role that opened it. Errors: 42501, 22023.';

CREATE FUNCTION fairq.close_session(session uuid)
RETURNS int LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_close_session';
COMMENT ON FUNCTION fairq.close_session(uuid) IS
'End a session, when the transaction commits: its leases are given back, no attempt counted; returns how many. 0 also if it was over. Needs SELECT and UPDATE on the queues of its leases. For the role that opened it. Errors: 42501, 22023.';

CREATE FUNCTION fairq.my_buckets(queue text, session uuid)
RETURNS int[] LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_my_buckets';
COMMENT ON FUNCTION fairq.my_buckets(text, uuid) IS
'Return the buckets of a queue that are the session''s: they are dealt out between the live sessions that ask for them, each bucket to one, and dealt again when one joins or leaves or the number of buckets changes. Tasks left in a bucket b of when there were more go with bucket b mod their number. Ask before each claim; fairq.claim(buckets, session) refuses a bucket that has moved (55000). Needs SELECT. Errors: 42704, 42501, 22023, 54000 (8192 shares are dealt out), 55000 (the session is over).';

CREATE FUNCTION fairq.open_sessions(
    OUT session uuid, OUT name text, OUT role regrole, OUT opened_at timestamptz,
    OUT ttl interval, OUT alive_until timestamptz, OUT bound boolean, OUT pid int, OUT leases int)
RETURNS SETOF record LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 10
AS 'MODULE_PATHNAME', 'fairq_open_sessions';
COMMENT ON FUNCTION fairq.open_sessions() IS
'What is behind the view fairq.sessions';

