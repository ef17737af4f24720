CREATE OR REPLACE FUNCTION fairq.set_subgroup(queue text, group_key text, subgroup_key text,
    weight double precision DEFAULT NULL, max_leased int DEFAULT NULL,
    rate double precision DEFAULT NULL, burst int DEFAULT NULL)
RETURNS void LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_set_subgroup';

CREATE OR REPLACE FUNCTION fairq.reset_subgroup(queue text, group_key text, subgroup_key text)
RETURNS boolean LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_reset_subgroup';

CREATE OR REPLACE FUNCTION fairq.pause_subgroup(queue text, group_key text, subgroup_key text)
RETURNS void LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_pause_subgroup';

CREATE OR REPLACE FUNCTION fairq.resume_subgroup(queue text, group_key text, subgroup_key text)
RETURNS void LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_resume_subgroup';

CREATE OR REPLACE FUNCTION fairq.set_subgroup_defaults(queue text,
    weight double precision DEFAULT NULL, max_leased int DEFAULT NULL,
    rate double precision DEFAULT NULL, burst int DEFAULT NULL)
RETURNS void LANGUAGE C VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'fairq_set_subgroup_defaults';
