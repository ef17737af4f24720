"""The owner of a queue puts code into its indexes and constraints: no worker and no relay runs it as its own role.

Fails with an UPDATE of the table in statements.progress(), with a SELECT from it in ROWS of the relay, and without names there.
"""

import os
import subprocess
import sys

import psycopg
from psycopg.conninfo import make_conninfo

import part_server
from conftest import running
from pgfairq import Queue, Worker

RELAY = os.path.join(os.path.dirname(__file__), "../../relay/pgfairq-relay")

TRAP = """
CREATE SCHEMA theirs;
CREATE FUNCTION theirs.evil(x jsonb) RETURNS boolean LANGUAGE plpgsql IMMUTABLE
    AS $$ BEGIN PERFORM pg_notify('ran', current_user); RETURN true; END $$;
SELECT fairq.create_queue('theirs');
CREATE INDEX theirs_too ON fairq.q_theirs (id) WHERE theirs.evil('1');
ALTER TABLE fairq.q_theirs ADD CHECK (theirs.evil(headers));
SELECT fairq.create_queue('target');
DO $$ BEGIN CREATE ROLE owner_of_theirs; EXCEPTION WHEN duplicate_object THEN NULL; END $$;
DO $$ BEGIN CREATE ROLE works_for_others LOGIN; EXCEPTION WHEN duplicate_object THEN NULL; END $$;
GRANT pg_monitor, pg_read_all_settings TO works_for_others;
ALTER TABLE fairq.q_theirs OWNER TO owner_of_theirs;
ALTER SEQUENCE fairq.ids_of_theirs OWNER TO owner_of_theirs;
GRANT USAGE ON SCHEMA theirs TO owner_of_theirs;
GRANT SELECT, UPDATE, DELETE ON fairq.q_theirs TO works_for_others;
GRANT INSERT ON fairq.q_target TO works_for_others;
GRANT EXECUTE ON FUNCTION pg_control_system() TO works_for_others;
"""


def others(listener, ran):
    """Whom the code has run as, of all that was committed by now."""
    listener.execute("NOTIFY ran, 'told'")
    part_server.wait_until(lambda: listener.execute("SELECT 1") and "told" in ran, "what was told before")
    found = ran - {"told", "owner_of_theirs"}
    ran.clear()
    return found


def test_no_code_of_the_owner_runs_as_another_role():
    conninfo = part_server.new_database(TRAP)
    mine = make_conninfo(conninfo, user="works_for_others")
    with psycopg.connect(conninfo, autocommit=True) as listener:
        ran = set()
        listener.add_notify_handler(lambda notify: ran.add(notify.payload))
        listener.execute("LISTEN ran")
        listener.execute("SELECT fairq.enqueue('theirs', '1')")
        with psycopg.connect(mine, autocommit=True) as connection:
            connection.execute("SELECT FROM fairq.q_theirs WHERE id = 1")
        assert others(listener, ran) == {"works_for_others"}, "the trap is none"

        queue, told = Queue(mine, "theirs"), []

        @queue.task()
        def handle(payload, context):
            context.progress(0.5)
            told.append(queue.get(context.id).progress)

        with running(Worker(queue)):
            part_server.wait_until(lambda: told and not queue.tasks(), "it is done")
        queue.close()
        assert told == [0.5]
        assert others(listener, ran) == set()

        listener.execute("SELECT fairq.enqueue('theirs', '2', headers => '{\"trace\": 1}', lease => '7 min', name => 'send'), fairq.enqueue('theirs', '3', name => 'plain'), fairq.enqueue('theirs', '4')")
        subprocess.run([sys.executable, RELAY, "--from", mine, "--to", mine, "--queue", "theirs", "--to-queue", "target", "--once"],
                       check=True, timeout=120)
        assert others(listener, ran) == set()
        assert listener.execute("SELECT payload, headers, lease::text, name FROM fairq.tasks('target') ORDER BY payload").fetchall() == [
            (2, {"trace": 1}, "00:07:00", "send"), (3, None, None, "plain"), (4, None, None, None)]
