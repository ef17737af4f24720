# What counts as a loss when processes end, and what a task that kills its workers does
# to the others.
#
# The client of a worker is killed, or quits: its connection is gone, and its tasks were
# lost.  The server ends the worker's backend (pg_terminate_backend, a fast restart): they
# are given back as they were.  Of an immediate shutdown nothing is left to count.
#
# Seen to fail: backend_end.c, ordered never set (terminated, fast restart); sessions.c,
# close_bound() that excuses all (the client is killed, quits); lease_restore.c, a restored
# lease that is not excused (fast restart); leases.c, an extension that does not tell that
# the session was seen (fast restart: those are lost).

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use FairqNode;
use IPC::Run;
use JSON::PP;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = fairq_node('lost', conf => "statement_timeout = 0\n");

sql($node, "SELECT fairq.create_queue('q', buckets => 1, lease => '1 h', backoff_base => '0', max_attempts => 1, max_lost => 1)");

# A task of a queue, in a few words.
sub task
{
	my ($queue) = @_;

	return sql($node, "SELECT string_agg(concat_ws(' ', state, attempts, lost, last_error), ', ' ORDER BY id) FROM fairq.tasks('$queue')");
}

# A worker with a bound session that has a task.
sub worker
{
	my $session = session($node);

	sql($node, "SELECT fairq.purge('q')");
	sql($node, "SELECT fairq.enqueue('q', '1')");
	my ($pid, $id) = split /\|/, $session->safe("SELECT pg_backend_pid(), id FROM fairq.claim('q', session => fairq.open_session('w', '1 h', true))");
	return ($session, $pid);
}

sub ended
{
	my ($name) = @_;

	ok(wait_for(sub { sql($node, "SELECT count(*) FROM fairq.leases WHERE queue = 'q'") eq '0' }, 30), "$name: the lease ends");
	return;
}

# Lost: the client is gone.
foreach my $way ('killed', 'quits')
{
	my ($session, $pid) = worker();

	kill 'KILL', $session->{psql}{run}{KIDS}[0]{PID} if $way eq 'killed';
	$way eq 'killed' ? eval { $session->{psql}{run}->finish } : $session->quit;
	ended("the client is $way");
	like(task('q'), qr/^dead 0 1 lost 1 time, the last time by session "w", process $pid after [\d.]+ s: session over$/,
		"the client is $way: the task was lost");
}
is(sql($node, "SELECT expired, released FROM fairq.queue_stats WHERE queue = 'q'"), '2|0', 'and counts as that');

# Excused: the server has ended it.
sql($node, "SELECT fairq.reset_stats('q')");
{
	my ($session, $pid) = worker();

	sql($node, "SELECT pg_terminate_backend($pid)");
	ended('terminated');
	is(task('q'), 'ready 0 0', 'terminated: the task is as it was');
	is(sql($node, "SELECT attempt FROM fairq.peek('q')"), '1', 'terminated: it comes as the first attempt');
	is(sql($node, "SELECT expired, released FROM fairq.queue_stats WHERE queue = 'q'"), '0|1', 'terminated: it counts as released');
	eval { $session->quit };
}

# A restart: what a bound session has, what the session of a worker has that does not
# come back, and a lease that runs out before anybody says a word of it.
{
	my ($bound) = worker();

	sql($node, "SELECT fairq.enqueue('q', '2'), fairq.enqueue('q', '3'), fairq.enqueue('q', '4'), fairq.enqueue('q', '5')");
	sql($node, "SELECT id FROM fairq.claim('q', session => fairq.open_session('s', '15 s'))");
	sql($node, "SELECT id FROM fairq.claim('q', lease => '15 s')");
	my $extended = sql($node, "SELECT receipt FROM fairq.claim('q')");
	my $seen = sql($node, "SELECT receipt FROM fairq.open_session('seen', '1 h') s, fairq.claim('q', session => s)");
	is(task('q'), 'leased 0 0, leased 0 0, leased 0 0, leased 0 0, leased 0 0', 'fast restart: five are leased');
	$node->restart('fast');
	ok(wait_for(sub { task('q') eq 'ready 0 0, ready 0 0, ready 0 0, leased 0 0, leased 0 0' }, 90), 'fast restart: nothing is lost, and each is as it was')
	  or diag(task('q'));
	is(sql($node, "SELECT string_agg(attempt::text, ' ') FROM fairq.peek('q', 10)"), '1 1 1', 'fast restart: they come as the first attempt');
	# One that its worker has extended since is the worker's.
	is(sql($node, "SELECT fairq.extend('$extended', '10 ms') IS NOT NULL, fairq.extend('$seen', '10 ms') IS NOT NULL"), 't|t', 'fast restart: leases are extended');
	my $lost = qr/dead 0 1 lost 1 time, the last time by (a worker of before the restart|session "seen") after [\d.]+ s: lease expired/;
	ok(wait_for(sub { task('q') =~ /^ready 0 0, ready 0 0, ready 0 0, $lost, $lost$/ }, 30), 'fast restart: those are lost')
	  or diag(task('q'));
	eval { $bound->quit };
}
{
	my ($bound) = worker();

	$node->stop('immediate');
	$node->start;
	is(task('q'), 'ready 0 0', 'immediate shutdown: the task is as it was');
	is(sql($node, "SELECT attempt, fairq.ack(receipt) FROM fairq.claim('q')"), '1|t', 'immediate shutdown: it comes as the first attempt');
	eval { $bound->quit };
}

sub workers
{
	my ($queue, $workers, $batch, $seconds) = @_;
	my $output = '';
	my $good = IPC::Run::run([ python_program('lossy_workers.py'), $node->connstr('postgres'), $queue, $workers, $batch, $seconds ],
		'>', \$output, '2>', \my $error);

	ok($good, "$queue: the workers have come to an end") or diag($error);
	note($output);
	return $good ? decode_json($output) : {};
}

# One of 51 tenants has a task that kills its worker.  The others have one each, and
# none of theirs dies: of what a worker had beside the poison each is lost twice at most, and
# from then on it travels alone.
foreach my $workers (1, 3)
{
	my $queue = "poison$workers";

	sql($node, "SELECT fairq.create_queue('$queue', lease => '1 h', backoff_base => '10 ms')");
	sql($node, "SELECT fairq.enqueue('$queue', to_jsonb(CASE WHEN n = 25 THEN 'poison' ELSE 'work' END), 'tenant ' || n) FROM generate_series(0, 50) n");
	my $report = workers($queue, $workers, 20, 100);
	is(sql($node, "SELECT string_agg(payload #>> '{}' || ' ' || attempts || ' ' || lost, ', ') FROM fairq.tasks('$queue')"), 'poison 0 5',
		"$queue: nothing is left but the poison, which is dead");
	is($report->{done}, 50, "$queue: the 50 others are done, each once");
	is($report->{killed}, 5, "$queue: it has killed five workers");
	is($report->{together}, 0, "$queue: what was lost twice was never beside another");
}

# A thousand that were lost twice, beside two thousand that were not.
{
	sql($node, "SELECT fairq.create_queue('many', lease => '1 h', max_ready_per_group => 100000)");
	sql($node, "SELECT cardinality(fairq.enqueue_many('many', array_agg('\"work\"'::jsonb), array_agg('tenant ' || n % 50), run_ats => ARRAY[now() + '1 h'])) FROM generate_series(1, 1000) n");
	sql($node, 'UPDATE fairq.q_many SET lost = 2');
	sql($node, 'UPDATE fairq.q_many SET run_at = now()');
	sql($node, "SELECT cardinality(fairq.enqueue_many('many', array_agg('\"work\"'::jsonb), array_agg('tenant ' || n % 50))) FROM generate_series(1, 2000) n");
	my $report = workers('many', 4, 10, 240);
	is(sql($node, "SELECT count(*) FROM fairq.tasks('many')"), '0', 'a thousand suspects: all are served');
	is($report->{done}, 3000, 'a thousand suspects: nothing is lost');
	is($report->{together}, 0, 'a thousand suspects: each was alone');
	is($report->{killed}, 0, 'a thousand suspects: no worker dies');
	note("a thousand suspects: the others were done after $report->{normal} s, all after $report->{seconds} s");
}

nothing_swept($node, 'at the end');
$node->stop;
done_testing();
