# Tasks that become claimable behind the point up to which their queue has
# been claimed: they are the next to be claimed, at once, without a sweep (I8).
#
# Such are the tasks of a producer that commits late, of a claim, an ack, a
# nack, a pop or a cancel that is rolled back, of a savepoint rolled back, of
# a backend that dies; rows with old addresses written by SQL or COPY; and
# tasks of prepared transactions.
#
# "Next" is meant literally, and computed: what claim returns is compared with
# the rows that are there, not leased, in the order of their addresses.
#
# To see it fail, take one of these guards out of the engine:
# - the hand-over at commit of an enqueue: the late tasks never come;
# - that a window which is full keeps what comes and drops its largest entry
#   (or lowers the frontier): some of the late tasks never come;
# - the hand-over at rollback of a claim, or of a savepoint: its tasks never
#   come;
# - that a rolled back ack leaves the lease as it was: the task is given to
#   two, or to nobody;
# - the row trigger, for direct SQL: rows written behind the frontier never
#   come;
# - whatever stands for the hand-over at COMMIT PREPARED.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use FairqNode;
use PostgreSQL::Test::Utils;
use Test::More;

# Where a background worker has to do it: I8 says a second, but that is measured
# elsewhere, and without its work it never comes.
my $soon = 10;

my $node = fairq_node('late', conf => <<'CONF');
max_prepared_transactions = 10
max_connections = 30
shared_buffers = 128MB
CONF

sql($node, <<'SQL');
-- number tasks for each of so many groups
CREATE FUNCTION put(q text, g text, groups int, number int) RETURNS bigint LANGUAGE sql AS $$
	SELECT count(unnest) FROM unnest(fairq.enqueue_many(q,
		ARRAY(SELECT jsonb_build_object('g', g) FROM generate_series(1, number) i, generate_series(1, groups) j ORDER BY i, j),
		group_keys => ARRAY(SELECT g || j FROM generate_series(1, number) i, generate_series(1, groups) j ORDER BY i, j)))
$$;
-- what should be claimed next: rows that are there and not leased, in order
CREATE FUNCTION due(q text, howmany int) RETURNS SETOF bigint LANGUAGE plpgsql AS $$
BEGIN
	RETURN QUERY EXECUTE format('SELECT id FROM fairq.%I t WHERE address IS NOT NULL
		AND NOT EXISTS (SELECT FROM fairq.leases l WHERE l.queue = %L AND l.id = t.id)
		ORDER BY fairq.class(address), fairq.block(address), fairq.slot(address) LIMIT %s', 'q_' || q, q, howmany);
END $$;
-- Claim them, in claims of so many, and compare. What is claimed stays
-- leased. Strict: the same tasks in the same order; else the same tasks.
CREATE FUNCTION next(q text, howmany int, batch int DEFAULT NULL, strict boolean DEFAULT true) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	should bigint[] := ARRAY(SELECT due(q, howmany));
	got bigint[] := '{}';
	part bigint[];
BEGIN
	WHILE cardinality(got) < howmany LOOP
		part := ARRAY(SELECT id FROM fairq.claim(q, least(coalesce(batch, howmany), howmany - cardinality(got)), lease => '1 h'));
		EXIT WHEN part = '{}';
		got := got || part;
	END LOOP;
	IF NOT strict THEN
		should := ARRAY(SELECT unnest(should) ORDER BY 1);
		got := ARRAY(SELECT unnest(got) ORDER BY 1);
	END IF;
	IF got = should AND cardinality(got) = howmany THEN
		RETURN 'good';
	END IF;
	RETURN format('asked for %s, due %s, got %s; first due and not got: %s; first got and not due: %s', howmany, cardinality(should), cardinality(got),
		(SELECT x FROM unnest(should) x WHERE x <> ALL (got[1:20000]) LIMIT 1),
		(SELECT x FROM unnest(got) x WHERE x <> ALL (should[1:20000]) LIMIT 1));
END $$;
-- Everything that is left comes, and each task once.
CREATE FUNCTION rest(q text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	should bigint[] := ARRAY(SELECT id FROM due(q, 10000000) id ORDER BY 1);
	got bigint[] := '{}';
	part bigint[];
BEGIN
	LOOP
		part := ARRAY(SELECT id FROM fairq.claim(q, 10000, lease => '1 h'));
		EXIT WHEN part = '{}';
		got := got || part;
	END LOOP;
	got := ARRAY(SELECT unnest(got) ORDER BY 1);
	RETURN CASE WHEN got = should THEN 'good' ELSE format('due %s, got %s', cardinality(should), cardinality(got)) END;
END $$;
SQL

foreach my $buckets (1, 16)
{
	my $b = "$buckets bucket(s)";

	#
	# A producer that commits late, with many tasks of one group or one of
	# many groups. The window of a lane has 512 entries.
	#
	foreach my $case ([ 1, 1 ], [ 100, 1 ], [ 1, 100 ], [ 1, 700 ],
		[ 600 * $buckets, 1 ], [ 20000, 1 ], [ 1, 20000 ])
	{
		my ($groups, $number) = @$case;
		my $all = $groups * $number;
		my $what = "$b, $groups group(s) with $number task(s)";
		my $p = session($node);

		sql($node, "SELECT fairq.create_queue('l', buckets => $buckets, max_ready_per_group => 100000)");
		$p->safe('BEGIN');
		is($p->safe("SELECT put('l', 'late', $groups, $number)"),
			$all, "$what: enqueued and not committed");
		# The others go on far beyond: what is due of theirs comes, and
		# nothing of the late.
		is(sql($node, "SELECT put('l', 'x', 3, 2000)"), 6000, 'others');
		is(sql($node, "SELECT next('l', 5000, 500, $buckets = 1)"),
			'good', "$what: others are served meanwhile")
		  if $buckets == 1;
		is( sql(
				$node,
				"SELECT count(*) FROM fairq.claim('l', 5000, lease => '1 h')"),
			5000,
			"$what: others are served meanwhile") if $buckets > 1;
		$p->safe('COMMIT');

		# With several buckets, one task at a time comes from the lane
		# that is least far along, which is the order of the addresses.
		# The first block of groups that all begin late is before
		# everything else, so their number is what is strictly next.
		my $n = $number == 1 ? $groups : $all;
		$n = 3000 if $n > 3000;
		if ($buckets == 1)
		{
			is(sql($node, "SELECT next('l', $n)"),
				'good', "$what: they are next");
		}
		else
		{
			my $few = $n > 600 ? 600 : $n;
			is(sql($node, "SELECT next('l', $few, 1)"),
				'good', "$what: they are next, one by one");
			is( sql(
					$node,
					"SELECT next('l', $n - $few, NULL, false)"),
				'good',
				"$what: they are next, at once")
			  if $n > $few && $number == 1;
		}
		is(sql($node, "SELECT rest('l')"),
			'good', "$what: and then all others");
		sql($node, "SELECT fairq.drop_queue('l')");
		$p->quit;
	}

	#
	# Rollback of a claim, and of everything else
	#
	foreach my $number (1, 100, 1500)
	{
		my $strict = $buckets == 1 ? 'true' : 'false';
		my $batch = $buckets == 1 ? 'NULL' : '1';
		my $fill = "SELECT fairq.create_queue('r', buckets => $buckets, max_attempts => 0); SELECT put('r', 'x', 10, 1000)";
		my $what = "$b, $number task(s)";
		my $far = "SELECT count(*) FROM fairq.claim('r', 4000, lease => '1 h')";
		my $next = "SELECT next('r', $number, $batch)";

		# Take some, let others go on, and give them up in some way.
		foreach my $way (
			# name, before, in the transaction, how it ends
			[ 'claim', '', "SELECT count(*) FROM fairq.claim('r', $number)", 'ROLLBACK' ],
			[ 'claim in a savepoint', '', "SAVEPOINT a; SELECT count(*) FROM fairq.claim('r', $number)", 'ROLLBACK TO a' ],
			[ 'claim in a savepoint that is released', '', "SAVEPOINT a; SAVEPOINT b; SELECT count(*) FROM fairq.claim('r', $number); RELEASE b", 'ROLLBACK TO a' ],
			[ 'pop', '', "SELECT count(*) FROM fairq.pop('r', $number)", 'ROLLBACK' ],
			[ 'pop in a savepoint', '', "SAVEPOINT a; SELECT count(*) FROM fairq.pop('r', $number)", 'ROLLBACK TO a' ],
			[ 'claim and ack', '', "SELECT count(*) FROM fairq.claim('r', $number) WHERE fairq.ack(receipt)", 'ROLLBACK' ],
			[ 'claim and nack', '', "SELECT count(*) FROM fairq.claim('r', $number) WHERE fairq.nack(receipt, 'no', '0')", 'ROLLBACK' ],
			[ 'claim and release', '', "SELECT count(*) FROM fairq.claim('r', $number) WHERE fairq.release(receipt)", 'ROLLBACK' ],
			[ 'claim and release, committed', '', "SELECT count(*) FROM fairq.claim('r', $number) WHERE fairq.release(receipt)", 'COMMIT' ],
			[ 'release', 'CREATE TEMP TABLE h AS SELECT * FROM fairq.claim(\'r\', %d, lease => \'1 h\')', 'SELECT count(*) FROM h WHERE fairq.release(receipt)', 'COMMIT' ],
			[ 'release_many', 'CREATE TEMP TABLE h AS SELECT * FROM fairq.claim(\'r\', %d, lease => \'1 h\')', 'SELECT count(*) FROM fairq.release_many(ARRAY(SELECT receipt FROM h))', 'COMMIT' ],
			[ 'cancel', 'CREATE TEMP TABLE h AS SELECT id FROM fairq.peek(\'r\', %d)', 'SELECT count(*) FROM h WHERE fairq.cancel(\'r\', id)', 'ROLLBACK' ],
			[ 'backend terminated', '', "SELECT count(*) FROM fairq.claim('r', $number)", undef ])
		{
			my ($name, $before, $body, $end) = @$way;
			my $s = session($node);

			sql($node, $fill);
			$s->safe(sprintf $before, $number) if $before;
			$s->safe('BEGIN');
			my $answer = $s->safe($body);
			is($answer, $number, "$what: $name");
			sql($node, $far);
			if (defined $end) { $s->safe($end) }
			else
			{
				my $pid = $s->pid;
				sql($node, "SELECT pg_terminate_backend($pid, 10000)");
			}
			is(sql($node, $next), 'good', "$what: next after $name: $end")
			  if defined $end;
			is(sql($node, $next), 'good', "$what: next after $name")
			  unless defined $end;
			is(sql($node, "SELECT rest('r')"),
				'good', "$what: $name: and then all others");
			$s->safe('COMMIT') if defined $end && $end =~ /TO/;
			$s->quit;
			sql($node, "SELECT fairq.drop_queue('r')");
		}

		# A lease that is in the middle of something which is rolled back
		# is as good as before, and its tasks come to nobody else.
		foreach my $verb (
			'fairq.ack(receipt)',
			"fairq.nack(receipt, 'no', '0')",
			'fairq.release(receipt)',
			"fairq.cancel('r', id)")
		{
			foreach my $savepoint (0, 1)
			{
				next if $number > 100 && $savepoint;
				my $s = session($node);
				my $name = "$what: $verb rolled back"
				  . ($savepoint ? ' to a savepoint' : '');

				sql($node, $fill);
				$s->safe(
					"CREATE TEMP TABLE h AS SELECT * FROM fairq.claim('r', $number, lease => '1 h')"
				);
				$s->safe('BEGIN');
				$s->safe('SAVEPOINT a') if $savepoint;
				is($s->safe("SELECT count(*) FROM h WHERE $verb"),
					$number, $name);
				sql($node, $far);
				$s->safe($savepoint ? 'ROLLBACK TO a' : 'ROLLBACK');
				is(sql($node, "SELECT next('r', 200, $batch)"),
					'good', "$name: others are next");
				is($s->safe('SELECT count(*) FROM h WHERE fairq.ack(receipt)'),
					$number, "$name: the leases are good");
				$s->safe('COMMIT') if $savepoint;
				is(sql($node, "SELECT rest('r')"),
					'good', "$name: and then all others");
				$s->quit;
				sql($node, "SELECT fairq.drop_queue('r')");
			}
		}
	}

	# A lease that runs out while its ack is under way lives until the
	# transaction ends; rolled back, the task is next.
	{
		my $s = session($node);

		sql($node, "SELECT fairq.create_queue('x', buckets => $buckets, backoff_base => '0'); SELECT put('x', 'x', 10, 10)");
		$s->safe(
			"CREATE TEMP TABLE h AS SELECT * FROM fairq.claim('x', 5, lease => '1 h')"
		);
		$s->safe('BEGIN');
		# The lease is made short at once with the ack, which so comes in time.
		is( $s->safe("SELECT count(*) FROM h WHERE CASE WHEN fairq.extend(receipt, '500 ms') IS NOT NULL THEN fairq.ack(receipt) END"),
			5,
			"$b: acks that take their time");
		# Everything else is taken, so that only these can come.
		is(sql($node, "SELECT count(*) FROM fairq.claim('x', 1000, lease => '1 h')"),
			95, "$b: all others");
		ok( wait_for(
				sub {
					sql($node,
						"SELECT max(lease_until) < clock_timestamp() - interval '1 s' FROM fairq.leases WHERE lease_until < now() + interval '1 min'"
					) eq 't';
				}),
			"$b: the leases run out");
		is( sql($node, "SELECT count(*) FROM fairq.claim('x', 10)"),
			0,
			"$b: nobody gets a task whose ack is under way");
		$s->safe('ROLLBACK');
		my $got = 0;
		wait_for(
			sub {
				$got += sql($node, "SELECT count(*) FROM fairq.claim('x', 5, lease => '1 h') WHERE attempt = 2");
				return $got == 5;
			},
			$soon);
		is($got, 5, "$b: rolled back, they are given to the next");
		is($s->safe('SELECT count(*) FROM h WHERE fairq.ack(receipt)'),
			0, "$b: and the old receipts are no good");
		$s->quit;
		sql($node, "SELECT fairq.drop_queue('x')");
	}

	# Savepoints of a producer
	{
		my $s = session($node);

		sql($node, "SELECT fairq.create_queue('x', buckets => $buckets)");
		$s->safe('BEGIN');
		$s->safe("SELECT put('x', 'kept', 10, 5)");
		$s->safe("SAVEPOINT a; SELECT put('x', 'gone', 10, 5); ROLLBACK TO a");
		$s->safe("SAVEPOINT b; SELECT put('x', 'inner', 10, 5); RELEASE b");
		sql($node, "SELECT put('x', 'x', 10, 100); SELECT count(*) FROM fairq.claim('x', 900, lease => '1 h')");
		is( $s->safe("SELECT count(*) FROM fairq.claim('x', 1000) WHERE payload->>'g' <> 'x'"),
			0,
			"$b: not claimable in the transaction that enqueues it");
		$s->safe('SELECT count(*) FROM fairq.release_many(ARRAY(SELECT receipt FROM fairq.leases WHERE queue = \'x\' AND lease_until < now() + interval \'10 min\'))');
		$s->safe('COMMIT');
		is( sql(
				$node,
				"SELECT payload->>'g', count(*) FROM fairq.claim('x', 1000, lease => '1 h') GROUP BY 1 ORDER BY 1"
			),
			"inner|50\nkept|50\nx|100",
			"$b: savepoints of a producer");
		$s->quit;
		sql($node, "SELECT fairq.drop_queue('x')");
	}

	#
	# Rows written by SQL and COPY, with addresses of tasks long gone
	#
	{
		my $columns = 'address, state, group_key, priority, cost, payload, enqueued_at, attempts';
		my $fill = "SELECT fairq.create_queue('x', buckets => $buckets); SELECT put('x', 'x', 10, 500); CREATE TABLE old AS SELECT * FROM fairq.q_x ORDER BY fairq.block(address), fairq.slot(address) LIMIT 1000; SELECT count(*) FROM fairq.pop('x', 3000)";
		my $file = PostgreSQL::Test::Utils::tempdir() . '/rows';
		my $batch = $buckets == 1 ? 'NULL' : '1';
		my $insert =
		  'INSERT INTO fairq.q_x SELECT (jsonb_populate_record(NULL::fairq.q_x, to_jsonb(o) || jsonb_build_object(\'id\', id + 10000000))).* FROM old o';

		foreach my $way (
			[ 'INSERT ... SELECT', $insert ],
			[ 'INSERT ... SELECT in a savepoint', "BEGIN; SAVEPOINT a; $insert; RELEASE a; COMMIT" ],
			[ 'INSERT of a few', "$insert WHERE id % 100 = 0" ],
			[ 'INSERT as a replica', "SET session_replication_role = replica; $insert" ],
			[ 'COPY', "UPDATE old SET id = id + 10000000;\n\\copy old TO '$file'\n\\copy fairq.q_x FROM '$file'" ])
		{
			my ($name, $script) = @$way;

			sql($node, $fill);
			sql($node, $script);
			my $n = sql($node, 'SELECT count(*) FROM fairq.q_x WHERE id > 10000000');
			cmp_ok($n, '>=', 10, "$b: $name: $n rows");
			is(sql($node, "SELECT next('x', $n, $batch)"),
				'good', "$b: $name: they are next");
			is(sql($node, "SELECT rest('x')"),
				'good', "$b: $name: and then all others");
			sql($node, "SELECT fairq.drop_queue('x'); DROP TABLE old");
		}

		# UPDATE of an address, as an administrator may do, and DELETE.
		sql($node, $fill);
		sql($node, 'UPDATE fairq.q_x SET address = (SELECT address FROM old ORDER BY address LIMIT 1) WHERE id = (SELECT max(id) FROM fairq.q_x)');
		is(sql($node, "SELECT next('x', 1, 1)"),
			'good', "$b: UPDATE of an address: it is next");
		sql($node, 'DELETE FROM fairq.q_x WHERE id IN (SELECT due(\'x\', 100))');
		is(sql($node, "SELECT next('x', 100, $batch)"),
			'good', "$b: DELETE: the others are next");
		is(sql($node, "SELECT rest('x')"),
			'good', "$b: UPDATE and DELETE: and then all others");
		sql($node, "SELECT fairq.drop_queue('x'); DROP TABLE old");
	}

	#
	# Prepared transactions. Whoever commits them knows nothing of queues,
	# so it takes a moment.
	#
	foreach my $number (1, 1000)
	{
		sql($node, "SELECT fairq.create_queue('x', buckets => $buckets)");
		sql($node, "BEGIN; SELECT put('x', 'late', $number, 1); PREPARE TRANSACTION 'good'");
		sql($node, "BEGIN; SELECT put('x', 'never', 10, 1); PREPARE TRANSACTION 'bad'");
		sql($node, "SELECT put('x', 'x', 10, 200); SELECT count(*) FROM fairq.claim('x', 1500, lease => '1 h')");
		sql($node, "ROLLBACK PREPARED 'bad'");
		sql($node, "COMMIT PREPARED 'good'");
		my $got = 0;
		wait_for(
			sub {
				$got += sql($node, "SELECT count(*) FROM fairq.claim('x', $number, lease => '1 h') WHERE payload->>'g' = 'late'");
				return $got == $number;
			},
			$soon);
		is($got, $number, "$b: $number task(s) of a prepared transaction");
		is(sql($node, "SELECT rest('x')"), 'good', "$b: and then all others");
		is( sql(
				$node, "SELECT count(*) FROM fairq.tasks('x') WHERE payload->>'g' = 'never'"
			),
			0,
			"$b: and none of the one rolled back");
		sql($node, "SELECT fairq.drop_queue('x')");
	}

	# A prepared transaction is late with a restart in between, too, which it
	# survives.
	sql($node, "SELECT fairq.create_queue('x', buckets => $buckets)");
	sql($node, "BEGIN; SELECT put('x', 'late', 5, 4); PREPARE TRANSACTION 'good'");
	sql($node, "SELECT put('x', 'x', 10, 20)");
	$node->restart;
	is( sql($node, "SELECT count(*) FROM fairq.claim('x', 100, lease => '1 h') WHERE payload->>'g' = 'x'"),
		100, "$b: a prepared transaction in the way after a restart");
	sql($node, "COMMIT PREPARED 'good'");
	my $got = 0;
	wait_for(
		sub {
			$got += sql($node, "SELECT count(*) FROM fairq.claim('x', 20, lease => '1 h') WHERE payload->>'g' = 'late'");
			return $got == 20;
		},
		$soon);
	is($got, 20, "$b: its tasks");
	is(sql($node, "SELECT rest('x')"), 'good', "$b: and then all others");
	sql($node, "SELECT fairq.drop_queue('x')");
}

#
# Logical replication into a queue
#
$node->append_conf('postgresql.conf', "wal_level = logical\nmax_wal_senders = 5\nmax_replication_slots = 5\n");
$node->restart;
sql($node, 'CREATE DATABASE source');
sql($node, <<'SQL', 'source');
CREATE EXTENSION pgfairq;
SELECT fairq.create_queue('x', buckets => 1);
CREATE PUBLICATION p FOR TABLE fairq.q_x;
SELECT FROM pg_create_logical_replication_slot('s', 'pgoutput');
SELECT fairq.enqueue('x', '{"g": "late"}', group_key => 'late');
SQL
sql($node, "SELECT fairq.create_queue('x', buckets => 1); SELECT setval('fairq.ids_of_x', 1000000); SELECT put('x', 'x', 10, 200); SELECT count(*) FROM fairq.claim('x', 1500, lease => '1 h')");
sql($node, sprintf("CREATE SUBSCRIPTION s CONNECTION '%s' PUBLICATION p WITH (create_slot = false, copy_data = false)", $node->connstr('source') =~ s/'/''/gr));
ok( wait_for(
		sub { sql($node, "SELECT count(*) FROM fairq.q_x WHERE group_key = 'late'") == 1 }
	),
	'logical replication: the row is there');
is(sql($node, "SELECT payload->>'g' FROM fairq.claim('x', 1, lease => '1 h')"),
	'late', 'logical replication: it is next');
sql($node, "SELECT fairq.ack(receipt) FROM fairq.claim('x', 1)", 'source');
ok( wait_for(
		sub { sql($node, "SELECT count(*) FROM fairq.q_x WHERE group_key = 'late'") == 0 }
	),
	'logical replication: and gone when it is gone there');
is(sql($node, "SELECT rest('x')"), 'good', 'logical replication: all others');
sql($node, 'DROP SUBSCRIPTION s');

$node->stop;
done_testing();
