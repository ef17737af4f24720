-- as: owner
-- Our text columns with another collation than the one the engine expects.
CREATE COLLATION attack.blind (provider = icu, locale = 'und-u-ks-level1', deterministic = false);
ALTER TABLE fairq.q_theirs ALTER COLUMN group_key TYPE text COLLATE attack.blind, ALTER COLUMN unique_key TYPE text COLLATE attack.blind;
SELECT fairq.enqueue('theirs', '1', group_key => 'A', unique_key => 'K');
