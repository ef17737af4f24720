-- The whole of a group's key in 16 bytes, the same for ever: for keys that views show the
-- beginning of only.
CREATE OR REPLACE FUNCTION fairq.group_id(group_key text)
RETURNS uuid LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'fairq_group_id';
COMMENT ON FUNCTION fairq.group_id IS 'What names a group, or a subgroup within its group, in 16 bytes, the same for ever: for keys that are too long to be shown.';
