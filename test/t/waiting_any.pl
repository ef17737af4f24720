# Waiting for any of several queues: claim_any(wait), fairq.wait_any.
#
# Shown: a task of any of its queues wakes a waiter; each task wakes one, and none is
# left lying while a waiter of its queue sleeps, whatever queues the others wait for; a
# waiter is in no queue's way, and is told at once when it is to stop.
#
# To see it fail:
# - join only the first queue (a task of the second wakes nobody);
# - let give_up not tell another (rounds are stuck);
# - look at all queues, not only where one was told, and it shows nowhere: a task that
#   another was told of is taken, and that one sleeps again; "others" counts these;
# - let doubtful() not ask who is awake (the word goes to who is held up);
# - let waiters_begin leave "told" as it was when a seat joins again (it spins).

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use FairqNode;
use JSON::PP;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);

my $seconds = $ENV{FAIRQ_WAITING_SECONDS} // 4;

my $node = fairq_node('several', conf => <<'CONF');
max_connections = 150
# its alarm wakes who has connected so long ago, though it is off by then
authentication_timeout = 10min
CONF
my %sessions;

sub in_session
{
	my ($name) = @_;

	return $sessions{$name} //= session($node);
}

# Begin a statement in a session, and get what became of it.
sub begin
{
	my ($name, $sql) = @_;
	my $psql = in_session($name)->{psql};

	$psql->{stderr} = '';
	$psql->{stdin} .= "$sql;\n";
	$psql->{run}->pump_nb;
	return;
}

sub result
{
	my ($name) = @_;
	my $psql = in_session($name)->{psql};

	$psql->set_query_timer_restart;
	my $out = $psql->query('');
	my $error = $psql->{stderr};
	$psql->{stderr} = '';
	return $1 if $error =~ /((?:ERROR|FATAL):.*)/;
	$out =~ s/^\s+|\s+$//g;
	return $out;
}

sub run
{
	my ($name, $sql) = @_;
	my $out = in_session($name)->query($sql);

	return $1 if in_session($name)->error =~ /((?:ERROR|FATAL):.*)/;
	return $out;
}

# Are so many asleep, waiting for tasks, or for a lock?
sub asleep
{
	my ($number, $event) = @_;

	$event //= 'Extension';
	return wait_for(
		sub {
			sql($node, "SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND wait_event_type = '$event' AND query ~ 'wait'") eq $number;
		});
}

sub scenario
{
	my ($name, $test) = @_;

	sql($node, <<'SQL');
SELECT count(fairq.drop_queue(queue)) FROM fairq.queues;
SELECT count(fairq.create_queue(n, buckets => 1, backoff_base => '0')) FROM unnest('{q,r,s}'::text[]) n;
SQL
	subtest $name => $test;
	return;
}

my $wait = "wait => '100 s'";

# A claim from these queues, and a task for one.
sub claim { return "SELECT queue FROM fairq.claim_any('{$_[0]}', 1, $wait)" }
sub enqueue { return "SELECT count(fairq.enqueue('$_[0]', '1'))" }

scenario 'nothing comes' => sub {
	my $begin = time();

	is(run('w', "SELECT count(*) FROM fairq.claim_any('{q,r}', wait => '300 ms')"), 0, 'a claim ends');
	cmp_ok(time() - $begin, '>=', 0.3, 'after its time');
	is(run('w', "CALL fairq.wait_any('{q,r}', '10 ms')"), '', 'so does fairq.wait_any');
};

scenario 'a task of each' => sub {
	foreach my $queue ('q', 'r', 's')
	{
		begin('w', claim('s,q,r'));
		ok(asleep(1), 'a claim waits');
		run('p', enqueue($queue));
		is(result('w'), $queue, "for a task of $queue");
		begin('w', "CALL fairq.wait_any('{s,q,r}', '100 s')");
		ok(asleep(1), 'a call waits');
		run('p', enqueue($queue));
		is(result('w'), '', "for a task of $queue");
		run('p', "SELECT fairq.pop('$queue')");
	}
	begin('w', "SELECT string_agg(queue, '') FROM fairq.claim_any('{s,q,r}', 9, $wait)");
	asleep(1);
	run('p', "SELECT count(fairq.enqueue(n, '1')) FROM unnest('{q,r,r,s}'::text[]) n");
	is(result('w'), 'sqrr', 'who has room takes all there is, in the order of the queues');
};

# One is told of both, has room for one task, and passes the other word on.
scenario 'passed on' => sub {
	foreach my $other ([ "CALL fairq.wait('r', '100 s')", '' ], [ "CALL fairq.wait_any('{r,s}', '100 s')", '' ], [ claim('s,r'), 'r' ])
	{
		begin('w', claim('q,r'));
		asleep(1);
		begin('v', $other->[0]);
		ok(asleep(2), 'two wait');
		run('p', "SELECT count(fairq.enqueue(n, '1')) FROM unnest('{q,r}'::text[]) n");
		is(result('w'), 'q', 'the one has the task of the first queue');
		is(result('v'), $other->[1], 'the other is told of that of the second');
		run('p', "SELECT fairq.pop('r')");
	}
};

scenario 'in no way' => sub {
	my $pid = in_session('w')->pid;

	begin('w', "CALL fairq.wait_any('{q,r}', '100 s')");
	ok(asleep(1), 'a call waits');
	is( sql($node, "SELECT backend_xid IS NULL, backend_xmin IS NULL FROM pg_stat_activity WHERE pid = $pid"),
		't|t', 'without transaction id and snapshot');
	is(sql($node, "SELECT count(*) FROM pg_locks WHERE pid = $pid AND locktype <> 'virtualxid'"), 0, 'and without locks');
	run('p', enqueue('r'));
	result('w');
	run('p', "SELECT fairq.pop('r')");
	begin('w', claim('q,r'));
	ok(asleep(1), 'a claim waits');
	is(sql($node, "SELECT count(*) FROM pg_locks WHERE pid = $pid AND locktype = 'relation' AND relation::regclass::text ~ 'q_[qr]'"), 0, 'without locks on the tables');
	is(run('p', 'ALTER TABLE fairq.q_r SET (fillfactor = 90); SELECT 1'), 1, 'one of which can be altered');
	ok(asleep(1), 'the claim waits on');
	run('p', "SELECT fairq.alter_queue('q', lease => '1 h')");
	ok(asleep(1), 'also when settings change');
	run('p', enqueue('q'));
	is(result('w'), 'q', 'for a task');
	is( sql($node, "SELECT lease_until > now() + interval '50 min' FROM fairq.leases"), 't', 'by the settings that are in force then');
};

scenario 'paused' => sub {
	run('p', "SELECT fairq.pause('r')");
	run('p', enqueue('r'));
	begin('w', claim('q,r'));
	ok(asleep(1), 'a claim waits, though a paused queue has a task');
	run('p', "SELECT fairq.resume('r')");
	is(result('w'), 'r', 'until it is resumed');
};

scenario 'dropped, revoked' => sub {
	begin('w', claim('q,r'));
	begin('v', "CALL fairq.wait_any('{r,q}', '100 s')");
	ok(asleep(2), 'two wait');
	run('p', "BEGIN; SELECT fairq.drop_queue('r')");
	run('p', enqueue('q'));
	run('p', 'COMMIT');
	like(result('w'), qr/queue "r" does not exist/, 'a queue is dropped and a task comes of another: the claim fails');
	like(result('v'), qr/queue "r" does not exist/, 'so does the call');
	is(sql($node, 'SELECT count(*) FROM fairq.leases'), 0, 'and nothing is leased');
	is(run('w', claim('q')), 'q', 'the task is there');

	sql($node, <<'SQL');
SELECT fairq.create_queue('r');
CREATE ROLE worker;
GRANT SELECT, UPDATE ON fairq.q_q, fairq.q_r TO worker;
SQL
	run('w', 'SET ROLE worker');
	begin('w', claim('q,r'));
	ok(asleep(1), 'one waits');
	sql($node, 'REVOKE UPDATE ON fairq.q_q FROM worker');
	run('p', enqueue('r'));
	like(result('w'), qr/permission denied for queue "q"/, 'it has lost a privilege when a task of another queue comes');
	run('w', 'RESET ROLE');
	is(run('w', claim('s,r')), 'r', 'the task is there');
};

# The first of two is held up by a lock on a table when it has been told.
foreach my $how ('cancelled', 'terminated', 'let go')
{
	scenario "told, and $how" => sub {
		my $pid = in_session('w')->pid;

		begin('w', claim('q,r'));
		asleep(1);
		begin('v', claim('r,q'));
		ok(asleep(2), 'two wait');
		run('p', 'BEGIN');
		run('p', enqueue('q'));
		begin('l', 'BEGIN; LOCK TABLE fairq.q_q IN EXCLUSIVE MODE; SELECT 1');
		ok(wait_for(sub { sql($node, "SELECT count(*) FROM pg_locks WHERE NOT granted") eq '1' }), 'a lock is waited for');
		run('p', 'COMMIT');
		ok(asleep(1, 'Lock'), 'the first is told, and has to wait for the lock');
		if ($how eq 'let go')
		{
			run('p', enqueue('r'));
			ok(asleep(2, 'Lock'), 'so the second is told of a task of the other queue');
			result('l');
			run('l', 'ROLLBACK');
			is(join('', sort(result('w'), result('v'))), 'qr', 'each has one');
			return;
		}
		sql($node, $how eq 'terminated' ? "SELECT pg_terminate_backend($pid)" : "SELECT pg_cancel_backend($pid)");
		if ($how eq 'terminated')
		{
			wait_for(sub { sql($node, "SELECT count(*) FROM pg_stat_activity WHERE pid = $pid") eq '0' });
			eval { $sessions{w}->quit };
			delete $sessions{w};
		}
		else
		{
			like(result('w'), qr/canceling/, 'it is cancelled');
		}
		ok(asleep(1, 'Lock'), 'now the second has been told');
		result('l');
		run('l', 'ROLLBACK');
		is(result('v'), 'q', 'and has the task');
		ok(asleep(0), 'nobody waits');
		run('p', enqueue('r'));
		is(run('v', claim('q,r')), 'r', 'nor is in a list');
	};
}

scenario 'cancelled in its sleep' => sub {
	my $pid = in_session('w')->pid;

	foreach my $statement (claim('q,r,s'), "CALL fairq.wait_any('{q,r,s}', '100 s')")
	{
		begin('w', $statement);
		ok(asleep(1), 'one waits');
		sql($node, "SELECT pg_cancel_backend($pid)");
		like(result('w'), qr/canceling/, 'and is cancelled');
		begin('v', claim('r'));
		asleep(1);
		run('p', enqueue('r'));
		is(result('v'), 'r', 'a task is for another');
	}
};

#
# Many
#
my ($python, @program) = python_program('several_queues.py');

sub facts
{
	my ($what, @arguments) = @_;
	my ($out, $err);

	sql($node, 'SELECT count(fairq.drop_queue(queue)) FROM fairq.queues');
	IPC::Run::run([ $python, @program, $what, $node->connstr('postgres'), @arguments ], '>', \$out, '2>', \$err, IPC::Run::timeout(300))
	  or die "several_queues.py failed: $err";
	return decode_json($out);
}

my $wakes = facts('wakes', 90);
foreach my $name ('one', 'each', 'many')
{
	my $of = $wakes->{$name};

	is($of->{got}, $of->{tasks}, "$name: all tasks are taken");
	is($of->{served}, $of->{tasks}, "$name: by one waiter each");
	is($of->{others}, 0, "$name: nobody else is woken");
}
is($wakes->{left}, 0, 'nothing is left');

my $rounds = facts('rounds', $seconds);
is_deeply([ $rounds->{stuck}, @{ $rounds->{failed} } ], [undef],
	"nothing is left lying ($rounds->{rounds} rounds, $rounds->{tasks} tasks, the longest took $rounds->{longest} s)")
  or diag(explain($rounds));
cmp_ok($rounds->{rounds}, '>', 0, 'there was something to see');
nothing_swept($node);

#
# Without a worker
#
$sessions{$_}->quit foreach keys %sessions;
%sessions = ();
$node->append_conf('postgresql.conf', "pgfairq.max_workers = 0\n");
$node->restart;
scenario 'without a worker' => sub {
	run('p', "SELECT fairq.claim_any('{q,r}')");        # finds out that nothing is due
	begin('w', claim('q,r'));
	ok(asleep(1), 'a claim waits');
	run('p', enqueue('r'));
	is(result('w'), 'r', 'for a task');
	run('p', "SELECT fairq.enqueue('r', '1', run_at => now() + interval '300 ms')");

	# It may end early, because its transaction has made something ready.
	my $out = '';
	foreach my $try (1 .. 20)
	{
		$out = run('w', claim('q,r'));
		last if $out ne '';
	}
	is($out, 'r', 'for one that becomes due');
	run('p', "SELECT fairq.enqueue('r', '1', run_at => now() + interval '300 ms')");
	is(run('w', "CALL fairq.wait_any('{q,r}', '100 s')"), '', 'so does a call');
	is(run('w', "SELECT queue FROM fairq.claim_any('{q,r}')"), 'r', 'and it is there');
};
$node->stop;

done_testing();
