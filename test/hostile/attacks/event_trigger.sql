-- as: database
-- For superusers only, also in one's own database.
CREATE FUNCTION public_fire() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN RAISE LOG 'hostile code: attack as=% session=% by=event trigger', current_user, session_user; END $$;
\set ON_ERROR_STOP off
CREATE EVENT TRIGGER hostile ON ddl_command_start EXECUTE FUNCTION public_fire();
CREATE EXTENSION pgfairq;
CREATE FUNCTION c() RETURNS void LANGUAGE c AS '$libdir/pgfairq', 'fairq_maintain';
