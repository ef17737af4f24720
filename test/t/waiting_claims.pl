# Waiting for tasks: claim(wait), pop(wait), ack_and_claim(wait), fairq.wait.
#
# Shown: whoever makes a task claimable wakes one who waits for it, and no more;
# nobody sleeps while there is a task that he would take (I8 for those who wait);
# idle waiters take no processor time and are in nobody's way; a wait ends at once
# when it is told to.
#
# To see it fail:
# - let waiters_offered do nothing (nobody is woken), or tell all (500 are);
# - join those who wait after the second look, not before it (ping-pong);
# - let waiters_end do nothing (who is cancelled keeps the word to himself);
# - let waiters_looked do nothing (of two that want some groups only one is told;
#   rounds, too);
# - do not look at the settings' count when a queue is opened (resume);
# - let the worker not look after fairq.wait (the second one is not told);
# - do not end the transaction before fairq.wait sleeps (its snapshot);
# - keep the lock while a claim sleeps (ALTER TABLE hangs);
# - let a worker that ends not tell those who wait (they sleep on).

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use FairqNode;
use FairqPgbench;
use JSON::PP;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);

my $seconds = $ENV{FAIRQ_WAITING_SECONDS} // 4;
my $volleys = $ENV{FAIRQ_WAITING_VOLLEYS} // 3000;

my $node = fairq_node('waiting', conf => <<'CONF');
max_connections = 560
max_prepared_transactions = 2
shared_buffers = 128MB
# its alarm wakes who has connected so long ago, though it is off by then
authentication_timeout = 10min
CONF
my %sessions;

# Sessions: begin a statement, and get what became of it.
sub in_session
{
	my ($name) = @_;

	return $sessions{$name} //= session($node);
}

sub begin
{
	my ($name, $sql) = @_;
	my $psql = in_session($name)->{psql};

	# Not send(): the answer may be there before that returns, and would be lost.
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
	return wait_event_of($node, $event, "state = 'active' AND query ~ 'wait'", $number);
}

# A scenario has a queue of its own.
sub scenario
{
	my ($name, $test) = @_;

	sql($node, <<'SQL');
SELECT count(fairq.drop_queue(queue)) FROM fairq.queues WHERE queue = 'q';
SELECT fairq.create_queue('q', buckets => 2, backoff_base => '0');
SQL
	subtest $name => $test;
	return;
}

# Without a worker a wait may end early, because its transaction has made something
# ready: call it again.
sub eventually
{
	my ($name, $statement) = @_;

	foreach my $try (1 .. 20)
	{
		begin($name, $statement);
		my $out = result($name);
		return $out if $out ne '';
	}
	return '';
}

# A wait that nobody ends returns nothing, and then the test fails.
my $wait = "wait => '100 s'";
my $claim = "SELECT payload FROM fairq.claim('q', 1, $wait)";
my $enqueue = "SELECT count(fairq.enqueue('q', '1', 'a'))";

scenario 'nothing comes' => sub {
	my $begin = time();

	is(run('w', "SELECT count(*) FROM fairq.claim('q', wait => '300 ms')"), 0, 'a claim ends');
	cmp_ok(time() - $begin, '>=', 0.3, 'after its time');
	is(run('w', "CALL fairq.wait('q', '10 ms')"), '', 'so does fairq.wait');
	is(run('w', "CALL fairq.wait('q', '0')"), '', 'which need not wait at all');
};

scenario 'a task comes' => sub {
	begin('w', $claim);
	ok(asleep(1), 'a claim waits');
	run('p', 'BEGIN');
	run('p', $enqueue);
	run('p', 'ROLLBACK');
	run('p', 'BEGIN');
	run('p', "SELECT fairq.enqueue('q', '2')");
	ok(asleep(1), 'for a commit');
	run('p', 'COMMIT');
	is(result('w'), 2, 'and has the task then');

	begin('w', "SELECT payload FROM fairq.pop('q', 10, $wait)");
	ok(asleep(1), 'a pop waits');
	run('p', "SELECT fairq.enqueue_many('q', ARRAY['3', '4']::jsonb[])");
	is(result('w'), "3\n4", 'and has both');
	is(sql($node, "SELECT count(*) FROM fairq.tasks('q', 'ready')"), 0, 'nothing is left');

	begin('w', $claim);
	ok(asleep(1), 'a claim waits');
	sql($node, <<'SQL');
INSERT INTO fairq.q_q (id, address, enqueued_at, priority, cost, attempts, state, group_key, payload)
    VALUES (-1, '(1,1,1)', now(), 0, 1, 0, 'r', 'c', '5');
SQL
	is(result('w'), 5, 'for a row written with SQL, too');
};

scenario 'one each' => sub {
	begin('w', $claim);
	asleep(1);
	begin('v', $claim);
	ok(asleep(2), 'two claims wait');
	run('p', $enqueue);
	is(result('w'), 1, 'who came first is first');
	ok(asleep(1), 'the other one waits on');
	run('p', $enqueue);
	is(result('v'), 1, 'for the next');
	begin('w', $claim);
	begin('v', $claim);
	asleep(2);
	run('p', "SELECT fairq.enqueue_many('q', ARRAY['6', '7']::jsonb[])");
	is(join(' ', sort(result('w'), result('v'))), '6 7', 'two at once are for two');
};

scenario 'a task is given back' => sub {
	run('p', $enqueue);
	run('p', 'BEGIN');
	run('p', "SELECT fairq.claim('q')");
	begin('w', $claim);
	asleep(1);
	run('p', 'ROLLBACK');
	is(result('w'), 1, 'rollback of a claim');

	run('p', $enqueue);
	run('p', 'BEGIN');
	run('p', 'SAVEPOINT s');
	run('p', "SELECT fairq.claim('q')");
	begin('w', $claim);
	asleep(1);
	run('p', 'ROLLBACK TO s');
	is(result('w'), 1, 'rollback to a savepoint');
	run('p', 'COMMIT');

	foreach my $how ('release(%s)', 'nack(%s)')
	{
		run('p', $enqueue);
		my $receipt = run('p', "SELECT receipt FROM fairq.claim('q')");
		begin('w', $claim);
		asleep(1);
		run('p', 'SELECT fairq.' . sprintf($how, "'$receipt'"));
		is(result('w'), 1, $how);
	}

	run('p', $enqueue);
	run('p', "SELECT fairq.claim('q', lease => '300 ms')");
	begin('w', "SELECT attempt FROM fairq.claim('q', $wait)");
	is(result('w'), 2, 'a lease that runs out');

	run('p', $enqueue);
	my $other = session($node);
	$other->safe("BEGIN; SELECT fairq.pop('q')");
	begin('w', $claim);
	asleep(1);
	$other->quit;
	is(result('w'), 1, 'a connection that is lost');

	begin('w', $claim);
	asleep(1);
	run('p', "SELECT fairq.enqueue('q', '8', run_at => now() + interval '300 ms')");
	is(result('w'), 8, 'a task that becomes due');
};

scenario 'nobody is there to tell' => sub {
	run('p', 'BEGIN');
	run('p', $enqueue);
	run('p', "PREPARE TRANSACTION 'p'");
	begin('w', $claim);
	asleep(1);
	run('p', "COMMIT PREPARED 'p'");
	is(result('w'), 1, 'a prepared transaction');

	# Who deletes a row says so by trigger, at the end of a statement that does not come to its end.
	run('p', "SELECT fairq.enqueue('q', '2', 'a'), fairq.enqueue('q', '3', 'b')");
	begin('l', "DELETE FROM fairq.q_q WHERE payload = '2' OR payload = '3' AND pg_sleep(100) IS NOT NULL");
	my $deleting = "FROM pg_stat_activity WHERE wait_event = 'PgSleep' AND backend_xid IS NOT NULL";
	ok(wait_for(sub { sql($node, "SELECT count(*) $deleting") eq '1' }), 'somebody deletes a task');
	run('p', "SELECT fairq.claim('q', group_keys => '{b}')");
	begin('w', "SELECT payload FROM fairq.claim('q', 1, $wait, group_keys => '{a}')");
	asleep(1);
	begin('v', $claim);
	ok(asleep(2), 'others want it');
	sql($node, "SELECT pg_cancel_backend(pid) $deleting");
	like(result('l'), qr/canceling/, 'he is cancelled');
	ok(asleep(1), 'one of the others has it');
	run('p', "SELECT fairq.enqueue('q', '4', 'a')");
	is(join(' ', sort(result('w'), result('v'))), '2 4', 'and the other one the next');
};

scenario 'pause and resume' => sub {
	begin('w', $claim);
	ok(asleep(1), 'a claim waits');
	run('p', "SELECT fairq.pause('q')");
	run('p', $enqueue);
	run('p', $enqueue);
	begin('v', "CALL fairq.wait('q', '100 s')");
	ok(asleep(2), 'nobody gets anything');
	run('p', "SELECT fairq.resume('q')");
	is(result('w'), 1, 'then one has a task');
	is(result('v'), '', 'and the other one is told');
};

# Who was told and cannot take the task: it waits for a lock on the table when it
# is told to stop.
foreach my $how ('cancelled', 'terminated', 'cancelled in a savepoint')
{
	scenario "told, and $how" => sub {
		sql($node, <<'SQL');
CREATE OR REPLACE FUNCTION careful() RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	RETURN (SELECT payload FROM fairq.claim('q', wait => '100 s'));
EXCEPTION WHEN query_canceled THEN
	RETURN 'caught';
END $$;
SQL
		my $careful = $how eq 'cancelled in a savepoint';
		my $pid = in_session('w')->pid;
		run('w', 'BEGIN') if $careful;
		begin('w', $careful ? 'SELECT careful() /* waits */' : $claim);
		asleep(1);
		begin('v', $claim);
		ok(asleep(2), 'two wait');
		run('p', 'BEGIN');
		run('p', $enqueue);
		begin('l', 'BEGIN; LOCK TABLE fairq.q_q IN EXCLUSIVE MODE; SELECT 1');
		ok( wait_for(sub { sql($node, "SELECT count(*) FROM pg_locks WHERE NOT granted") eq '1' }),
			'somebody wants the table for himself');
		run('p', 'COMMIT');
		ok(asleep(1, 'Lock'), 'the first is told, and has to wait for the lock');
		sql($node, $how eq 'terminated' ? "SELECT pg_terminate_backend($pid)" : "SELECT pg_cancel_backend($pid)");
		if ($how eq 'terminated')
		{
			wait_for(sub { sql($node, "SELECT count(*) FROM pg_stat_activity WHERE pid = $pid") eq '0' });
			eval { $sessions{w}->quit };
			delete $sessions{w};
		}
		elsif ($careful)
		{
			is(result('w'), 'caught', 'its transaction goes on');
		}
		else
		{
			like(result('w'), qr/canceling/, 'it is cancelled');
		}
		ok(asleep(1, 'Lock'), 'now the second has been told');
		result('l');
		run('l', 'ROLLBACK');
		is(result('v'), 1, 'and has the task');
		run('w', 'ROLLBACK') if $careful;
	};
}

scenario 'buckets' => sub {
	foreach my $order ([ 0, 1 ], [ 1, 0 ])
	{
		foreach my $bucket (@$order)
		{
			begin("w$bucket", "SELECT fairq.bucket(address) FROM fairq.claim('q', 1, $wait, buckets => '{$bucket}')");
			asleep($bucket == $order->[0] ? 1 : 2);
		}
		run('p', "SELECT fairq.enqueue('q', '1', 'a') FROM generate_series(1, 20)");
		is(result('w0'), 0, 'one has a task of its bucket');
		is(result('w1'), 1, 'so has the other');
		run('p', "SELECT fairq.purge('q')");
	}
};

scenario 'groups' => sub {
	my $of = sub { "SELECT payload FROM fairq.claim('q', 1, $wait, group_keys => '{$_[0]}')" };

	begin('w', $of->('b'));
	asleep(1);
	begin('v', $claim);
	ok(asleep(2), 'one wants group b, the other any');
	run('p', "SELECT fairq.enqueue('q', '1', 'a')");
	is(result('v'), 1, 'a task of a is for the second');
	ok(asleep(1), 'the first goes on waiting');
	run('p', "SELECT fairq.enqueue('q', '2', 'b')");
	is(result('w'), 2, 'for one of b');

	run('p', "SELECT fairq.enqueue('q', '3', 'a')");
	my $receipt = run('p', "SELECT receipt FROM fairq.claim('q')");
	begin('w', $of->('b'));
	asleep(1);
	begin('v', $of->('a'));
	ok(asleep(2), 'one wants b, the other a');
	run('p', "SELECT fairq.release('$receipt')");
	is(result('v'), 3, 'a task that is given back gets to who wants it');
	ok(asleep(1), 'the first goes on waiting');
	run('p', "SELECT fairq.enqueue('q', '4', 'b')");
	is(result('w'), 4, 'and has one of b');
};

# Groups that may not have more, and then may.
foreach my $filter ('', ", group_keys => '{a}'")
{
	scenario "limits$filter" => sub {
		my $waits = "SELECT payload FROM fairq.claim('q', 1, $wait$filter)";

		run('p', "SELECT fairq.set_group('q', 'a', max_leased => 1)");
		run('p', "SELECT fairq.enqueue_many('q', ARRAY['1', '2', '3']::jsonb[], group_keys => '{a}')");
		my $receipt = run('p', "SELECT receipt FROM fairq.claim('q')");
		begin('w', $waits);
		asleep(1);
		begin('v', $waits);
		ok(asleep(2), 'a group has as many tasks as it may');
		run('p', "SELECT fairq.ack('$receipt')");
		my $first = wait_for(sub { sql($node, "SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND query ~ 'wait'") eq '2' });
		ok($first && asleep(1), 'one is done, and one of those who wait goes on');
		run('p', "SELECT fairq.ack(receipt) FROM fairq.leases");
		is(join(' ', sort(result('w'), result('v'))), '2 3', 'another one is done, and the other goes on');
		run('p', "SELECT fairq.ack(receipt) FROM fairq.leases");

		run('p', "SELECT fairq.set_group('q', 'a', max_leased => 0, rate => 2, burst => 1)");
		run('p', "SELECT fairq.enqueue_many('q', ARRAY['1', '2', '3']::jsonb[], group_keys => '{a}')");
		is(join(' ', map { run('w', $waits) } 1 .. 3), '1 2 3', 'tokens');

		run('p', "SELECT fairq.set_group('q', 'a', rate => 0)");
		run('p', "SELECT fairq.pause_group('q', 'a')");
		run('p', "SELECT fairq.enqueue('q', '4', 'a')");
		begin('w', $waits);
		ok(asleep(1), 'a group is paused');
		run('p', "SELECT fairq.resume_group('q', 'a')");
		is(result('w'), 4, 'and resumed');

		run('p', "SELECT fairq.alter_queue('q', max_ready_per_group => 1)");
		run('p', "SELECT fairq.enqueue_many('q', ARRAY['5', '6', '7']::jsonb[], group_keys => '{a}')");
		is(join(' ', map { run('w', $waits) } 1 .. 3), '5 6 7', 'tasks that wait for room');
	};
}

scenario 'fairq.wait' => sub {
	my $pid = in_session('w')->pid;

	begin('w', "CALL fairq.wait('q', '100 s')");
	ok(asleep(1), 'a call waits');
	is( sql($node, "SELECT backend_xid IS NULL, backend_xmin IS NULL, wait_event_type FROM pg_stat_activity WHERE pid = $pid"),
		't|t|Extension', 'without transaction id and snapshot');
	is(sql($node, "SELECT count(*) FROM pg_locks WHERE pid = $pid AND locktype <> 'virtualxid'"), 0, 'and without locks');
	run('p', $enqueue);
	is(result('w'), '', 'a task ends it');
	is(run('w', "CALL fairq.wait('q', '100 s')"), '', 'another call ends at once');
	is(run('w', "SELECT payload FROM fairq.claim('q')"), 1, 'the task is there');

	foreach my $name ('w', 'v')
	{
		begin($name, "CALL fairq.wait('q', '100 s')");
		asleep($name eq 'w' ? 1 : 2);
	}
	run('p', $enqueue);
	is(result('w'), '', 'one is told');
	is(result('v'), '', 'and a moment later, for nobody has claimed, the other');
	run('w', "SELECT fairq.claim('q')");

	# If the claim takes a tenth of a second, on a busy machine, the other is told, too.
	my $waits_on = "SELECT count(*) FROM pg_stat_activity WHERE pid = $pid AND state = 'active'";
	my ($first, $other);
	foreach my $try (1 .. 10)
	{
		begin('w', "CALL fairq.wait('q', '100 s')");
		asleep(1);
		begin('v', $claim);
		asleep(2);
		run('p', $enqueue);
		$first = result('v');
		$other = sql($node, $waits_on);
		run('p', $enqueue);
		result('w');
		run('p', "SELECT fairq.pop('q', 10)");
		last if $other == 1;
	}
	is($first, 1, 'who claims goes first');
	is($other, 1, 'the other goes on waiting');

	run('w', 'BEGIN');
	like(run('w', "CALL fairq.wait('q')"), qr/cannot run inside a transaction block/, 'not in a transaction');
	run('w', 'ROLLBACK');
	refused($node, "SELECT fairq.enqueue('q', '1') \\; CALL fairq.wait('q');", '25001', qr/cannot run inside a transaction block/, qr/on its own/, 'not after something else');
	refused($node, "DO \$\$ BEGIN PERFORM fairq.enqueue('q', '1'); CALL fairq.wait('q'); END \$\$;", '25001', qr/cannot run inside a transaction block/, undef,
		'not with something to commit');
	sql($node, <<'SQL');
SELECT fairq.purge('q');
CREATE PROCEDURE worker(wanted int) LANGUAGE plpgsql AS $$
DECLARE
	done int := 0;
	receipts uuid[];
BEGIN
	LOOP
		receipts := ARRAY(SELECT receipt FROM fairq.claim('q', 10));
		COMMIT;
		done := done + (SELECT count(*) FROM fairq.ack_many(receipts));
		COMMIT;
		EXIT WHEN done >= wanted;
		PERFORM count(*) FROM pg_class;             -- a snapshot that fairq.wait has to let go
		CALL fairq.wait('q', '100 s');
	END LOOP;
END $$;
SQL
	begin('w', 'CALL worker(3) /* waits */');
	ok(asleep(1), 'a procedure waits');
	is(sql($node, "SELECT backend_xmin IS NULL FROM pg_stat_activity WHERE pid = $pid"), 't', 'without a snapshot, too');
	run('p', $enqueue) for 1 .. 3;
	is(result('w'), '', 'and has what came');
};

scenario 'ack_and_claim' => sub {
	run('p', $enqueue);
	my $receipt = run('w', "SELECT receipt FROM fairq.claim('q')");
	my $begin = time();

	is(run('w', "SELECT count(*) FROM fairq.ack_and_claim('q', ARRAY['$receipt']::uuid[], $wait)"), 0, 'with something to acknowledge');
	cmp_ok(time() - $begin, '<', 20, 'it does not wait');
	is(sql($node, "SELECT count(*) FROM fairq.tasks('q')"), 0, 'the acknowledgement has taken effect');
	begin('w', "SELECT payload FROM fairq.ack_and_claim('q', ARRAY['$receipt']::uuid[], $wait)");
	ok(asleep(1), 'with nothing it does');
	run('p', $enqueue);
	is(result('w'), 1, 'and claims');
};

scenario 'in nobody\'s way' => sub {
	foreach my $waits ($claim, "SELECT payload FROM fairq.pop('q', $wait)", "CALL fairq.wait('q', '100 s')")
	{
		begin('w', $waits);
		asleep(1);
		sql($node, "SET lock_timeout = '20 s'; ALTER TABLE fairq.q_q ADD mine int; ALTER TABLE fairq.q_q DROP mine");
		sql($node, "SET lock_timeout = '20 s'; VACUUM FULL fairq.q_q");
		ok(asleep(1), 'the table was changed and rewritten');
		run('p', $enqueue);
		is(result('w'), $waits =~ /CALL/ ? '' : 1, 'and the wait goes on');
		run('p', "SELECT fairq.pop('q')");
		begin('w', $waits);
		asleep(1);
		sql($node, "SET lock_timeout = '20 s'; SELECT fairq.drop_queue('q')");
		like(result('w'), qr/queue "q" does not exist/, 'the queue was dropped');
		sql($node, "SELECT fairq.create_queue('q')");
	}
	refused($node, "SELECT fairq.claim('q', wait => '-1 s');", '22023', qr/"wait"/, qr/from 0/, 'not less than no time');
	refused($node, "CALL fairq.wait('q', '100 years');", '22023', qr/"timeout"/, qr/10 years/, 'not for ever');
	refused($node, "CALL fairq.wait('nothing');", '42704', undef, undef, 'not for nothing');
	refused($node, "SET default_transaction_read_only = on; CALL fairq.wait('q');", '25006', undef, undef, 'not to read only');
	sql($node, 'CREATE ROLE stranger');
	refused($node, "SET ROLE stranger; CALL fairq.wait('q');", '42501', undef, qr/SELECT/, 'not for others\' queues');
};

scenario 'a session that ends' => sub {
	my $session = run('w', "SELECT fairq.open_session(ttl => '5 s')");

	begin('w', "SELECT payload FROM fairq.claim('q', session => '$session', $wait)");
	asleep(1);
	ok(wait_for(sub { sql($node, "SELECT count(*) FROM fairq.sessions WHERE alive_until IS NOT NULL") eq '0' }), 'its session is over');
	begin('v', $claim);
	asleep(2);
	run('p', $enqueue);
	like(result('w'), qr/session .* is over/, 'a claim under it fails when something comes');
	is(result('v'), 1, 'and somebody else has it');
};

#
# The worker ends, and is not started again
#
scenario 'the worker is gone' => sub {
	my ($launcher, $worker) = map {
		sql($node, "SELECT pid FROM pg_stat_activity WHERE backend_type = 'pgfairq $_' AND coalesce(datname, 'postgres') = 'postgres'")
	} ('launcher', 'worker');

	begin('w', "SELECT payload FROM fairq.claim('q', wait => '60 s')");
	ok(asleep(1), 'a claim waits');
	kill 'STOP', $launcher;
	# It is not to become due before the worker has ended.
	sql($node, "SELECT fairq.enqueue('q', '9', run_at => now() + interval '5 s'); SELECT pg_terminate_backend($worker, 60000)");
	my $begin = time();
	my $got = result('w');
	cmp_ok(time() - $begin, '<', 40, 'it does the worker\'s work, and comes back');
	is($got, '', 'with nothing yet');
	is(eventually('w', $claim), 9, 'then it has the task');
	kill 'CONT', $launcher;
	# Without one the first claim of those that follow would come back at once.
	ok(wait_event_of($node, 'Extension', "backend_type = 'pgfairq worker' AND datname = 'postgres'"), 'there is a worker again');
};

#
# Many
#
my ($python, @program) = python_program('waiters.py');

sub facts
{
	my (@arguments) = @_;
	my ($what) = shift @arguments;
	my ($out, $err);

	IPC::Run::run([ $python, @program, $what, $node->connstr('postgres'), @arguments ], '>', \$out, '2>', \$err, IPC::Run::timeout(300))
	  or die "waiters.py failed: $err";
	return decode_json($out);
}

# Of one bucket: who finds an earlier task in another bucket than that he took hands
# that one back, which tells somebody once more.
sql($node, "SELECT fairq.create_queue('idle', buckets => 1)");
my $idle = facts('idle', 500, 3);
cmp_ok($idle->{idle_cpu}, '<=', 0.05, '500 that wait take no processor time');
is($idle->{idle_woken}, 0, 'they sleep');
is($idle->{one_got}, 1, 'a task comes');
is($idle->{one_woken}, 1, 'and wakes one of them');
is($idle->{five_got}, 5, 'five come');
is($idle->{five_woken}, 5, 'and wake five');

my $rounds = facts('rounds', $seconds);
foreach my $queue (sort keys %$rounds)
{
	my $of = $rounds->{$queue};

	is_deeply([ $of->{stuck}, @{ $of->{failed} } ], [undef],
		"$queue: nothing is left lying ($of->{rounds} rounds, $of->{tasks} tasks, the longest took $of->{longest} s)") or diag(explain($of));
	cmp_ok($of->{rounds}, '>', 0, "$queue: there was something to see");
}

#
# Two play ping-pong: there is one task, and one who waits for it, and nobody else who
# would be told, or come by.  Chance has the task come just when he falls asleep.
#
{
	my @players;

	sql($node, "SELECT fairq.create_queue(q) FROM unnest(ARRAY['ping', 'pong']) q; SELECT fairq.enqueue('ping', '{}')");
	foreach my $player ([ 'ping', 'pong' ], [ 'pong', 'ping' ])
	{
		my ($from, $to) = @$player;

		push @players, start_pgbench($node, { ping_pong => <<"SQL" }, '--protocol=prepared', "--transactions=$volleys");
\\set us random(0, 500)
SELECT 1 / count(*) FROM fairq.pop('$from', wait => '60 s');
\\sleep :us us
SELECT fairq.enqueue('$to', '{}');
\\set us random(0, 500)
\\sleep :us us
SQL
	}
	is(join('', map { $_->trouble } @players), '', "ping-pong: $volleys volleys, and nobody was overlooked");
}

my $latency = facts('latency', 50);
note("$_: median $latency->{$_}{median} us, 99 % $latency->{$_}{p99} us") for sort keys %$latency;

#
# The end of a wait
#
sql($node, "SELECT fairq.create_queue('end')");
foreach my $statement ("SELECT fairq.claim('end', wait => '10 min')", "CALL fairq.wait('end', '10 min')")
{
	my $other = session($node);
	my $pid = $other->pid;
	my $begin;

	$other->send($statement);
	asleep(1);
	sql($node, "SELECT pg_cancel_backend($pid)");
	$other->query('');
	like($other->error, qr/canceling statement due to user request/, "$statement: cancelled");

	$other->safe("SET statement_timeout = '100 ms'");
	$other->query($statement);
	like($other->error, qr/due to statement timeout/, 'a time limit');
	# Under the limit that it takes away.
	ok( wait_for(
			sub {
				$other->query('SET statement_timeout = 0');
				return $other->error !~ /timeout/;
			}),
		'and then none');

	$other->send($statement);
	asleep(1);
	is(sql($node, "SELECT pg_terminate_backend($pid, 60000)"), 't', 'terminated');
	$other->quit;

	$other = session($node);
	$other->send($statement);
	asleep(1);
	$begin = time();
	$node->stop('fast');
	cmp_ok(time() - $begin, '<', 60, 'the server is shut down');
	$other->quit;
	%sessions = ();
	$node->start;
	is(sql($node, "SELECT payload FROM fairq.claim('end', wait => '10 ms')"), '', 'and up again');
}
$node->stop;

#
# Without a worker
#
$node = fairq_node('alone', conf => 'pgfairq.max_workers = 0');
%sessions = ();
scenario 'no worker' => sub {
	my $begin = time();

	run('p', "SELECT fairq.claim('q')");                # finds out that nothing is due
	begin('w', $claim);
	ok(asleep(1), 'a claim waits');
	run('p', $enqueue);
	is(result('w'), 1, 'for a task that comes');

	run('p', "SELECT fairq.enqueue('q', '2', run_at => now() + interval '500 ms')");
	is(eventually('w', $claim), 2, 'a task that is due later');
	begin('w', $claim);
	asleep(1);
	run('p', "SELECT fairq.enqueue('q', '3', run_at => now() + interval '100 ms')");
	my $first = result('w');
	is($first eq '' ? eventually('w', $claim) : $first, 3, 'a task that is scheduled while one waits');
	run('p', $enqueue);
	run('p', "SELECT fairq.claim('q', lease => '200 ms')");
	is(eventually('w', "SELECT attempt FROM fairq.claim('q', $wait)"), 2, 'a lease that runs out');

	run('p', "SELECT fairq.enqueue('q', '4', run_at => now() + interval '500 ms')");
	begin('w', "CALL fairq.wait('q', '100 s')");
	is(result('w'), '', 'fairq.wait ends');
	is(run('w', "SELECT payload FROM fairq.claim('q')"), 4, 'with a task there');
	cmp_ok(time() - $begin, '<', 90, 'all of it well before the time is up');
};
$node->stop;

done_testing();
