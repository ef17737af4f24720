CREATE OR REPLACE FUNCTION fairq.set_group(queue text, group_key text,
    weight double precision DEFAULT NULL, max_leased int DEFAULT NULL,
    rate double precision DEFAULT NULL, burst int DEFAULT NULL)
RETURNS void LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_set_group';
COMMENT ON FUNCTION fairq.set_group IS 'Set the weight, the limit of tasks in flight and the rate of a group; null leaves one as it is.';

CREATE OR REPLACE FUNCTION fairq.reset_group(queue text, group_key text)
RETURNS boolean LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_reset_group';
COMMENT ON FUNCTION fairq.reset_group IS 'Take away what a group was given, a pause included; returns false if it had nothing of its own.';

CREATE OR REPLACE FUNCTION fairq.set_group_defaults(queue text,
    weight double precision DEFAULT NULL, max_leased int DEFAULT NULL,
    rate double precision DEFAULT NULL, burst int DEFAULT NULL)
RETURNS void LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_set_group_defaults';
COMMENT ON FUNCTION fairq.set_group_defaults IS 'Set what each group of a queue has that was not given something else; null leaves a setting as it is.';
