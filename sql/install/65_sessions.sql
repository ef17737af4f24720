CREATE OR REPLACE FUNCTION fairq.open_session(name text DEFAULT NULL, ttl interval DEFAULT '10 s', bound boolean DEFAULT false)
RETURNS uuid LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_open_session';
COMMENT ON FUNCTION fairq.open_session IS 'Open a session, the sign of life of a worker; returns its name for claims and heartbeats.';

CREATE OR REPLACE FUNCTION fairq.heartbeat(session uuid)
RETURNS boolean LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_heartbeat';
COMMENT ON FUNCTION fairq.heartbeat IS 'Keep a session alive for another ttl; returns false if it is over, and its leases are lost.';

CREATE OR REPLACE FUNCTION fairq.close_session(session uuid)
RETURNS int LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_close_session';
COMMENT ON FUNCTION fairq.close_session IS 'End a session and give its leases back without counting an attempt; returns how many.';

CREATE OR REPLACE FUNCTION fairq.my_buckets(queue text, session uuid)
RETURNS int[] LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_my_buckets';
COMMENT ON FUNCTION fairq.my_buckets IS 'Return the buckets of a queue that are dealt to a session.';

CREATE OR REPLACE FUNCTION fairq_internal.open_sessions(
    OUT session uuid, OUT name text, OUT role regrole, OUT opened_at timestamptz,
    OUT ttl interval, OUT alive_until timestamptz, OUT bound boolean, OUT pid int, OUT leases int,
    OUT client text, OUT quarantine boolean)
RETURNS SETOF record LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 10
AS 'MODULE_PATHNAME', 'fairq_open_sessions';
COMMENT ON FUNCTION fairq_internal.open_sessions IS 'What is behind the view fairq.sessions.';
