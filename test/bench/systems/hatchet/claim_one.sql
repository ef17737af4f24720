BEGIN;
@CLAIM_1@ \gset
@POINTER@;
COMMIT;
UPDATE @SCHEMA@.task SET status = 'succeeded' WHERE id = :id;
