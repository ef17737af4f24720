# Unique keys under fire: pgbench with producers that keep and replace tasks of a
# few keys, and workers that acknowledge, pop, nack, release, walk away and roll
# back, while backends are terminated.  An observer looks all the time.
#
# Shown:
# - never two tasks of a key in flight, never two that wait, never two held;
# - no change is lost: producers count a version up in the transaction that
#   enqueues, workers read it when they have the task, and at the end every
#   key's last version has been read by a worker who acknowledged;
# - whatever the order of keys in enqueue_many, there are no deadlocks.
# And with a server to itself: what is held becomes ready after a crash, from
# prepared transactions, from a dump and without a background worker.
#
# To see it fail:
# - let 'keep' write nothing, or do not look for a lease after the write: a
#   version is lost;
# - let enqueue look and write without the lock of the key, or without the look
#   with a snapshot: two that wait;
# - do not write keys in order: deadlocks;
# - leave out leases_closing: something stays held until the next restart;
# - do not look at what is held after a start: the one of the crash stays held.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use FairqNode;
use FairqPgbench;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time usleep);

my $seconds = $ENV{FAIRQ_HAMMER_SECONDS} // 10;
my $rounds = 4;
my $keys = 8;

my $node = fairq_node('unique', conf => <<'CONF');
max_connections = 60
max_prepared_transactions = 5
shared_buffers = 256MB
autovacuum = on
autovacuum_naptime = 1s
deadlock_timeout = 200ms
CONF

sql($node, <<SQL);
CREATE TABLE data (key int PRIMARY KEY, version int NOT NULL) WITH (fillfactor = 50);
CREATE TABLE processed (LIKE data INCLUDING ALL) WITH (fillfactor = 50);
CREATE TABLE two_in_flight (key int);
INSERT INTO data SELECT n, 0 FROM generate_series(1, $keys) n;
INSERT INTO processed SELECT * FROM data;
SELECT fairq.create_queue('q', buckets => 3, max_attempts => 0, backoff_base => '5 ms', backoff_max => '20 ms');
SQL

# A worker takes an advisory lock for the key of his task and gives it back
# before he ends the task: if somebody else has it, both have the key at once,
# unless that one's task was cancelled, or his backend is being terminated.  Then
# there is one lease of the key, and not two.
my $work = <<'SQL';
SELECT fairq.open_session(bound => true, ttl => '1 h') AS session \gset
SELECT coalesce(max(payload::text)::int, 0) AS key, coalesce(max(receipt::text), '00000000-0000-0000-0000-000000000000') AS receipt
	FROM fairq.claim('q', session => ':session') \gset
INSERT INTO two_in_flight SELECT :key WHERE CASE WHEN :key > 0 AND NOT pg_try_advisory_lock(:key)
	THEN (SELECT count(*) FROM fairq.leases JOIN fairq.q_q t USING (id) WHERE t.unique_key = 'k' || :key) > 1 END;
SELECT coalesce(max(version), 0) AS version FROM data WHERE key = :key \gset
SELECT count(pg_advisory_unlock(:key)) WHERE :key > 0;
SQL
# The order of conditions is the planner's, so what counts comes first by itself.
my $processed = <<'SQL';
UPDATE processed SET version = greatest(version, :version) FROM acked WHERE key = :key AND done;
SQL
my %scripts = (
	produce => <<"SQL",
\\set k random(1, $keys)
\\set replace random(0, 1)
\\set later random(1, 6)
\\set end random(1, 8)
BEGIN;
SELECT fairq.enqueue('q', to_jsonb(:k), group_key => 'g' || :k % 3, priority => :later % 2, unique_key => 'k' || :k,
	on_duplicate => CASE :replace WHEN 0 THEN 'keep' ELSE 'replace' END,
	run_at => CASE :later WHEN 1 THEN clock_timestamp() + interval '5 ms' END);
UPDATE data SET version = version + 1 WHERE key = :k;
\\if :end = 1
ROLLBACK;
\\elif :end = 2
SAVEPOINT s;
SELECT fairq.enqueue('q', to_jsonb(:k), unique_key => 'k' || :k, on_duplicate => 'replace');
ROLLBACK TO s;
COMMIT;
\\else
COMMIT;
\\endif
SQL
	produce_many => <<"SQL",
\\set a random(1, $keys)
\\set b random(1, $keys)
\\set c random(1, $keys)
\\set replace random(0, 1)
BEGIN;
SELECT fairq.enqueue_many('q', ARRAY[to_jsonb(:a), to_jsonb(:b), to_jsonb(:c), '0'], unique_keys => ARRAY['k' || :a, 'k' || :b, 'k' || :c, NULL],
	on_duplicate => CASE :replace WHEN 0 THEN 'keep' ELSE 'replace' END);
UPDATE data SET version = version + 1 WHERE key IN (:a, :b, :c);
COMMIT;
SQL
	ack => $work . <<"SQL",
\\set end random(1, 4)
BEGIN;
WITH acked AS MATERIALIZED (SELECT fairq.ack(':receipt') AS done) $processed
\\if :end = 1
ROLLBACK;
\\else
COMMIT;
\\endif
SELECT fairq.release(':receipt');
SELECT fairq.close_session(':session');
SQL
	give_back => $work . <<'SQL',
\set end random(1, 3)
\if :end = 1
SELECT fairq.nack(':receipt', NULL, '0');
\elif :end = 2
SELECT fairq.nack(':receipt');
\else
SELECT fairq.release(':receipt');
\endif
SELECT fairq.close_session(':session');
SQL
	pop => <<"SQL",
\\set end random(1, 3)
BEGIN;
SELECT coalesce(max(payload::text)::int, 0) AS key FROM fairq.pop('q') \\gset
SELECT coalesce(max(version), 0) AS version FROM data WHERE key = :key \\gset
WITH acked AS (SELECT true AS done) $processed
\\if :end = 1
ROLLBACK;
\\else
COMMIT;
\\endif
SQL
	walk_away => <<'SQL',
SELECT count(*) FROM fairq.claim('q', 1, lease => '20 ms');
SQL
	# By a client of its own: tasks that wait are cancelled, by those who see to it.
	cancel => <<"SQL",
\\set k random(1, $keys)
BEGIN;
SELECT count(fairq.cancel('q', id)) AS n FROM fairq.tasks('q', 'ready') WHERE unique_key = 'k' || :k \\gset
SELECT fairq.enqueue('q', to_jsonb(:k), unique_key => 'k' || :k);
COMMIT;
\\sleep 20 ms
SQL
);

my $directory = PostgreSQL::Test::Utils::tempdir();
my %weights = (
	produce => 40, produce_many => 15, ack => 40, give_back => 10, pop => 15,
	walk_away => 1, cancel => 1);

# What there must never be, in one snapshot.
my $broken = <<'SQL';
SELECT unique_key, string_agg(state, ' ') FROM fairq.tasks('q') WHERE unique_key IS NOT NULL
GROUP BY unique_key HAVING count(*) FILTER (WHERE state = 'leased') > 1
	OR count(*) FILTER (WHERE state = 'held') > 1
	OR count(*) FILTER (WHERE state NOT IN ('held', 'dead')) > 1
SQL

# The observer looks for a while and says what it has seen.
sql($node, <<SQL);
CREATE TABLE observed (looks int, held bigint, broken text);
CREATE PROCEDURE observe(until timestamptz) LANGUAGE plpgsql AS \$\$
DECLARE
	looks int := 0;
	held bigint := 0;
	broken text;
	all_broken text := '';
BEGIN
	WHILE clock_timestamp() < until LOOP
		SELECT string_agg(unique_key || ': ' || string_agg, ', ') INTO broken FROM ($broken) x;
		all_broken := all_broken || coalesce(broken || ', ', '');
		looks := looks + 1;
		held := held + (SELECT count(*) FROM fairq.tasks('q', 'held'));
		COMMIT;
		PERFORM pg_sleep(0.001);
	END LOOP;
	INSERT INTO observed VALUES (looks, held, all_broken);
END \$\$;
SQL
my $errors = '';
my @failed;
my $kills = 0;
foreach my $round (1 .. $rounds)
{
	my $length = $seconds / $rounds;
	my $until = time() + $length;
	local $ENV{PGAPPNAME} = 'pgbench';
	my $load = start_pgbench($node, { map { $_ => [ $weights{$_}, $scripts{$_} ] } keys %weights },
		'-c', 16, '-j', 2, '-T', int($length + 1));
	local $ENV{PGAPPNAME} = 'observer';
	my $observer = session($node);
	$observer->send("CALL observe(clock_timestamp() + interval '$length s')");

	while (time() < $until)
	{
		usleep(300_000);
		$kills += sql($node,
			"SELECT count(pg_terminate_backend(pid)) FROM (SELECT pid FROM pg_stat_activity WHERE application_name = 'pgbench' ORDER BY random() LIMIT 1) x"
		);
	}
	# A client whose backend was terminated ends, and pgbench says so.
	$load->finish;
	is($observer->ended, '', "round $round was observed");
	$observer->quit;
	$errors .= $load->errors;
	# With a deadlock a client goes on, and does not say a word about it but here.
	push @failed, $load->output =~ /number of failed transactions: (\d+)/ ? $1 : 'unknown';
}
my ($looks, $held_seen, $seen) = split /\|/,
  sql($node, "SELECT sum(looks), sum(held), string_agg(broken, '') FROM observed");

# A client whose backend was terminated says so, and what it was doing, in one line.
my @errors = grep { !/terminating connection due to administrator command/ }
  $errors =~ /((?:ERROR|FATAL|PANIC):  .*|expected one row.*)/g;
my ($versions, $enqueued) = split /\|/,
  sql($node, "SELECT (SELECT sum(version) FROM data), (SELECT enqueued FROM fairq.queue_stats)");
note("$versions versions, $enqueued tasks, $looks looks, $kills terminated, held per look: "
	  . $held_seen / $looks);
note($errors);
cmp_ok($versions, '>', 50 * $seconds, "$versions versions");
cmp_ok($enqueued, '<', 2 * $versions, 'fewer tasks than versions and tasks without a key');
cmp_ok($held_seen, '>', 0, 'tasks were held');
cmp_ok($kills, '>', 0, 'backends were terminated');
is(join("\n", @errors), '', 'no error but the terminated');
is(sql($node, 'SELECT sum(deadlocks) FROM pg_stat_database'), 0, 'no deadlock');
is("@failed", join(' ', ('0') x $rounds), 'nor another transaction that failed');
is($seen, '', 'never two of a key that wait, are held or are in flight');
is(sql($node, 'SELECT count(*) FROM two_in_flight'),
	0, 'never two workers with a task of one key');

# The drain: everything becomes ready by itself, and soon.
my $left = 'all';
wait_for(
	sub {
		sql($node, <<SQL);
DO \$\$
DECLARE
	k int;
BEGIN
	LOOP
		SELECT payload::text::int INTO k FROM fairq.pop('q');
		EXIT WHEN NOT FOUND;
		UPDATE processed p SET version = (SELECT version FROM data d WHERE d.key = k) WHERE p.key = k;
		COMMIT;
	END LOOP;
END \$\$;
SQL
		$left = sql($node, "SELECT string_agg(concat_ws(' ', unique_key, state, attempts), ', ') FROM fairq.tasks('q')");
		return $left eq '';
	},
	120);
is($left, '', 'the drain finds all');
is( sql(
		$node,
		"SELECT string_agg(format('key %s: %s of %s', d.key, p.version, d.version), ', ') FROM data d JOIN processed p USING (key) WHERE p.version <> d.version"
	),
	'',
	'the last version of every key was read by a worker');
is( sql(
		$node,
		'SELECT ready, leased, scheduled, held, dead FROM fairq.queue_stats'),
	'0|0|0|0|0',
	'and the statistics say so');
nothing_swept($node);

# ---------------------------------------------------------------------------
# One at a time.

sub states
{
	my ($queue, $db) = @_;

	return sql($node,
		"SELECT coalesce(string_agg(payload::text || ' ' || state, ', ' ORDER BY id), 'none') FROM fairq.tasks('$queue')",
		$db);
}

sub soon
{
	my ($queue, $expected, $name, $db) = @_;
	my $states;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	wait_for(sub { ($states = states($queue, $db)) eq $expected; }, 30);
	is($states, $expected, $name);
	return;
}

# Task 1 in flight, 2 held behind it.  Answers the receipt.
sub one_held
{
	my ($queue) = @_;

	sql($node, "SELECT fairq.create_queue('$queue')");
	sql($node, "SELECT fairq.enqueue('$queue', '1', unique_key => 'k')");
	my $receipt = sql($node, "SELECT receipt FROM fairq.claim('$queue', lease => '1 h')");
	sql($node, "SELECT fairq.enqueue('$queue', '2', unique_key => 'k')");
	return $receipt;
}

# A producer has the one that is held in hand when the other one is acknowledged,
# and then the server is gone.
my $receipt = one_held('crash');
my $producer = session($node);
$producer->safe('BEGIN');
$producer->safe("SELECT fairq.enqueue('crash', '3', unique_key => 'k', on_duplicate => 'replace')");
is(sql($node, "SELECT fairq.ack('$receipt')"), 't', 'acknowledged');
is(states('crash'), '2 held', 'the one that is held is being written');
$node->stop('immediate');
$producer->quit;
$node->start;
soon('crash', '2 ready', 'ready after the crash');

# A prepared transaction, before and after a restart.
$receipt = one_held('prepared');
sql($node, <<'SQL');
BEGIN;
SELECT fairq.enqueue('prepared', '3', unique_key => 'k', on_duplicate => 'replace');
PREPARE TRANSACTION 'unique';
SQL
my ($state) = error_of($node,
	"SET lock_timeout = '100ms'; SELECT fairq.enqueue('prepared', '4', unique_key => 'k');");
is($state, '55P03', 'a producer waits for a prepared one');
is(sql($node, "SELECT fairq.enqueue('prepared', '5', unique_key => 'other') > 0"),
	't', 'of the same key only');
is(sql($node, "SELECT fairq.ack('$receipt')"), 't', 'acknowledged');
$node->restart;
is(states('prepared'), '2 held, 5 ready', 'in doubt after a restart');
sql($node, "COMMIT PREPARED 'unique'");
soon('prepared', '3 ready, 5 ready', 'ready when it is committed');

# A dump: what was in flight is ready, what was held is held behind it.
$receipt = one_held('dumped');
$node->command_ok(
	[ 'pg_dump', '-Fc', '-f', "$directory/dump", '-h', $node->host, '-p', $node->port, 'postgres' ],
	'dumped');
sql($node, 'CREATE DATABASE restored');
$node->command_ok(
	[ 'pg_restore', '-d', 'restored', '-h', $node->host, '-p', $node->port, "$directory/dump" ],
	'restored');
is(states('dumped', 'restored'), '1 ready, 2 held', 'restored as it was');
sql($node, "SELECT fairq.ack(receipt) FROM fairq.claim('dumped')", 'restored');
is(states('dumped', 'restored'), '2 ready', 'and goes on');
sql($node, "UPDATE fairq.q_dumped SET state = 'h', address = NULL", 'restored');
sql($node, 'DROP DATABASE restored');

# Without a worker: claims that find nothing do it.
$node->append_conf('postgresql.conf', 'pgfairq.max_workers = 0');
$node->restart;
$receipt = one_held('alone');
$producer = session($node);
$producer->safe('BEGIN');
$producer->safe("SELECT fairq.enqueue('alone', '3', unique_key => 'k', on_duplicate => 'replace')");
sql($node, "SELECT fairq.ack('$receipt')");
$producer->safe('ROLLBACK');
is(states('alone'), '2 held', 'without a worker it is held');
is(sql($node, "SELECT count(*) FROM fairq.claim('alone')"), 0, 'until a claim that finds nothing');
is(sql($node, "SELECT payload FROM fairq.claim('alone')"), 2, 'makes it ready');
$producer->quit;

$node->stop;
unlike(
	PostgreSQL::Test::Utils::slurp_file($node->logfile),
	qr/PANIC|TRAP|terminated by signal/,
	'no server process died');
done_testing();
