# clients/relay/pgfairq-relay: tasks of an outbox arrive at queues of another server once,
# whoever is killed meanwhile.
#
# What travels, and what is refused and why. A relay that ends gives back what it has
# not sent. One that is killed when the target has the tasks and the outbox does not
# know yet: they are sent again, when the first have been worked on, and are no other
# tasks. Then 2,000 tasks through two relays, of which now one is killed and now the
# other, and both servers, too. The worker at the target keeps an inbox: results by the
# task's id, committed before the ack, which it often does not come to.
#
# Seen to fail: with no lock_timeout at the target a queue that is locked stops all, and with
# an error of a queue taken for one of the connection so does that queue; with each task tried
# where one takes long to fail all of them are. With unique_keys => NULL in the relay, and with unique_for => NULL, the
# tasks of the killed relay are there twice; with an inbox that has no key the worker's
# results are; with refused tasks taken for trouble of the target, the relay does not end; with no
# NOT_NOW the task of the node that is out of reach is refused.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use FairqNode;
use IPC::Run;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

# Of the last part of the test
my ($parts, $size) = (10, 200);
my $tasks = $parts * $size;

my ($python) = python_program('');
my $program = "$FindBin::RealBin/../../clients/relay/pgfairq-relay";
my $log = "$PostgreSQL::Test::Utils::log_path/cluster_relay_relays.log";
my $origin = fairq_node('origin');
my $target = fairq_node('target');

# For a relay that is to wait for a lock for as long as a test has it.
my @patient = ('--to', $target->connstr('postgres') . " options='-c lock_timeout=1h'");

# A relay that runs.
sub relay
{
	my (@more) = @_;

	return IPC::Run::start(
		[
			$python, $program, '--from', $origin->connstr('postgres'), '--to', $target->connstr('postgres'),
			'--queue', 'outbox', @more
		],
		'<', \undef, '>>', $log, '2>>', $log);
}

# One that ends when there is nothing more: whether it went well.
sub relay_once
{
	my $relay = relay('--once', @_);

	return $relay->finish;
}

# SIGTERM ends one.
sub end_relay
{
	my ($relay) = @_;

	$relay->signal('TERM');
	return $relay->finish;
}

sub killed
{
	my ($relay) = @_;

	$relay->signal('KILL');
	eval { $relay->finish };
	return;
}

sub lock_table
{
	my ($node, $queue, $mode) = @_;
	my $session = session($node);

	$session->safe("BEGIN; LOCK TABLE fairq.q_$queue IN $mode MODE");
	return $session;
}

sub outbox
{
	return sql($origin, "SELECT string_agg(format('%s %s %s', payload, state, attempts), ', ' ORDER BY id) FROM fairq.tasks('outbox')");
}

sql($origin, "SELECT fairq.create_queue('outbox', backoff_base => '1 h')");
sql($target, "SELECT fairq.create_queue(q) FROM unnest('{in,mail}'::text[]) q; SELECT fairq.create_queue('full', max_depth => 1)");

# What travels
sql($origin, <<'SQL');
SELECT fairq.enqueue('outbox', '{"plain": 1.10}', group_key => 'bob', priority => 7, cost => 2.5);
SELECT fairq.enqueue('outbox', '2', group_key => 'ann', lease => '7 min', expires_at => '2100-01-01 00:00:00.123456+02',
	headers => '{"trace": 1.00, "relay": {"queue": "mail", "max_attempts": 3}}');
SELECT fairq.enqueue('outbox', '3', run_at => '2001-02-03 04:05:06+00', headers => '{"relay": {"queue": "mail"}}');
SELECT fairq.enqueue('outbox', '4', headers => '[1]');
SQL
ok(relay_once('--to-queue', 'in'), 'one command');
is( sql($target,
		"SELECT payload, group_key, priority, cost, coalesce(headers::text, '-') FROM fairq.tasks('in') ORDER BY group_key DESC"),
	"{\"plain\": 1.10}|bob|7|2.5|-\n4||4|1|[1]",
	'payload, group, priority, cost, headers');
is( sql($target,
		"SET timezone = 'UTC'; SELECT payload, group_key, max_attempts, lease, coalesce(headers::text, '-'), expires_at FROM fairq.q_mail ORDER BY id"),
	"2|ann|3|00:07:00|{\"trace\": 1.00}|2099-12-31 22:00:00.123456+00\n3||||-|",
	'the queue and the attempts that the header names, the lease, the end; and the header is gone');
is(outbox(), '', 'the outbox is empty');
sql($target, "SELECT fairq.purge('in'), fairq.purge('mail')");

# Subgroups, of many tasks in one call and of one with a header
sql($origin, "SELECT fairq.create_queue('divided', backoff_base => '1 h', subgroups => true)");
sql($target, "SELECT fairq.alter_queue('in', subgroups => true)");
sql($origin, <<'SQL');
SELECT fairq.enqueue('divided', '1', group_key => 'shop', subgroup_key => 'ann'), fairq.enqueue('divided', '2', group_key => 'shop');
SELECT fairq.enqueue('divided', '3', group_key => 'shop', subgroup_key => 'bob', headers => '{"trace": 1}');
SELECT fairq.enqueue('divided', '4', group_key => 'shop', subgroup_key => 'bob', headers => '{"relay": {"queue": "mail"}}');
SQL
ok(relay_once('--queue', 'divided', '--to-queue', 'in'), 'an outbox whose groups are divided');
is(sql($target, "SELECT payload, group_key, subgroup_key FROM fairq.tasks('in') ORDER BY payload"),
	"1|shop|ann\n2|shop|\n3|shop|bob", 'the subgroups have travelled');
like(sql($origin, "SELECT last_error FROM fairq.tasks('divided')"), qr/^22023: .*subgroup_key/, 'but not to a queue that has none');
sql($target, "SELECT fairq.purge('in')");

# What is refused
sql($origin, <<'SQL');
SELECT fairq.enqueue('outbox', '1', headers => '{"relay": {"queue": "none"}}');
SELECT fairq.enqueue('outbox', '2', headers => '{"relay": {"queue": "mail", "max_attempts": -1}}');
SELECT fairq.enqueue('outbox', '3', headers => '{"relay": {"queue": "mail", "max_attempts": "x"}}');
SELECT fairq.enqueue('outbox', '4', headers => '{"relay": {"to": "mail"}}');
SELECT fairq.enqueue('outbox', '5');
SELECT fairq.enqueue('outbox', '6', headers => '{"relay": {"queue": "mail"}}');
SQL
ok(relay_once(), 'it ends: what is refused is not tried again and again');
is(sql($target, "SELECT payload FROM fairq.tasks('mail')"), '6', 'the others arrive');
is(outbox(), '1 scheduled 1, 2 scheduled 1, 3 scheduled 1, 4 scheduled 1, 5 scheduled 1', 'an attempt each, and a retry');
my @errors = column($origin, "SELECT last_error FROM fairq.tasks('outbox') ORDER BY id");
my $i = 0;
like($errors[ $i++ ], $_, "the error: $_")
  for (qr/^42704: queue "none" does not exist/, qr/^22023: /, (qr/^the header "relay" must be/) x 2, qr/^no target queue/);
sql($origin, "SELECT fairq.purge('outbox'); SELECT fairq.enqueue('outbox', to_jsonb(n)) FROM generate_series(1, 3) n");
ok(relay_once('--to-queue', 'full'), 'a queue that is full');
is(sql($target, "SELECT count(*) FROM fairq.tasks('full')"), 1, 'as many as there is room for');
like(outbox(), qr/^2 (scheduled|ready) 0, 3 (scheduled|ready) 0$/, 'the others wait, or have waited, and no attempt is counted');
sql($origin, "SELECT fairq.purge('outbox')");
sql($target, "SELECT fairq.purge('mail')");

# One task that cannot be taken just now, as if it were for a node that a proxy cannot reach
sql($target, <<'SQL');
CREATE FUNCTION reachable(payload jsonb) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
	IF payload = '8' THEN
		RAISE EXCEPTION 'node 3 is out of reach' USING ERRCODE = '08006';
	END IF;
	RETURN true;
END $$;
ALTER TABLE fairq.q_mail ADD CHECK (reachable(payload));
SQL
sql($origin, "SELECT fairq.enqueue('outbox', to_jsonb(n)) FROM generate_series(7, 9) n");
ok(relay_once('--to-queue', 'mail'), 'a task that cannot be taken just now');
is(sql($target, "SELECT string_agg(payload::text, ' ' ORDER BY id) FROM fairq.tasks('mail')"), '7 9', 'does not hold up the others');
like(outbox(), qr/^8 (scheduled|ready) 0$/, 'it waits, or has waited, and no attempt is counted');
sql($origin, "SELECT fairq.purge('outbox')");
sql($target, "SELECT fairq.purge('mail')");

# Tasks that fail as if it were the whole target
sql($target, <<'SQL');
CREATE FUNCTION fits(payload jsonb) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
	IF payload IN ('11', '12', '13', '14') THEN
		RAISE EXCEPTION 'something is missing' USING ERRCODE = (ARRAY['42883', '55000', '58030', '3F000'])[payload::int - 10];
	END IF;
	RETURN true;
END $$;
ALTER TABLE fairq.q_mail ADD CHECK (fits(payload));
SQL
sql($origin, "SELECT fairq.enqueue('outbox', to_jsonb(n)) FROM generate_series(10, 15) n");
my $relay = relay('--to-queue', 'mail');
ok( wait_for(sub { sql($target, "SELECT string_agg(payload::text, ' ' ORDER BY id) FROM fairq.tasks('mail')") eq '10 15' }),
	'errors that are of one queue hold up no others');
end_relay($relay);
like(outbox(), qr/^11 \w+ 0, 12 \w+ 0, 13 \w+ 0, 14 \w+ 0$/, 'and count no attempt');
sql($origin, "SELECT fairq.purge('outbox')");
sql($target, "SELECT fairq.purge('mail')");

# A queue that is locked
my $lock = lock_table($target, 'in', 'ACCESS EXCLUSIVE');
sql($origin, "SELECT fairq.enqueue('outbox', to_jsonb(n), headers => jsonb_build_object('relay', jsonb_build_object('queue', CASE n WHEN 3 THEN 'mail' ELSE 'in' END))) FROM generate_series(1, 3) n");
$relay = relay();
ok(wait_for(sub { sql($target, "SELECT count(*) FROM fairq.tasks('mail')") eq '1' }), 'a queue that is locked holds up no other');
$lock->safe('COMMIT');
ok(wait_for(sub { sql($target, "SELECT string_agg(payload::text, ' ' ORDER BY id) FROM fairq.tasks('in')") eq '1 2' }), 'its tasks come when it is not locked any more');
end_relay($relay);
sql($target, "SELECT fairq.purge('in'), fairq.purge('mail')");

# A queue where each task takes long to fail, as at a node that hangs: how often it is tried
sql($target, <<'SQL');
SELECT fairq.create_queue('slow');
CREATE SEQUENCE tries;
CREATE FUNCTION answers() RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
	PERFORM nextval('tries');
	PERFORM pg_sleep(2.5);
	RAISE EXCEPTION 'the node does not answer' USING ERRCODE = '08006';
END $$;
ALTER TABLE fairq.q_slow ADD CHECK (answers());
SQL
sql($origin, "SELECT fairq.enqueue_many('outbox', ARRAY(SELECT to_jsonb(n) FROM generate_series(1, 50) n))");
sql($origin, "SELECT fairq.enqueue('outbox', '51', headers => '{\"relay\": {\"queue\": \"mail\"}}')");
$relay = relay('--to-queue', 'slow');
ok(wait_for(sub { sql($target, "SELECT count(*) FROM fairq.tasks('mail')") eq '1' }), 'it holds up no other');
cmp_ok(sql($target, 'SELECT last_value FROM tries'), '<', 25, 'and is not tried for each task');
end_relay($relay);
sql($origin, "SELECT fairq.purge('outbox')");
sql($target, "SELECT fairq.purge('mail')");

# SIGTERM in the middle of a batch
sql($origin, <<'SQL');
SELECT fairq.enqueue('outbox', '"a"', headers => '{"relay": {"queue": "in"}}');
SELECT fairq.enqueue('outbox', '"b"', headers => '{"relay": {"queue": "mail"}}');
SQL
$lock = lock_table($target, 'in', 'ACCESS EXCLUSIVE');
$relay = relay(@patient);
ok(wait_event_of($target, 'Lock', "query LIKE '%enqueue_many%'"), 'a task is being sent');
$relay->signal('TERM');
# It has seen the signal when its call has ended, whichever comes first.
$lock->safe('COMMIT');
ok($relay->finish, 'SIGTERM: it ends, and says that all is well');
is(sql($target, "SELECT payload FROM fairq.tasks('in')"), '"a"', 'what was being sent has arrived');
is(outbox(), '"b" ready 0', 'the other task is back in its place');
is(sql($origin, 'SELECT count(*) FROM fairq.leases'), 0, 'no lease');
ok(relay_once(), 'the next relay');
is(sql($target, "SELECT payload FROM fairq.tasks('mail')"), '"b"', 'brings it');
$relay = relay();
ok(wait_event_of($origin, 'Extension', "query LIKE '%fairq.claim%'"), 'one that waits for tasks');
$relay->signal('TERM');
ok($relay->finish, 'ends, too');
sql($target, "SELECT fairq.purge('in'), fairq.purge('mail')");

# Killed between the commit at the target and the ack
sql($origin, "SELECT fairq.alter_queue('outbox', backoff_base => '0')");
sql($origin, "SELECT fairq.enqueue_many('outbox', ARRAY(SELECT to_jsonb(n) FROM generate_series(1, 10) n))");
$lock = lock_table($target, 'in', 'ACCESS EXCLUSIVE');
$relay = relay(@patient, '--to-queue', 'in');
ok(wait_event_of($target, 'Lock', "query LIKE '%enqueue_many%'"), 'ten tasks are being sent');
my $origin_lock = lock_table($origin, 'outbox', 'SHARE');
$lock->safe('COMMIT');
ok(wait_event_of($origin, 'Lock', "query LIKE '%ack_many%'"), 'they have arrived, and the outbox does not know yet');
killed($relay);
# The leases end with the session, which a backend that is idle ends when it has noticed:
# until then the ack that waits for the lock would be good.
ok(wait_for(sub { sql($origin, "SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'pgfairq-relay%heartbeats'") eq '0' }),
	'its session is over');
$origin_lock->safe('COMMIT');
is(sql($target, "SELECT count(*) FROM fairq.q_in"), 10, 'they are there');
is( sql($target, "SELECT count(*) FROM fairq.pop('in', 100)"), 10, 'and done');
# The server may still have acknowledged those that it was at when the relay was killed.
ok( wait_for(
		sub {
			sql($origin, "SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'pgfairq-relay%'") eq '0'
			  && sql($origin, "SELECT count(*) FROM fairq.tasks('outbox') WHERE state <> 'ready'") eq '0';
		}),
	'the others are ready again');
my $again = sql($origin, 'SELECT count(*) FROM fairq.q_outbox');
cmp_ok($again, '>', 0, "there are some: $again");
ok(relay_once('--to-queue', 'in'), 'the next relay sends them again');
is(sql($origin, 'SELECT count(*) FROM fairq.q_outbox'), 0, 'all are acknowledged');
is(sql($target, "SELECT count(*) FROM fairq.q_in"), 0, 'and none is there twice');
is(sql($target, "SELECT deduplicated FROM fairq.queue_stats WHERE queue = 'in'"), $again, 'for the target knew them');

# Everything at once
sql($target, 'CREATE TABLE inbox (task bigint PRIMARY KEY, n int)');

my @relays = map { relay('--to-queue', 'in', '--batch', '20') } 1 .. 2;
my ($calls, $redelivered) = (0, 0);

# A worker: some tasks, their results, and mostly the ack.
sub work
{
	my $ack = $calls++ % 3;
	my ($ret, $out) = $target->psql(
		'postgres', sprintf(<<'SQL', $ack ? 'ack_many' : 'release_many'));
CREATE TEMP TABLE claimed AS SELECT id, receipt, payload FROM fairq.claim('in', 40);
INSERT INTO inbox SELECT id, payload::int FROM claimed ON CONFLICT (task) DO NOTHING;
SELECT count(*) FROM fairq.%s(ARRAY(SELECT receipt FROM claimed));
SQL
	$redelivered += $out if $ret == 0 && !$ack;
	return;
}

sub left
{
	return sql($origin, 'SELECT count(*) FROM fairq.q_outbox');
}

foreach my $part (0 .. $parts - 1)
{
	my $victim = $part % 2;

	sql($origin,
		"SELECT fairq.enqueue_many('outbox', ARRAY[to_jsonb(n)], group_keys => ARRAY['g' || n % 20]) FROM generate_series($part * $size + 1, ($part + 1) * $size) n"
	);
	ok( wait_for(
			sub {
				work();
				return left() < $size;
			}),
		"part $part is under way");
	killed($relays[$victim]);
	if ($part % 3 == 1)
	{
		my $server = $part % 2 ? $target : $origin;

		$server->kill9;
		ok(start_after_kill($server), 'killed, and there again: ' . $server->name);
	}
	$relays[$victim] = relay('--to-queue', 'in', '--batch', '20');
}
ok( wait_for(
		sub {
			work();
			return left() eq '0' && sql($target, 'SELECT count(*) FROM fairq.q_in') eq '0';
		}),
	'all are done');
foreach my $one (@relays)
{
	$one->signal('TERM');
	ok($one->finish, 'SIGTERM ends a relay that has come through all of it');
}
cmp_ok($redelivered, '>', 0, "tasks came to the worker again: $redelivered");
is(sql($target, 'SELECT count(*), count(DISTINCT n), min(n), max(n) FROM inbox'), "$tasks|$tasks|1|$tasks", 'each has arrived once');

$_->stop foreach $origin, $target;
done_testing();
