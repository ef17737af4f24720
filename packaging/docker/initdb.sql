-- Run once, in the database POSTGRES_DB of a new data directory.
CREATE EXTENSION pgfairq;
