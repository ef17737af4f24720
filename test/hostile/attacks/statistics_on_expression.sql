-- as: creator
-- Statistics on expressions are folded by whoever plans, and evaluated by ANALYZE.
CREATE STATISTICS fairq.evil ON (attack.sneaky(group_key)), (attack.sneaky('constant')) FROM fairq.q_theirs;
CREATE STATISTICS fairq.evil_done ON (attack.sneaky(group_key)), (attack.sneaky('constant')) FROM fairq.done_theirs;
ANALYZE fairq.q_theirs, fairq.done_theirs;
