CREATE OR REPLACE FUNCTION fairq.open_session(name text DEFAULT NULL, ttl interval DEFAULT '10 s', bound boolean DEFAULT false)
RETURNS uuid LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_open_session';

CREATE OR REPLACE FUNCTION fairq.heartbeat(session uuid)
RETURNS boolean LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_heartbeat';

CREATE OR REPLACE FUNCTION fairq.close_session(session uuid)
RETURNS int LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_close_session';

CREATE OR REPLACE FUNCTION fairq.my_buckets(queue text, session uuid)
RETURNS int[] LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_my_buckets';

CREATE OR REPLACE FUNCTION fairq_internal.open_sessions(
    OUT session uuid, OUT name text, OUT role regrole, OUT opened_at timestamptz,
    OUT ttl interval, OUT alive_until timestamptz, OUT bound boolean, OUT pid int, OUT leases int,
    OUT client text, OUT quarantine boolean)
RETURNS SETOF record LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 10
AS 'MODULE_PATHNAME', 'fairq_open_sessions';
