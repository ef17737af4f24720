-- The server that is tested must have been told to load the library.
SELECT 'pgfairq' = ANY (string_to_array(replace(current_setting('shared_preload_libraries'), ' ', ''), ',')) AS preloaded;
-- The extension for all tests that follow. It must come without a word.
CREATE EXTENSION pgfairq;
SELECT extname, extversion, nspname FROM pg_extension JOIN pg_namespace n ON n.oid = extnamespace WHERE extname = 'pgfairq';
