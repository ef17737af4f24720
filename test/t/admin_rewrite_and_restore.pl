# Tables rewritten under outstanding leases; databases dropped, copied and
# restored.
#
# Shown: I1, I2, I3 and I9 with VACUUM FULL, CLUSTER, REINDEX, an UPDATE of
# the row by its owner, TRUNCATE; DROP and CREATE DATABASE and EXTENSION;
# pg_dump and restore; CREATE DATABASE ... TEMPLATE; and that two databases
# with queues of one name never see each other's tasks.
#
# To see it fail, take one of these guards out of the engine:
# - the test that the row at the place remembered in the lease is the task:
#   after VACUUM FULL and CLUSTER (in reverse order, so that every place has
#   another task) the wrong rows are deleted;
# - the look-up by id when it is not: acks answer false;
# - the question how long the table is now, where a place is beyond what the
#   session knows, or what it knows taken for true for ever: an error;
# - the same for the places remembered in a lane's window: a claim gives
#   payloads of other tasks, or nothing;
# - the database's oid in the key of the queue: tasks of other databases;
# - forgetting a queue's state when its relation, extension or database is
#   dropped: the new queue goes on where the old one stopped, or the limit of
#   queues is reached.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use FairqNode;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = fairq_node('rewrite', conf => <<'CONF');
pgfairq.max_queues = 16
max_connections = 30
CONF

# Helpers for every database.
my $helpers = <<'SQL';
CREATE TABLE held (seq serial, id bigint, n text, receipt uuid);
-- claim and remember
CREATE FUNCTION hold(q text, howmany int) RETURNS text LANGUAGE sql AS $$
	WITH h AS (INSERT INTO held (id, n, receipt)
			SELECT id, payload->>'n', receipt FROM fairq.claim(q, howmany, lease => '1 h') RETURNING n)
	SELECT string_agg(n, ' ') FROM h $$;
CREATE FUNCTION put(q text, g text, first int, last int) RETURNS void LANGUAGE sql AS $$
	SELECT fairq.enqueue(q, jsonb_build_object('n', g || i), group_key => g)
	  FROM generate_series(first, last) i ORDER BY i $$;
-- acknowledge what was held longest, and say which row disappeared
CREATE FUNCTION done(q text, howmany int) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	h record;
	gone text;
	answer text := '';
BEGIN
	FOR h IN DELETE FROM held WHERE seq IN (SELECT seq FROM held ORDER BY seq LIMIT howmany)
		RETURNING seq, id, n, receipt
	LOOP
		IF NOT fairq.ack(h.receipt) THEN
			answer := answer || ' ' || h.n || '=false';
			CONTINUE;
		END IF;
		EXECUTE format('SELECT payload->>''n'' FROM fairq.%I WHERE id = %s', 'q_' || q, h.id) INTO gone;
		answer := answer || ' ' || h.n || coalesce(' is still there: ' || gone, '');
	END LOOP;
	RETURN substr(answer, 2);
END $$;
SQL
sql($node, $helpers);

sub names
{
	my ($g, $first, $last) = @_;

	return join(' ', map { "$g$_" } $first .. $last);
}

#
# Rewrites
#
sql($node, <<'SQL');
SELECT fairq.create_queue('r', buckets => 1);
SELECT put('r', 'a', 1, 200);
-- an order for CLUSTER that moves every row
CREATE INDEX backwards ON fairq.q_r ((-id));
SQL
is(sql($node, "SELECT hold('r', 40)"), names('a', 1, 40), 'claimed 40');

my $next_ack = 1;
my $next_claim = 41;
my $cluster_index = sql($node,
	"SELECT relname FROM pg_index JOIN pg_class c ON c.oid = indexrelid WHERE indrelid = 'fairq.q_r'::regclass AND indisprimary"
);
my $address_index = sql($node,
	"SELECT relname FROM pg_index JOIN pg_class c ON c.oid = indexrelid WHERE indrelid = 'fairq.q_r'::regclass AND pg_get_indexdef(indexrelid) LIKE '%(address)%'"
);
foreach my $command (
	'VACUUM FULL fairq.q_r',
	'CLUSTER fairq.q_r USING backwards',
	'VACUUM FULL fairq.q_r',
	"CLUSTER fairq.q_r USING $cluster_index",
	'REINDEX TABLE fairq.q_r',
	'REINDEX TABLE CONCURRENTLY fairq.q_r',
	"REINDEX INDEX CONCURRENTLY fairq.$address_index",
	'UPDATE fairq.q_r SET headers = \'{"touched": true}\'',
	'UPDATE fairq.q_r SET headers = NULL; UPDATE fairq.q_r SET headers = NULL',
	'ALTER TABLE fairq.q_r SET (fillfactor = 50); VACUUM FULL fairq.q_r',
	'VACUUM FREEZE fairq.q_r; CLUSTER fairq.q_r USING backwards'
  )
{
	sql($node, $command);
	is(sql($node, "SELECT done('r', 3)"),
		names('a', $next_ack, $next_ack + 2),
		"acks of leases from before: $command");
	$next_ack += 3;
	is(sql($node, "SELECT hold('r', 10)"),
		names('a', $next_claim, $next_claim + 9),
		"claims go on after: $command");
	$next_claim += 10;
}

# nack, release, extend and cancel by place as well
sql($node, 'CLUSTER fairq.q_r USING backwards');
is( sql(
		$node,
		"SELECT string_agg(n, ' ') FROM (SELECT n, receipt FROM held ORDER BY seq LIMIT 5) h WHERE fairq.release(receipt)"
	),
	names('a', $next_ack, $next_ack + 4),
	'release after CLUSTER');
is(sql($node, "DELETE FROM held WHERE seq IN (SELECT seq FROM held ORDER BY seq LIMIT 5); SELECT hold('r', 5)"),
	names('a', $next_ack, $next_ack + 4),
	'they are the next again');
sql($node, 'VACUUM FULL fairq.q_r');
is( sql(
		$node, <<'SQL'),
WITH h AS (SELECT seq, id, receipt, n FROM held ORDER BY seq LIMIT 1)
SELECT n, fairq.nack(receipt, 'no', '0'), (SELECT state || attempts FROM fairq.get_task('r', id)) FROM h;
SELECT n, state, attempts, last_error FROM held, fairq.get_task('r', held.id) WHERE last_error IS NOT NULL;
DELETE FROM held WHERE seq = (SELECT min(seq) FROM held);
SQL
	'a' . ($next_ack + 5) . "|t|leased0\na" . ($next_ack + 5) . '|ready|1|no',
	'nack after VACUUM FULL');

# Everything else comes out once, and then nothing.
sql($node, "CLUSTER fairq.q_r USING $cluster_index");
my $rest = sql($node, 'SELECT count(*) FROM fairq.q_r') -
  sql($node, 'SELECT count(*) FROM held');
is( sql(
		$node,
		"SELECT count(*), count(DISTINCT id) FROM fairq.pop('r', 1000)"),
	"$rest|$rest",
	'the rest comes once');
my $held = sql($node, 'SELECT count(*) FROM held');
unlike(sql($node, "SELECT done('r', 1000)"),
	qr/false|still/, "and the $held held are acknowledged");
is(sql($node, 'SELECT count(*) FROM fairq.q_r; SELECT count(*) FROM fairq.leases'),
	"0\n0", 'nothing is left');

# VACUUM FULL while another session is in the middle of everything
sql($node, "SELECT put('r', 'm', 1, 30)");
sql($node, "SELECT hold('r', 3)");
{
	my $s = session($node);
	$s->safe(
		"BEGIN; CREATE TEMP TABLE c AS SELECT * FROM fairq.claim('r', 3)");
	# The rewrite must wait for the transaction, or not disturb it.
	my $v = session($node);
	$v->send('VACUUM FULL fairq.q_r');
	is( $s->safe('SELECT count(*) FROM c WHERE fairq.ack(receipt)'),
		3, 'a transaction that claimed goes on while VACUUM FULL waits');
	$s->safe('COMMIT');
	$v->safe('SELECT 1');
	is(sql($node, "SELECT done('r', 3)"),
		names('m', 1, 3), 'and after it the leases from before are good');
	is(sql($node, "SELECT hold('r', 2)"), 'm7 m8', 'and claims go on');
	$_->quit foreach $s, $v;
}

#
# VACUUM cuts off the end of the table, whose length a session knows
#
{
	my $s = session($node);

	# Deleted with SQL, they leave places in the lanes' windows: beyond the end.
	$s->safe("SELECT put('r', 'w', 1, 2000)");
	$s->safe("SELECT hold('r', 1)");
	sql($node, q{DELETE FROM fairq.q_r WHERE id NOT IN (SELECT id FROM held)});
	my $before = sql($node, q{SELECT pg_relation_size('fairq.q_r')});
	ok( wait_for(
			sub {
				sql($node, q{VACUUM (TRUNCATE) fairq.q_r; SELECT pg_relation_size('fairq.q_r')}) < $before / 4;
			}),
		'VACUUM cuts off the end of the table');
	is($s->query("SELECT count(*) FROM fairq.claim('r', 3000)"),
		0, 'a claim does not look for rows beyond it');
	sql($node, "SELECT done('r', 100); TRUNCATE held");
	$s->quit;
}

#
# TRUNCATE
#
is( sql(
		$node, <<'SQL'),
TRUNCATE fairq.q_r;
SELECT count(*) FROM held WHERE fairq.ack(receipt);
SELECT count(*) FROM fairq.claim('r', 100);
SELECT put('r', 't', 1, 3);
SELECT hold('r', 100);
SQL
	"0\n0\n\nt1 t2 t3",
	'TRUNCATE: receipts are no good, new tasks are served');
sql($node, 'DELETE FROM held');
is( sql(
		$node, <<'SQL'),
SELECT put('r', 'u', 1, 3);
BEGIN;
TRUNCATE fairq.q_r;
ROLLBACK;
SELECT hold('r', 100);
SELECT done('r', 100);
SQL
	"\nu1 u2 u3\nu1 u2 u3",
	'TRUNCATE rolled back: nothing happened');
is( sql(
		$node, <<'SQL'),
BEGIN;
TRUNCATE fairq.q_r;
SELECT put('r', 'v', 1, 3);
COMMIT;
SELECT hold('r', 100);
SELECT done('r', 100);
SQL
	"\nv1 v2 v3\nv1 v2 v3",
	'TRUNCATE and enqueue in one transaction');
sql($node, "SELECT fairq.drop_queue('r'); TRUNCATE held");

#
# Queues come and go, more often than pgfairq.max_queues
#
my $answers = sql($node, join("\n", map { <<"SQL" } 1 .. 40));
SELECT fairq.create_queue('come', buckets => 1);
SELECT put('come', 'a', $_, $_);
SELECT hold('come', 5);
SELECT fairq.drop_queue('come');
SQL
is( $answers,
	join("\n", map { "\n\na$_\nt" } 1 .. 40),
	'a queue of one name created and dropped 40 times');
is( sql(
		$node, 'SELECT count(*) FROM held WHERE fairq.ack(receipt); SELECT count(*) FROM fairq.leases'
	),
	"0\n0",
	'receipts of dropped queues are no good');
sql($node, 'TRUNCATE held');

is( sql(
		$node, join("\n", map { <<'SQL' } 1 .. 40)) =~ /[^\n]/ ? 'noise' : '',
BEGIN;
SELECT fairq.create_queue('undone');
SELECT put('undone', 'a', 1, 2);
ROLLBACK;
SQL
	'',
	'create_queue rolled back 40 times');
is( sql(
		$node, <<'SQL'),
SELECT fairq.create_queue('kept', buckets => 1);
SELECT put('kept', 'a', 1, 4);
SELECT hold('kept', 1);
BEGIN;
SELECT fairq.drop_queue('kept');
ROLLBACK;
SELECT hold('kept', 1);
SELECT done('kept', 2);
SELECT hold('kept', 5);
SQL
	"\n\na1\nt\na2\na1 a2\na3 a4",
	'drop_queue rolled back: leases and tasks are as they were');
sql($node, "SELECT fairq.drop_queue('kept'); TRUNCATE held");

#
# The extension dropped and created again
#
foreach my $round (1 .. 20)
{
	my $got = sql($node, <<"SQL");
SELECT fairq.create_queue('e', buckets => 1);
SELECT put('e', 'a', 1, 3);
SELECT hold('e', 2);
SET client_min_messages = error;
DROP EXTENSION pgfairq CASCADE;
DROP SCHEMA IF EXISTS fairq CASCADE;
CREATE EXTENSION pgfairq;
SELECT count(*) FROM held WHERE fairq.ack(receipt);
SELECT count(*) FROM fairq.queues;
TRUNCATE held;
SQL
	if ($got ne "\n\na1 a2\n0\n0")
	{
		is($got, "\n\na1 a2\n0\n0", "DROP EXTENSION, round $round");
		last;
	}
	pass('DROP EXTENSION CASCADE and CREATE EXTENSION, 20 times')
	  if $round == 20;
}

#
# Two databases
#
sql($node, 'CREATE DATABASE one');
sql($node, 'CREATE DATABASE two');
foreach my $db ('one', 'two')
{
	sql($node, <<"SQL", $db);
CREATE EXTENSION pgfairq;
$helpers
SELECT fairq.create_queue('same', buckets => 2);
SELECT put('same', '$db-', 1, 50);
SQL
}
sql($node, "SELECT hold('same', 10)", $_) foreach 'one', 'two';
is( sql(
		$node,
		"SELECT bool_and(n LIKE 'one-%'), count(*) FROM held", 'one'),
	't|10',
	'claims see the tasks of their own database');
is( sql(
		$node,
		"SELECT bool_and(n LIKE 'two-%'), count(*) FROM held", 'two'),
	't|10',
	'also in the other');
my $two = join ',', map { "'$_'" } column($node, 'SELECT receipt FROM held', 'two');
my ($first_of_two) = column($node, 'SELECT receipt FROM held', 'two');
foreach my $try (
	"SELECT count(*) FROM fairq.ack_many(ARRAY[$two]::uuid[])",
	"SELECT count(*) FROM fairq.nack_many(ARRAY[$two]::uuid[], delay => '0')",
	"SELECT count(*) FROM fairq.release_many(ARRAY[$two]::uuid[])",
	"SELECT count(*) FROM fairq.extend_many(ARRAY[$two]::uuid[], '1 s')",
	"SELECT count(*) FROM fairq.leases WHERE receipt IN ($two)",
	"SELECT count(*) FROM fairq.ack_and_claim('same', ARRAY[$two]::uuid[], 1, lease => '1 h') WHERE group_key NOT LIKE 'one-%'",
	"SELECT fairq.ack('$first_of_two')::int",
	"SELECT fairq.release('$first_of_two')::int",
	"SELECT fairq.nack('$first_of_two', 'no', '0')::int",
	"SELECT (fairq.extend('$first_of_two') IS NOT NULL)::int")
{
	(my $name = $try) =~ s/ARRAY\[.*?\]/.../;
	is(sql($node, $try, 'one'), 0, "a receipt of the other database: $name");
}
is(sql($node, "SELECT count(*) FROM fairq.leases", 'two'),
	10, 'the leases there are as they were');
is(sql($node, "SELECT count(*) FROM held WHERE fairq.ack(receipt)", 'two'),
	10, 'and good there');
is( sql(
		$node,
		"SELECT count(*), bool_and(payload->>'n' LIKE 'two-%') FROM fairq.pop('same', 100)",
		'two'),
	'40|t',
	'two databases with queues of one name share nothing');

#
# DROP DATABASE and CREATE DATABASE of the same name; more often than there is
# room for queues
#
foreach my $round (1 .. 6)
{
	sql($node, <<'SQL', 'postgres');
DROP DATABASE two;
CREATE DATABASE two;
SQL
	sql($node, "CREATE EXTENSION pgfairq; $helpers", 'two');
	my $got = sql($node, <<'SQL', 'two');
SELECT fairq.create_queue('same', buckets => 1);
SELECT fairq.create_queue('second');
SELECT fairq.create_queue('third');
SELECT put('same', 'again', 1, 3);
SELECT put('second', 's', 1, 1), put('third', 't', 1, 1);
SELECT hold('same', 10), hold('second', 1), hold('third', 1);
SQL
	is($got, "\n\n\n\n|\nagain1 again2 again3|s1|t1", "DROP DATABASE, round $round");
}
is( sql(
		$node, "SELECT count(*), bool_and(payload->>'n' LIKE 'one-%') FROM fairq.claim('same', 100, lease => '1 h')",
		'one'),
	'39|t',
	'the other database does not notice')
  or diag('39: fifty, less ten claimed, less one by ack_and_claim above');

# A session that has used a queue and sits idle must not keep DROP DATABASE
# from working, beyond what PostgreSQL itself refuses.
{
	my $s = session($node, 'two');
	$s->safe("SELECT * FROM fairq.claim('same', 1)");
	my ($state) = error_of($node, 'DROP DATABASE two');
	is($state, '55006', 'DROP DATABASE with a session in it is refused');
	$s->quit;
	ok( wait_for(
			sub { (error_of($node, 'DROP DATABASE two'))[0] eq '' }),
		'and works when it is gone');
}

#
# CREATE DATABASE ... TEMPLATE
#
sql($node, 'CREATE DATABASE three TEMPLATE one');
is( sql(
		$node, "SELECT count(*), bool_and(payload->>'n' LIKE 'one-%') FROM fairq.claim('same', 100, lease => '1 h')",
		'three'),
	'50|t',
	'a copy of the database: all its tasks are there, and no leases');
is( sql($node, 'SELECT count(*) FROM held WHERE fairq.ack(receipt)', 'three'),
	0, 'receipts of the original are no good in the copy');
is(sql($node, 'SELECT count(*) FROM held WHERE fairq.ack(receipt)', 'one'),
	10, 'but in the original');

#
# ALTER DATABASE RENAME keeps everything, leases too
#
sql($node, "SELECT put('same', 'more', 1, 5); SELECT hold('same', 2)", 'one');
sql($node, 'ALTER DATABASE one RENAME TO uno');
is( sql(
		$node, "SELECT count(*) FROM held WHERE n LIKE 'more%' AND fairq.ack(receipt); SELECT count(*) FROM fairq.claim('same', 10)",
		'uno'),
	"2\n3",
	'a database renamed');

#
# pg_dump and restore
#
sql($node, 'CREATE DATABASE source');
sql($node, <<"SQL", 'source');
CREATE EXTENSION pgfairq;
$helpers
CREATE ROLE producer;
CREATE ROLE owner;
GRANT CREATE ON SCHEMA fairq TO owner;
SELECT fairq.create_queue('q', buckets => 1, lease => '77 s', max_attempts => 1);
SELECT fairq.create_queue('Größe "x" a.b', policy => 'priority', buckets => 3);
SELECT fairq.create_queue('paused', policy => 'time', buckets => 1);
SET ROLE owner;
SELECT fairq.create_queue('owned', buckets => 1);
SELECT fairq.enqueue('owned', '{}');
RESET ROLE;
GRANT INSERT ON fairq.q_q TO producer;
SELECT fairq.pause('paused');
SELECT put('q', 'd', 1, 2);
SELECT fairq.nack(receipt, 'broken', '0') FROM fairq.claim('q', 2);
SELECT put('q', 'a', 1, 5), put('q', 'b', 1, 5);
SELECT hold('q', 3);
SELECT fairq.enqueue('Größe "x" a.b', '{"n": 2}', priority => 2, headers => '{"h": 1}', max_attempts => 3, lease => '5 s');
SELECT fairq.enqueue('Größe "x" a.b', '{"n": 1}', priority => -1);
SELECT fairq.enqueue('paused', '{"n": 1}');
SQL
my $dump = PostgreSQL::Test::Utils::tempdir() . '/dump.sql';
$node->command_ok(
	[ 'pg_dump', '-f', $dump, $node->connstr('source') ], 'pg_dump');
sql($node, 'CREATE DATABASE target');
$node->command_ok(
	[
		'psql', '-X', '-q', '-v', 'ON_ERROR_STOP=1', '-f', $dump,
		$node->connstr('target')
	],
	'restored without an error');

my $settings = 'SELECT * FROM fairq.queues ORDER BY queue COLLATE "C"';
is(sql($node, $settings, 'target'),
	sql($node, $settings, 'source'), 'the settings of all queues');
my $tasks = <<'SQL';
SELECT queue, id, CASE state WHEN 'leased' THEN 'ready' ELSE state END, group_key, payload, headers, priority, cost, attempts, t.max_attempts, enqueued_at, last_error
  FROM fairq.queues q, LATERAL fairq.tasks(queue) t ORDER BY queue COLLATE "C", id
SQL
is(sql($node, $tasks, 'target'), sql($node, $tasks, 'source'), 'all tasks');
is( sql(
		$node,
		"SELECT count(*) FROM held WHERE fairq.ack(receipt)", 'target'),
	0,
	'receipts of the source are no good in the target');
is(sql($node, 'SELECT count(*) FROM held WHERE fairq.ack(receipt)', 'source'),
	3, 'but in the source');

# In the order of their addresses; new tasks behind the backlog of their group.
sql($node, "SELECT put('q', 'a', 6, 6), put('q', 'c', 1, 1); TRUNCATE held",
	'target');
my @order = grep { $_ ne '' } column($node, "SELECT hold('q', 1) FROM generate_series(1, 20)", 'target');
is( join(' ', grep { !/c/ } @order),
	'a1 b1 a2 b2 a3 b3 a4 b4 a5 b5 a6',
	'in order after a restore, new tasks behind the backlog of their group');
my %at;
@at{@order} = 1 .. @order;
cmp_ok($at{c1}, '<=', 4, 'a new group is served soon');
cmp_ok(sql($node, 'SELECT count(*) FROM fairq.dead_tasks', 'target'),
	'==', 2, 'dead tasks are dead');
is( sql($node, "SELECT fairq.revive_all('q'); SELECT string_agg(n, ' ' ORDER BY n) FROM (SELECT payload->>'n' AS n FROM fairq.claim('q', 10)) c", 'target'),
	"2\nd1 d2",
	'and can be revived');
is( sql(
		$node, q{SELECT payload, headers, lease_until - now() < '20 s', fairq.nack(receipt, NULL, '0') FROM fairq.claim('Größe "x" a.b', 2)},
		'target'),
	qq({"n": 1}||f|t\n{"n": 2}|{"h": 1}|t|t),
	'the other queue: order, headers and lease');
is( sql(
		$node,
		"SELECT count(*) FROM fairq.claim('paused'); SELECT fairq.resume('paused'); SELECT count(*) FROM fairq.claim('paused')",
		'target'),
	"0\n\n1",
	'a paused queue is paused until it is resumed');
is( sql(
		$node,
		"SET ROLE owner; SELECT count(*) FROM fairq.claim('owned'); SELECT fairq.drop_queue('owned')",
		'target'),
	"1\nt",
	'the owner is the owner');
is( sql(
		$node,
		"SET ROLE producer; SELECT fairq.enqueue('q', '{}') > (SELECT 16)",
		'target'),
	't',
	'grants are carried, and ids go on');
is( (error_of($node, "SET ROLE producer; SELECT fairq.claim('q')", 'target'))
	[0],
	'42501',
	'and no more than was granted');

# A second dump says the same
my $dump2 = PostgreSQL::Test::Utils::tempdir() . '/dump2.sql';
sql($node, 'CREATE DATABASE target2');
$node->command_ok([ 'pg_dump', '-Fc', '-f', $dump2, $node->connstr('source') ],
	'pg_dump, custom format');
$node->command_ok(
	[ 'pg_restore', '-e', '-d', $node->connstr('target2'), $dump2 ],
	'pg_restore');
is(sql($node, $settings, 'target2'),
	sql($node, $settings, 'source'), 'pg_restore: the settings of all queues');
is(sql($node, $tasks, 'target2'), sql($node, $tasks, 'source'),
	'pg_restore: all tasks');

# Data only, into queues that exist
sql($node, 'CREATE DATABASE target3');
sql($node, "CREATE EXTENSION pgfairq; SELECT fairq.create_queue('q', buckets => 1)",
	'target3');
is( sql($node, "SELECT count(*) FROM fairq.claim('q', 5)", 'target3'),
	0, 'an empty queue');
my $dump3 = PostgreSQL::Test::Utils::tempdir() . '/dump3.sql';
$node->command_ok(
	[
		'pg_dump', '-a', '-t', 'fairq.q_q', '-f', $dump3,
		$node->connstr('source')
	],
	'pg_dump, data of one queue');
$node->command_ok(
	[
		'psql', '-X', '-q', '-v', 'ON_ERROR_STOP=1', '-f', $dump3,
		$node->connstr('target3')
	],
	'loaded into a queue that exists');
is( sql(
		$node,
		"SELECT string_agg(n, ' ') FROM (SELECT payload->>'n' AS n FROM fairq.claim('q', 50)) c",
		'target3'),
	sql(
		$node,
		"SELECT string_agg(payload->>'n', ' ' ORDER BY address) FROM fairq.q_q WHERE address IS NOT NULL",
		'source'),
	'and claimable at once');

$node->stop;
done_testing();
