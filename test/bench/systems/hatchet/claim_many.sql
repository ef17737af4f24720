BEGIN;
@CLAIM_100@ \gset
@POINTER@;
COMMIT;
UPDATE @SCHEMA@.task SET status = 'succeeded' WHERE id = ANY (:ids::bigint[]);
