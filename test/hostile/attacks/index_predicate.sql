-- as: creator
-- A predicate that is folded, and so run, by whoever reads the index's definition.
CREATE INDEX evil ON fairq.q_theirs (id) WHERE attack.sneaky('predicate');
CREATE INDEX evil_on_address ON fairq.q_theirs (address) WHERE attack.sneaky('predicate on address');
