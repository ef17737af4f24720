# Schedules and time: what is caught up with, and what a clock that is set does.
#
# The server's wall clock is set by the test, so a server that was away for an hour, or for
# a month, takes no time.  Shown: catch_up none, one and all; no tick twice when the clock is
# set back; overlap; a queue that is locked, gone, full, or takes no such task; an owner
# who may not any more, or is gone; a paused queue; without a worker, by hand; a worker
# that sleeps when there is no schedule.
#
# Seen to fail: without LATE_USECS in choose_tick() 'none' runs what is half an hour late;
# when last_task_is_there() takes a dead task for one that waits none comes after it; without
# run_as_owner() in do_tick() a tick needs no privilege; when do_tick() waits for the lock of
# the queue's table the tick fails instead of staying due; and when the commit of a
# schedule does not wake the worker it does not run.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use FairqClock;
use FairqNode;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);

my $clock = 0;

sub clock_is
{
	($clock) = @_;
	set_clock($clock);
	return;
}

my $node = fairq_node('cron_clock', conf => "pgfairq.max_leases = 10000\npgfairq.max_groups = 1000\nstatement_timeout = 0\nlog_min_messages = warning\n");
$node->stop;
start_with_clock($node);

sub q1 { return sql($node, $_[0]) }

# Until a condition holds.
sub comes
{
	my ($condition, $name) = @_;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	ok(wait_for(sub { q1("SELECT $condition") eq 't' }), $name)
	  or diag($condition, "\n", q1('SELECT clock_timestamp(), * FROM fairq.schedules'));
	return;
}

# As comes: the field of a schedule.
sub shows
{
	my ($schedule, $condition, $name) = @_;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	comes("($condition) FROM fairq.schedules WHERE name = '$schedule'", $name);
	return;
}

# Until what is due now is run; there is a schedule with a tick each second.
sub all_ran
{
	my $now = q1('SELECT clock_timestamp()');

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	shows('beat', "last_run > '$now' AND next_run > '$now'", 'the worker has looked');
	comes("NOT EXISTS (SELECT FROM fairq.schedules WHERE next_run <= '$now')", 'and nothing is due');
	return;
}

# Until the other schedule has run again.
sub others_go_on
{
	my $now = q1('SELECT clock_timestamp()');

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	shows('beat', "last_run > '$now'", 'others go on');
	return;
}

sub count_of { return q1("SELECT count(*) FROM fairq.tasks('q') WHERE headers->>'schedule' = '$_[0]'") }

# An hour that is not near its end: then ticks are where they are thought to be.
q1("SELECT fairq.create_queue('q'), fairq.create_queue('beat', keep_done => NULL)");
clock_is(3600 - q1('SELECT extract(epoch FROM clock_timestamp())::bigint % 3600'));
q1("SELECT fairq.schedule('beat', 'beat', '* * * * * *', overlap => true)");

#
# What was missed
#
foreach my $catch_up ('none', 'one', 'all')
{
	q1("SELECT fairq.schedule('minutes $catch_up', 'q', '* * * * *', catch_up => '$catch_up', overlap => true)");
	q1("SELECT fairq.schedule('half $catch_up', 'q', '30 * * * *', catch_up => '$catch_up', overlap => true)");
	q1("SELECT fairq.schedule('seconds $catch_up', 'q', '* * * * * *', catch_up => '$catch_up', overlap => true)");
	q1("SELECT fairq.schedule('every $catch_up', 'q', '\@every 1 min', catch_up => '$catch_up', overlap => true)");
}
all_ran();
my $down = q1('SELECT clock_timestamp()');
$node->stop;
clock_is($clock + 3600);
start_with_clock($node);
my $up = q1('SELECT pg_postmaster_start_time()');

# Ticks that were missed in that hour, and run. Some of the first seconds may have run before
# the server had stopped.
sub missed
{
	return q1("SELECT count(*) FROM fairq.q_q WHERE headers->>'schedule' = '$_[0]' AND enqueued_at >= '$up' AND (headers->>'tick')::timestamptz BETWEEN '$down' AND '$up'");
}
all_ran();
is(missed('half none'), 0, 'none: not one that was half an hour ago');
cmp_ok(missed('minutes none'), '<=', 1, 'none: of an hour of minutes the last at most');
is(missed('half one'), 1, 'one: of half an hour ago');
is( q1("SELECT headers->>'tick' LIKE '%:30:00Z' FROM fairq.tasks('q') WHERE headers->>'schedule' = 'half one'"), 't', 'one: of its tick');
cmp_ok(missed('minutes one'), '<=', 1, 'one: of an hour of minutes the last');
cmp_ok(missed('seconds one'), '<=', 1, 'one: of an hour of seconds the last');
is(missed('half all'), 1, 'all: one of the half hour');
cmp_ok(missed('minutes all'), '>=', 59, 'all: an hour of minutes');
cmp_ok(missed('every all'), '>=', 59, 'all: as many of @every');
# The last 1000 before the start, what was before and what is after.
is( q1("SELECT count(*) FROM fairq.tasks('q') WHERE headers->>'schedule' = 'seconds all' AND (headers->>'tick')::timestamptz BETWEEN timestamptz '$up' - interval '30 min' AND timestamptz '$up' - interval '17 min'"),
	0, 'all: at most 1000: none that is longer ago');
cmp_ok(q1("SELECT count(*) FROM fairq.tasks('q') WHERE headers->>'schedule' = 'seconds all' AND (headers->>'tick')::timestamptz BETWEEN timestamptz '$up' - interval '16 min' AND timestamptz '$up'"),
	'>=', 900, 'all: those that are not');
my $twice = "SELECT count(*) FROM (SELECT FROM fairq.tasks('q') WHERE headers IS NOT NULL GROUP BY headers->>'schedule', headers->>'tick' HAVING count(*) > 1) x";
is(q1($twice), 0, 'no tick twice');

#
# The clock is set while the server runs
#
my %before = map { $_ => count_of($_) } 'minutes one', 'minutes all', 'every all', 'half one';
clock_is($clock + 3600);
all_ran();
is(count_of('half one'), $before{'half one'} + 1, 'forward: one of the half hour');
cmp_ok(count_of('minutes all'), '>=', $before{'minutes all'} + 59, 'forward: all the minutes');
cmp_ok(count_of('minutes one'), '<=', $before{'minutes one'} + 5, 'forward: one of the minutes');
my $back = q1("SELECT max(headers->>'tick') FROM fairq.tasks('q')");
clock_is($clock - 7200);
comes("clock_timestamp() < '$back'", 'the clock is back');
# Nothing to wait for: what must not come is given some looks of the worker.
q1("SELECT fairq.enqueue('q', '1', run_at => clock_timestamp() + n * interval '2 s') FROM generate_series(1, 3) n");
comes("count(*) >= 3 FROM fairq.tasks('q', 'ready') WHERE headers IS NULL", 'back: the worker works');
cmp_ok(q1("SELECT count(*) FROM fairq.tasks('q') WHERE headers IS NOT NULL AND enqueued_at < '$back' AND (headers->>'tick')::timestamptz > enqueued_at + interval '1 min'"), '==', 0, 'back: no tick of the future');
is(q1($twice), 0, 'back: no tick twice');
# Who wants one to go on replaces it.
is(q1("SELECT fairq.schedule('beat', 'beat', '* * * * * *', overlap => true) < clock_timestamp() + interval '2 s'"), 't', 'back: one that is made again goes on at once');
others_go_on();

q1("SELECT fairq.unschedule(name) FROM fairq.schedules WHERE name <> 'beat'; SELECT fairq.purge('q')");

#
# Not while the last one waits or runs
#
q1("SELECT fairq.schedule('alone', 'q', '* * * * * *', '{\"n\": 1}', group_key => 'g', priority => 3, cost => 2, headers => '{\"mine\": 1, \"tick\": 0}')");
shows('alone', 'skipped >= 2', 'overlap: not while it waits');
is(count_of('alone'), 1, 'overlap: one');
is( q1("SELECT payload, group_key, priority, cost, headers->>'mine', headers->>'schedule', headers->>'tick' ~ '^\\d{4}-\\d\\d-\\d\\dT\\d\\d:\\d\\d:\\d\\dZ\$' FROM fairq.tasks('q')"),
	'{"n": 1}|g|3|2|1|alone|t', 'with what it was given');
my $receipt = q1("SELECT receipt FROM fairq.claim('q', lease => '10 min')");
my $skipped = q1("SELECT skipped FROM fairq.schedules WHERE name = 'alone'");
shows('alone', "skipped >= $skipped + 2", 'overlap: not while it runs');
is(q1("SELECT fairq.nack('$receipt', 'x', '10 min')"), 't', 'a retry');
$skipped = q1("SELECT skipped FROM fairq.schedules WHERE name = 'alone'");
shows('alone', "skipped >= $skipped + 2", 'overlap: not while it waits for a retry');
is(count_of('alone'), 1, 'overlap: still one');
q1("SELECT fairq.cancel('q', id) FROM fairq.tasks('q')");
comes("count(*) = 1 FROM fairq.tasks('q')", 'overlap: when it was cancelled another comes');
q1("SELECT fairq.alter_queue('q', max_attempts => 1); SELECT fairq.nack(receipt, 'x', '0') FROM fairq.claim('q')");
comes("count(*) = 1 FROM fairq.tasks('q', 'ready')", 'overlap: when it is dead another comes');
q1("SELECT fairq.ack(receipt) FROM fairq.claim('q')");
comes("count(*) = 1 FROM fairq.tasks('q', 'ready')", 'overlap: when it is done another comes');
# Another queue of this name, whose tasks have the same ids
q1("SELECT fairq.drop_queue('q'); SELECT fairq.create_queue('q'); SELECT count(fairq.enqueue('q', '0')) FROM generate_series(1, 100)");
comes("count(*) = 1 FROM fairq.tasks('q') WHERE headers->>'schedule' = 'alone'", 'overlap: the tasks of another queue are not its own');
q1("SELECT fairq.unschedule('alone'); SELECT fairq.purge('q')");

#
# What goes wrong is said, and others go on
#
sub fails
{
	my ($schedule, $like, $name) = @_;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	shows($schedule, "failures >= 2 AND last_error ~ '$like' AND last_error_at IS NOT NULL", "$name: it says so");
	others_go_on();
	return;
}

sub recovers
{
	my ($schedule, $name) = @_;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	shows($schedule, 'failures = 0', "$name: and goes on when that is mended");
	return;
}
q1(<<'SQL');
CREATE ROLE owner;
CREATE ROLE gone;
SELECT fairq.create_queue('bad');
GRANT INSERT ON fairq.q_bad TO owner, gone;
SET ROLE owner;
SELECT fairq.schedule('bad', 'bad', '* * * * * *', overlap => true, priority => 5);
SET ROLE gone;
SELECT fairq.schedule('role', 'bad', '* * * * * *', overlap => true);
SQL
shows('bad', 'last_run IS NOT NULL', 'all is well at first');
my $log = -s $node->logfile;
q1('REVOKE INSERT ON fairq.q_bad FROM owner');
fails('bad', '42501: permission denied.*bad', 'no privilege any more');
ok($node->wait_for_log(qr/WARNING: .*could not run schedule "bad" in queue "bad"\n.*DETAIL: .*42501/, $log), 'in the log as well');
q1('GRANT INSERT ON fairq.q_bad TO owner');
recovers('bad', 'a privilege');
q1("SELECT fairq.purge('bad'); SELECT fairq.alter_queue('bad', max_depth => 1)");
fails('bad', '53400: .*bad', 'a full queue');
q1("SELECT fairq.alter_queue('bad', max_depth => 0)");
recovers('bad', 'a full queue');
q1("SELECT fairq.drop_queue('bad')");
fails('bad', '42704: queue "bad" does not exist', 'no queue');
q1("SELECT fairq.create_queue('bad', policy => 'fair'); GRANT INSERT ON fairq.q_bad TO owner, gone");
recovers('bad', 'no queue');
q1("UPDATE fairq.schedule SET priority = 11 WHERE name = 'bad'");
fails('bad', '22023: .*priority.*"11"', 'a task that is not taken');
q1("UPDATE fairq.schedule SET priority = 1 WHERE name = 'bad'");
recovers('bad', 'a task that is not taken');
q1("UPDATE fairq.schedule SET timezone = 'Mars/Base' WHERE name = 'bad'");
shows('bad', "failures >= 1 AND last_error ~ 'Mars' AND next_run > clock_timestamp()", 'no such zone any more: it says so');
q1("UPDATE fairq.schedule SET timezone = 'UTC', next_run = clock_timestamp() WHERE name = 'bad'");
recovers('bad', 'no such zone');
q1('ALTER TABLE fairq.q_bad DISABLE TRIGGER ALL');
shows('bad', "failures >= 1 AND last_error ~ '42P16'", 'a table that cannot be used: it says so');
q1('ALTER TABLE fairq.q_bad ENABLE ALWAYS TRIGGER fairq_row_written');
recovers('bad', 'a table that cannot be used');
q1('REVOKE ALL ON fairq.q_bad FROM gone; DROP ROLE gone');
fails('role', 'role "gone" does not exist', 'no role');
# One of its name is not it.
q1('CREATE ROLE gone; GRANT INSERT ON fairq.q_bad TO gone');
my $failures = q1("SELECT failures FROM fairq.schedules WHERE name = 'role'");
shows('role', "failures >= $failures + 2", 'a role that was made later in its name is another');
is(q1("SELECT fairq.unschedule('role')"), 't', 'a superuser removes it');
is( q1("SELECT count(*) FROM (SELECT regexp_split_to_table(pg_read_file('" . $node->logfile . "'), '\n') l) x WHERE l LIKE '%WARNING:%could not run schedule \"role\"%'") <= 12 ? 'few' : 'many',
	'few', 'the log has few lines of many failures');

# A queue that somebody has locked waits, and comes later; the others do not wait.
my $locker = session($node);
$locker->safe('BEGIN; LOCK TABLE fairq.q_bad IN ACCESS EXCLUSIVE MODE');
my $now = q1('SELECT clock_timestamp()');
shows('bad', "next_run < clock_timestamp() - interval '3 s'", 'locked: it waits');
others_go_on();
$locker->safe('COMMIT');
shows('bad', "last_run > '$now' AND failures = 0", 'locked: it comes');
# A schedule that somebody replaces, and does not commit
$locker->safe("BEGIN; SELECT fairq.schedule('bad', 'bad', '* * * * * *', overlap => true)");
shows('bad', "next_run < clock_timestamp() - interval '3 s'", 'being replaced: it waits');
others_go_on();
$locker->safe('ROLLBACK');
shows('bad', "next_run > clock_timestamp() - interval '1 s'", 'being replaced: it comes');
$locker->quit;

# A paused queue gets tasks all the same.
q1("SELECT fairq.pause('bad'), fairq.purge('bad')");
comes("count(*) >= 2 FROM fairq.tasks('bad')", 'a paused queue gets tasks');
q1("SELECT fairq.unschedule('bad')");

# Two-phase commit
refused($node, "BEGIN; SELECT fairq.schedule('x', 'q', '* * * * *'); PREPARE TRANSACTION 'x'", '0A000', qr/made or changed a schedule/, undef, 'not in a prepared transaction');

#
# A worker with nothing to do sleeps, and wakes for the first schedule
#
q1("SELECT fairq.unschedule(name) FROM fairq.schedules");
q1("SELECT fairq.purge(queue) FROM fairq.queues");
q1('SELECT pg_stat_force_next_flush()');
sub transactions { return q1("SELECT sum(n_tup_ins + seq_scan) FROM pg_stat_all_tables WHERE relname = 'schedule'") }
ok(wait_for(sub { q1("SELECT wait_event_type FROM pg_stat_activity WHERE backend_type = 'pgfairq worker'") eq 'Extension' }), 'the worker sleeps');
my $scans = transactions();
sleep 6;
cmp_ok(transactions(), '<=', $scans + 2, 'without schedules it does not look each second');

# It would look by itself within a minute, perhaps soon.
my $late = 0;
foreach (1 .. 4)
{
	my $begin = time();

	q1("SELECT fairq.schedule('beat', 'beat', '* * * * * *', overlap => true)");
	shows('beat', 'last_run IS NOT NULL', 'it wakes for the first');
	$late = time() - $begin if time() - $begin > $late;
	q1("SELECT fairq.unschedule('beat')");
}
cmp_ok($late, '<', 15, 'and at once');

# Ticks come in time; on a machine that is busy with other things not all of them.
q1("SELECT fairq.purge('beat'), fairq.schedule('beat', 'beat', '* * * * * *', overlap => true)");
comes("count(*) >= 12 FROM fairq.tasks('beat')", 'ticks');
cmp_ok(q1("SELECT percentile_cont(0.25) WITHIN GROUP (ORDER BY extract(epoch FROM enqueued_at - (headers->>'tick')::timestamptz)) FROM fairq.tasks('beat')"),
	'<', 0.5, 'a quarter of the ticks is in time');

#
# Without a worker
#
q1("SELECT fairq.schedule('hand', 'q', '* * * * * *', overlap => true, catch_up => 'all')");
shows('hand', 'last_run IS NOT NULL', 'one more');
$node->append_conf('postgresql.conf', 'pgfairq.max_workers = 0');
$node->stop;
start_with_clock($node);
clock_is($clock + 600);
q1("SELECT fairq.purge('q')");
is(q1("SELECT count(*) FROM fairq.tasks('q')"), 0, 'without a worker nothing comes by itself');
q1("SELECT fairq.maintain('beat')");
is(q1("SELECT count(*) FROM fairq.tasks('q')"), 0, 'nor when another queue is maintained');
q1("SELECT fairq.maintain('q')");
cmp_ok(q1("SELECT count(*) FROM fairq.tasks('q')"), '>=', 600, 'maintain runs what is due of its queue');
is(q1($twice), 0, 'no tick twice');
is(q1("SELECT next_run > clock_timestamp() - interval '1 min' FROM fairq.schedules WHERE name = 'hand'"), 't', 'up to now');
my $tasks = q1("SELECT count(*) FROM fairq.tasks('q')");
q1("BEGIN; SELECT pg_sleep(1.1); SELECT fairq.maintain('q'); ROLLBACK");
is(q1("SELECT count(*) FROM fairq.tasks('q')"), $tasks, 'a rollback leaves no trace');

# Several at the same time
my @hands = map { session($node) } 1 .. 3;
$_->send("DO \$\$ BEGIN FOR i IN 1 .. 20000 LOOP EXIT WHEN (SELECT count(*) FROM fairq.tasks('q')) >= $tasks + 4; PERFORM fairq.maintain('q'); PERFORM pg_sleep(0.005); COMMIT; END LOOP; END \$\$") foreach @hands;
comes("count(*) >= $tasks + 4 FROM fairq.tasks('q')", 'several run what is due');
$_->safe('SELECT 1') foreach @hands;
$_->quit foreach @hands;
is(q1($twice), 0, 'several: no tick twice');

$node->stop;
done_testing();
