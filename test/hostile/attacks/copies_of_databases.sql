-- as: database
-- Commands that need the town's database without connections, and are not his to give.
\set ON_ERROR_STOP off
CREATE DATABASE copy TEMPLATE town;
CREATE DATABASE copy TEMPLATE town;
DROP DATABASE town;
ALTER DATABASE town RENAME TO village;
ALTER DATABASE town SET TABLESPACE pg_default;
ALTER DATABASE town IS_TEMPLATE true;
ALTER DATABASE attack RENAME TO attack2;
CREATE DATABASE attack3 TEMPLATE attack;
CREATE DATABASE attack3 TEMPLATE template1;
DROP DATABASE attack3;
