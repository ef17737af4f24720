# The background worker: where there is one and where not, that it is never in
# the way, comes back when it was ended, and costs nothing while it sleeps.
#
# To see it fail, take one of these guards out of the engine:
# - the probe at the end of CREATE EXTENSION, DROP EXTENSION, CREATE and ALTER
#   DATABASE: workers that do not come or do not go;
# - that the launcher dismisses the worker of a database that is to have none:
#   one that does not go when its database becomes a template;
# - the hook that has the worker leave before DROP DATABASE and its like: they
#   fail, after five seconds, because somebody is connected;
# - that a worker ends when it is asked to, also in the middle of its work: the
#   same;
# - that the launcher looks after workers of an earlier launcher: a worker that
#   does not come back;
# - that maintenance is done as the owner of the queue's table: code of the owner
#   runs with the rights of a superuser;
# - the wake-up at commit of a scheduled task: tasks that do not become ready,
#   wherever it says that maintenance goes on;
# - that it is not woken for a lease that it could not put back itself: twenty
#   passes a second while a row is locked;
# - that failures are forgotten when it can list the queues again: the next one is
#   followed by minutes of rest;
# - that a queue is forgotten after everything else a transaction owes: an assertion
#   fails, in a build that has them, where a queue is maintained and dropped.
#
# Not seen to fail: without fenced in worker_slots_fenced(), so that a worker is started while CREATE
# or DROP DATABASE is under way.  Its hold has to meet the launcher between the stop of the
# old worker and the lock of the database, which is well under a millisecond.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use FairqNode;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);

# How long a worker may take to come or go; and to come back when it died, which
# it does not do at once, for the reason may still be there.  That is for a machine
# that is busy with other things: who has to leave for a DROP DATABASE has five
# seconds, of which the server sees to it itself, and then it fails.
my $soon = 30;
my $again = 30;

my $node = fairq_node(
	'worker',
	init => { allows_streaming => 1 },
	conf => <<'CONF');
restart_after_crash = on
max_connections = 30
max_worker_processes = 16
shared_buffers = 128MB
CONF

# Another one, with a worker too few: what becomes of it is looked at in the end.
my $few = fairq_node(
	'few',
	conf => <<'CONF');
max_connections = 10
shared_buffers = 16MB
pgfairq.max_workers = 1
CONF
sql($few, 'CREATE DATABASE app');
sql($few, 'CREATE EXTENSION pgfairq', 'app');
sql($few, "SELECT fairq.create_queue('q')", $_) foreach 'postgres', 'app';

# The databases that have a worker.
sub workers
{
	return sql($node,
		"SELECT string_agg(coalesce(datname, '?'), ' ' ORDER BY datname) FROM pg_stat_activity WHERE backend_type = 'pgfairq worker'"
	);
}

sub workers_are
{
	my ($expected, $name, $seconds) = @_;
	my $workers;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	ok(wait_for(sub { ($workers = workers()) eq $expected }, $seconds // $soon), $name)
	  or diag("workers: $workers; expected: $expected");
	return;
}

# The process id of a database's worker, 0 if there is none; of the launcher.
sub worker
{
	my ($db) = @_;

	return sql($node,
		"SELECT coalesce(max(pid), 0) FROM pg_stat_activity WHERE backend_type = 'pgfairq worker' AND datname = '$db'"
	);
}

sub launcher
{
	return sql($node,
		"SELECT coalesce(max(pid), 0) FROM pg_stat_activity WHERE backend_type = 'pgfairq launcher'"
	);
}

# Maintenance goes on: a task that is scheduled now is ready soon after.
my $scheduled = 0;

sub maintained
{
	my ($db, $name, $on) = @_;
	$on //= $node;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $id = sql($on, "SELECT fairq.enqueue('q', '1', run_at => clock_timestamp() + interval '100 ms')", $db);
	ok( wait_for(
			sub { sql($on, "SELECT state FROM fairq.get_task('q', $id)", $db) eq 'ready' },
			$soon),
		"$name: maintenance goes on")
	  or diag(sql($on, "SELECT now(), t FROM fairq.get_task('q', $id) t", $db));
	return;
}

# One statement works, at the first attempt: in the five seconds that the server
# waits for others to leave a database.
sub at_once
{
	my ($sql, $name) = @_;
	my $started = time;
	my ($state, $message) = error_of($node, $sql);
	my $seconds = time - $started;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	ok($state eq '' && $seconds < $soon, $name)
	  or diag("$seconds s, $state $message");
	return;
}

# The time of the CPU that a process has used, in ticks of a hundredth of a
# second.
sub cpu_ticks
{
	my ($pid) = @_;
	my $stat = PostgreSQL::Test::Utils::slurp_file("/proc/$pid/stat");

	$stat =~ s/^.*\) //s;
	my @fields = split / /, $stat;
	return $fields[11] + $fields[12];
}

# The part of the server's log that was written since.
sub log_since
{
	my ($offset) = @_;

	return PostgreSQL::Test::Utils::slurp_file($node->logfile, $offset);
}

#
# Where there is a worker
#
ok(wait_for(sub { launcher() > 0 }, $soon), 'there is a launcher');
workers_are('postgres', 'a worker in the database with the extension');
sql($node, 'CREATE DATABASE bare');
sql($node, 'CREATE DATABASE app');
sql($node, 'CREATE EXTENSION pgfairq', 'app');
workers_are('app postgres', 'CREATE EXTENSION brings a worker, where it is and nowhere else');
sql($node, 'DROP EXTENSION pgfairq', 'app');
workers_are('postgres', 'DROP EXTENSION ends it');
sql($node, 'BEGIN; CREATE EXTENSION pgfairq; ROLLBACK', 'app');
sql($node, 'BEGIN; DROP EXTENSION pgfairq; ROLLBACK');
sql($node, 'BEGIN; DROP EXTENSION pgfairq; CREATE EXTENSION pgfairq; COMMIT');
workers_are('postgres', 'what is rolled back changes nothing');

# Again and again, with queues, while the worker looks at them.
my $offset = -s $node->logfile;
my @errors;
for my $i (1 .. 15)
{
	my (undef, undef, undef, $errors) = error_of($node, <<'SQL', 'app');
CREATE EXTENSION IF NOT EXISTS pgfairq;
SELECT fairq.create_queue('a'), fairq.create_queue('b'), fairq.create_queue('c');
SELECT fairq.enqueue(q, '1', run_at => clock_timestamp() + interval '1 ms') FROM unnest('{a,b,c}'::text[]) q;
SELECT fairq.drop_queue('b');
DROP EXTENSION pgfairq CASCADE;
SQL
	push @errors, $errors =~ /(?:ERROR|FATAL):.*/g;
}
is("@errors", '', 'CREATE and DROP EXTENSION many times: never in the way');
sql($node, 'DROP EXTENSION IF EXISTS pgfairq CASCADE', 'app');
workers_are('postgres', 'CREATE and DROP EXTENSION many times: gone');
sql($node, 'CREATE EXTENSION pgfairq', 'app');
workers_are('app postgres', 'CREATE and DROP EXTENSION many times: there');
is(log_since($offset) =~ /^.*(ERROR|PANIC|WARNING):.*$/m ? $& : '',
	'', 'CREATE and DROP EXTENSION many times: no errors');
sql($node, "SELECT fairq.create_queue('q')", $_) foreach 'postgres', 'app';
maintained('app', 'CREATE EXTENSION');

# Templates are there to be copied.
sql($node, 'CREATE EXTENSION pgfairq', 'template1');
at_once('CREATE DATABASE child', 'template1 with the extension can be copied');
workers_are('app child postgres', 'a copy of it has a worker, the template has none');
at_once('DROP DATABASE child', 'and the copy be dropped');
sql($node, 'DROP EXTENSION pgfairq', 'template1');
sql($node, 'ALTER DATABASE app IS_TEMPLATE true');
workers_are('postgres', 'a database that becomes a template loses its worker');
at_once('CREATE DATABASE child TEMPLATE app', 'it can be copied');
workers_are('child postgres', 'the copy has a worker, the template has none still');
at_once('DROP DATABASE child', 'and the copy be dropped');
sql($node, 'BEGIN; ALTER DATABASE app IS_TEMPLATE false; ROLLBACK; ALTER DATABASE app IS_TEMPLATE false; ALTER DATABASE app IS_TEMPLATE true; ALTER DATABASE app IS_TEMPLATE false');
workers_are('app postgres', 'and has one again when it is one no more');
maintained('app', 'a template no more');
sql($node, 'ALTER DATABASE app ALLOW_CONNECTIONS false');
workers_are('postgres', 'a database that allows no connections loses its worker');
sql($node, 'ALTER DATABASE app ALLOW_CONNECTIONS true');
workers_are('app postgres', 'and has one again when it does');

#
# Never in the way
#
at_once('ALTER DATABASE app RENAME TO "App 2"', 'ALTER DATABASE … RENAME');
workers_are('App 2 postgres', 'RENAME: the worker is back');
maintained('App 2', 'RENAME');
sql($node, "SELECT fairq.enqueue('q', '\"late\"', run_at => clock_timestamp() + interval '1 s')", 'App 2');
at_once('CREATE DATABASE copy TEMPLATE "App 2"', 'CREATE DATABASE … TEMPLATE');
workers_are('App 2 copy postgres', 'TEMPLATE: both have workers');
foreach my $db ('App 2', 'copy')
{
	maintained($db, "TEMPLATE, $db");
	ok( wait_for(
			sub { sql($node, "SELECT state FROM fairq.tasks('q') WHERE payload = '\"late\"'", $db) eq 'ready' }
		),
		"TEMPLATE, $db: what was scheduled becomes ready in each");
}
my $tablespace = PostgreSQL::Test::Utils::tempdir();
sql($node, "CREATE TABLESPACE elsewhere LOCATION '$tablespace'");
at_once('ALTER DATABASE copy SET TABLESPACE elsewhere', 'ALTER DATABASE … SET TABLESPACE');
workers_are('App 2 copy postgres', 'SET TABLESPACE: the worker is back');
maintained('copy', 'SET TABLESPACE');

# In vain, because the name is taken, or because it is not permitted.
{
	my ($state) = error_of($node, 'ALTER DATABASE copy RENAME TO bare');
	is($state, '42P04', 'RENAME in vain: the name is taken');
	workers_are('App 2 copy postgres', 'RENAME in vain: the worker is back');
	maintained('copy', 'RENAME in vain');
}
sql($node, 'CREATE ROLE stranger LOGIN');
{
	my $before = worker('copy');
	foreach my $command ('DROP DATABASE copy', 'ALTER DATABASE copy RENAME TO mine',
		'CREATE DATABASE mine TEMPLATE copy')
	{
		my ($state) = error_of($node, "SET ROLE stranger; $command");
		is($state, '42501', "not permitted: $command");
	}
	is(worker('copy'), $before, 'not permitted: the worker does not care');
}

# In the middle of its work.
sql($node, <<'SQL', 'copy');
SELECT fairq.create_queue('busy', backoff_base => '0', max_ready_per_group => 20000);
SELECT cardinality(fairq.enqueue_many('busy', array_fill('{}'::jsonb, ARRAY[20000])));
SELECT count(*) FROM fairq.claim('busy', 20000, lease => '300 ms');
SQL
ok( wait_for(
		sub { sql($node, 'SELECT count(*) < 20000 FROM fairq.leases', 'copy') eq 't' }
	),
	'DROP DATABASE: the worker is at work');
at_once('DROP DATABASE copy', 'DROP DATABASE');
workers_are('App 2 postgres', 'DROP DATABASE: its worker is gone');
sql($node, 'DROP TABLESPACE elsewhere');
at_once('DROP DATABASE "App 2"', 'DROP DATABASE, the worker asleep');
workers_are('postgres', 'DROP DATABASE, the worker asleep: it is gone');
sql($node, 'CREATE DATABASE app');
sql($node, "CREATE EXTENSION pgfairq; SELECT fairq.create_queue('q')", 'app');
workers_are('app postgres', 'a database of an old name');

#
# As whom it works: code of a queue's owner is run as the owner.
#
sql($node, <<'SQL');
CREATE ROLE owner LOGIN;
GRANT CREATE ON SCHEMA fairq, public TO owner;
SET ROLE owner;
SELECT fairq.create_queue('owned');
CREATE FUNCTION public.check_it(jsonb) RETURNS boolean LANGUAGE plpgsql AS
$$BEGIN RAISE LOG 'checked as %', current_user; RETURN true; END$$;
CREATE FUNCTION public.index_it(jsonb) RETURNS text LANGUAGE plpgsql IMMUTABLE AS
$$BEGIN RAISE LOG 'indexed as %', current_user; RETURN $1::text; END$$;
ALTER TABLE fairq.q_owned ADD CHECK (public.check_it(payload));
CREATE INDEX ON fairq.q_owned (public.index_it(payload));
SQL
$offset = -s $node->logfile;
sql($node, <<'SQL');
SET ROLE owner;
SELECT fairq.enqueue('owned', '2');
SELECT count(*) FROM fairq.claim('owned', lease => '100 ms');
SELECT fairq.enqueue('owned', '1', run_at => clock_timestamp() + interval '100 ms');
SQL
ok( wait_for(
		sub { sql($node, "SELECT count(*) FROM fairq.tasks('owned') WHERE state = 'ready' AND payload = '1' OR lost = 1") eq '2' },
		$soon),
	'a queue of somebody else: maintained');
my @as = sort keys %{ { map { $_ => 1 } log_since($offset) =~ /((?:checked|indexed) as \w+)/g } };
is("@as", 'checked as owner indexed as owner',
	'a queue of somebody else: its code is run as its owner');

#
# Asleep.  It waits for a task that is due in an hour, and for a lease that runs
# as long; while the launcher is restarted, which is no business of the
# workers.
#
sql($node, <<'SQL');
SELECT fairq.enqueue('q', '1', run_at => now() + interval '1 hour');
SELECT count(*) FROM fairq.claim('q', 1, lease => '1 hour');
SQL
# Of what was before, nothing is due while it is watched.
ok(wait_for(sub { sql($node, "SELECT count(*) FROM fairq.tasks('owned', 'scheduled')") eq '0' }, $soon), 'nothing is due');
ok( wait_for(
		sub {
			sql($node,
				"SELECT bool_and(wait_event_type = 'Extension' AND backend_xmin IS NULL AND backend_xid IS NULL AND xact_start IS NULL) AND count(*) = 2 FROM pg_stat_activity WHERE backend_type = 'pgfairq worker'"
			) eq 't';
		},
		$soon),
	'asleep: it waits, and has no transaction and no snapshot');
my %before = map { $_ => worker($_) } 'postgres', 'app';
my $launcher = launcher();
my $watched = session($node);
SKIP:
{
	skip 'no /proc to read CPU times from', 3 unless -r "/proc/$launcher/stat";
	my $started = time;
	my @ticks = map { cpu_ticks($_) } $launcher, values %before;

	# Two seconds of nothing: this is what is measured.
	$watched->safe('SELECT pg_sleep(2)');
	foreach my $pid ($launcher, values %before)
	{
		cmp_ok(cpu_ticks($pid) - shift @ticks, '<', 2, 'asleep: it uses no CPU');
	}
}
# Unless it looks just now whether something is due.
ok( wait_for(
		sub {
			sql($node,
				"SELECT count(*) FROM pg_stat_activity WHERE backend_type ~ '^pgfairq' AND (backend_xmin IS NOT NULL OR xact_start IS NOT NULL)"
			) eq '0';
		},
		$soon),
	'asleep: no snapshot, also later');

# A lease has run out whose row is in somebody's hands: it is looked after, but once
# a second.  Each pass is a transaction for each queue, and one that lists them.
sub commits
{
	return sql($node, "SELECT xact_commit FROM pg_stat_database WHERE datname = 'app'");
}
{
	my $user = session($node, 'app');
	my ($queues) = reverse split /\n/, sql($node, <<'SQL', 'app');
SELECT fairq.create_queue('hands', backoff_base => '0');
SELECT fairq.enqueue('hands', '1');
SELECT count(*) FROM fairq.queues;
SQL

	$user->safe("CREATE TEMP TABLE mine AS SELECT receipt FROM fairq.claim('hands', lease => '1 hour'); BEGIN; SELECT FROM fairq.q_hands FOR UPDATE");
	sql($node, "SELECT fairq.extend(receipt, '10 ms') FROM fairq.leases WHERE queue = 'hands'", 'app');
	$watched->safe('SELECT pg_sleep(1)');
	# The three seconds are longer on a machine that is busy: as many as they are, and one.
	my $started = time;
	my $commits = commits();
	$watched->safe('SELECT pg_sleep(3)');
	$commits = commits() - $commits;
	my $seconds = time - $started;
	cmp_ok($commits, '<=', 2 * (1 + $queues) * (1 + $seconds), "a row in somebody's hands, of $queues queues: $commits transactions in $seconds seconds");
	cmp_ok($commits, '>=', 1 + $queues, 'and some');
	$user->safe('ROLLBACK');
	ok(wait_for(sub { sql($node, "SELECT lost FROM fairq.tasks('hands', 'ready')", 'app') eq '1' }, $soon), 'the row is free: its task is put back');
	sql($node, "SELECT fairq.drop_queue('hands')", 'app');
	$user->quit;
}

# It cannot list the queues, for somebody has spoilt the table of settings; again
# and again, for it is woken.  When it is mended that is forgotten: it does not
# rest for long after the next failure, in which nobody wakes it again.
sub failed
{
	my $sql = "SELECT xact_rollback FROM pg_stat_database WHERE datname = 'app'";
	my $before = sql($node, $sql);

	$node->reload;
	return wait_for(sub { sql($node, $sql) > $before }, $soon);
}
{
	my $spoil = 'ALTER TABLE fairq.queue RENAME queue TO spoilt';
	my $mend = 'ALTER TABLE fairq.queue RENAME spoilt TO queue';
	my $failures = 0;

	sql($node, $spoil, 'app');
	$failures += failed() foreach 1 .. 6;
	is($failures, 6, 'a table of settings is spoilt: it fails each time it is woken');
	sql($node, $mend, 'app');
	maintained('app', 'the table of settings is mended');
	my $id = sql($node, "SELECT fairq.enqueue('q', '1', run_at => clock_timestamp() + interval '3 s'); $spoil", 'app');
	ok(failed(), 'it is spoilt once more: it fails');
	sql($node, $mend, 'app');
	ok(wait_for(sub { sql($node, "SELECT state FROM fairq.get_task('q', $id)", 'app') eq 'ready' }, 3 + $soon), 'and rests but a second');
}

#
# It comes back
#

# A cancel is for queries; there is none.
$watched->safe("SELECT pg_cancel_backend($before{app})");
maintained('app', 'worker cancelled');
is(worker('app'), $before{app}, 'worker cancelled: it is still the same');

$watched->safe("SELECT pg_terminate_backend($launcher)");
ok(wait_for(sub { my $l = launcher(); $l > 0 && $l != $launcher }, $again), 'launcher ended: it is back');
is(worker($_), $before{$_}, "launcher ended: the worker of $_ went on") foreach sort keys %before;
maintained('app', 'launcher ended');

# The new launcher has not started this worker. Until it is back claims that
# find nothing do its work.
sub ended
{
	my ($db, $name) = @_;
	my $before = worker($db);

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	# It comes back after a second, and later each time. Perhaps before the claim, on
	# a machine that is busy; then once more.
	my $alone;
	for my $try (1 .. 3)
	{
		sql($node, "SELECT count(*) FROM fairq.pop('q', 1000)", $db);
		my $id = sql($node, "SELECT fairq.enqueue('q', '1', run_at => clock_timestamp() + interval '100 ms')", $db);
		sql($node, "SELECT pg_terminate_backend($before, 30000)");
		ok(wait_for(sub { sql($node, "SELECT id FROM fairq.claim('q')", $db) eq $id }, $soon), "$name: the task can be claimed");
		$alone = worker($db) == 0;
		ok(wait_for(sub { my $w = worker($db); $w > 0 && $w != $before }, $again), "$name: it is back");
		last if $alone;
		$before = worker($db);
	}
	ok($alone, "$name: a claim did its work meanwhile");
	maintained($db, $name);
	return;
}
ended('app', 'worker ended');
ended('app', 'worker ended after it had worked again');
$watched->quit;

# Signal 9 restarts the server.
foreach my $who ('worker', 'launcher')
{
	my $id = sql($node, "SELECT fairq.create_queue('$who', backoff_base => '1 hour'); SELECT fairq.enqueue('$who', '1')", 'app') =~ s/^\n//r;
	my $later = sql($node, "SELECT FROM fairq.claim('$who', lease => '1 hour'); SELECT fairq.enqueue('$who', '1', run_at => clock_timestamp() + interval '1 s')", 'app') =~ s/^\n//r;

	wait_for(sub { worker('app') > 0 && launcher() > 0 });
	my $pid = $who eq 'worker' ? worker('app') : launcher();
	die "there is no $who to kill" if $pid == 0;
	crash_of($node, $pid);
	ok(wait_for_crash_restart($node), "$who killed: the server is up again");
	workers_are('app postgres', "$who killed: the workers are back");
	ok(launcher() > 0, "$who killed: so is the launcher");
	is(sql($node, "SELECT id FROM fairq.claim('$who', lease => '200 ms')", 'app'), $id, "$who killed: the lease is forgotten");
	ok(wait_for(sub { sql($node, "SELECT lost FROM fairq.get_task('$who', $id)", 'app') == 1 }, $soon), "$who killed: a lease runs out");
	ok(wait_for(sub { sql($node, "SELECT state FROM fairq.get_task('$who', $later)", 'app') eq 'ready' }, $soon), "$who killed: what was scheduled becomes ready");
	maintained('app', "$who killed");
}

#
# Shutdown
#
sub stopped
{
	my ($name) = @_;
	my $started = time;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	$node->stop('fast');
	my $seconds = time - $started;
	cmp_ok($seconds, '<', $soon, "$name: it takes no time") or diag("$seconds s");
	return;
}
stopped('fast shutdown, workers asleep');
$node->start;
workers_are('app postgres', 'after a restart');

# The figures may say that it was too fast; then once more, with more.
my ($put_back, $n);
for my $try (1 .. 3)
{
	$n = (20000, 50000, 100000)[ $try - 1 ];
	sql($node, <<"SQL");
SELECT fairq.drop_queue('busy');
SELECT fairq.create_queue('busy', backoff_base => '1 hour', max_ready_per_group => 1000000);
SELECT cardinality(fairq.enqueue_many('busy', array_fill('{}'::jsonb, ARRAY[$n])));
SELECT count(*) FROM fairq.claim('busy', $n, lease => '300 ms');
SQL
	wait_for(sub { sql($node, "SELECT count(*) < $n FROM fairq.leases WHERE queue = 'busy'") eq 't' });
	stopped("fast shutdown, a worker at work ($try)");
	$node->start;
	$put_back = sql($node, 'SELECT count(*) FROM fairq.q_busy WHERE lost = 1');
	last if $put_back > 0 && $put_back < $n;
}
ok($put_back > 0 && $put_back < $n, "fast shutdown, a worker at work: $put_back of $n leases were put back");
ok(wait_for(sub { sql($node, "SELECT count(*) FROM fairq.leases WHERE queue = 'busy'") == 0 }, $soon),
	'fast shutdown, a worker at work: the others are put back afterwards, as they were');

# What the worker writes need not wait for a standby: nobody is told of it.
workers_are('app postgres', 'after the next restart');
$node->append_conf('postgresql.conf', "synchronous_standby_names = 'nobody'\n");
$node->reload;
ok(wait_for(sub { sql($node, 'SHOW synchronous_standby_names') eq 'nobody' }), 'synchronous replication without a standby');
{
	local $ENV{PGOPTIONS} = '-c synchronous_commit=local';
	maintained('app', 'synchronous replication without a standby');
}
stopped('fast shutdown, synchronous replication without a standby');
$node->append_conf('postgresql.conf', "synchronous_standby_names = ''\n");

#
# Not enough workers.  With one, and many databases that need none.
#
$node->append_conf('postgresql.conf', "pgfairq.max_workers = 1\n");
$node->start;
sql($node, 'DROP EXTENSION pgfairq CASCADE');
sql($node, "CREATE DATABASE bare$_") foreach 1 .. 3;
$node->stop;
$offset = -s $node->logfile;
$node->start;
workers_are('app', 'one worker: it is where it is needed');
is(log_since($offset) =~ /WARNING:.*/ ? $& : '', '', 'one worker: nobody needs another');
sql($node, "DROP DATABASE bare$_") foreach '', 1 .. 3;

# The one that was too few from the start on.
my $served = sql($few, "SELECT datname FROM pg_stat_activity WHERE backend_type = 'pgfairq worker'");
my $other = $served eq 'app' ? 'postgres' : 'app';
is(join(' ', sort $served, $other), 'app postgres', "one worker, needed twice: it is in $served");
$few->wait_for_log(qr/WARNING:  could not start a pgfairq worker/);
like(PostgreSQL::Test::Utils::slurp_file($few->logfile),
	qr/HINT:.*pgfairq\.max_workers/, 'one worker, needed twice: a warning that names the setting');
maintained($served, 'one worker, needed twice', $few);
{
	my $id = sql($few, "SELECT fairq.enqueue('q', '1', run_at => clock_timestamp() + interval '100 ms')", $other);
	ok( wait_for(sub { sql($few, "SELECT id FROM fairq.claim('q')", $other) eq $id }, $soon),
		'one worker, needed twice: claims do the work of the other');
}
is(() = PostgreSQL::Test::Utils::slurp_file($few->logfile) =~ /WARNING:/g,
	1, 'one worker, needed twice: the warning was logged once');
sql($few, 'DROP EXTENSION pgfairq CASCADE', $served);
ok( wait_for(
		sub { sql($few, "SELECT datname FROM pg_stat_activity WHERE backend_type = 'pgfairq worker'") eq $other },
		$soon),
	'one worker, needed twice: it goes to where it is needed now');
maintained($other, 'one worker, needed in another database', $few);
$few->stop;

#
# No workers
#
sql($node, 'CREATE EXTENSION pgfairq');
$node->append_conf('postgresql.conf', "pgfairq.max_workers = 0\n");
$node->restart;
sql($node, <<'SQL');
SELECT fairq.create_queue('none', backoff_base => '0');
SELECT fairq.enqueue('none', '"expires"');
SELECT count(*) FROM fairq.claim('none', lease => '100 ms');
SELECT fairq.enqueue('none', '"due"', run_at => clock_timestamp() + interval '100 ms');
SELECT fairq.enqueue('none', '"not due"', run_at => clock_timestamp() + interval '1 hour');
SQL
my $moved = 0;
ok(wait_for(sub { ($moved += sql($node, "SELECT fairq.maintain('none')")) == 2 }, $soon), 'no workers: maintain() does it');
is(sql($node, "SELECT string_agg(payload #>> '{}' || ' ' || lost, ', ' ORDER BY id) FROM fairq.tasks('none', 'ready')"),
	'expires 1, due 0', 'no workers: maintain() did what was due');
is(sql($node, "SELECT fairq.maintain('none')"), 0, 'no workers: maintain() finds nothing more');
# Lost twice one would come alone.
sql($node, 'UPDATE fairq.q_none SET lost = NULL');
is(sql($node, "SELECT count(*) FROM fairq.claim('none', 2, lease => '100 ms')"), 2, 'no workers: they can be claimed');
ok( wait_for(sub { sql($node, "SELECT string_agg(payload #>> '{}' || ' ' || attempt, ', ' ORDER BY id) FROM fairq.claim('none', 2, lease => '1 hour')") eq 'expires 2, due 2' }, $soon),
	'no workers: a claim that finds nothing does it too');

# 2,500 at the same time: as often as it takes.
sql($node, "SELECT cardinality(fairq.enqueue_many('none', array_fill('{}'::jsonb, ARRAY[2500]), run_ats => ARRAY[clock_timestamp() + interval '500 ms']))");
$moved = 0;
ok(wait_for(sub { ($moved += sql($node, "SELECT fairq.maintain('none')")) == 2500 }, $soon), 'no workers: maintain() of many')
  or diag("moved: $moved");

# Maintained, and dropped, in one transaction.
sql($node, <<'SQL');
SELECT fairq.create_queue('fed', max_ready_per_group => 2, max_depth => 100);
SELECT cardinality(fairq.enqueue_many('fed', array_fill('1'::jsonb, ARRAY[10])));
SELECT count(*) FROM fairq.pop('fed', 2);
SQL
like(sql($node, "BEGIN; SELECT fairq.maintain('fed') AS moved; SELECT fairq.enqueue('fed', '2') > 0; SELECT fairq.drop_queue('fed'); COMMIT"),
	qr/^0\nt/, 'no workers: maintain() of a queue that is dropped after that');
like(sql($node, "SELECT fairq.create_queue('fed'); SELECT fairq.enqueue('fed', '3') > 0; SELECT payload FROM fairq.pop('fed', 9); SELECT fairq.drop_queue('fed')"),
	qr/^t\n3$/m, 'no workers: and of another one of its name');

# By whom it is called makes no difference.
sql($node, <<'SQL');
GRANT CREATE ON SCHEMA fairq TO owner;
SET ROLE owner;
SELECT fairq.create_queue('owned');
ALTER TABLE fairq.q_owned ADD CHECK (public.check_it(payload));
SELECT fairq.enqueue('owned', '1', run_at => clock_timestamp() + interval '100 ms');
SQL
$offset = -s $node->logfile;
ok(wait_for(sub { sql($node, "SELECT fairq.maintain('owned')") == 1 }, $soon), 'maintain() of a queue of somebody else');
is(log_since($offset) =~ /checked as \w+/ ? $& : '', 'checked as owner', 'maintain() of a queue of somebody else: its code is run as its owner');
is(launcher() . workers(), '0', 'no workers: nor a launcher');

#
# A standby, which becomes a primary.
#
$node->append_conf('postgresql.conf', "pgfairq.max_workers = 8\n");
$node->restart;
workers_are('app postgres', 'workers again');
$node->backup('backup');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($node, 'backup', has_streaming => 1);
$standby->start;
sql($node, <<'SQL');
SELECT fairq.create_queue('s', backoff_base => '1 hour');
SELECT fairq.enqueue('s', '"leased"');
SELECT count(*) FROM fairq.claim('s', lease => '1 hour');
SELECT fairq.enqueue('s', '"due"', run_at => clock_timestamp() + interval '1 s');
SELECT fairq.enqueue('s', '"not due"', run_at => clock_timestamp() + interval '1 hour');
SQL
# What became ready there is ready here.
ok(wait_for(sub { sql($node, "SELECT count(*) FROM fairq.tasks('s', 'ready')") == 1 }, $soon), 'standby: the primary has a worker');
$node->wait_for_catchup($standby, 'replay', $node->lsn('insert'));
is(sql($standby, "SELECT count(*) FROM pg_stat_activity WHERE backend_type ~ '^pgfairq'"), 0, 'standby: no launcher and no worker');
is( sql($standby, "SELECT string_agg(payload #>> '{}', ', ' ORDER BY id) FROM fairq.tasks('s', 'ready')"),
	'leased, due',
	'standby: tasks');
# This is due when the primary is gone.
sql($node, "SELECT fairq.enqueue('s', '\"due later\"', run_at => clock_timestamp() + interval '3 s')");
$node->wait_for_catchup($standby, 'replay', $node->lsn('insert'));
$node->stop('immediate');
$standby->promote;
ok( wait_for(
		sub { sql($standby, "SELECT string_agg(datname, ' ' ORDER BY datname) FROM pg_stat_activity WHERE backend_type = 'pgfairq worker'") eq 'app postgres' },
		$soon),
	'promoted: it has workers');
ok( wait_for(
		sub { sql($standby, "SELECT string_agg(payload #>> '{}', ', ' ORDER BY id) FROM fairq.tasks('s', 'ready')") eq 'leased, due, due later' },
		$soon),
	'promoted: what was scheduled becomes ready');
maintained('app', 'promoted', $standby);
$standby->stop;

foreach my $n ($node, $few, $standby)
{
	is( PostgreSQL::Test::Utils::slurp_file($n->logfile) =~ /(PANIC|TRAP|was terminated by signal (?!9:)).*/ ? $& : '',
		'', 'no server process broke down: ' . $n->name);
}

done_testing();
