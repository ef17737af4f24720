# A server that crashes forgets its leases and nothing else; a clean restart
# keeps the leases, too.
#
# Shown, for a backend killed with signal 9 (the server ends all others and
# starts again by itself), an immediate stop, a postmaster killed with signal 9
# and a clean restart: I1 (what was committed and not acknowledged comes back,
# what was acknowledged does not, what was not committed never was), I3 (no
# receipt from before is good afterwards), I8 and I9 (it works again without
# anyone doing anything, in the same order as before: first in first out within
# a group, a new group is served soon, groups take turns).
#
# To see it fail, take one of these guards out of the engine:
# - the group's last tag is found from its rows when shared memory knows
#   nothing of the group: new tasks of a group with a backlog overtake it;
# - virtual time starts from the rows when shared memory is new: a new group
#   is served before everybody else or after everybody's backlog;
# - the receipt has a part that is new after each start: receipts are given
#   twice, and one from before the crash settles a lease of today;
# - an insert or delete is written to WAL like any other: rows are lost, come
#   back, or table and index disagree (amcheck).

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use FairqNode;
use FaultLoad;
use List::Util qw(max);
use PostgreSQL::Test::Utils;
use Test::More;

my $node = fairq_node('crash', conf => <<'CONF');
restart_after_crash = on
max_connections = 60
CONF
sql($node, <<'SQL');
CREATE EXTENSION amcheck;
CREATE TABLE results (n text);
-- The order in which tasks come, one claim each.
CREATE FUNCTION served(q text, howmany int) RETURNS SETOF text LANGUAGE plpgsql AS $$
BEGIN
	FOR i IN 1 .. howmany LOOP
		RETURN QUERY SELECT payload->>'n' FROM fairq.claim(q, 1);
	END LOOP;
END $$;
CREATE FUNCTION put(q text, g text, first int, last int) RETURNS void LANGUAGE sql AS $$
	SELECT fairq.enqueue(q, jsonb_build_object('n', g || i), group_key => g)
	  FROM generate_series(first, last) i ORDER BY i;
$$;
SQL

my %ways = (
	'backend killed' => sub { crash_of($node, $_[0]); return wait_for_crash_restart($node) },
	'immediate stop' => sub { $node->stop('immediate'); return $node->start },
	'postmaster killed' =>
	  sub { $node->kill9; return start_after_kill($node) },
	'clean restart' => sub { $node->stop('fast'); return $node->start },);

my $number = 0;
foreach my $way (
	'backend killed',
	'immediate stop',
	'postmaster killed',
	'clean restart')
{
	my $q = 'q' . ++$number;
	my $clean = $way eq 'clean restart';

	sql($node, <<"SQL");
TRUNCATE results;
SELECT fairq.create_queue('$q', buckets => 1);
SELECT fairq.create_queue('dead$q', max_attempts => 1);
SELECT fairq.create_queue('many$q');
SELECT put('$q', 'z', 1, 100);
SELECT count(*) FROM fairq.pop('$q', 100);
SELECT put('$q', 'a', 1, 20), put('$q', 'b', 1, 20);
SELECT put('many$q', 'a', 1, 100), put('many$q', 'b', 1, 100);
SELECT fairq.enqueue('dead$q', '{"n": "dead"}');
SELECT fairq.nack(receipt, 'no good', '0') FROM fairq.claim('dead$q');
SELECT fairq.pause('dead$q');
SQL

	my $worker = session($node);
	$worker->safe(
		"CREATE TEMP TABLE mine AS SELECT payload->>'n' AS n, receipt FROM fairq.claim('$q', 6, lease => '1 h')"
	);
	my @before = split /\n/, $worker->safe('SELECT receipt FROM mine');
	is($worker->safe('SELECT string_agg(n, \' \') FROM mine'),
		'a1 b1 a2 b2 a3 b3', "$way: claimed before");
	is( $worker->safe(
			"WITH r AS (INSERT INTO results SELECT n FROM mine WHERE n IN ('a1', 'b1') AND fairq.ack(receipt) RETURNING *) SELECT count(*) FROM r"
		),
		2,
		"$way: two acknowledged");
	is( $worker->safe(
			"SELECT fairq.nack(receipt, 'once more', '0') FROM mine WHERE n = 'b3'"
		),
		't',
		"$way: one put back");

	# What is under way must leave no trace.
	my @open = map { session($node) } 1 .. 4;
	$_->safe('BEGIN') foreach @open;
	is($open[0]->safe("SELECT string_agg(t.payload->>'n', ' ') FROM fairq.claim('$q', 2) t"),
		'a4 b4', "$way: claimed, not committed");
	$open[1]->safe("SELECT put('$q', 'a', 1001, 1005)");
	my $a2 = $worker->safe("SELECT receipt FROM mine WHERE n = 'a2'");
	is( $open[2]->safe(
			"INSERT INTO results SELECT 'a2' WHERE fairq.ack('$a2') RETURNING 'done'"
		),
		'done',
		"$way: acknowledged, not committed");
	$open[3]->safe(
		"CREATE TEMP TABLE popped AS SELECT * FROM fairq.pop('many$q', 10)");

	my $last_id = sql($node, qq{SELECT max(id) FROM fairq."q_$q"});
	ok($ways{$way}->($open[0]->pid), "$way: the server is up again");
	$_->quit foreach $worker, @open;

	# Nothing of this may wait for somebody to do something.
	sql($node, "SELECT put('$q', 'a', 21, 22), put('$q', 'c', 1, 5)");
	my @order = column($node, "SELECT served('$q', 60)");

	# What the worker held, in transactions that are committed: a2, b2, a3.
	my %held = $clean ? map { $_ => 1 } qw(a2 b2 a3) : ();
	my @a = grep { !$held{$_} } map { "a$_" } 2 .. 22;
	my @b = grep { !$held{$_} } map { "b$_" } 2, 4 .. 20;

	is_deeply(
		[ sort @order ],
		[ sort(@a, @b, 'b3', (map { "c$_" } 1 .. 5)) ],
		"$way: all that is committed and not acknowledged, and nothing else")
	  or diag("@order");
	is(join(' ', grep { /^a/ } @order),
		"@a", "$way: first in, first out in a group, also for new tasks");
	is(join(' ', grep { /^b/ && $_ ne 'b3' } @order),
		"@b", "$way: the same in the other group");

	my %at;
	@at{@order} = 1 .. @order;
	cmp_ok($at{c1}, '<=', 4, "$way: a new group is served soon");
	cmp_ok($at{c5}, '>=', 9, "$way: and not before all others");
	cmp_ok($at{b3}, '>', $at{b20},
		"$way: what was put back keeps its new place");

	# While all three have work they are served alike.
	my ($worst, %n) = (0, a => 0, b => 0, c => 0);
	foreach my $task (@order[ $at{c1} - 1 .. $at{c5} - 1 ])
	{
		$n{ substr($task, 0, 1) }++;
		my @n = sort { $a <=> $b } values %n;
		$worst = max($worst, $n[-1] - $n[0]);
	}
	cmp_ok($worst, '<=', 2, "$way: groups take turns");

	# Receipts
	my $list = join(',', map { "'$_'" } @before);
	my $good = $clean ? 3 : 0;
	is( sql(
			$node,
			"SELECT count(*) FROM fairq.leases WHERE receipt IN ($list)"),
		$good,
		"$way: leases from before: $good");
	is(sql($node, "SELECT count(*) FROM fairq.extend_many(ARRAY[$list]::uuid[])"),
		$good, "$way: are extended");
	is(sql($node, "SELECT count(*) FROM fairq.ack_many(ARRAY[$list]::uuid[])"),
		$good, "$way: and acknowledge");
	is(sql($node, 'SELECT count(*) FROM results'),
		2, "$way: the results of committed acks");
	cmp_ok(sql($node, qq{SELECT min(id) FROM fairq."q_$q" WHERE group_key = 'c'}),
		'>', $last_id, "$way: ids go on");

	# The other queues
	is( sql(
			$node,
			"SELECT state || ' ' || attempts || ' ' || last_error FROM fairq.tasks('dead$q')"
		),
		'dead 1 no good',
		"$way: dead is dead");
	is( sql($node, "SELECT fairq.revive_all('dead$q'); SELECT count(*) FROM fairq.claim('dead$q')"
		),
		"1\n0",
		"$way: paused is paused");
	is( sql($node, "SELECT fairq.resume('dead$q'); SELECT payload->>'n' FROM fairq.claim('dead$q')"
		),
		"\ndead",
		"$way: until it is resumed");
	is( sql(
			$node,
			"SELECT count(*), count(DISTINCT id) FROM fairq.pop('many$q', 500)"),
		'200|200',
		"$way: a pop that was not committed");

	# Table and indexes agree.
	foreach my $table ($q, "dead$q", "many$q")
	{
		is( sql(
				$node, qq{SELECT * FROM verify_heapam('fairq."q_$table"');
SELECT bt_index_check(indexrelid, true) FROM pg_index WHERE indrelid = 'fairq."q_$table"'::regclass}
			) =~ /\S/ ? 'bad' : '',
			'',
			"$way: table and indexes agree");
	}
}

# Without WAL for a table that is new in its transaction (wal_level = minimal)
# the table is written to disk at commit instead.
sql($node, <<'SQL');
BEGIN;
SELECT fairq.create_queue('fresh', buckets => 1);
SELECT put('fresh', 'a', 1, 5);
COMMIT;
BEGIN;
SELECT fairq.create_queue('gone', buckets => 1);
SELECT put('gone', 'a', 1, 5);
SQL
is(sql($node, 'SHOW wal_level'), 'minimal', 'wal_level');
$node->stop('immediate');
$node->start;
is(sql($node, "SELECT served('fresh', 6)"),
	"a1\na2\na3\na4\na5", 'queue and tasks of one transaction');
is(sql($node, "SELECT count(*) FROM fairq.queues WHERE queue = 'gone'"),
	0, 'a queue that was not committed');

# The load of faults_stress with a crash every few seconds.  Leases end
# with each.
my $seconds = $ENV{FAIRQ_CRASH_SECONDS} // 10;
sql($node, 'DROP TABLE results');
my $r = FaultLoad::stress($node, 'load with crashes', $seconds,
	'--clients' => 8, '--crash-every' => 3, '--crashes' => int($seconds / 8) + 1);
cmp_ok($r->{crashes}, '>', $seconds / 8, "crashes: $r->{crashes}");
cmp_ok($r->{enqueued}, '>', $seconds * 2, "tasks: $r->{enqueued}");
is(sql($node, q{SELECT * FROM verify_heapam('fairq."q_stress"');
SELECT bt_index_check(indexrelid, true) FROM pg_index WHERE indrelid = 'fairq."q_stress"'::regclass})
	  =~ /\S/ ? 'bad' : '',
	'',
	'load with crashes: table and indexes agree');

$node->stop;
done_testing();
