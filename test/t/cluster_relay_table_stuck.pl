# clients/relay/pgfairq-relay --from-table: what is the matter with one queue, one row or one
# result holds up no others.
#
# At the target: a queue whose results cannot be looked for, as it is locked, or its table
# refused; a row that takes longer than --timeout, or with which the connection is lost; rows of
# an outbox that has no relay any more. At the origin: a row that cannot be put into refused, a
# result that the inbox does not take, a locked inbox.
#
# Seen to fail: with the relay as it was before, all up to the row that is in refused already.
# Without "WHEN OTHERS" in outcome() no results come beside a queue with a trigger; without the
# escapes an error that the origin's encoding has not stops all; with an error of one result taken for
# one of the connection no others come, and rows one for each reconnection; without ON CONFLICT
# a row that is awaited already stops all; with clock_timestamp() instead of now() all rows that were
# moved are read for those that may be forgotten.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use FairqNode;
use FairqTableRelay;
use IPC::Run;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my ($origin, $target) = origin_and_target();
my ($python) = python_program('');
my $number = 0;

# Rows for a queue, each of a group of its own; their payload is the group.
sub write_rows
{
	my ($queue, @groups) = @_;

	sql($origin, "INSERT INTO fairq_relay.outbox (queue, payload, group_key, wants_result) VALUES ('$queue', to_jsonb('$_'::text), '$_', true)") foreach @groups;
	return;
}

sub waiting
{
	return sql($origin, "SELECT coalesce(string_agg(group_key, ' ' ORDER BY group_key), 'none') FROM fairq_relay.outbox");
}

sub awaited
{
	return sql($origin, "SELECT coalesce(string_agg(group_key, ' ' ORDER BY group_key), 'none') FROM fairq_relay.awaited");
}

# What has come of a group: state, result, error.
sub result
{
	my ($group) = @_;

	return sql($origin, "SELECT concat_ws(' ', state, result, error) FROM fairq_relay.inbox WHERE group_key = '$group'");
}

# A worker does what is there.
sub work
{
	my ($queue) = @_;

	return sql($target, "SELECT count(fairq.ack(receipt, result => payload)) FROM fairq.claim('$queue', 100)");
}

# One test: so many rows get to their queue, and their results back.
sub goes_on
{
	my ($name, $rows) = @_;
	my @groups = map { 'g' . $number++ } 1 .. $rows;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	write_rows('letters', @groups);
	ok( wait_for(
			sub {
				work('letters');
				return sql($origin, "SELECT count(*) FROM fairq_relay.inbox WHERE group_key = ANY ('{@{[ join ',', @groups ]}}')") eq $rows;
			}),
		$name);
	return;
}

# What a program says that has the relay's module.
sub python
{
	my ($program, @arguments) = @_;
	my ($out, $err) = ('', '');

	IPC::Run::run([ $python, '-B', '-c', "import sys\nsys.path.insert(0, '$FindBin::RealBin/../../clients/relay')\nimport table_relay\n$program", @arguments ],
		'>', \$out, '2>', \$err) or diag($err);
	return $out;
}

sql($target, <<'SQL');
SELECT fairq.create_queue('bad', keep_done => '1 day');
GRANT INSERT, SELECT ON fairq.q_bad TO carrier;
GRANT SELECT ON fairq.done_bad TO carrier;
SQL

# A queue that is locked. A statement that waited for it would do so for an hour.
write_rows('bad', 'locked');
my $relay = start_relay('--timeout', '3600');
ok(wait_for(sub { awaited() eq 'locked' }), 'a result is awaited');
my $lock = session($target);
$lock->safe("BEGIN; SELECT fairq.ack(receipt, result => payload) FROM fairq.claim('bad'); LOCK TABLE fairq.q_bad, fairq.done_bad IN ACCESS EXCLUSIVE MODE");
goes_on('its queue is locked, and others go on', 1);
is(awaited(), 'locked', 'it is awaited still');
ok(wait_for(sub { said(0, qr/results of queue 'bad' cannot be looked for: canceling statement due to lock timeout/) }), 'which the relay says');
$lock->safe('COMMIT');
ok(wait_for(sub { result('locked') eq 'acked "locked"' }), 'when it is not locked any more its result comes');

# One whose table the server refuses
write_rows('bad', 'later');
ok(wait_for(sub { awaited() eq 'later' }), 'another result is awaited');
sql($target, <<'SQL');
CREATE FUNCTION nothing() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';
CREATE TRIGGER nothing AFTER INSERT ON fairq.q_bad FOR EACH ROW EXECUTE FUNCTION nothing();
SQL
ok(wait_for(sub { said(0, qr/cannot use table "fairq.q_bad"/) }), 'its queue has a trigger');
goes_on('and others go on', 1);
is(awaited(), 'later', 'it is awaited still');
sql($target, 'DROP TRIGGER nothing ON fairq.q_bad');
ok(wait_for(sub { work('bad'); result('later') ne '' }), 'without the trigger its result comes');

# One whose constraint says that the server is a standby
sql($target, <<'SQL');
CREATE FUNCTION liar(payload jsonb) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
	IF payload = '"lie"' THEN
		RAISE EXCEPTION 'this is a standby' USING ERRCODE = '25006';
	END IF;
	RETURN true;
END $$;
ALTER TABLE fairq.q_bad ADD CONSTRAINT liar CHECK (liar(payload));
SQL
write_rows('bad', 'lie');
ok(wait_for(sub { said(0, qr/this is a standby/) }), 'a row must wait');
goes_on('others go on', 1);
ok(!said(0, qr/the target: it is a standby/), 'and the connection is kept');
end_relay($relay);
sql($target, 'ALTER TABLE fairq.q_bad DROP CONSTRAINT liar');
sql($origin, 'DELETE FROM fairq_relay.outbox');

# Rows of an outbox that has no relay any more
sql($target, <<'SQL');
INSERT INTO fairq_relay.moved (source, id, created_at, moved_at, task, queue, awaited)
	SELECT source, n, now(), CASE source WHEN 0 THEN timestamptz '2001-01-01' ELSE now() END, n, 'gone', false
	FROM generate_series(0, 1) source, generate_series(1, 20000) n;
ANALYZE fairq_relay.moved;
SQL
my $plan = python(<<'PYTHON', $target->connstr('postgres'));
with table_relay.psycopg.connect(sys.argv[1]) as connection:
    for line, in connection.execute("EXPLAIN (ANALYZE, COSTS off, TIMING off) " + table_relay.OLD, ("1 day", 1, 5000)):
        print(line)
PYTHON
like($plan, qr/Index Cond: .*source = .*moved_at </, 'what is old enough to be forgotten is found without reading the rest');
sql($target, "DELETE FROM fairq_relay.moved WHERE queue = 'gone'; REVOKE DELETE ON fairq_relay.moved FROM carrier");
$relay = start_relay('--remember', '0', '--batch', '1');
goes_on('what cannot be forgotten holds up no rows', 30);
end_relay($relay);
sql($target, 'GRANT DELETE ON fairq_relay.moved TO carrier');

# A row that takes longer than --timeout
sql($target, <<'SQL');
CREATE FUNCTION slow(payload jsonb) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
	IF payload = '"slow"' THEN
		PERFORM pg_catalog.pg_sleep(1000);
	END IF;
	RETURN true;
END $$;
ALTER TABLE fairq.q_bad ADD CONSTRAINT slow CHECK (slow(payload));
SQL
write_rows('bad', 'slow');
$relay = start_relay('--timeout', '2');
goes_on('a row takes too long, and others go on', 20);
is(waiting(), 'slow', 'it is there');
ok(said(0, qr/row \d+ holds up the target.*queue 'bad' rests for 30 s/), 'which the relay says');
end_relay($relay);
sql($target, 'ALTER TABLE fairq.q_bad DROP CONSTRAINT slow');
ok(relay_once(), 'the next relay');
is(waiting(), 'none', 'tries it at once');
is( python(<<'PYTHON'),
slow, other, good = ("bad", "slow"), ("bad", "other"), ("good", "")
lines = table_relay.Lines()
for line in slow, other, good:
    lines.found(line, 1)
print(lines.rest(slow, 1, now=0, spent=24), lines.next(10, 29))
lines.resume(31)
lines.served(good, 1)
print(lines.next(10, 31))
lines.resume(61)
print(lines.rest(slow, 1, now=61, spent=24), lines.next(10, 120))
lines.resume(1000)
print(len(lines.next(10, 1000)[0]))
PYTHON
	"30.0 ([(('good', ''), 1)], 10)\n([(('bad', 'other'), 1)], 1)\n60.0 ([(('good', ''), 1)], 10)\n3\n",
	'its queue rests, longer each time; then its rows go one by one, of other lines first; and in the end all go on');

# A row with which the connection is lost
write_rows('bad', 'lost');
write_rows('letters', map { "with lost $_" } 1 .. 20);
is( python(<<'PYTHON', as_role($origin, 'carrier'), as_role($target, 'carrier'), $origin->connstr('postgres')), "[('lost',)]\n", 'a row with which the connection is lost holds up no others');
import argparse, os, socket, time

class Relay(table_relay.TableRelay):
    def take(self, rows):
        if any('"lost"' in text for _, _, text in rows):
            with socket.socket(fileno=os.dup(self.target.fileno())) as connection:
                connection.shutdown(socket.SHUT_RDWR)
        return super().take(rows)

def left():
    with table_relay.psycopg.connect(sys.argv[3]) as connection:
        return connection.execute("SELECT group_key FROM fairq_relay.outbox").fetchall()

relay = Relay(argparse.Namespace(source=sys.argv[1], to=sys.argv[2], batch=500, remember="1 day", poll=1.0, timeout=30.0, once=False))
until = time.monotonic() + 180
while len(left()) > 1 and time.monotonic() < until:
    relay.step()
relay.close("both")
print(left())
PYTHON
ok(relay_once(), 'the next relay');
is(waiting(), 'none', 'has it taken');
work($_) foreach 'bad', 'letters';
ok(relay_once(), 'results');
is(awaited(), 'none', 'come');
sql($origin, 'DELETE FROM fairq_relay.inbox');

# A row that is in refused already, as after a copy by hand, and one that is awaited already
write_rows('none', 'copied');
ok(relay_once(), 'a row is refused');
sql($origin, <<'SQL');
INSERT INTO fairq_relay.outbox (id, created_at, queue, payload, group_key) OVERRIDING SYSTEM VALUE
	SELECT id, created_at, queue, '"changed"', group_key FROM fairq_relay.refused;
INSERT INTO fairq_relay.outbox (queue, payload, group_key, wants_result) VALUES ('letters', '"twice"', 'twice', true);
INSERT INTO fairq_relay.awaited (id, created_at, queue, group_key) SELECT id, created_at, queue, group_key FROM fairq_relay.outbox WHERE wants_result;
SQL
$relay = start_relay();
goes_on('it is there again, and others go on', 1);
ok(wait_for(sub { result('twice') eq 'acked "twice"' }), 'also one that was awaited');
is(waiting(), 'copied', 'it is kept, for the two may differ');
ok(said(0, qr/row \d+ must wait, 23505: it cannot be moved to fairq_relay.refused/), 'which the relay says');
end_relay($relay);
sql($origin, 'DELETE FROM fairq_relay.refused');
ok(relay_once(), 'without the first one');
is(sql($origin, 'SELECT payload FROM fairq_relay.refused') . waiting(), '"changed"none', 'it is refused, too');
sql($origin, 'DELETE FROM fairq_relay.refused');

# An error that the origin's encoding has not
sql($origin, "CREATE DATABASE latin ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0");
$origin->command_ok([ 'psql', '-qX', '-d', $origin->connstr('latin'), '-f', "$FindBin::RealBin/../../clients/relay/outbox.sql" ], 'an origin with LATIN1');
sql($target, "ALTER TABLE fairq.q_letters ADD CONSTRAINT \"žluť\" CHECK (payload <> '\"wrong\"')");
sql($origin, "INSERT INTO fairq_relay.outbox (queue, payload, group_key) VALUES ('letters', '\"right\"', 'a'), ('letters', '\"wrong\"', 'b'), ('none', '1', 'c')", 'latin');
$relay = start_relay('--from', $origin->connstr('latin'));
ok(wait_for(sub { sql($origin, 'SELECT count(*) FROM fairq_relay.outbox', 'latin') eq '0' }), 'all rows are moved, or refused');
end_relay($relay);
is(sql($origin, "SELECT string_agg(code, ' ' ORDER BY id), count(*) FILTER (WHERE error LIKE '%u017elu%') FROM fairq_relay.refused", 'latin'),
	'23514 42704|1', 'the error has what the encoding has not as escapes');
work('letters');

# Results that the inbox does not take, for a while
sql($origin, <<'SQL');
CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF NEW.group_key = 'stuck' THEN
		RAISE EXCEPTION 'not now' USING ERRCODE = '22023';
	ELSIF NEW.group_key = 'other' THEN
		RAISE EXCEPTION 'not now';
	END IF;
	RETURN NEW;
END $$;
CREATE TRIGGER refuse BEFORE INSERT ON fairq_relay.inbox FOR EACH ROW EXECUTE FUNCTION refuse();
ALTER TABLE fairq_relay.inbox ADD CHECK (length(result::text) < 20);
SQL
write_rows('letters', 'stuck', 'other', 'one that is too long');
$relay = start_relay();
ok(wait_for(sub { work('letters'); result('one that is too long') eq 'acked the result cannot be brought: 23514' }), 'a result that the inbox cannot keep comes as an error');
ok(wait_for(sub { said(0, qr/the result of row \d+ cannot be brought, P0001/) && said(0, qr/the result of row \d+ cannot be brought, 22023/) }), 'some cannot come');
goes_on('others come', 1);
is(awaited(), 'other stuck', 'these are awaited still');
sql($origin, 'DROP TRIGGER refuse ON fairq_relay.inbox');
ok(wait_for(sub { result('stuck') . result('other') eq 'acked "stuck"acked "other"' }), 'and come when they can');
end_relay($relay);

# A locked inbox
write_rows('letters', 'locked inbox');
$lock = session($origin);
$lock->safe('BEGIN; LOCK TABLE fairq_relay.inbox IN ACCESS EXCLUSIVE MODE');
$relay = start_relay('--batch', '1');
ok(wait_for(sub { work('letters') }), 'a task is done');
ok(wait_for(sub { said(0, qr/results must wait, 55P03/) }), 'its result must wait');
write_rows('letters', map { "with a locked inbox $_" } 1 .. 30);
ok(wait_for(sub { waiting() eq 'none' }), 'and others go on');
$lock->safe('COMMIT');
ok(wait_for(sub { result('locked inbox') ne '' }), 'it comes when there is no lock');
end_relay($relay);

$_->stop foreach $origin, $target;
done_testing();
