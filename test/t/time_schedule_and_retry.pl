# What time does to tasks: leases that run out, retries with a backoff, tasks
# scheduled for later; under load, with transactions that end late, with rows
# and tables in other people's hands, with a queue that cannot be maintained,
# and through a crash (I2, I5, I8, I9).
#
# To see it fail, take one of these guards out of the engine:
# - that a scheduled task, at commit, lowers the place from which due tasks are
#   looked for: tasks of a transaction that commits late never become ready;
# - that a lease that is put back must still be on the list of the expired: one
#   that was extended meanwhile is lost although extend() said that it is kept;
# - the wake-up at commit: a task that is scheduled while the worker sleeps does
#   not become ready in time;
# - that rows which somebody else has in hand are passed by, and remembered: all
#   that is due after them waits, or they are never made ready;
# - that the place to read on from is a time and a row: of tasks that are due at
#   one and the same time only the first thousand become ready;
# - that the lock on a queue's table is tried and not waited for; that an error is
#   caught: a queue keeps all others waiting;
# - that the group's tag is given back when a row was locked: its group falls
#   behind the others;
# - that leases are put back by themselves where the rest of a pass fails (run_duties());
# - the jitter, the limit of the backoff, max_attempts, max_lost.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use FairqNode;
use IPC::Run;
use JSON::PP;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);

# How late a task may be.  I8 says a second; but conditions are polled with a process
# each on a machine that may be busy, and what these tests are for makes it never.
my $soon = 60;

# And where it is not about time: nothing happens before something else does.
my $patient = 60;

my $node = fairq_node('schedule', conf => <<'CONF');
max_prepared_transactions = 10
max_connections = 30
shared_buffers = 256MB
CONF

sql($node, <<'SQL');
-- so many tasks for a time
CREATE FUNCTION put(q text, n int, run_at timestamptz, g text DEFAULT '') RETURNS bigint LANGUAGE sql AS $$
	SELECT cardinality(fairq.enqueue_many(q, array_fill('{}'::jsonb, ARRAY[n]), run_ats => ARRAY[run_at], group_keys => ARRAY[g]))
$$;
CREATE FUNCTION soon(ms int) RETURNS timestamptz LANGUAGE sql VOLATILE AS $$
	SELECT clock_timestamp() + ms * interval '1 ms'
$$;
CREATE FUNCTION seconds(interval) RETURNS float8 LANGUAGE sql AS $$ SELECT extract(epoch FROM $1)::float8 $$;
-- Claim a task, and nack it: its id, and the bounds of its wait in seconds.
CREATE FUNCTION nack_one(q text, delay interval, OUT id bigint, OUT low float8, OUT high float8) LANGUAGE plpgsql AS $$
DECLARE
	r uuid;
	before timestamptz;
BEGIN
	SELECT c.id, receipt INTO id, r FROM fairq.claim(q, lease => '1 h') c;
	before := clock_timestamp();
	PERFORM fairq.nack(r, 'no good', delay);
	SELECT seconds(t.run_at - clock_timestamp()), seconds(t.run_at - before) INTO low, high FROM fairq.get_task(q, id) t;
END $$;
SQL

# How many tasks of a queue are in a state.
sub in_state
{
	my ($queue, $state) = @_;

	return sql($node, "SELECT count(*) FROM fairq.tasks('$queue', '$state')");
}

# One test: soon there are so many tasks in a state, and those that are ready can be
# claimed: others see them a moment before the worker, at its commit, offers them.
sub soon_in_state
{
	my ($queue, $state, $number, $name, $seconds) = @_;
	my $n;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	ok( wait_for(
			sub {
				($n = in_state($queue, $state)) == $number
				  && sql($node, "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'pgfairq worker' AND xact_start IS NOT NULL") eq '0';
			},
			$seconds // $soon),
		$name)
	  or diag("$n tasks of $queue are $state, not $number");
	return;
}

# A client in Python: the answer of one of the programs below.
my $program = <<'PYTHON';
import json, random, sys, threading, time
import psycopg

def connect():
    return psycopg.connect(sys.argv[2], autocommit=True)

def one(connection, query, parameters=()):
    return connection.execute(query, parameters).fetchone()[0]

# Tasks whose payload is when they are due: how late can they be claimed?
def due(connection, number):
    connection.execute(
        "SELECT fairq.enqueue('due', to_jsonb(extract(epoch FROM t)), run_at => t)"
        " FROM (SELECT soon(500) + n * interval '37 ms' AS t FROM generate_series(1, %s) n ORDER BY random()) x", (number,))
    depths = one(connection, "SELECT scheduled || ' ' || ready FROM fairq.queue_stats WHERE queue = 'due'")
    late = []
    give_up = time.time() + 20
    while len(late) < number and time.time() < give_up:
        rows = connection.execute("SELECT payload FROM fairq.claim('due', 10, lease => '1 h')").fetchall()
        now = time.time()
        late += [now - float(row[0]) for row in rows]
        if not rows:
            time.sleep(0.001)
    return {"late": late, "depths": depths}

# Many leases that run out at one time, while others use the queue.
def crowd(connection, number):
    leases = connection.execute(
        "SELECT id, extract(epoch FROM lease_until)::float8 FROM fairq.claim('crowd', %s, lease => '1500 ms')", (number,)).fetchall()
    tasks = {row[0] for row in leases}
    deadline = leases[0][1]
    end = []
    claims, acked, produced, errors = [], [], [], []

    def claimer():
        with connect() as c:
            while not end:
                begin = time.time()
                rows = c.execute("SELECT id, receipt FROM fairq.claim('crowd', 5)").fetchall()
                claims.append((begin, time.time() - begin, len(rows)))
                if rows:
                    done = c.execute("SELECT * FROM fairq.ack_many(%s::uuid[])", ([row[1] for row in rows],)).fetchall()
                    if len(done) != len(rows):
                        errors.append("lost a lease")
                    acked.extend(row[0] for row in rows)
                time.sleep(0.005)

    def producer():
        with connect() as c:
            while not end:
                produced.extend(one(c, "SELECT fairq.enqueue_many('crowd', array_fill('{}'::jsonb, ARRAY[5]), group_keys => ARRAY['new'])"))
                time.sleep(0.005)

    def guarded(work):
        try:
            work()
        except Exception as problem:
            errors.append(str(problem))

    threads = [threading.Thread(target=guarded, args=(work,)) for work in (claimer, producer)]
    for thread in threads:
        thread.start()
    back = None
    while back is None and time.time() < deadline + 20:
        time.sleep(0.02)
        if one(connection, "SELECT count(*) FROM fairq.leases WHERE queue = 'crowd' AND lease_until <= to_timestamp(%s) + interval '1 ms'", (deadline,)) == 0:
            back = time.time() - deadline
    end.append(True)
    for thread in threads:
        thread.join()
    meanwhile = [claim for claim in claims if deadline < claim[0] < deadline + (back or 0)]
    while True:
        rows = connection.execute("SELECT id FROM fairq.pop('crowd', 10000)").fetchall()
        if not rows:
            break
        acked.extend(row[0] for row in rows)
    return {"back": back, "claims": len(meanwhile), "claimed": sum(claim[2] for claim in meanwhile),
            "slowest": max((claim[1] for claim in claims), default=0), "errors": errors, "produced": len(produced),
            "wrong": len(acked) != len(set(acked)) or set(acked) != tasks | set(produced)}

# Leases are extended at the time at which they run out. Those of which extend
# says that they are kept are kept. Where a lease has to be longer, it begins earlier.
def extend(connection, number, lease):
    leases = connection.execute(
        "SELECT receipt, extract(epoch FROM lease_until)::float8 FROM fairq.claim('extend', %s, lease => %s * interval '1 ms')", (number, lease)).fetchall()
    receipts = [row[0] for row in leases]
    random.shuffle(receipts)
    kept = []
    time.sleep(max(0, leases[0][1] - time.time() + random.uniform(-0.03 - (lease - 700) / 2000, 0.06)))
    for i in range(0, number, 50):
        kept += [row[0] for row in connection.execute(
            "SELECT fairq.extend_many(%s::uuid[], '1 h')", (receipts[i:i + 50],)).fetchall()]
    acked = connection.execute("SELECT * FROM fairq.ack_many(%s::uuid[])", (kept,)).fetchall()
    return {"kept": len(kept), "acked": len(acked)}

with connect() as connection:
    print(json.dumps(globals()[sys.argv[1]](connection, *map(int, sys.argv[3:]))))
PYTHON

sub client
{
	my ($what, @numbers) = @_;
	my ($python) = python_program('stress.py');
	my ($out, $err) = ('', '');

	IPC::Run::run([ $python, '-c', $program, $what, $node->connstr('postgres'), @numbers ],
		'>', \$out, '2>', \$err, IPC::Run::timeout(60));
	my $answer = eval { decode_json($out) } or die "no answer: $out\n$err";
	return $answer;
}

#
# Due tasks
#
sql($node, "SELECT fairq.create_queue('due')");
# On a machine that is busy with other things some tries may come too late for that
# alone, fifteen hardly.
my ($due, @late);
foreach my $try (1 .. 15)
{
	$due = client('due', 50);
	@late = sort { $a <=> $b } @{ $due->{late} };
	cmp_ok($late[0], '>=', 0, "not before their time: $late[0] s late at least");
	last if $due->{depths} eq '50 0' && @late == 50 && $late[24] < 0.3 && $late[-1] < 1;
}
is($due->{depths}, '50 0', 'scheduled tasks are counted');
is(scalar(@late), 50, 'tasks become ready when they are due');
# (Who looks once a second is half a second late.)
cmp_ok($late[24], '<', 0.3, "the median is $late[24] s late");
cmp_ok($late[-1], '<', 1, "the last is $late[-1] s late");

# One is enough to wake the worker, also if it waits for a later one.
sql($node, "SELECT fairq.create_queue('wake'); SELECT fairq.enqueue('wake', '1', run_at => soon(3600000))");
foreach my $name ('asleep', 'asleep once more')
{
	sql($node, "SELECT fairq.enqueue('wake', '1', run_at => soon(300))");
	soon_in_state('wake', 'ready', 1, "the worker is woken in time, $name");
	sql($node, "SELECT fairq.pop('wake')");
}

sql($node, "SELECT fairq.create_queue('when')");
is( sql($node, <<'SQL'), "1 ready\n2 ready\n3 scheduled\n4 ready", 'run_at in the past, now, in the future, and none');
SELECT cardinality(fairq.enqueue_many('when', ARRAY['1', '2', '3', '4']::jsonb[], run_ats => ARRAY[now() - interval '1 year', now(), now() + interval '1 hour', NULL])) \g /dev/null
SELECT payload::text || ' ' || state FROM fairq.tasks('when') ORDER BY id
SQL
is(sql($node, "SELECT count(*) FROM fairq.claim('when', 10)"), 3, 'claim: what is due, and nothing else');
is(sql($node, "SELECT count(*) FROM fairq.claim('when', 10, group_keys => ARRAY[''])"), 0, 'claim of a group: nothing else');
foreach my $policy ('time', 'priority')
{
	sql($node, <<"SQL");
SELECT fairq.create_queue('$policy', policy => '$policy', buckets => 4);
SELECT fairq.enqueue('$policy', to_jsonb(n), run_at => now() + (200 + n) * interval '1 ms', priority => n) FROM generate_series(1, 50) n ORDER BY random();
SQL
	soon_in_state($policy, 'ready', 50, "policy $policy: all become ready");
	is( sql($node, "SELECT array_agg(payload::int) = ARRAY(SELECT generate_series(1, 50)) FROM fairq.claim('$policy', 50)"),
		't',
		"policy $policy: they come in its order");
}

#
# Transactions
#
sql($node, "SELECT fairq.create_queue('x')");
{
	my ($late, $both, $never) = map { session($node) } 1 .. 3;

	# Two are late; what is scheduled by others for before and after is ready
	# and claimed when they commit.
	$late->safe("BEGIN; SELECT put('x', 1, soon(200), 'late')");
	$both->safe("BEGIN; SELECT put('x', 1, soon(100), 'late'); SAVEPOINT a; SELECT put('x', 1, soon(100), 'never'); ROLLBACK TO a; SAVEPOINT b; SELECT put('x', 1, soon(900), 'kept'); RELEASE b");
	$never->safe("BEGIN; SELECT put('x', 1, soon(100), 'never'), put('x', 1500, soon(1000), 'never')");
	sql($node, "SELECT put('x', 1, soon(50 * n)) FROM generate_series(1, 10) n");
	soon_in_state('x', 'ready', 10, 'late commit: others become ready');
	sql($node, "SELECT count(*) FROM fairq.pop('x', 10)");
	$never->safe('ROLLBACK');
	$late->safe('COMMIT');
	soon_in_state('x', 'ready', 1, 'late commit: its task is ready');
	$both->safe('COMMIT');
	ok(wait_for(sub { sql($node, "SELECT count(*) FROM fairq.tasks('x', 'ready', 'late')") == 2 }, $soon), 'late commit: and that of the other one');
	soon_in_state('x', 'ready', 3, 'savepoint: what was kept becomes ready');
	is(sql($node, "SELECT string_agg(group_key, ' ' ORDER BY group_key) FROM fairq.tasks('x')"),
		'kept late late', 'rollback: of the others there is nothing');
	is(sql($node, "SELECT scheduled || ' ' || ready FROM fairq.queue_stats WHERE queue = 'x'"), '0 3', 'rollback: nor are they counted');
	$_->quit foreach $late, $both, $never;
}

# Those that are in nobody's hands do not wait for the others.  There are more of
# both than one pass reads, many of them due at the same time.
sql($node, <<'SQL');
SELECT fairq.drop_queue('x');
SELECT fairq.create_queue('x');
SELECT fairq.create_queue('y');
BEGIN;
SELECT put('x', 1, soon(200), 'prepared');
PREPARE TRANSACTION 'good';
BEGIN;
SELECT put('x', 1, soon(200), 'never');
PREPARE TRANSACTION 'bad';
BEGIN;
SELECT put('x', 1, soon(500), 'early');
PREPARE TRANSACTION 'early';
COMMIT PREPARED 'early';
SQL
{
	my $user = session($node);
	# They are locked before they are due; on a busy machine with more time for it.
	my $t;
	foreach my $ms (3000, 20000, 60000)
	{
		$t = sql($node, "SELECT soon($ms)");
		$user->safe("SELECT put('x', 1200, '$t', 'locked'); BEGIN; SELECT count(*) FROM (SELECT id FROM fairq.q_x WHERE group_key = 'locked' FOR UPDATE) l");
		last if $user->safe("SELECT clock_timestamp() < '$t'") eq 't';
		$user->safe("ROLLBACK; SELECT fairq.purge_group('x', 'locked')");
	}
	sql($node, <<"SQL");
SELECT put('x', 2500, '$t', 'same time');
SELECT put('x', 1, '$t'::timestamptz + n * interval '10 us', 'one time each') FROM generate_series(1, 2500) n;
SELECT put('y', 1, '$t'::timestamptz + interval '300 ms');
SQL
	soon_in_state('x', 'ready', 5001, 'many at a time, some in the hands of others: all the others become ready', 60 + $soon);
	soon_in_state('y', 'ready', 1, 'another queue does not wait');
	sql($node, "ROLLBACK PREPARED 'bad'");
	sql($node, "COMMIT PREPARED 'good'");
	soon_in_state('x', 'ready', 5002, 'prepared: ready when it is committed');
	$user->safe('ROLLBACK');
	soon_in_state('x', 'ready', 6202, 'locked: ready when the lock is gone');
	is( sql($node, "SELECT string_agg(DISTINCT group_key, ' ' ORDER BY group_key) FROM fairq.pop('x', 7000) WHERE group_key !~ 'time'"),
		'early locked prepared',
		'and each can be claimed');
	is(in_state('x', 'scheduled'), 0, 'nothing is left');

	# A whole table that is locked.
	$user->safe('BEGIN; LOCK TABLE fairq.q_x IN SHARE MODE');
	my $waiting = session($node);
	$waiting->send("SELECT put('x', 1, soon(100))");
	sql($node, "SELECT put('y', 1, soon(100))");
	soon_in_state('y', 'ready', 2, 'a table is locked: another queue does not wait');
	$user->safe('ROLLBACK');
	soon_in_state('x', 'ready', 1, 'a table was locked: it is maintained again');
	$_->quit foreach $user, $waiting;
}

# Written by SQL, also while our trigger did not look.
sql($node, <<'SQL');
INSERT INTO fairq.q_y (id, state, group_key, priority, cost, payload, enqueued_at, attempts, run_at)
	SELECT id + 1000000, 's', group_key, priority, cost, payload, enqueued_at, attempts, soon(100) FROM fairq.q_y;
SQL
soon_in_state('y', 'ready', 4, 'written by SQL');
sql($node, <<'SQL');
BEGIN;
ALTER TABLE fairq.q_y DISABLE TRIGGER ALL;
INSERT INTO fairq.q_y (id, state, group_key, priority, cost, payload, enqueued_at, attempts, run_at)
	SELECT id + 2000000, 's', group_key, priority, cost, payload, enqueued_at, attempts, now() FROM fairq.q_y;
ALTER TABLE fairq.q_y ENABLE TRIGGER ALL;
ALTER TABLE fairq.q_y ENABLE ALWAYS TRIGGER fairq_row_written;
COMMIT;
SQL
soon_in_state('y', 'ready', 8, 'written by SQL, the trigger disabled');

# However many are scheduled, a claim does not see them.
{
	my $session = session($node);
	my $buffers = sub {
		my @buffers;
		foreach my $i (1 .. 20)
		{
			my $plan = decode_json($session->safe("EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) SELECT FROM fairq.claim('many', 10)"));
			push @buffers, $plan->[0]{Plan}{'Shared Hit Blocks'} + $plan->[0]{Plan}{'Shared Read Blocks'};
			is($plan->[0]{Plan}{'Actual Rows'}, 10, 'a claim of ten') if $i == 20;
		}
		return sort { $a <=> $b } @buffers;
	};
	sql($node, "SELECT fairq.create_queue('many'); SELECT put('many', 1000, NULL)");
	$session->safe("SELECT FROM fairq.claim('many', 10)");
	my @before = $buffers->();
	sql($node, "SELECT put('many', 100000, soon(3600000))");
	is(in_state('many', 'scheduled'), 100000, 'many scheduled tasks');
	my @after = $buffers->();
	cmp_ok($after[10], '<=', $before[10] + 1, "a claim reads $before[10] pages without scheduled tasks, and $after[10] with many");
	cmp_ok($after[-1], '<=', $before[-1] + 20, "at most $before[-1] and $after[-1]");
	sql($node, "SELECT fairq.drop_queue('many')");
	$session->quit;
}

#
# Losses and attempts: they wait alike.
#
sql($node, <<'SQL');
SELECT fairq.create_queue('retry', backoff_base => '100 s', backoff_max => '1000 s', max_attempts => 6);
SELECT put('retry', 40, NULL);
SQL
foreach my $attempt (1 .. 7)
{
	# Lost, the first time, and by who claims them; more often they would come alone.
	sql($node, "CREATE TABLE claimed AS SELECT id, attempt, lease_until FROM fairq.claim('retry', 100, lease => CASE WHEN $attempt = 1 THEN '100 ms' ELSE '1 h' END::interval)");
	sql($node, "UPDATE claimed SET lease_until = clock_timestamp(); SELECT count(fairq.nack(receipt, 'no')) FROM fairq.leases WHERE queue = 'retry'") if $attempt > 1;
	is(sql($node, 'SELECT count(*), min(attempt), max(attempt) FROM claimed'), "40|$attempt|$attempt", "attempt $attempt: claimed");
	soon_in_state('retry', $attempt < 7 ? 'scheduled' : 'dead', 40, "attempt $attempt: it ends");
	is(sql($node, "SELECT DISTINCT attempts, lost, history->-1->>'error' FROM fairq.tasks('retry')"),
		$attempt == 1 ? '0|1|lease expired' : $attempt - 1 . '|1|no', "attempt $attempt: counted, with a reason");
	if ($attempt < 7)
	{
		# From the deadline to when it is due is the lateness more.
		my $wait = 100 * 2**($attempt == 1 ? 0 : $attempt - 2);
		my ($low, $high) = split /\|/, sql($node, "SELECT min(seconds(t.run_at - c.lease_until)), max(seconds(t.run_at - c.lease_until)) FROM fairq.tasks('retry') t JOIN claimed c USING (id)");

		$wait = 1000 if $wait > 1000;
		cmp_ok($low, '>=', 0.9 * $wait, "attempt $attempt: a wait of $wait s, less a tenth ($low)");
		cmp_ok($high, '<=', ($wait < 1000 ? 1.1 : 1) * $wait + $soon, "attempt $attempt: and more a tenth, but not beyond the limit ($high)");
		# The lateness is that of all.
		cmp_ok($high - $low, '<=', ($wait < 1000 ? 0.2 : 0.1) * $wait + 1, "attempt $attempt: between them is not more than that ($low .. $high)");
		cmp_ok($high - $low, '>', 0.05 * $wait, "attempt $attempt: not all the same");
		sql($node, 'UPDATE fairq.q_retry SET run_at = now()');
		soon_in_state('retry', 'ready', 40, "attempt $attempt: made due with SQL");
	}
	sql($node, 'DROP TABLE claimed');
}
is(sql($node, "SELECT count(*) FROM fairq.dead_tasks WHERE queue = 'retry' AND attempts = 6"), 40, 'after max_attempts: dead');
is(sql($node, "SELECT fairq.revive_all('retry')"), 40, 'dead tasks are revived');
is(sql($node, "SELECT count(*), min(attempt), max(attempt) FROM fairq.claim('retry', 100)"), '40|1|1', 'and begin anew');

# With a limit of the task's own, and without one.
sql($node, <<'SQL');
SELECT fairq.create_queue('own', backoff_base => '0', max_attempts => 0, max_lost => 0);
SELECT fairq.enqueue('own', '"two"', max_attempts => 2), fairq.enqueue('own', '"any"');
SQL
foreach my $attempt (1 .. 4)
{
	sql($node, "SELECT fairq.nack(receipt, delay => '0') FROM fairq.claim('own', 2)");
	is(sql($node, "SELECT attempts FROM fairq.tasks('own') WHERE payload = '\"any\"'"), $attempt, "max_attempts 0: attempt $attempt");
}
is(sql($node, "SELECT payload #>> '{}' || ' ' || state || ' ' || attempts FROM fairq.tasks('own') ORDER BY id"), "two dead 2\nany ready 4", 'max_attempts of the task');
sql($node, q{SELECT fairq.purge('own'); SELECT fairq.enqueue('own', '"two"', max_lost => 2), fairq.enqueue('own', '"any"')});
# What was lost twice comes alone, and not before it has a place again.
ok( wait_for(
		sub {
			sql($node, "SELECT count(*) FROM fairq.claim('own', 2, lease => '50 ms')");
			sql($node, "SELECT bool_and(CASE payload WHEN '\"two\"' THEN state = 'dead' AND lost = 2 ELSE state <> 'dead' AND lost >= 6 END) FROM fairq.tasks('own')") eq 't';
		},
		60),
	'max_lost 0 of the queue, and max_lost of the task')
  or diag(sql($node, "SELECT payload, state, lost FROM fairq.tasks('own')"));

# backoff_base 0: at once, behind what came meanwhile.
sql($node, <<'SQL');
SELECT fairq.create_queue('fresh', backoff_base => '0', buckets => 1);
SELECT fairq.enqueue('fresh', to_jsonb(n)) FROM generate_series(1, 3) n;
CREATE TABLE place AS SELECT id, address, receipt FROM fairq.claim('fresh', lease => '1 h');
SELECT fairq.enqueue('fresh', '4');
SELECT fairq.extend(receipt, '10 ms') FROM place;
SQL
soon_in_state('fresh', 'ready', 4, 'backoff_base 0: ready');
is(sql($node, 'SELECT q.address OPERATOR(fairq.>) p.address FROM place p JOIN fairq.q_fresh q USING (id)'), 't', 'backoff_base 0: with a fresh address');
is(sql($node, "SELECT string_agg(payload::text || ':' || attempt, ' ') FROM fairq.claim('fresh', 10)"), '2:1 3:1 4:1 1:2', 'backoff_base 0: it comes after the others');

# nack
sql($node, <<'SQL');
SELECT fairq.create_queue('nack', backoff_base => '100 s', backoff_max => '150 s', buckets => 1, max_attempts => 3);
SELECT put('nack', 30, NULL);
SQL
my $last = sql($node, "SELECT max(id) FROM fairq.tasks('nack')");

# Its id, the state afterwards and the bounds of the wait.
sub nack_one
{
	my ($delay) = @_;
	my ($id, $low, $high) = split /\|/, sql($node, "SELECT * FROM nack_one('nack', $delay)"), -1;

	return ($id, sql($node, "SELECT state || ' ' || attempts || ' ' || last_error FROM fairq.get_task('nack', $id)"), $low, $high);
}
my ($id, $state, $low, $high) = nack_one("'60 s'");
is($state, 'scheduled 1 no good', 'nack with a delay: scheduled');
ok($low <= 60 && $high >= 60, 'nack with a delay: that long') or diag("$low .. $high");
($id, $state, $low, $high) = nack_one('NULL');
is($state, 'scheduled 1 no good', 'nack without a delay: scheduled');
ok($low <= 110 && $high >= 90, 'nack without a delay: the backoff of the queue') or diag("$low .. $high");
($id, $state) = nack_one("'0'");
is($state, 'ready 1 no good', 'nack with delay 0: ready');
is(sql($node, "SELECT (SELECT address FROM fairq.get_task('nack', $id)) OPERATOR(fairq.>) (SELECT address FROM fairq.get_task('nack', $last))"),
	't', 'nack with delay 0: behind the others');
is( sql($node, <<'SQL'), "eins|t|t\nzwei|t|t", 'nack_many with a delay');
CREATE TEMP TABLE n AS SELECT id, receipt FROM fairq.claim('nack', 2);
SELECT clock_timestamp() AS before \gset
SELECT count(*) FROM fairq.nack_many(ARRAY(SELECT receipt FROM n ORDER BY id), ARRAY['eins', 'zwei'], '50 s') \g /dev/null
SELECT t.last_error, t.state = 'scheduled', t.run_at - interval '50 s' BETWEEN :'before' AND now() FROM n, fairq.get_task('nack', n.id) t ORDER BY n.id
SQL
is( sql($node, <<'SQL'), "leased|0|\ntrue", 'nack rolled back: as if it had not been');
CREATE TEMP TABLE n AS SELECT id, receipt FROM fairq.claim('nack');
BEGIN;
SELECT fairq.nack(receipt, 'no good', '1 s') FROM n \g /dev/null
ROLLBACK;
SELECT t.state, t.attempts, t.last_error FROM n, fairq.get_task('nack', n.id) t;
SELECT fairq.ack(receipt)::text FROM n;
SQL
sql($node, "SELECT fairq.alter_queue('nack', backoff_base => '20 s')");
($id, $state, $low, $high) = nack_one('NULL');
ok($state =~ /^scheduled/ && $low <= 22 && $high >= 18, 'another backoff_base holds at once') or diag("$state $low .. $high");
sql($node, "UPDATE fairq.q_nack SET attempts = 1 WHERE id = $id; UPDATE fairq.q_nack SET run_at = now() WHERE id = $id");
ok(wait_for(sub { sql($node, "SELECT state FROM fairq.get_task('nack', $id)") eq 'ready' }, $soon), 'nacked and due');
is(sql($node, "SELECT count(*) FROM fairq.tasks('nack', 'scheduled')"), 4, 'the others wait');

#
# Leases
#
sql($node, "SELECT fairq.create_queue('lease', backoff_base => '1 h'); SELECT put('lease', 3, NULL)");
my @receipts = column($node, "SELECT receipt FROM fairq.claim('lease', 3, lease => '1 h')");
sql($node, "SELECT fairq.extend('$receipts[0]', '200 ms')");
soon_in_state('lease', 'scheduled', 1, 'a lease that is made shorter runs out then');
is(sql($node, "SELECT fairq.ack('$receipts[0]')"), 'f', 'and is over');
{
	# Under way when its time comes; then it is as if that had not been.
	my $worker = session($node);
	# In one statement, so that the ack does not come too late.
	is($worker->safe("BEGIN; SELECT fairq.extend('$receipts[1]', '500 ms') IS NOT NULL, fairq.ack('$receipts[1]')"),
		't|t', 'an ack that is not committed');
	sql($node, "SELECT fairq.extend('$receipts[2]', '500 ms')");
	soon_in_state('lease', 'scheduled', 2, 'a lease of that time runs out');
	is(in_state('lease', 'leased'), 1, 'one whose ack is not committed does not');
	$worker->safe('ROLLBACK');
	soon_in_state('lease', 'scheduled', 3, 'until that is rolled back');
	$worker->quit;
}

# Extended at the last moment.
{
	my ($both, $lost, $rounds, $lease) = (0, 0, 0, 700);
	sql($node, "SELECT fairq.create_queue('extend', backoff_base => '0')");
	while ($rounds < 3 || $rounds < 12 && $both < 1000)
	{
		sql($node, "SELECT fairq.purge('extend'); SELECT put('extend', 4000, NULL)");
		my $r = client('extend', 4000, $lease);
		note("extended $r->{kept}, acknowledged $r->{acked}");
		$lost += $r->{kept} - $r->{acked};
		# It was neither too early nor too late.
		$both += $r->{kept} if $r->{kept} < 4000;
		# A busy machine needs longer to answer the claim, or to wake up.
		$lease *= 2 if $r->{kept} == 0 && $lease < 10000;
		$rounds++;
	}
	cmp_ok($both, '>', 0, "leases extended while others run out: $both");
	is($lost, 0, 'all of which extend says so are kept');
}

# Many at a time, with others at work.
sql($node, "SELECT fairq.create_queue('crowd', backoff_base => '0')");
my $crowd;
for my $try (1 .. 3)
{
	sql($node, "SELECT put('crowd', 200, NULL, 'g' || n) FROM generate_series(1, 100) n");
	$crowd = client('crowd', 20000);
	note(encode_json($crowd));
	# Once more if it was the machine that was slow.
	last if defined $crowd->{back} && $crowd->{back} < 2 && $crowd->{slowest} < 1;
}
cmp_ok($crowd->{back} // 99, '<', 15, '20,000 leases that run out at a time: seconds until the last is put back');
cmp_ok($crowd->{claims}, '>', 0, "$crowd->{claims} claims meanwhile");
cmp_ok($crowd->{claimed}, '>', 0, "$crowd->{claimed} tasks claimed meanwhile");
cmp_ok($crowd->{slowest}, '<', 5, 'the slowest claim');
is("@{$crowd->{errors}}", '', 'nobody had an error');
ok(!$crowd->{wrong}, "each task was delivered in the end, and once, with $crowd->{produced} new ones");

# A lease of another queue whose time comes while the worker is busy with many;
# several times, for it depends on when.
sql($node, "SELECT fairq.create_queue('few', backoff_base => '0'); SELECT fairq.create_queue('busy', backoff_base => '0', max_ready_per_group => 20000)");
sql($node, "SELECT put('few', 1, NULL); SELECT put('busy', 15000, NULL)");
# Looked at within the server, which sees what another process would look past.
sql($node, <<'SQL');
CREATE FUNCTION busy_when_few_is_back(seconds double precision) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
	deadline timestamptz := clock_timestamp() + seconds * interval '1 s';
BEGIN
	WHILE clock_timestamp() < deadline LOOP
		IF EXISTS (SELECT FROM fairq.tasks('few', 'ready')) THEN
			RETURN (SELECT count(*) FROM fairq.leases WHERE queue = 'busy');
		END IF;
		PERFORM pg_sleep(0.001);
	END LOOP;
	RETURN NULL;
END
$$
SQL
my $left = 0;
foreach my $try (1 .. 20)
{
	# Lost twice they would come alone.
	sql($node, <<"SQL");
UPDATE fairq.q_busy SET lost = NULL;
UPDATE fairq.q_few SET lost = NULL;
SELECT count(*) FROM fairq.claim('busy', 15000, lease => '300 ms');
SELECT count(*) FROM fairq.claim('few', lease => '350 ms');
SQL
	my $leases = sql($node, "SELECT busy_when_few_is_back($soon)");
	isnt($leases, '', "put back while another queue is busy ($try)");
	soon_in_state('busy', 'ready', 15000, "and so are the others ($try)");
	next if $leases eq '' || $leases == 15000;
	$left = $leases if $leases > $left;
	last if $left > 0 && $try >= 3;
}
cmp_ok($left, '>', 0, "put back while another queue is busy: before the others are done ($left)");

#
# In the hands of others
#
sql($node, <<'SQL');
SELECT fairq.create_queue('hands', backoff_base => '0', buckets => 1);
SELECT fairq.enqueue('hands', '"held"', group_key => 'a');
SELECT put('hands', 5, NULL, 'c');
SQL
{
	my $user = session($node);
	# A claim does not mind; that comes second, for its lease is short.
	$user->safe("BEGIN; SELECT id FROM fairq.q_hands WHERE group_key = 'a' FOR UPDATE");
	is(sql($node, "SELECT count(*) FROM fairq.claim('hands', 6, lease => '500 ms')"), 6, 'a row is locked: it can be claimed');
	soon_in_state('hands', 'ready', 5, 'a row is locked whose lease runs out: the others are put back', $patient);
	sql($node, "SELECT put('y', 1, soon(2000))");
	soon_in_state('y', 'ready', 9, 'a row is locked: another queue is maintained', $patient);
	is(in_state('hands', 'leased'), 1, 'a row is locked: its lease is still there');
	$user->safe('ROLLBACK');
	soon_in_state('hands', 'ready', 6, 'a row was locked: it is put back', $patient);
	$user->quit;

	# Its group has not paid for what was in vain.
	sql($node, "SELECT fairq.pop('hands', 6); SELECT fairq.enqueue('hands', '1', group_key => g) FROM generate_series(1, 5), unnest('{a,b}'::text[]) g");
	my ($worst, %n) = (0, a => 0, b => 0);
	foreach my $group (column($node, "SELECT group_key FROM fairq.claim('hands', 10)"))
	{
		$n{$group}++;
		$worst = abs($n{a} - $n{b}) if abs($n{a} - $n{b}) > $worst;
	}
	cmp_ok($worst, '<=', 2, 'a row was locked: its group is not behind the others');
}

# A queue whose maintenance fails.
sql($node, <<'SQL');
SELECT fairq.create_queue('fails', backoff_base => '0');
CREATE SEQUENCE tries;
CREATE FUNCTION refuse(lost int) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
	IF lost > 0 THEN PERFORM nextval('public.tries'); END IF;
	RETURN coalesce(lost, 0) = 0;
END $$;
ALTER TABLE fairq.q_fails ADD CONSTRAINT no_losses CHECK (public.refuse(lost));
SELECT fairq.enqueue('fails', '1');
SQL
my $offset = -s $node->logfile;
sql($node, "SELECT FROM fairq.claim('fails', lease => '100 ms')");
ok(wait_for(sub { sql($node, 'SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM tries') >= 2 }, $patient), 'a queue cannot be maintained: it is tried again');
sql($node, "SELECT put('y', 1, soon(100))");
soon_in_state('y', 'ready', 10, 'a queue cannot be maintained: another one is');
is(sql($node, "SELECT state || lost FROM fairq.tasks('fails')"), 'leased0', 'a queue cannot be maintained: its task is still there');
{
	my $log = PostgreSQL::Test::Utils::slurp_file($node->logfile, $offset);
	is(() = $log =~ /(ERROR|WARNING):/g, 1, 'a queue cannot be maintained: one warning in the log');
	like($log, qr/no_losses/, 'a queue cannot be maintained: the log says why');
}
sql($node, 'ALTER TABLE fairq.q_fails DROP CONSTRAINT no_losses');
soon_in_state('fails', 'ready', 1, 'a queue was mended: it is maintained', $patient);
is(sql($node, "SELECT attempt FROM fairq.claim('fails')"), 2, 'a queue was mended: its task can be claimed');

# What cannot be made ready does not keep leases from ending. (The log says it once.)
$offset = -s $node->logfile;
sql($node, <<'SQL');
SELECT fairq.create_queue('stuck', backoff_base => '0');
SELECT fairq.enqueue('stuck', '"good"') FROM generate_series(1, 3);
ALTER TABLE fairq.q_stuck ADD CONSTRAINT not_ready CHECK (state <> 'r' OR payload <> '"bad"');
SELECT fairq.enqueue('stuck', '"bad"', run_at => soon(200));
SQL
$node->wait_for_log(qr/not_ready/, $offset);
foreach my $n (1 .. 3)
{
	my $id = sql($node, "SELECT id FROM fairq.claim('stuck', lease => '100 ms')");
	ok(wait_for(sub { sql($node, "SELECT state || lost FROM fairq.get_task('stuck', $id)") eq 'ready1' }, $soon),
		"a task cannot be made ready: lease $n runs out all the same");
}
sql($node, 'ALTER TABLE fairq.q_stuck DROP CONSTRAINT not_ready');

#
# A crash
#
sql($node, <<'SQL');
SELECT fairq.create_queue('crash', backoff_base => '1 h');
SELECT put('crash', 1, soon(100), 'long due'), put('crash', 1, soon(2000), 'due'), put('crash', 1, soon(3600000), 'not due'), put('crash', 1, NULL, 'leased');
SELECT FROM fairq.claim('crash', lease => '1 h');
BEGIN;
SELECT put('crash', 1, soon(100), 'prepared');
PREPARE TRANSACTION 'p';
SQL
nothing_swept($node);
my $open = session($node);
$open->safe("BEGIN; SELECT put('crash', 1, soon(100), 'never')");
$node->stop('immediate');
$open->quit;
$node->start;
my $groups = "SELECT string_agg(group_key, ', ' ORDER BY group_key) FROM fairq.tasks('crash', 'ready')";
ok(wait_for(sub { sql($node, $groups) eq 'due, leased, long due' }, $patient), 'crash: what was scheduled becomes ready') or diag(sql($node, $groups));
sql($node, "COMMIT PREPARED 'p'");
ok(wait_for(sub { sql($node, $groups) eq 'due, leased, long due, prepared' }, $soon), 'crash: and what was prepared') or diag(sql($node, $groups));
is(sql($node, "SELECT string_agg(group_key, ', ') FROM fairq.tasks('crash', 'scheduled')"), 'not due', 'crash: and nothing else');
is(sql($node, "SELECT count(*) FROM fairq.claim('crash', 10)"), 4, 'crash: they can be claimed');

$node->stop;
is( PostgreSQL::Test::Utils::slurp_file($node->logfile) =~ /(PANIC|TRAP|was terminated by signal).*/ ? $& : '',
	'', 'no server process broke down');

done_testing();
