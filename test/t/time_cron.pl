# Schedules through crashes: exactly one task a tick.
#
# Schedules with a tick each second, in two databases, with each catch_up, while the postmaster, a
# backend, the worker and the launcher are killed at random moments; then a promotion;
# then a dump that is restored.  Each task says of which tick it is, so ticks and tasks
# are compared: none twice, and with catch_up 'all' none missing.  And the next time is
# compared with an oracle, at random (fuzz/cron.py).
#
# Seen to fail: when write_row() (schedule_table.c) writes the name that a role had before it was renamed
# the schedules that are restored are not as they were.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use FairqNode;
use IPC::Run;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time usleep);

# FAIRQ_SEED=n: the same faults again.
my $seed = $ENV{FAIRQ_SEED} || int(rand(1_000_000));
srand($seed);
note("FAIRQ_SEED=$seed");

my $node = fairq_node(
	'cron',
	init => { allows_streaming => 1 },
	conf => <<'CONF');
restart_after_crash = on
max_connections = 40
shared_buffers = 32MB
pgfairq.max_leases = 10000
pgfairq.max_groups = 10000
CONF
my @databases = ('postgres', 'second');
my @catch_ups = ('none', 'one', 'all');

# One row for each schedule: ticks that have more than one task, tasks, and how many of
# the seconds between the first and the last tick have none.
my $account = <<'SQL';
SELECT schedule, count(*) - count(DISTINCT tick), count(*) >= 5,
       extract(epoch FROM max(tick) - min(tick))::int + 1 - count(DISTINCT tick) AS missing
  FROM (SELECT headers->>'schedule' AS schedule, (headers->>'tick')::timestamptz AS tick FROM fairq.tasks('ticks')) t
 GROUP BY schedule ORDER BY schedule
SQL

sub check
{
	my ($server, $name, @of) = @_;

	foreach my $database (@of)
	{
		my %rows = map { $_->[0] => $_ } rows($server, $account, $database);

		foreach my $catch_up (@catch_ups)
		{
			my (undef, $twice, $many, $missing) = @{ $rows{$catch_up} // [ '', '', '', '' ] };

			is($twice, 0, "$name, $database, $catch_up: no tick twice");
			is($many, 't', "$name, $database, $catch_up: there are ticks");
			is($missing, 0, "$name, $database, all: none is missing") if $catch_up eq 'all';
		}
	}
	return;
}

# How many ticks of 'all' there are in a database.
sub ticks
{
	my ($server, $database) = @_;
	my ($ret, $out) = answer_of($server, "SELECT count(*) FROM fairq.tasks('ticks') WHERE headers->>'schedule' = 'all'", $database);

	return $ret == 0 && $out ne '' ? $out : 0;
}

# Until there are so many more, in all databases.
sub go_on
{
	my ($server, $more, $name) = @_;

	foreach my $database (@databases)
	{
		my $before;

		wait_for(sub { ($before = ticks($server, $database)) > 0 });
		ok(wait_for(sub { ticks($server, $database) >= $before + $more }), "$name: schedules of $database go on")
		  or diag(sql($server, 'SELECT name, next_run, last_run, failures, last_error, clock_timestamp() FROM fairq.schedules', $database));
	}
	return;
}

sql($node, 'CREATE DATABASE second');
sql($node, 'CREATE EXTENSION pgfairq', 'second');
foreach my $database (@databases)
{
	sql($node, "SELECT fairq.create_queue('ticks')", $database);
	sql($node, "SELECT fairq.schedule('$_', 'ticks', '* * * * * *', catch_up => '$_', overlap => true)", $database) foreach @catch_ups;
	# Enough of them that a crash meets a tick half way.
	sql($node, "SELECT count(fairq.schedule('more ' || n, 'ticks', '* * * * * *', overlap => true)) FROM generate_series(1, 50) n", $database);
}
go_on($node, 2, 'at first');

#
# Kills
#
sub process_of
{
	my ($type) = @_;
	my ($ret, $out) = answer_of($node, "SELECT pid FROM pg_stat_activity WHERE backend_type = '$type' ORDER BY random() LIMIT 1");

	return $ret == 0 ? $out : '';
}

sub kill_process
{
	my ($type, $signal) = @_;
	my $pid = process_of($type);

	kill $signal, $pid if $pid ne '';
	ok(wait_for_crash_restart($node), "$type: $signal") if $signal eq 'KILL';
	return;
}

my @faults = (
	sub { kill_process('pgfairq worker', 'KILL') },
	sub { kill_process('pgfairq worker', 'TERM') },
	sub { kill_process('pgfairq launcher', 'KILL') },
	sub { kill_process('pgfairq launcher', 'TERM') },
	sub { kill_process('checkpointer', 'KILL') },
	sub { $node->kill9; ok(start_after_kill($node), 'postmaster killed, and started') },
	sub { $node->stop('immediate'); $node->start; pass('immediate shutdown') },
	sub { $node->stop('fast'); $node->start; pass('fast shutdown') });

foreach (1 .. 12)
{
	# Somewhere about a tick: most of what is to be interrupted is at the full second.
	my $now = time();

	usleep(1_000_000 * (1 - ($now - int($now)) + rand(0.06))) if rand() < 0.7;
	$faults[ rand @faults ]->();
	usleep(rand(700_000));
}
go_on($node, 2, 'after the kills');
check($node, 'kills', @databases);

#
# Promotion
#
my $standby = PostgreSQL::Test::Cluster->new('cron_standby');

$node->backup('cron');
$standby->init_from_backup($node, 'cron', has_streaming => 1);
$standby->start;
$node->wait_for_catchup($standby, 'replay', $node->lsn('insert'));
is( sql($standby, 'SELECT count(*) FROM fairq.schedules'), 53, 'a standby shows the schedules');
refused($standby, "SELECT fairq.schedule('x', 'ticks', '* * * * *')", '25006', undef, undef, 'a standby makes none');
refused($standby, "SELECT fairq.unschedule('all')", '25006', undef, undef, 'a standby removes none');
$node->stop('immediate');
$standby->promote;
go_on($standby, 3, 'promoted');
check($standby, 'promoted', @databases);

#
# Dump and restore
#
sql($standby, <<'SQL');
CREATE ROLE absent;
CREATE ROLE renamed;
CREATE ROLE other;
GRANT INSERT ON fairq.q_ticks TO absent, renamed, other;
SET ROLE absent;
SELECT fairq.schedule('absent', 'ticks', '* * * * * *', '{"of": "absent"}', overlap => true);
SET ROLE renamed;
SELECT fairq.schedule('renamed', 'ticks', '* * * * * *', overlap => true, headers => '{"h": 1}', timezone => 'Europe/Berlin');
SET ROLE other;
SELECT fairq.schedule('stopped', 'ticks', '@every 90 s', active => false);
RESET ROLE;
ALTER ROLE renamed RENAME TO new_name;
SQL
ok(wait_for(sub { sql($standby, "SELECT count(*) FROM fairq.schedules WHERE name IN ('absent', 'renamed') AND last_run IS NOT NULL AND failures = 0") eq '2' }), 'as other roles, one renamed');
is(sql($standby, "SELECT owner FROM fairq.schedules WHERE name = 'renamed'"), 'new_name', 'the owner has a new name');

my $dump = PostgreSQL::Test::Utils::tempdir() . '/dump';
my $definitions = "SELECT name, queue, owner, cron, timezone, catch_up, overlap, active, group_key, priority, cost, payload, headers FROM fairq.schedules WHERE name <> 'absent' ORDER BY name";
$standby->command_ok([ 'pg_dump', '-Fc', '-f', $dump, $standby->connstr('postgres') ], 'dumped');
my $before = sql($standby, $definitions);

my $other = fairq_node('cron_restored', conf => "max_connections = 40\nshared_buffers = 32MB\nlog_min_messages = warning\n");
# Roles with other oids, and one is not there.
sql($other, 'CREATE ROLE first; CREATE ROLE other; CREATE ROLE new_name; CREATE DATABASE restored');
$other->command_ok([ 'pg_restore', '--no-privileges', '-d', $other->connstr('restored'), $dump ], 'restored');
is(sql($other, $definitions, 'restored'), $before, 'schedules are as they were');
sql($other, 'GRANT INSERT ON fairq.q_ticks TO new_name', 'restored');
@databases = ('restored');
go_on($other, 3, 'restored');
check($other, 'restored', 'restored');
ok( wait_for(sub { sql($other, "SELECT last_error FROM fairq.schedules WHERE name = 'absent'", 'restored') =~ /role "absent" does not exist/ }),
	'restored: a schedule whose role is not there says so');
is(sql($other, "SELECT owner FROM fairq.schedules WHERE name = 'absent'", 'restored'), 'absent', 'and whose it is');
ok( wait_for(sub { sql($other, "SELECT failures = 0 AND last_run > now() - interval '1 h' FROM fairq.schedules WHERE name = 'renamed'", 'restored') eq 't' }),
	'restored: another runs as the role of its name');
is( sql($other, "SELECT active, next_run FROM fairq.schedules WHERE name = 'stopped'", 'restored'), 'f|', 'restored: one that is not active is not');
# The role comes later.
sql($other, 'CREATE ROLE absent; GRANT INSERT ON fairq.q_ticks TO absent', 'restored');
ok( wait_for(sub { sql($other, "SELECT failures FROM fairq.schedules WHERE name = 'absent'", 'restored') eq '0' }),
	'restored: when the role is there it goes on')
  or diag(sql($other, "SELECT * FROM fairq.schedules WHERE name = 'absent'", 'restored'));

#
# The next time, at random
#
{
	my ($out, $err) = ('', '');
	my $good = IPC::Run::run([ python_program('../fuzz/cron.py'), $standby->connstr('postgres'), $seed, 100 ], '>', \$out, '2>', \$err);

	ok($good, 'the next time is what an oracle says') or diag("$out$err");
}

nothing_swept($standby);
$standby->stop;
$other->stop;
done_testing();
