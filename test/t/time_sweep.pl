# The sweep finds tasks that were not handed over.
#
# Rows are made to slip by for real: the trigger of the table is switched off
# behind everybody's back, by a change of the catalog, and they are inserted at
# addresses that claims have passed.
#
# Shown: such tasks are claimed within a sweep's interval and a second, also
# while a transaction stays open or prepared, and are not without the sweep;
# scheduled ones, too; in the end also those whose ids are long past.  What a
# sweep reads does not grow while a snapshot is held, and it sleeps when there
# is nothing new.  Under load it takes nothing for lost that is not.
#
# To see it fail, take one of these guards out of sweep.c:
# - go_on(): look at nothing with look_at_ids() for good, while unsettled, or
#   by the hand: tasks are not found by the first, third, or last part;
# - is_overlooked(): leave out a state: those tasks are not found; do not look
#   into the window, or for leases: tasks are taken for lost under load;
# - mend at once what look_at_ids() misses: the same;
# - may_be_in_hand(): do not ask since when somebody has had tasks in his hands: tasks
#   are taken for lost when their claimer is stopped; or never look once more: the same,
#   in every other run;
# - set sweep->done to 0 with each record: the reading grows;
# - is_wanted(): always true: it does not sleep.
# And in row_writer_new_ids() the wake-up: the second part, whose sweep
# sleeps when it begins.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use FairqNode;
use FairqPgbench;
use List::Util qw(max);
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time usleep);

my $node = fairq_node('sweep', conf => <<'CONF');
max_prepared_transactions = 5
max_connections = 30
CONF
my $slack = 20;    # for a slow machine
my $several;       # intervals of sweeps, in seconds

sub sweep_every
{
	my ($interval) = @_;

	sql($node, "ALTER SYSTEM SET pgfairq.sweep_interval = '$interval'");
	sql($node, 'SELECT pg_reload_conf()');
	# What the worker has read is counted up to a second later.
	$several = max(1.2, 2.5 * sql($node, "SELECT extract(epoch FROM '$interval'::interval)"));
	return;
}

# How often a process has gone to sleep.
sub switches
{
	my ($pid) = @_;
	my ($n) = slurp_file("/proc/$pid/status") =~ /^voluntary_ctxt_switches:\s*(\d+)/m;

	return $n;
}

# Insert rows that the trigger does not see; as columns of jsonb.
sub slip
{
	my ($rows) = @_;
	my $trigger = "tgrelid = 'fairq.q_s'::regclass AND tgname = 'fairq_row_written'";

	sql($node, "UPDATE pg_trigger SET tgenabled = 'D' WHERE $trigger");
	sql($node, <<"SQL");
INSERT INTO fairq.q_s (id, address, enqueued_at, priority, cost, attempts, state, run_at, group_key, payload)
SELECT (r->>'id')::bigint, (r->>'address')::fairq.address, now(), 0, 1, 0, coalesce(r->>'state', 'r')::"char",
	(r->>'run_at')::timestamptz, 'slipped', '"slipped"'
FROM ($rows) t(r);
SQL
	sql($node, "UPDATE pg_trigger SET tgenabled = 'A' WHERE $trigger; UPDATE pg_class SET relname = relname WHERE oid = 'fairq.q_s'::regclass");
	return;
}

# Ids that nobody uses.
sub ids
{
	my ($n) = @_;

	return sql($node, "BEGIN; SELECT fairq.enqueue_many('s', array_fill('0'::jsonb, ARRAY[$n])); ROLLBACK");
}

# Rows to slip by, ready, in the lanes of two classes.
sub ready
{
	my ($ids) = @_;

	return "SELECT jsonb_build_object('id', id, 'address', format('(%s,%s:5,%s)', abs(id) % 4, abs(id) % 2, abs(id))) FROM unnest('$ids'::bigint[]) id";
}

sub claimed
{
	return sql($node, "SELECT count(fairq.ack(receipt)) FROM fairq.claim('s', 1000)");
}

sub swept
{
	return sql($node, "SELECT swept FROM fairq.queue_stats WHERE queue = 's'");
}

# A pass of the worker on the queue: when what is scheduled is ready, it has read
# up to there.
sub worker_passes
{
	sql($node, "SELECT fairq.enqueue('s', '\"due\"', run_at => clock_timestamp() + interval '200 ms')");
	ok( wait_for(
			sub { sql($node, "SELECT count(fairq.ack(receipt)) FROM fairq.claim('s', 1000) WHERE payload = '\"due\"'") eq '1' }),
		'a pass of the worker');
	return;
}

sub entries_read
{
	return sql($node, "SELECT idx_tup_read FROM pg_stat_user_indexes WHERE indexrelname = 'id_of_s'");
}

# Wait until sweeps have read up to a number of entries, and then no more for
# several intervals.
sub asleep
{
	my ($least) = @_;

	return wait_for(
		sub {
			my $before = entries_read();

			sql($node, "SELECT pg_sleep($several)");
			return $before >= $least && entries_read() == $before;
		}, 60);
}

# Claim until there are so many, and no more.
sub claims
{
	my ($n) = @_;
	my $got = 0;

	return wait_for(sub { ($got += claimed()) >= $n }, $slack) && $got == $n;
}

sql($node, "SELECT fairq.create_queue('s', buckets => 4)");
# All lanes are there and have been read to their ends.
sql($node, "SELECT fairq.enqueue('s', to_jsonb(i), group_key => i::text, priority => i % 2) FROM generate_series(1, 40) i");
is(claimed(), 40, 'the first tasks');
# Dead ones, before all others: the hand takes its time to get past them.
sql($node, <<'SQL');
INSERT INTO fairq.q_s (id, enqueued_at, priority, cost, attempts, state, group_key, payload)
SELECT id, now(), 0, 1, 0, 'd', '', '0' FROM generate_series(-30000, -5001) id
SQL

#
# Not without the sweep; by hand; with it
#
slip(ready(ids(30)));
is(claimed(), 0, 'slipped by: nothing to claim');
worker_passes() for (1 .. 3);
is(claimed(), 0, 'nor after passes of a worker that does not sweep');
is(sql($node, "SELECT count(*) FROM fairq.tasks('s', 'ready')"), 30, 'but they are there');
sweep_every('1s');
ok(claims(30), 'a sweep finds them');
is(swept(), 30, 'and counts them');
my $log = slurp_file($node->logfile);
is(scalar(() = $log =~ /LOG:  sweep of queue "s" found claimable tasks that were in no lane: \d+/g), 1, 'there is a line in the log');

sweep_every('0');
slip(ready(ids(600)));
worker_passes();
is(claimed(), 0, 'slipped by: nothing');
my $calls = 0;
my $got = 0;
ok(wait_for(
		sub {
			sql($node, "SELECT fairq.maintain('s')");
			$calls++;
			return ($got += claimed()) == 600;
		}, $slack), "fairq.maintain() finds them by hand ($calls calls)");
is(swept(), 630, 'and counts them');
sql($node, "SELECT fairq.enqueue_many('s', array_fill('1'::jsonb, ARRAY[5000]))");
sql($node, "SELECT count(*) FROM fairq.pop('s', 10000)");
my $before = entries_read();
sql($node, "SELECT fairq.maintain('s')");
cmp_ok(entries_read() - $before, '>=', 5000, 'a call looks at all that is new');

#
# In time: from the commit of the oldest transaction on
#
sweep_every('1s');
ok(asleep(1), 'a sweep that has looked at everything sleeps');
my $open = session($node);
$open->safe("BEGIN; SELECT fairq.enqueue('s', '1'); SAVEPOINT s");
my $ids = $open->safe("SELECT fairq.enqueue_many('s', array_fill('0'::jsonb, ARRAY[30]))");
$ids =~ s/\s//g;
$open->safe('ROLLBACK TO s');
slip(ready($ids));
$open->safe('COMMIT');
# Nothing but the ids that were taken wakes the worker.
my $begin = time();
ok(wait_for(sub { swept() >= 660 }, $slack), 'slipped by while sweeps go on: found in time');
note(sprintf('it took %.2f s', time() - $begin));
is(swept(), 660, 'the 30, and not the task of the transaction itself');
ok(claims(31), 'and all of them are claimed');

#
# While a transaction that writes stays open, here a prepared one
#
sql($node, "BEGIN; SELECT fairq.enqueue('s', '1'); PREPARE TRANSACTION 'p'");
sweep_every('0');
slip(ready(ids(30)));
sweep_every('1s');
ok(claims(30), 'found while a transaction is prepared');
sweep_every('0');
slip(ready(ids(30)));
sweep_every('1s');
ok(claims(30), 'again');
sql($node, "COMMIT PREPARED 'p'");
ok(claims(1), 'its own task comes');
is(swept(), 720, 'and was not lost');

#
# Scheduled
#
sql($node, "SELECT fairq.enqueue('s', '1', run_at => now() + interval '1 day') FROM generate_series(1, 10)");
sweep_every('0');
worker_passes();
slip("SELECT jsonb_build_object('id', id, 'state', 's', 'run_at', now() - interval '1 s') FROM unnest('" . ids(30) . "'::bigint[]) id");
worker_passes() for (1 .. 3);
is(claimed(), 0, 'scheduled tasks slipped by');
sweep_every('1s');
ok(claims(30), 'they are found, and become ready');
is(swept(), 750, 'and are counted');

#
# Tasks that are parked, as their group has all it may have
#
asleep(1);
$before = entries_read();    # before the tasks are there: a sweep may be quicker than we
sql($node, "SELECT fairq.set_group('s', 'few', max_leased => 1); SELECT count(fairq.enqueue('s', '1', group_key => 'few')) FROM generate_series(1, 20)");
my $receipt = sql($node, "SELECT receipt FROM fairq.claim('s', 20)");
is(claimed(), 0, 'no more of the group may be had');
ok(asleep($before + 20), 'a sweep has looked at them');
is(swept(), 750, 'they are not lost');
sql($node, "SELECT fairq.ack('$receipt')");
ok(claims(19), 'and come one after the other');

#
# An id that is none of the sequence's: the hand comes round to it
#
sweep_every('100ms');
slip(ready('{-5,-4}'));
$got = 0;
ok(wait_for(
		sub {
			sql($node, "SELECT count(*) FROM fairq.enqueue('s', '1')");
			$got += sql($node, "SELECT count(*) FILTER (WHERE group_key = 'slipped') FROM fairq.pop('s', 1000)");
			return $got == 2;
		}, 300), 'ids of long ago are found as long as there is something going on');
# One that we enqueue may be met between its commit and its offer: an offer too many does no harm.
my $so_far = swept();
cmp_ok($so_far, '>=', 752, 'and are counted');
cmp_ok($so_far, '<=', 760, 'with hardly any others');

#
# A snapshot is held: what is read does not grow
#
sweep_every('200ms');
my $reader = session($node);
$reader->safe('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM fairq.q_s');
my @read;
foreach my $round (1 .. 6)
{
	my $before = entries_read();

	sql($node, "SELECT count(fairq.enqueue_many('s', array_fill('1'::jsonb, ARRAY[1000]))) FROM generate_series(1, 3)");
	# Once while they are ready, in windows and beyond, and once when they are not.
	asleep($before + 3000) if $round == 3;
	sql($node, "SELECT count(*) FROM fairq.pop('s', 10000)");
	asleep($before + 3000);
	push @read, entries_read() - $before;
}
$reader->safe('COMMIT');
cmp_ok($read[0], '>=', 3000, "a sweep looks at what is new (@read)");
cmp_ok($read[5], '<', 9000, 'and not at 18,000 finished rows');
is(swept(), $so_far, 'nothing is taken for lost');

#
# Under load: nothing is taken for lost
#
sql($node, 'VACUUM fairq.q_s');
sweep_every('100ms');
run_pgbench($node, { load => <<'SQL' }, '--client=4', '--time=5')->ran_well('load');
SELECT fairq.enqueue('s', '1', group_key => :client_id::text, run_at => CASE WHEN random() < 0.1 THEN now() + interval '50 ms' END);
SELECT fairq.enqueue_many('s', array_fill('1'::jsonb, ARRAY[10]));
SELECT count(fairq.ack(receipt)) FROM fairq.claim('s', 7);
SELECT count(fairq.nack(receipt, delay => '0')) FROM fairq.claim('s', 2);
SELECT count(fairq.release(receipt)) FROM fairq.claim('s', 2);
BEGIN;
SELECT count(*) FROM fairq.pop('s', 3);
ROLLBACK;
SELECT count(*) FROM fairq.pop('s', 6);
SQL
is(swept(), $so_far, 'nothing is taken for lost under load');
$log = slurp_file($node->logfile);
is(scalar(() = $log =~ /LOG:  sweep of queue/g), 1, 'there is still one line in the log');

#
# A claimer that is kept from running has tasks in its hands that look as if they
# were lost: those it has taken and not leased yet, or given up and not handed back
#
sql($node, "SELECT fairq.purge('s')");
sql($node, 'VACUUM fairq.q_s');
sql($node, "SELECT fairq.enqueue_many('s', array_fill('\"held\"'::jsonb, ARRAY[400]))");
my $claimer = start_pgbench($node, { stopped => "SELECT count(fairq.release(receipt)) FROM fairq.claim('s', 400);\n" }, '--time=600');

# With nothing new the sweep would not look at them.
my $other = start_pgbench($node, { other => "SELECT fairq.cancel('s', fairq.enqueue('s', '1'));\n" }, '--rate=20', '--time=600');
my $pid;
wait_for(sub { $pid = sql($node, "SELECT pid FROM pg_stat_activity WHERE query ~ 'claim.*400' AND pid <> pg_backend_pid()") });
my $swept = swept();
foreach my $turn (1 .. 14)
{
	kill 'STOP', $pid;
	# Longer than a missing task waits for; the sweep does not wait for this process.
	usleep(700_000);
	my $stopped = switches($pid);
	kill 'CONT', $pid;
	# On a busy machine that takes a while; who never gets on for ten seconds has lost them.
	wait_for(sub { switches($pid) != $stopped }, $slack);
	usleep(rand 20_000);
}
is(swept(), $swept, 'what somebody has in his hands is not lost, however long he is stopped');
$other->kill_kill;
is(sql($node, "SELECT pg_terminate_backend($pid, 60000)"), 't', 'he is terminated');
$claimer->finish;
is(sql($node, "SELECT count(*) FROM fairq.pop('s', 1000) WHERE payload = '\"held\"'"), 400, 'and it is all there afterwards');

$node->stop;
done_testing();
