# A launcher that ends when it has reserved a slot and registered a worker for a
# database, and the worker has not started: the next launcher does as if nothing had
# been, and what was registered starts as well, with a reservation of before.
#
# There is one worker then, in a slot of its own, and as many databases can have one as
# there are slots.  A launcher that is killed is no such case: the server crashes, and
# nothing is reserved.
#
# Which of the two starts first is settled by their places in the postmaster's table: the
# later place first.  So the second is to have an earlier one than the first, but the same
# slot of ours.  Another database's worker has a place before, which it leaves, and a slot
# behind; for that a third one has had the slot, whose place a parallel query has now.
#
# Seen to fail: without the reservation in worker_slots_begin() (the launcher takes the
# slot of the one that runs for free, and starts another).

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use FairqNode;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time usleep);

my $rounds = 3;
my $dir = PostgreSQL::Test::Utils::tempdir();

system_or_bail($ENV{CC} // 'cc', '-shared', '-fPIC', '-O', '-o', "$dir/launcher_dies.so", "$FindBin::RealBin/lib/launcher_dies.c");
my $node = fairq_node('dies', conf => "pgfairq.max_workers = 3\npgfairq.max_leases = 1000\npgfairq.max_groups = 1000\n");
$node->stop;
{
	local $ENV{LD_PRELOAD} = "$dir/launcher_dies.so";
	local $ENV{FAIRQ_LAUNCHER_DIES} = "$dir/now";
	$node->start;
}

sub pids
{
	my ($type) = @_;

	return column($node, "SELECT pid FROM pg_stat_activity WHERE backend_type = 'pgfairq $type' ORDER BY datname");
}

# Which processes work for the databases; none is there that does not stay.
sub workers
{
	return join ' ', column($node, "SELECT datname FROM pg_stat_activity WHERE backend_type = 'pgfairq worker' ORDER BY 1");
}

sub maintained
{
	my ($db) = @_;
	my $task = sql($node, "SELECT fairq.enqueue('q', '1', run_at => clock_timestamp() + interval '1 ms')", $db);

	return wait_for(sub { sql($node, "SELECT (fairq.get_task('q', $task)).state", $db) eq 'ready' });
}

sql($node, "SELECT fairq.create_queue('q')");
my $session = session($node);
my $parallel = session($node);
my $is_parallel = q{SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'parallel worker'};
my ($leader) = $parallel->safe('SELECT pg_backend_pid()');

sql($node, 'CREATE DATABASE other');
foreach my $db ('before', 'third')
{
	sql($node, "CREATE DATABASE $db");
	sql($node, 'CREATE EXTENSION pgfairq', $db);
	sql($node, "ALTER DATABASE $db ALLOW_CONNECTIONS false");
}
sql($node, 'CREATE TABLE t AS SELECT generate_series(1, 1000)');
$parallel->safe("SET $_") foreach 'max_parallel_workers_per_gather = 1', 'parallel_setup_cost = 0',
  'parallel_tuple_cost = 0', 'min_parallel_table_scan_size = 0', 'statement_timeout = 0';
ok(wait_for(sub { workers() eq 'postgres' }), 'a worker');
foreach my $round (1 .. $rounds)
{
	my ($launcher) = pids('launcher');

	foreach my $db ('third', 'before')
	{
		$session->safe("ALTER DATABASE $db ALLOW_CONNECTIONS true");
		ok(wait_for(sub { workers() =~ $db }), "round $round: a worker for database $db");
	}
	$session->safe('ALTER DATABASE third ALLOW_CONNECTIONS false');
	ok(wait_for(sub { workers() eq 'before postgres' }), "round $round: the third has left");
	$parallel->{psql}->{stdin} .= "SELECT count(pg_sleep(1000)) FROM t;\n";
	$parallel->{psql}->{run}->pump_nb;
	ok(wait_for(sub { $session->safe($is_parallel) eq '1' }), "round $round: somebody else is in the table");

	# It is to start a worker, in a slot that nobody has had, or the one before.
	append_to_file("$dir/now", '');
	sql($node, "CREATE EXTENSION pgfairq; SELECT fairq.create_queue('q')", 'other');
	ok(wait_for(sub { !-e "$dir/now" }), "round $round: the launcher has registered a worker, and ends");
	$session->safe('ALTER DATABASE before ALLOW_CONNECTIONS false');
	$session->safe(q{SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'pgfairq worker' AND datname = 'before'});
	ok( wait_for(sub { my ($now) = pids('launcher'); defined $now && $now != $launcher }),
		"round $round: there is another one");
	ok(maintained('other'), "round $round: the database has a worker");
	ok(maintained('postgres'), "round $round: the other one has its own");

	# Nothing of before is about: what was started for nothing has ended.
	ok(wait_for(sub { workers() eq 'other postgres' }), "round $round: one each") or diag(workers());

	# A second one would come when the launcher looks again, a second later, and stay.
	my $more = '';
	for (my $until = time + 3; time < $until && $more eq '';)
	{
		my $now = workers();
		$more = $now if $now =~ /other other|postgres postgres/;
		usleep(100_000);
	}
	is($more, '', "round $round: and no more");
	sql($node, 'DROP EXTENSION pgfairq CASCADE', 'other');
	$session->safe("SELECT pg_cancel_backend($leader)");
	$parallel->{psql}->query('');
	$parallel->{psql}->{stderr} = '';
	ok(wait_for(sub { workers() eq 'postgres' }), "round $round: and its slot is free again") or diag(workers());
}

$node->stop;
unlike(slurp_file($node->logfile), qr/could not start a pgfairq worker|was terminated by signal|PANIC|TRAP/,
	'nobody went without');
done_testing();
