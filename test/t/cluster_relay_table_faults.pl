# clients/relay/pgfairq-relay --from-table, exactly once: relays, servers and their
# connections are killed, stopped and restarted at the worst moments, and at any.
#
# First the moments one by one: the target has enqueued and the origin has not removed; the
# origin has a result and the target does not know; a relay that is stopped in the middle of
# a batch, whose batch another one takes; an origin that has lost its last commits. Then two
# relays under load, of which now one, now the other, and now a server is killed, with a
# journal outside of both databases (test/load/table_relay_load.py): each row that was
# committed is one task and has one result, in its order.
#
# Seen to fail: where the target does not look whether it has moved a row, and where a result
# goes to the inbox whether it is awaited or not, tasks and results are there twice; where
# that is not awaited which is not there yet, a result is lost; where a row that comes again
# does not have its result brought again, too; without the time in the key of what was moved,
# an id that is given out again is no task; without the lock of a batch two relays break the
# order; without the end of an idle transaction a relay that is stopped stops the other;
# with an advisory lock for it, as before, that lock is seen.

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

my $rounds = 12;
my ($origin, $target) = origin_and_target();

sub write_row
{
	my ($payload) = @_;

	sql($origin, "INSERT INTO fairq_relay.outbox (queue, payload, group_key, wants_result) VALUES ('letters', '$payload', 'a', true)");
	return;
}

sub in_outbox
{
	return sql($origin, 'SELECT count(*) FROM fairq_relay.outbox');
}

sub tasks
{
	return sql($target, "SELECT coalesce(string_agg(payload::text, ' ' ORDER BY id), 'none') FROM fairq.tasks('letters')");
}

sub results
{
	return sql($origin, "SELECT coalesce(string_agg(concat_ws(' ', result, error), ', ' ORDER BY id), 'none') FROM fairq_relay.inbox");
}

# Its backends at a node have ended.
sub no_backend
{
	my ($node) = @_;

	return wait_for_answer($node, "SELECT count(*) = 0 FROM pg_stat_activity WHERE application_name LIKE 'pgfairq-relay%'");
}

# Killed while the target enqueues: that goes on to its end, without anyone to hear of it
close_gate('letters');
write_row(1);
my $relay = start_relay();
ok(stopped_at_gate(), 'a row is being enqueued');
is(sql($origin, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'"), 0, 'under no lock that a role without privileges could hold');
kill_relay($relay);
ok(no_backend($origin), 'the relay is killed; its transaction at the origin is rolled back');
is(in_outbox(), 1, 'the row is there');
open_gate();
ok(no_backend($target), 'the target has ended what it was at');
is(tasks(), '1', 'the task is there');
sql($target, "SELECT fairq.ack(receipt, result => '\"one\"') FROM fairq.claim('letters')");
ok(relay_once(), 'the next relay sends it again, when it is done already');
is(in_outbox(), 0, 'the outbox is empty');
is(tasks(), 'none', 'it is no second task');
is(results(), '"one"', 'its result comes');

# Killed when the target has committed, and the origin has not
my $lock = session($origin);
$lock->safe('BEGIN; LOCK TABLE fairq_relay.awaited IN SHARE MODE');
write_row(2);
$relay = start_relay();
ok(wait_event_of($origin, 'Lock', "query LIKE '%DELETE FROM fairq_relay.outbox%'"), 'a row is enqueued, and is about to be removed');
is(tasks(), '2', 'it is there');
kill_relay($relay);
$lock->safe('COMMIT');
ok(no_backend($origin), 'the relay is killed');
is(in_outbox(), 1, 'the row is there, too');
ok(relay_once(), 'the next relay');
is(in_outbox() . ' ' . tasks(), '0 2', 'the row is gone, and there is one task');

# Killed when the origin has the result, and the target does not know
sql($target, "SELECT fairq.ack(receipt, result => '\"two\"') FROM fairq.claim('letters')");
sql($origin, 'DELETE FROM fairq_relay.inbox');
$lock = session($target);
$lock->safe('BEGIN; LOCK TABLE fairq_relay.moved IN SHARE MODE');
$relay = start_relay();
ok(wait_event_of($target, 'Lock', "query LIKE '%UPDATE fairq_relay.moved%'"), 'a result is brought, and is about to be noted');
is(results(), '"two"', 'it is there');
sql($origin, 'DELETE FROM fairq_relay.inbox');
kill_relay($relay);
sql($target, "SELECT count(pg_terminate_backend(pid, 60000)) FROM pg_stat_activity WHERE application_name LIKE 'pgfairq-relay%'");
$lock->safe('COMMIT');
is(sql($target, 'SELECT count(*) FROM fairq_relay.moved WHERE awaited'), 1, 'the target does not know');
ok(relay_once(), 'the next relay');
is(sql($target, 'SELECT count(*) FROM fairq_relay.moved WHERE awaited'), 0, 'lets it know');
is(results(), 'none', 'and brings nothing twice, though the application has taken the first away');

# A result that is there before the origin has removed the row
close_gate('letters');
write_row(3);
$relay = start_relay('--batch', '1');
ok(stopped_at_gate(), 'a row is being enqueued');
kill_relay($relay);
open_gate();
ok(no_backend($target), 'it is enqueued');
$lock = session($origin);
$lock->safe('BEGIN; SELECT FROM fairq_relay.outbox FOR UPDATE');
sql($target, "SELECT fairq.ack(receipt, result => '\"three\"') FROM fairq.claim('letters')");
ok(relay_once(), 'a relay that cannot remove the row just now');
is(results() . ' ' . sql($target, 'SELECT count(*) FROM fairq_relay.moved WHERE awaited'), 'none 1', 'does not take its result for one that was brought');
$lock->safe('COMMIT');
ok(relay_once(), 'and when it can');
ok(relay_once(), 'and looks again');
is(results(), '"three"', 'it is brought');
sql($origin, 'DELETE FROM fairq_relay.inbox');

# A relay that is stopped in the middle of a batch; another one takes its rows
close_gate('letters');
write_row(4);
my $frozen = start_relay('--timeout', '1');
ok(stopped_at_gate(), 'a row is being enqueued');
$frozen->signal('STOP');
$relay = start_relay();
open_gate();
ok(wait_for(sub { in_outbox() eq '0' }), 'another relay takes the row over when the time of the first is up');
is(tasks(), '4', 'there is one task');
$frozen->signal('CONT');
write_row(5);
ok(wait_for(sub { tasks() eq '4 5' }), 'both go on');
end_relay($_) foreach $frozen, $relay;
is(tasks(), '4 5', 'nothing is there twice');

# An origin whose failover has lost the removal of a row, and the result that had come
sql($target, "SELECT fairq.ack(receipt, result => payload) FROM fairq.claim('letters', 2)");
ok(relay_once(), 'results come');
is(results(), '4, 5', 'both');
sql($origin, <<'SQL');
DELETE FROM fairq_relay.inbox;
INSERT INTO fairq_relay.outbox (id, created_at, queue, payload, group_key, wants_result) OVERRIDING SYSTEM VALUE
	VALUES (1000000, '2020-01-01', 'letters', '6', 'a', true);
CREATE TABLE lost AS TABLE fairq_relay.outbox;
SQL
ok(relay_once(), 'a row is moved');
sql($target, "SELECT fairq.ack(receipt, result => payload) FROM fairq.claim('letters')");
ok(relay_once(), 'its result comes');
is(results(), '6', 'it is there');
sql($origin, <<'SQL');
DELETE FROM fairq_relay.inbox;
INSERT INTO fairq_relay.outbox OVERRIDING SYSTEM VALUE TABLE lost;
SQL
ok(relay_once(), 'the origin has lost all that, and has the row again');
is(tasks() . ', ' . in_outbox(), 'none, 0', 'there is no second task');
ok(relay_once(), 'once more');
is(results(), '6', 'the result comes again, for it was lost');
sql($origin, 'DELETE FROM fairq_relay.inbox');

# A backup from before a result came: that is brought again when the target is told to, and no other is
write_row(8);
ok(relay_once(), 'a row is moved');
sql($origin, 'CREATE TABLE backup AS TABLE fairq_relay.awaited');
sql($target, "SELECT fairq.ack(receipt, result => payload) FROM fairq.claim('letters')");
ok(relay_once(), 'its result comes');
is(results(), '8', 'it is there');
sql($origin, 'DELETE FROM fairq_relay.inbox; INSERT INTO fairq_relay.awaited TABLE backup');
ok(relay_once(), 'the origin is restored, and awaits it again');
is(results(), 'none', 'the target takes it for brought');
sql($target, 'UPDATE fairq_relay.moved SET awaited = true');
ok(relay_once(), 'as doc/managed.md says');
is(results(), '8', 'it is brought, and none of those that the application has had');
is(sql($origin, 'SELECT count(*) FROM fairq_relay.awaited') . ' ' . sql($target, 'SELECT count(*) FROM fairq_relay.moved WHERE awaited'), '0 0', 'nothing is awaited any more');
sql($origin, 'DELETE FROM fairq_relay.inbox');

# The same id again, in a database that was restored: another time, another task
sql($origin, 'UPDATE lost SET created_at = \'2021-01-01\', payload = \'7\'; INSERT INTO fairq_relay.outbox OVERRIDING SYSTEM VALUE TABLE lost');
ok(relay_once(), 'an id that is given out again');
is(tasks(), '7', 'is another task');
sql($target, "SELECT fairq.pop('letters')");
ok(relay_once(), 'and has a result');
is(sql($origin, 'SELECT count(*) FROM fairq_relay.inbox'), 1, 'of its own');
sql($origin, 'DELETE FROM fairq_relay.inbox');

# Everything at once
sql($target, 'ALTER TABLE fairq.q_letters DROP CONSTRAINT gate');
my ($out, $err) = ('', '');
my $load = IPC::Run::start([ python_program('table_relay_load.py'), $origin->connstr('postgres'), $target->connstr('postgres') ],
	'<', \undef, '>', \$out, '2>', \$err);
my @relays = map { start_relay('--batch', '30', '--timeout', '5') } 1 .. 2;

sub moved
{
	my ($ret, $number) = answer_of($target, 'SELECT max(task) FROM fairq_relay.moved');

	return $number || 0;
}

foreach my $round (1 .. $rounds)
{
	my $before = moved();
	my $victim = $round % 2;

	ok( wait_for(
			sub {
				$load->pump_nb;
				return moved() > $before + 40;
			}),
		"round $round is under way");
	kill_relay($relays[$victim]) unless $round % 4 == 2;
	if ($round % 2 == 0)
	{
		my $server = $round % 4 ? $target : $origin;

		$server->kill9;
		ok(start_after_kill($server), 'killed, and there again: ' . $server->name);
	}
	elsif ($round % 3 == 0)
	{
		sql($origin, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'pgfairq-relay%'");
		sql($target, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'pgfairq-relay%'");
	}
	$relays[$victim] = start_relay('--batch', '30', '--timeout', '5') unless $round % 4 == 2;
}
$load->signal('TERM');
ok(wait_for(sub { $load->pump_nb; $out =~ /^\{/m }), 'all is worked on, and all results are taken')
  or diag(
	'outbox, awaited, inbox: ' . sql($origin, 'SELECT (SELECT count(*) FROM fairq_relay.outbox), (SELECT count(*) FROM fairq_relay.awaited), (SELECT count(*) FROM fairq_relay.inbox)')
	  . '; moved, awaited: ' . sql($target, 'SELECT count(*), count(*) FILTER (WHERE awaited) FROM fairq_relay.moved')
	  . '; tasks: ' . sql($target, "SELECT string_agg(state || ' ' || n, ', ') FROM (SELECT state, count(*) AS n FROM fairq.tasks('letters') GROUP BY state) s"));
$load->kill_kill unless $out =~ /^\{/m;
$load->finish;
is($err, '', 'nothing else went wrong');
my ($facts) = $out =~ /^(\{.*\})$/m;
note $facts;
like($facts, qr/"wrong": \[\]/, 'each committed row is one task with one result, in its order');
end_relay($_) foreach @relays;

$_->stop foreach $origin, $target;
done_testing();
