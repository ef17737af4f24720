-- The extension for all tests that follow. It must come without a word.
CREATE EXTENSION pgfairq;
SELECT extname, extversion, nspname FROM pg_extension JOIN pg_namespace n ON n.oid = extnamespace WHERE extname = 'pgfairq';
