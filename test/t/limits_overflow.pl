# Tasks for which there is no room: max_ready, max_ready_per_group, max_depth.
#
# Shown: what waits in the overflow is in nobody's way, comes in order and to the
# end, and groups have their turns fairly; no claim finds a queue empty whose
# overflow is not, with a worker or without; after a crash, a restart and in a restored copy nobody has
# to do anything; rows in somebody's hands hold nobody up and come when they are
# let go; and in the thick of it nothing is lost or done twice, and there are
# never more than max_depth.
#
# To see it fail, take one of these guards out of the engine:
# - the claim that finds nothing does a pass where there is no worker;
# - a group with overflow, committed or not, puts all into it (groups_tag): order;
# - rows in somebody's hands are read again (lane_doubts_resolve), and so are those that
#   a claim's own transaction has changed (pending_overflow_unread);
# - recovery counts the overflow (group_overflow_found), and a claim that comes up short
#   reads the rows (reads_overflow): nothing after a crash;
# - a task of a transaction that is rolled back makes room (groups_untag), also of
#   one so large that its list is folded (fold_tag);
# - the overflow is read on from an entry, not from an id (queue_index_overflow): a task
#   that was written often does not come, and nothing behind it;
# - a lease that is refused takes nothing from what is ready (groups_lease_refused);
# - open transactions count in max_depth (queue_state_reserve).

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use FairqNode;
use FairqPgbench;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);

my $hammer_seconds = $ENV{FAIRQ_HAMMER_SECONDS} // 10;

my $node = fairq_node('overflow', conf => <<'CONF');
max_connections = 60
max_prepared_transactions = 10
shared_buffers = 128MB
CONF

sql($node, <<'SQL');
CREATE FUNCTION numbers(a int, b int) RETURNS jsonb[] LANGUAGE sql AS $$ SELECT array_agg(to_jsonb(n) ORDER BY n) FROM generate_series(a, b) n $$;
CREATE UNLOGGED TABLE results (place bigserial, queue text, who text, payload jsonb, id bigint);
CREATE UNLOGGED TABLE empties (queue text, overflow bigint, late boolean);
SQL

# A run that has to go well for what follows to mean anything.
sub pgbench
{
	my $trouble = run_pgbench($node, @_)->trouble;

	BAIL_OUT("pgbench: $trouble") if $trouble;
	return;
}

# Claims :n tasks, acknowledges them and notes in which order they came.  If
# there are none, but is some overflow still there afterwards, that is noted; and
# that a claim has waited in vain as long as claims do, which is a second.
my $consume = <<'SQL';
WITH c AS MATERIALIZED (SELECT * FROM fairq.claim(:q, :n)),
    r AS (INSERT INTO results (queue, who, payload, id) SELECT :q, group_key, payload, id FROM c)
SELECT count(*) AS got, coalesce(array_agg(receipt), '{}') AS receipts, (clock_timestamp() - statement_timestamp() > '0.9 s')::int AS late FROM c \gset
\if :got
SELECT count(*) AS acked FROM fairq.ack_many(':receipts'::uuid[]) \gset
\else
INSERT INTO empties SELECT :q, count(*), :late = 1 FROM fairq.tasks(:q, 'overflow') HAVING count(*) > 0 OR :late = 1;
\endif
SQL

# Claims wait, so none finds nothing, or each but one where there are other clients (of
# two, twice): one may be taken off the processor with the last tasks in hand.  After a
# second in vain claims wait no more until the worker has moved some: if it was that slow, which it is twice at most
# for each client, no more is known.
sub none_empty
{
	my ($q, $clients, $name) = @_;
	my ($at_once, $late, $overflow) = @{ (rows($node, "SELECT count(*) FILTER (WHERE NOT late), count(*) FILTER (WHERE late), max(overflow) FROM empties WHERE queue = '$q'"))[0] };

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	cmp_ok($late, '<=', 2 * $clients, "$q: the worker is in time");
	cmp_ok($late ? 0 : $at_once, '<=', $clients > 2 ? $clients - 1 : $clients > 1 ? 2 : 0, $name)
	  or diag("$at_once found nothing at once, while up to $overflow were in the overflow");
	return;
}

#
# The case: bob has fifty thousand tasks when alice comes with ten
#
foreach my $q ('with', 'without')
{
	my $max = ($q eq 'with') ? 1000 : 1000000000;

	sql($node, <<SQL);
SELECT fairq.create_queue('$q', max_ready_per_group => $max);
SELECT count(fairq.enqueue_many('$q', numbers(n, n + 999), '{bob}')) FROM generate_series(1, 50000, 1000) n;
SELECT fairq.enqueue_many('$q', numbers(1, 10), '{alice}');
SQL
}
is( sql($node, "SELECT ready, overflow FROM fairq.queue_stats WHERE queue = 'with'"),
	'1010|49000', 'bob: a thousand tasks are ready, the others wait');
foreach my $q ('with', 'without')
{
	sql($node, join('', ("INSERT INTO results (queue, who, payload) SELECT 'first of $q', group_key, payload FROM fairq.pop('$q');\n") x 40));
}
my $order = "SELECT string_agg(who || payload, ' ' ORDER BY place) FROM results WHERE queue = 'first of %s'";
is( sql($node, sprintf($order, 'with')),
	sql($node, sprintf($order, 'without')),
	'one by one the tasks come in the same order as without overflow');
like(sql($node, sprintf($order, 'with')), qr/^bob1 (alice\d+ bob\d+ ){10}bob/, 'and that is in turn');

sql($node, "SELECT fairq.enqueue_many('with', numbers(11, 20), '{alice}')");
# A claim may get fewer than ten.
ok( wait_for(
		sub {
			pgbench({ consume => $consume }, '-c', 4, '-j', 2, '-t', 1350, '-D', "q='with'", '-D', 'n=10');
			return sql($node, 'SELECT count(*) FROM fairq.q_with') eq '0';
		},
		180),
	'four claimers at work until there is nothing left');
is( sql($node, "SELECT count(*), count(DISTINCT id), count(*) FILTER (WHERE who = 'bob') FROM results WHERE queue = 'with'"),
	'49980|49980|49970', 'four claimers have it all, each task once');
none_empty('with', 4, 'no claim found nothing while there was overflow');
my $position = sql($node, "SELECT max(p) FROM (SELECT who, row_number() OVER (ORDER BY place) AS p FROM results WHERE queue = 'with') x WHERE who = 'alice'");
cmp_ok($position, '<=', 500, "alice has had her ten when $position tasks are done, four claims of ten at a time");
is( sql($node, "SELECT ready, leased, overflow, enqueued, acked FROM fairq.queue_stats WHERE queue = 'with'"),
	'0|0|0|50020|50020', 'the statistics say so');

#
# One claimer gets a group's tasks in order, whatever happens to room, with a
# producer at work at the same time.  With one bucket: a claim does not look at
# several in the same moment, so what is committed meanwhile may be seen in one and
# not in another.
#
sql($node, "SELECT fairq.create_queue('fifo', max_ready_per_group => 40, buckets => 1); CREATE TABLE committed (upto int)");

# Claims of any size, of which some leave nothing that is ready to the next one.  If
# one finds nothing only those tasks count that were committed before it.
my $consume_committed = $consume =~ s{HAVING count\(\*\) > 0}{WHERE payload::int <= :upto $&}r;
$consume_committed = "\\set n random(1, 40)\nSELECT coalesce(max(upto), 0) AS upto FROM committed \\gset\n$consume_committed";
my $producer = session($node);
$producer->send(<<'SQL');
DO $$
BEGIN
    FOR n IN 1 .. 4000 BY 20 LOOP
        PERFORM fairq.enqueue_many('fifo', numbers(n, n + 14), '{bob}');
        PERFORM fairq.enqueue('fifo', to_jsonb(m), 'bob') FROM generate_series(n + 15, n + 19) m;
        COMMIT;
        INSERT INTO committed VALUES (n + 19);
        COMMIT;
    END LOOP;
END $$
SQL
wait_for(
	sub {
		pgbench({ consume => $consume_committed }, '-c', 1, '-t', 150, '-D', "q='fifo'");
		return sql($node, "SELECT count(*) FROM results WHERE queue = 'fifo'") >= 4000;
	},
	180);
is($producer->ended, '', 'the producer has ended');
$producer->quit;
is( sql($node, "SELECT count(*), count(*) FILTER (WHERE payload::int <> n) FROM (SELECT payload, row_number() OVER (ORDER BY place) AS n FROM results WHERE queue = 'fifo') x"),
	'4000|0', 'first come, first served within a group');
none_empty('fifo', 1, 'and there was always one');

#
# Within one transaction, too, if others make room meanwhile
#
sql($node, "SELECT fairq.create_queue('one', max_ready_per_group => 2, buckets => 1); SELECT fairq.enqueue_many('one', numbers(1, 2), '{bob}')");
my $one = session($node);
my $two = session($node);
$one->safe("BEGIN; SELECT fairq.enqueue('one', '3', 'bob')");
is($two->safe("SELECT count(*) FROM fairq.pop('one', 9)"), 2, 'what is ready is claimed');
$one->safe("SELECT fairq.enqueue('one', '4', 'bob')");
$one->safe('COMMIT');
my @payloads;
wait_for(sub { push @payloads, split /\n/, $two->safe("SELECT payload FROM fairq.pop('one', 9)"); return @payloads >= 2; });
is("@payloads", '3 4', 'what a transaction enqueues is in order');

#
# Room that open transactions have taken and give back
#
# Until its overflow has been read to the end, the group takes what comes into that.
ok( wait_for(
		sub {
			$one->safe("BEGIN; SELECT fairq.enqueue_many('one', numbers(1, 2), '{bob}')");
			return 1 if $one->safe("SELECT string_agg(state, ' ') FROM fairq.tasks('one')") eq 'ready ready';
			$one->safe('ROLLBACK');
			return 0;
		}),
	'two that are not committed are ready');
$two->safe("SELECT fairq.enqueue('one', '3', 'bob')");
is($two->safe("SELECT state FROM fairq.tasks('one')"), 'overflow', 'tasks that are not committed take room');
$one->safe('ROLLBACK');
is($two->safe("SELECT payload FROM fairq.pop('one', 9)"), 3, 'with the rollback there is room: the next claim has the task');
$one->safe("BEGIN; SELECT fairq.enqueue_many('one', numbers(1, 2), '{bob}')");
$two->safe("SELECT fairq.enqueue('one', '4', 'bob')");
ok(wait_for(sub { return $two->safe("SELECT payload FROM fairq.pop('one', 9)") eq '4'; }),
	'and it does not wait for the end of the transaction if there is nothing else to do');
$one->safe('ROLLBACK');

#
# Rows in somebody's hands
#
sql($node, "SELECT fairq.create_queue('hands', max_ready_per_group => 2); SELECT fairq.enqueue_many('hands', numbers(1, 60), '{bob}')");
$one->safe("BEGIN; SELECT FROM fairq.q_hands WHERE payload = '3' FOR UPDATE");
sql($node, "BEGIN; SELECT fairq.cancel('hands', id) FROM fairq.tasks('hands') WHERE payload IN ('4', '6'); PREPARE TRANSACTION 'cancelled'");
sql($node, "BEGIN; SELECT fairq.enqueue_many('hands', numbers(101, 105), '{bob}'); PREPARE TRANSACTION 'enqueued'");
my %came;
my $collect = sub {
	my ($q) = @_;
	$came{$_}++ foreach column($node, "SELECT payload FROM fairq.pop('$q', 1000)");
	return scalar keys %came;
};
ok(wait_for(sub { return $collect->('hands') == 57; }, 60), 'hold nobody up');
is(join(' ', sort { $a <=> $b } keys %came), join(' ', 1, 2, 5, 7 .. 60), 'all but those came');
$one->safe('ROLLBACK');
ok(wait_for(sub { return $collect->('hands') == 58; }, 20) && $came{3}, 'a row that was locked comes when it is unlocked');
sql($node, "ROLLBACK PREPARED 'cancelled'");
ok(wait_for(sub { return $collect->('hands') == 60; }, 20) && $came{4} && $came{6}, 'those that are not cancelled after all come');
sql($node, "COMMIT PREPARED 'enqueued'");
ok(wait_for(sub { return $collect->('hands') == 65; }, 20), 'those of a prepared transaction come when it is committed');

# Also if all that the count knows of is removed, and is not.
sql($node, "SELECT fairq.enqueue_many('hands', numbers(201, 204), '{carol}')");
sql($node, "BEGIN; SELECT fairq.cancel('hands', id) FROM fairq.tasks('hands', 'overflow'); PREPARE TRANSACTION 'cancelled'");
sql($node, "ROLLBACK PREPARED 'cancelled'");
ok(wait_for(sub { return $collect->('hands') == 69; }, 20), 'a group whose overflow seemed to be gone has it still');
is((grep { $_ > 1 } values %came), 0, 'and nothing came twice');

#
# All share the room of the queue
#
sql($node, <<'SQL');
SELECT fairq.create_queue('shared', max_ready => 100);
SELECT count(fairq.enqueue_many('shared', numbers(1, 20), ARRAY['g' || n])) FROM generate_series(1, 200) n;
SQL
is(sql($node, "SELECT ready, overflow FROM fairq.queue_stats WHERE queue = 'shared'"), '100|3900', 'a hundred tasks are ready, of the first five groups');
pgbench({ consume => $consume }, '-c', 1, '-t', 200, '-D', "q='shared'", '-D', 'n=10');
my ($done, $groups, $min, $max) = @{ (rows($node, "SELECT sum(n), count(*), min(n), max(n) FROM (SELECT count(*) AS n FROM results WHERE queue = 'shared' AND who NOT IN ('g1', 'g2', 'g3', 'g4', 'g5') GROUP BY who) x"))[0] };
cmp_ok($done, '>=', 1800, "half of the tasks are done, $done of those that waited");
is($groups, 195, 'each group had some');
cmp_ok($max - $min, '<=', 4, "and about the same: $min to $max");
sql($node, "SELECT fairq.enqueue('shared', '1', 'new')");
pgbench({ consume => $consume }, '-c', 2, '-t', 150, '-D', "q='shared'", '-D', 'n=10');
$position = sql($node, "SELECT p FROM (SELECT who, row_number() OVER (ORDER BY place) - $done - 100 AS p FROM results WHERE queue = 'shared') x WHERE who = 'new'");
ok($position, 'a newcomer was served');
cmp_ok($position || 9999, '<=', 500, "and did not wait for the two thousand before him, but for $position");
is(sql($node, "SELECT count(*), count(DISTINCT id) FROM results WHERE queue = 'shared'"), '4001|4001', 'to the end');
none_empty('shared', 2, 'no claim found nothing');

#
# max_depth
#
sql($node, "SELECT fairq.create_queue('max', max_depth => 10); SELECT fairq.enqueue_many('max', numbers(1, 4))");
$one->safe("BEGIN; SELECT fairq.enqueue_many('max', numbers(5, 8))");
refused($node, "SELECT fairq.enqueue_many('max', numbers(9, 11))", '53400', qr/queue "max" is limited to 10 tasks/, qr/max_depth/, 'tasks of open transactions count');
sql($node, "SELECT fairq.enqueue_many('max', numbers(9, 10))");
$one->safe('ROLLBACK');
sql($node, "SELECT fairq.enqueue_many('max', numbers(11, 14))");
refused($node, "SELECT fairq.enqueue('max', '15')", '53400', undef, undef, 'and then they do not');

#
# A crash, a clean restart, a restored copy
#
my $fill = sub {
	my ($q) = @_;
	sql($node, <<SQL);
SELECT fairq.create_queue('$q', max_ready_per_group => 10, max_ready => 40, backoff_base => '0');
SELECT fairq.enqueue_many('$q', numbers(n, n + 59), ARRAY[g || n]) FROM generate_series(1, 240, 60) n, (VALUES ('a'), ('b')) v (g);
SELECT count(fairq.ack(receipt)) FROM fairq.claim('$q', 5);
SELECT count(*) FROM fairq.claim('$q', 5, lease => '100 ms');
SQL
	return;
};
my $drains = sub {
	my ($q, $what, $db) = @_;
	my $came = 0;
	my %ids;

	ok(wait_for(
			sub {
				foreach (column($node, "SELECT id FROM fairq.pop('$q', 1000)", $db)) { $ids{$_}++; $came++; }
				return $came >= 475;
			},
			30),
		"$what: the overflow comes");
	is(scalar keys %ids, 475, "$what: each once");
	is(sql($node, "SELECT count(*) FROM fairq.q_$q", $db), 0, "$what: to the end");
	return;
};
$fill->('crash');
$fill->('copy');
my $dump = PostgreSQL::Test::Utils::tempdir() . '/dump';
$node->command_ok([ 'pg_dump', '-Fc', '-f', $dump, $node->connstr('postgres') ], 'pg_dump');
kill 'KILL', $node->{_pid};
ok(start_after_kill($node), 'the server is back after kill -9');
$drains->('crash', 'crash');
$fill->('restart');
$node->restart;
$drains->('restart', 'restart');
sql($node, 'CREATE DATABASE copy');
$node->command_ok([ 'pg_restore', '-e', '-d', $node->connstr('copy'), $dump ], 'pg_restore');
$drains->('copy', 'copy', 'copy');
$_->quit foreach ($one, $two);

#
# Sixteen clients at it all at once
#
sql($node, <<'SQL');
DROP TABLE results, empties;
CREATE TABLE produced (id bigint);
CREATE TABLE acked (id bigint);
CREATE TABLE cancelled (id bigint);
CREATE TABLE purged (n bigint);
CREATE TABLE refused (n bigint);
SELECT fairq.create_queue('hammer', buckets => 3, max_ready_per_group => 20, max_ready => 200, max_depth => 5000, max_attempts => 0, backoff_base => '0', lease => '10 s');
CREATE FUNCTION produce(g int, n int) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO produced SELECT unnest(fairq.enqueue_many('hammer', array_fill('{}'::jsonb, ARRAY[n]), group_keys => ARRAY(SELECT 'g' || (g + i % 3) FROM generate_series(1, n) i)));
EXCEPTION WHEN configuration_limit_exceeded THEN
    INSERT INTO refused VALUES (n);
END $$;
SQL
my %consumers = consumers();
my %hammer = (
	enqueue => [ 20, "\\set g random(1, 30)\n" . transaction(10, "SELECT produce(:g, 1);\n") ],
	enqueue_many => [ 20, <<'SQL' ],
\set g random(1, 30)
\set n random(1, 400)
\set end random(1, 10)
BEGIN;
SELECT produce(:g, :n);
SAVEPOINT a;
SELECT produce(:g, 30);
\if :end < 3
ROLLBACK TO a;
SELECT produce(:g, 3);
\elif :end < 5
ROLLBACK;
BEGIN;
\endif
COMMIT;
SQL
	consume => [ 60, $consumers{consume} ],
	steps => [ 20, $consumers{steps} ],
	walk_away => [ 2, $consumers{walk_away} ],
	cancel => [ 10, transaction(3, <<'SQL') ],
WITH t AS MATERIALIZED (SELECT id FROM fairq.q_hammer OFFSET random() * 200 LIMIT 3) INSERT INTO cancelled SELECT id FROM t WHERE fairq.cancel('hammer', id);
SQL
	purge => [ 1, "\\set g random(1, 40)\n" . transaction(3, <<'SQL') ]);
INSERT INTO purged SELECT fairq.purge_group('hammer', group_key => 'g' || :g);
SQL
my $stop = time() + $hammer_seconds;
my $vacuum = start_pgbench($node, { vacuum => "VACUUM fairq.q_hammer;\n\\sleep 300 ms\n" }, '-T', $hammer_seconds);

# Producers that are killed in the middle, and somebody who counts.
my $most = 0;
my $most_ready = 0;
my $killed = 0;
my $observed = PostgreSQL::Test::Utils::tempdir() . '/observed';
my $pid = fork() // die "cannot fork: $!";
if ($pid == 0)
{
	while (time() < $stop || $killed == 0)
	{
		answer_of($node, "BEGIN; SELECT produce(1, 50); SAVEPOINT a; SELECT produce(7, 50); SELECT pg_terminate_backend(pg_backend_pid())");
		$killed++;
		my ($n, $ready) = @{ (rows($node, "SELECT count(*), count(*) FILTER (WHERE state = 'r') FROM fairq.q_hammer"))[0] };
		$most = $n if $n > $most;
		$most_ready = $ready if $ready > $most_ready;
	}
	append_to_file($observed, "$killed $most $most_ready");
	require POSIX;
	POSIX::_exit(0);
}
# Two that end several tasks each, one by cancelling, may meet in a deadlock: they try again.
pgbench(\%hammer, '-c', 16, '-j', 2, '-T', $hammer_seconds, '--max-tries=5',
	'-D', "q='hammer'", '-D', 'most=50', '-D', 'done=acked', '-D', "lease='100 ms'");
waitpid $pid, 0;
$vacuum->ran_well('VACUUM');
($killed, $most, $most_ready) = split / /, PostgreSQL::Test::Utils::slurp_file($observed);
my $refused = sql($node, 'SELECT count(*) FROM refused');
my ($produced) = column($node, 'SELECT count(*) FROM produced');
note("$produced produced, $refused times refused, $killed producers killed; at most $most tasks, $most_ready of them ready or leased");
cmp_ok($produced, '>', 100 * $hammer_seconds, 'much was produced');
cmp_ok($killed, '>', 0, 'producers were killed');
cmp_ok($refused, '>', 0, 'the queue was full at times');
cmp_ok($most, '<=', 5000, 'and never fuller than it may be');

my $left = sql($node, 'SELECT count(*) FROM fairq.q_hammer');
ok(wait_for(
		sub {
			sql($node, "INSERT INTO acked SELECT id FROM fairq.pop('hammer', 10000)");
			return sql($node, 'SELECT count(*) FROM fairq.q_hammer') == 0;
		},
		60),
	"a drain finds what was left, $left tasks");
is( sql($node, 'SELECT count(*) FROM acked') + sql($node, 'SELECT count(*) FROM cancelled') + sql($node, 'SELECT coalesce(sum(n), 0) FROM purged'),
	$produced, 'each task was acknowledged, cancelled or purged, and nothing else was');
is(sql($node, 'SELECT count(*) FROM (SELECT id FROM (TABLE acked UNION ALL TABLE cancelled) x GROUP BY id HAVING count(*) > 1) y'), 0, 'none twice');
is(sql($node, 'SELECT count(*) FROM (SELECT id FROM (TABLE acked UNION ALL TABLE cancelled) y EXCEPT SELECT id FROM produced) x'), 0, 'none that was rolled back');
is(sql($node, "SELECT ready, leased, scheduled, overflow FROM fairq.queue_stats WHERE queue = 'hammer'"), '0|0|0|0', 'the statistics say that the queue is empty');
is(sql($node, "SELECT cardinality(fairq.enqueue_many('hammer', array_fill('{}'::jsonb, ARRAY[5000]), ARRAY(SELECT 'h' || n % 500 FROM generate_series(1, 5000) n)))"), 5000, 'all its room is there again');
nothing_swept($node);

#
# A task that is written again and again has an index entry for each time
#
# autovacuum is off here; elsewhere a snapshot that is held does the same.
sql($node, "SELECT fairq.create_queue('written', max_ready_per_group => 1)");
sql($node, "SELECT fairq.enqueue('written', '1', group_key => 'a'); SELECT fairq.enqueue('written', '2', group_key => 'a', unique_key => 'k'); SELECT fairq.enqueue('written', '3', group_key => 'a')");
sql($node, "SELECT fairq.enqueue('written', '2', group_key => 'a', unique_key => 'k', on_duplicate => 'replace', run_at => clock_timestamp());\n" x 200);
is(sql($node, "SELECT payload FROM fairq.pop('written')"), 1, 'the overflow has a task with many entries');
foreach my $n (2, 3)
{
	ok(wait_for(sub { (sql($node, "SELECT payload FROM fairq.pop('written')") || 0) == $n }, 20), "many entries: task $n comes");
}

# The look for tasks that were in others' hands comes to them all, and comes to an end.
sql($node, "SELECT fairq.enqueue('written', '4', group_key => 'a'); SELECT fairq.enqueue_many('written', numbers(5, 7), '{a}')");
{
	my $user = session($node);

	is(sql($node, "SELECT payload FROM fairq.pop('written')"), 4, 'many entries: one that is ready');
	$user->safe("BEGIN; SELECT id FROM fairq.q_written WHERE payload = '5' FOR UPDATE; UPDATE fairq.q_written SET payload = '5' WHERE payload = '5'");
	# It looks at the one in the user's hands. The next ones may have been placed meanwhile.
	my @rest = column($node, "SELECT payload FROM fairq.pop('written')");
	$user->safe('ROLLBACK');
	ok(wait_for(sub { push @rest, column($node, "SELECT payload FROM fairq.pop('written')"); return @rest == 3 }, 20), 'many entries: those whose places were lost come, too')
	  or diag("@rest");
	$user->quit;
}

#
# A claim of some groups looks at tasks that others have
#
# That takes nothing from what the group has ready, or it would be given more.
sql($node, "SELECT fairq.create_queue('some', max_ready_per_group => 100); SELECT fairq.enqueue_many('some', numbers(1, 3000), '{a}')");
sql($node, "SELECT count(*) FROM fairq.claim('some', 1, lease => '1 h', group_keys => '{a}');\n" x 40);
{
	my ($ready, $before) = (0, -1);

	wait_for(sub { $before = $ready; $ready = sql($node, "SELECT ready FROM fairq.queue_stats WHERE queue = 'some'"); return $ready == $before && $ready >= 60 }, 10);
	cmp_ok($ready, '<=', 120, "claims by group, 40 in flight: $ready are ready of the hundred that may be");
}

#
# A group that is paused or at its limit has all the room of its queue, and more in the
# overflow: newcomers come all the same
#
foreach my $stop ("fairq.pause_group('stopped', 'a')", "fairq.set_group('stopped', 'a', max_leased => 1)")
{
	my $limited = $stop =~ /max_leased/ ? 1 : 0;

	sql($node, "SELECT fairq.create_queue('stopped', max_ready => 50); SELECT cardinality(fairq.enqueue_many('stopped', numbers(1, 500), '{a}')); SELECT $stop");
	is(sql($node, "SELECT count(*) FROM fairq.claim('stopped', 100, lease => '1 h')"), $limited, "$stop: it has what it may");
	foreach my $newcomer ('b', 'c', 'd')
	{
		sql($node, "SELECT fairq.enqueue('stopped', '1', '$newcomer')");
		is(sql($node, "SELECT string_agg(group_key, ' ') FROM fairq.pop('stopped', 10, wait => '60 s')"), $newcomer, "and $newcomer is served");
	}
	sql($node, "SELECT fairq.drop_queue('stopped')");
}

#
# A transaction so large that what it owes is folded (PENDING_MAX, 1048576), rolled
# back: its group is as it was, not behind all others, and has its room.
#
sql($node, "SELECT fairq.create_queue('bulk', max_ready_per_group => 2000000, max_ready => 2000000)");
my $bulk = sub {
	my ($n) = @_;

	return "SELECT cardinality(fairq.enqueue_many('bulk', array_fill('0'::jsonb, ARRAY[$n]), '{bob}'));";
};
sql($node, 'SET statement_timeout = 0; BEGIN;' . $bulk->(1_050_000) . 'SAVEPOINT a;' . $bulk->(5000) . 'RELEASE a;' . $bulk->(5000) .
	'SAVEPOINT b;' . $bulk->(5000) . 'ROLLBACK TO b;' . $bulk->(5000) . 'ROLLBACK');
sql($node, <<'SQL');
SELECT fairq.alter_queue('bulk', max_ready_per_group => 5000);
SELECT fairq.enqueue_many('bulk', numbers(1, 10), '{carol}');
SELECT fairq.enqueue('bulk', '11', 'bob');
SQL
is(sql($node, "SELECT state FROM fairq.tasks('bulk') WHERE group_key = 'bob'"), 'ready', 'a million tasks rolled back: the group has room');
is(join(' ', sort { $a <=> $b } column($node, "SELECT payload FROM fairq.claim('bulk', 2)")), '1 11', 'and its turn');
sql($node, "SELECT fairq.drop_queue('bulk')");

#
# Without a worker
#
$node->append_conf('postgresql.conf', 'pgfairq.max_workers = 0');
$node->restart;
is(sql($node, "SELECT count(*) FROM fairq.pop('hammer', 10000)"), 5000, 'without a worker: a claim has it all');
sql($node, "SELECT fairq.create_queue('alone', max_ready_per_group => 3); SELECT fairq.enqueue_many('alone', numbers(1, 10), '{bob}')");
is(join(' ', map { sql($node, "SELECT count(*) FROM fairq.claim('alone', 4)") } 1 .. 4), '4 4 2 0', 'all of them');
$node->stop('immediate');
$node->start;
is(join(' ', sort { $b <=> $a } map { sql($node, "SELECT count(*) FROM fairq.pop('alone', 10)") } 1 .. 5), '10 0 0 0 0', 'after a crash, too');

$node->stop;
unlike(
	PostgreSQL::Test::Utils::slurp_file($node->logfile),
	qr/PANIC|TRAP|terminated by signal 6|terminated by signal 11/,
	'no process broke down');
done_testing();
