CREATE OR REPLACE FUNCTION fairq.set_subgroup(queue text, group_key text, subgroup_key text,
    weight double precision DEFAULT NULL, max_leased int DEFAULT NULL,
    rate double precision DEFAULT NULL, burst int DEFAULT NULL)
RETURNS void LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_set_subgroup';
COMMENT ON FUNCTION fairq.set_subgroup IS 'Set the weight, the limit of tasks in flight and the rate of a subgroup of a group; null leaves one as it is.';

CREATE OR REPLACE FUNCTION fairq.reset_subgroup(queue text, group_key text, subgroup_key text)
RETURNS boolean LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_reset_group';
COMMENT ON FUNCTION fairq.reset_subgroup IS 'Take away what a subgroup was given, a pause included; returns false if it had nothing of its own.';

CREATE OR REPLACE FUNCTION fairq.pause_subgroup(queue text, group_key text, subgroup_key text)
RETURNS void LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_pause_group';
COMMENT ON FUNCTION fairq.pause_subgroup IS 'Pause a subgroup: claims return none of its tasks until fairq.resume_subgroup().';

CREATE OR REPLACE FUNCTION fairq.resume_subgroup(queue text, group_key text, subgroup_key text)
RETURNS void LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_resume_group';
COMMENT ON FUNCTION fairq.resume_subgroup IS 'Let claims of the tasks of a paused subgroup go on.';

CREATE OR REPLACE FUNCTION fairq.set_subgroup_defaults(queue text,
    weight double precision DEFAULT NULL, max_leased int DEFAULT NULL,
    rate double precision DEFAULT NULL, burst int DEFAULT NULL)
RETURNS void LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_set_subgroup_defaults';
COMMENT ON FUNCTION fairq.set_subgroup_defaults IS 'Set what each subgroup of a queue has that was not given something else; null leaves a setting as it is.';
