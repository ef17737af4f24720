# Lines beside all else: many groups, few buckets and other ones, little room, limits of two
# kinds, rows that are written with SQL, prepared transactions, waiters, crashes and promotions.
#
# Shown: every task comes, once, in its group's order; no claim comes back short while
# there is work; who waits is told; counts and positions are right right after whatever
# happened; and what others have in their hands, or may not have, costs nobody else anything.
#
# Seen to fail without these guards:
# - lanes beyond the number of buckets are looked at, too (take_from_class): other buckets;
# - a claim with buckets takes turns of all lanes (turns_only): dealt buckets;
# - a group that has room, but no token, waits for one (limit_room_unblock): a limit of each kind;
# - groups go on when the defaults are changed (group_limits_defaults_changed): many groups;
# - one whose class was changed is not claimed at the turn of its old one (turns_is_of): rows;
# - the end of a prepared transaction has the overflow read again (lane_doubts_resolve), also
#   if it is one too many for its lane (lane_doubts_add): prepared;
# - who makes tasks of a line claimable tells those who wait (turn_lines_lower): many that wait.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use FairqNode;
use FairqPgbench;
use IPC::Run;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = fairq_node('rest', init => { allows_streaming => 1 }, conf => <<'CONF');
max_connections = 100
max_prepared_transactions = 30
pgfairq.max_lanes = 128
pgfairq.max_workers = 2
CONF
my $one = session($node);
my $two = session($node);

sql($node, <<'SQL');
CREATE FUNCTION numbers(a int, b int) RETURNS jsonb[] LANGUAGE sql AS $$ SELECT array_agg(to_jsonb(n) ORDER BY n) FROM generate_series(a, b) n $$;
CREATE TABLE got (at bigint GENERATED ALWAYS AS IDENTITY, round int, group_key text, n int, id bigint);
-- Pops n at a time until there is nothing.
CREATE PROCEDURE drain(q text, size int) LANGUAGE plpgsql AS $$
DECLARE
	n int;
	round int := 0;
BEGIN
	TRUNCATE got RESTART IDENTITY;
	LOOP
		round := round + 1;
		INSERT INTO got (round, group_key, n, id) SELECT round, p.group_key, p.payload::int, p.id FROM fairq.pop(q, size) p;
		GET DIAGNOSTICS n = ROW_COUNT;
		COMMIT;
		EXIT WHEN n = 0;
	END LOOP;
END $$;
SQL

sub make_queue
{
	my ($settings, @tasks) = @_;

	$one->safe("SELECT count(fairq.drop_queue(queue)) FROM fairq.queues WHERE queue = 'q'");
	$one->safe("SELECT fairq.create_queue('q', lease => '1 h', max_attempts => 0, backoff_base => '0', $settings)");
	$one->safe("SELECT cardinality(fairq.enqueue_many('q', numbers($_->[1], $_->[2]), '{$_->[0]}'))") foreach @tasks;
	return;
}

# Rows, in a session that stays.
sub fetched { return map { [ split /\|/, $_, -1 ] } split /\n/, $one->safe($_[0]); }

sub popped { return join ' ', split /\n/, $one->safe("SELECT payload FROM fairq.pop('q', $_[0])"); }

sub claimed { return join ' ', split /\n/, $one->safe("SELECT payload FROM fairq.claim('q', $_[0])"); }

sub acknowledged { return $one->safe("SELECT count(fairq.ack(receipt)) FROM fairq.leases WHERE queue = 'q'"); }

# Of what was drained: so many, each once, in each group's order, and only the last claims
# were short.
sub came
{
	my ($tasks, $size, $name) = @_;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	is($one->safe('SELECT count(*), count(DISTINCT id) FROM got'), "$tasks|$tasks", "$name: all come, each once");
	is($one->safe('SELECT count(*) FROM (SELECT n < lag(n) OVER (PARTITION BY group_key ORDER BY at) AS swap FROM got) x WHERE swap'), 0, "$name: in order");
	is($one->safe("SELECT count(*) FROM (SELECT count(*) AS n, round = max(round) OVER () AS last FROM got GROUP BY round) x WHERE n < $size AND NOT last"),
		0, "$name: no claim is short while there are any");
	return;
}

# What is counted, as the rows say.
sub counts
{
	my ($name, @wrong) = @_;

	wait_for(
		sub {
			@wrong = fetched(<<'SQL');
WITH r AS (SELECT t.group_key, CASE WHEN l.id IS NOT NULL THEN 'l' ELSE t.state::text END AS state FROM fairq.q_q t LEFT JOIN fairq.leases l ON l.queue = 'q' AND l.id = t.id)
SELECT q.what, q.n, count(r) FROM fairq.queue_stats, LATERAL (VALUES ('r', ready), ('o', overflow), ('l', leased), ('s', scheduled), ('d', dead)) q (what, n)
	LEFT JOIN r ON r.state = q.what WHERE queue = 'q' GROUP BY 1, 2 HAVING q.n <> count(r)
UNION ALL SELECT coalesce(r.key, g.key), g.n, r.n
	FROM (SELECT group_key || ' ' || state AS key, count(*) AS n FROM r WHERE state IN ('r', 'o', 'l') GROUP BY 1) r
	FULL JOIN (SELECT group_key || ' ' || v.state AS key, sum(v.n) AS n FROM fairq.group_stats, LATERAL (VALUES ('r', ready), ('o', overflow), ('l', leased)) v (state, n) WHERE queue = 'q' GROUP BY 1 HAVING sum(v.n) <> 0) g USING (key)
	WHERE r.n IS DISTINCT FROM g.n
SQL
			return !@wrong;
		},
		60);
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	is(join(', ', map { "@$_" } @wrong), '', "$name: counts");
	return;
}

#
# One group with many, many with a few, and many with one, where ten have addresses
#
foreach my $case ([ 1, 20000, 'max_ready_per_group => 10' ], [ 5000, 3, 'max_ready_per_group => 1' ], [ 2000, 1, 'max_ready => 10' ], [ 1000, 5, 'max_ready => 10, buckets => 64' ])
{
	my ($groups, $tasks, $settings) = @$case;

	foreach my $size (1, 10, 100)
	{
		next if $size == 1 && $groups * $tasks > 6000;
		make_queue($settings);
		$one->safe("SELECT cardinality(fairq.enqueue_many('q', array_agg(to_jsonb(t) ORDER BY t, g), array_agg('g' || g ORDER BY t, g))) FROM generate_series(1, $groups) g, generate_series(1, $tasks) t");
		$one->safe("CALL drain('q', $size)");
		came($groups * $tasks, $size, "$groups groups with $tasks, claims of $size");
		# Each has its turn before any has its next, but for what has an address and one claim.
		my $most = $one->safe("SELECT max(first - (n - 1) * $groups) FROM (SELECT n, max(at) AS first FROM got GROUP BY n) x");
		cmp_ok($most, '<=', $groups + 10 + $size, "$groups groups with $tasks, claims of $size: in turn");
	}
}

# Of one tenant, as many users with one task each, and one with a weight next to nothing.
make_queue('subgroups => true');
$one->safe("SELECT fairq.set_subgroup('q', 't', 'light', weight => 0.001)");
$one->safe("SELECT cardinality(fairq.enqueue_many('q', numbers(1, 3), group_keys => '{t}', subgroup_keys => '{light}'))");
$one->safe("SELECT cardinality(fairq.enqueue_many('q', array_agg('1'::jsonb), group_keys => '{t}', subgroup_keys => array_agg('u' || i))) FROM generate_series(1, 10000) i");
$one->safe("CALL drain('q', 100)");
is($one->safe('SELECT count(*), count(DISTINCT id) FROM got'), '10003|10003', '10,000 users: all come, each once');
is($one->safe("SELECT string_agg(least(at, 2)::text, ' ' ORDER BY at) FROM got WHERE n > 1 OR at = 1"), '1 2 2', 'one of next to no weight is served first, once, and then last');
is($one->safe("SELECT min(at) FROM got WHERE n = 2"), 10002, 'behind all the others');

#
# Other buckets, while lines stand in lanes that are no more
#
make_queue('max_ready_per_group => 1, buckets => 16', map { [ "g$_", 1, 40 ] } 1 .. 20);
my $came = 0;
foreach my $buckets (16, 1, 64, 3, 16)
{
	$one->safe("SELECT fairq.alter_queue('q', buckets => $buckets)");
	$one->safe("SELECT fairq.enqueue_many('q', numbers(1, 8), '{new$buckets}')");
	is($one->safe("SELECT count(*) FROM fairq.claim('q', 40)"), 40, "$buckets buckets: a claim has what it wants");
	$came += acknowledged();
}
$one->safe("CALL drain('q', 30)");
came(20 * 40 + 4 * 8 + 8 - $came, 30, 'buckets');

# Sessions that have buckets dealt to them: one has stalled, the other goes on with all lines.
make_queue('max_ready_per_group => 1, buckets => 4', map { [ "g$_", 1, 30 ] } 1 .. 8);
my ($stalled, $busy) = map { $one->safe("SELECT fairq.open_session(ttl => '1 h')") } 1 .. 2;
$one->safe("SELECT fairq.claim('q', 1, session => '$stalled', buckets => fairq.my_buckets('q', '$stalled'))");
my $dealt = 0;
while ((my $n = $one->safe("SELECT count(fairq.ack(receipt)) FROM fairq.claim('q', 25, session => '$busy', buckets => fairq.my_buckets('q', '$busy'))")) > 0)
{
	$dealt += $n;
}
cmp_ok($dealt, '>=', 8 * 29 - 1, "dealt buckets: one session stalls, and the other has had the overflow of all groups ($dealt)");
$one->safe("SELECT fairq.close_session(s) FROM unnest('{$stalled,$busy}'::uuid[]) s");

#
# A limit of each kind: tokens come while there is no room for another lease, or the other
# way round
#
foreach my $kind ('max_ready_per_group => 1', 'max_ready_per_group => 1000')
{
	make_queue("$kind, buckets => 1", [ 'a', 1, 12 ]);
	$one->safe("SELECT fairq.set_group('q', 'a', max_leased => 1, rate => 20, burst => 1)");
	my @got;
	ok( wait_for(
			sub {
				my $task = claimed(5);

				push @got, $task if $task ne '';
				# At once, when there is no token; or when there is one by now.
				if (@got % 3 == 0 && $task ne '')
				{
					claimed(5);
					sql($node, 'SELECT pg_sleep(0.1)');
				}
				acknowledged();
				return @got == 12;
			},
			60),
		"$kind: one at a time, and twenty a second: all come") or diag("@got");
	is("@got", join(' ', 1 .. 12), "$kind: in order");
}

#
# Many groups at their limit: all go on when there is none any more
#
make_queue('max_ready_per_group => 1');
$one->safe("SELECT fairq.set_group_defaults('q', max_leased => 1)");
$one->safe("SELECT cardinality(fairq.enqueue_many('q', array_agg(to_jsonb(t) ORDER BY t, g), array_agg('g' || g ORDER BY t, g))) FROM generate_series(1, 2000) g, generate_series(1, 3) t");
is($one->safe("SELECT count(*) FROM fairq.claim('q', 6000)"), 2000, 'one task of each of 2000 groups');
is($one->safe("SELECT count(*) FROM fairq.claim('q', 6000)"), 0, 'and no more');
$one->safe("SELECT fairq.set_group_defaults('q', max_leased => 2)");
is($one->safe("SELECT count(*) FROM fairq.claim('q', 6000)"), 2000, 'two of each: one more');
is($one->safe("SELECT count(*) FROM fairq.claim('q', 6000)"), 0, 'and no more');
$one->safe("SELECT fairq.set_group_defaults('q', max_leased => 0)");
is($one->safe("SELECT count(*) FROM fairq.claim('q', 6000)"), 2000, 'no limit: all the others');

#
# Rows that are written with SQL, before a claim has read the line, and after
#
my $rows = "WHERE payload IN ('3', '5')";
my @changes = (
	[ 'of another group', "UPDATE fairq.q_q SET group_key = 'b' $rows", 'a 2, a 4, a 6, a 7, b 3, b 5' ],
	[ 'of another class', "UPDATE fairq.q_q SET priority = 7 $rows", 'a 2, a 4, a 6, a 7, a 3, a 5' ],
	[ 'with another id', "UPDATE fairq.q_q SET id = id + 1000 $rows", 'a 2, a 4, a 6, a 7, a 3, a 5' ],
	[ 'dead', "UPDATE fairq.q_q SET state = 'd' $rows", 'a 2, a 4, a 6, a 7' ],
	[ 'scheduled', "UPDATE fairq.q_q SET state = 's', run_at = now() + interval '1 h' $rows", 'a 2, a 4, a 6, a 7' ],
	[ 'deleted', "DELETE FROM fairq.q_q $rows", 'a 2, a 4, a 6, a 7' ],
	[ 'written', "UPDATE fairq.q_q SET payload = to_jsonb(payload::int + 10) $rows", 'a 2, a 13, a 4, a 15, a 6, a 7' ],
	[ 'moved', 'VACUUM FULL fairq.q_q', 'a 2, a 3, a 4, a 5, a 6, a 7' ],
	[ 'moved by CLUSTER', "CREATE INDEX backwards ON fairq.q_q ((-id)); CLUSTER fairq.q_q USING backwards; DROP INDEX fairq.backwards", 'a 2, a 3, a 4, a 5, a 6, a 7' ],
	[ 'truncated', 'TRUNCATE fairq.q_q', '' ]);
foreach my $change (@changes)
{
	my ($what, $script, $comes) = @$change;

	foreach my $when ('before', 'after')
	{
		foreach my $more ($what =~ /truncated|moved/ ? '' : ('', 'BEGIN; '))
		{
			my $name = ($more ? 'being ' : '') . "$what, $when the line is read";

			make_queue('max_ready_per_group => 1, buckets => 1', [ 'a', 1, 7 ]);
			$one->safe("SELECT count(*) FROM fairq.pop('q', 1)");
			$one->safe("BEGIN; SELECT count(*) FROM fairq.claim('q', 2); ROLLBACK") if $when eq 'after';
			my $came = '';
			my $claim = sub { return join ', ', map { "@$_" } fetched("SELECT group_key, payload FROM fairq.pop('q', $_[0])") };

			# Not committed when a claim comes to them; and then it is.
			$two->safe("$_") foreach grep { /\w/ } split /; */, "$more$script";
			if ($more)
			{
				$came = $claim->(1);
				$two->safe('COMMIT');
			}
			counts($name);
			# What was in another's hands comes when a pass has found it.
			my @came = grep { /\w/ } split /, /, $came;
			wait_for(sub { push @came, split /, /, $claim->(9); return $one->safe("SELECT count(*) FROM fairq.q_q WHERE state IN ('r', 'o')") == 0 });
			# One group after the other, each in its order.
			@came = map { my $group = $_; grep { /^$group/ } @came } 'a', 'b';
			is(join(', ', $more ? sort @came : @came), $more ? join(', ', sort split /, /, $comes) : $comes, "$name: comes what the rows say");
			counts("$name, at the end");
		}
	}
}

# Behind the engine: it is a look for nothing.
make_queue('max_ready_per_group => 1, buckets => 1', [ 'a', 1, 7 ]);
$one->safe("SET session_replication_role = replica; DELETE FROM fairq.q_q $rows; RESET session_replication_role");
is(popped(9), '1 2 4 6 7', 'deleted behind the engine: the others come');

#
# Prepared transactions, more than a lane has doubts for, and a restart before they end
#
make_queue('max_ready_per_group => 1, buckets => 1', [ 'a', 1, 40 ]);
popped(1);
foreach my $i (1 .. 12)
{
	my ($enqueued, $deleted) = (100 + $i, 2 * $i);

	# Of each kind: enqueued into a line, and removed out of it.
	sql($node, $i % 2 ? "BEGIN; SELECT fairq.enqueue('q', '$enqueued', 'a'); PREPARE TRANSACTION 'p$i'" :
		  "BEGIN; DELETE FROM fairq.q_q WHERE payload = '$deleted'; PREPARE TRANSACTION 'p$i'");
}
sql($node, "BEGIN; DELETE FROM fairq.q_q WHERE payload = '" . (26 + $_) . "'; PREPARE TRANSACTION 'd$_'") foreach 1 .. 12;
is(popped(100), join(' ', grep { !($_ % 4 == 0 && $_ <= 24) && $_ <= 26 } 2 .. 40) . ' 39 40', 'those of prepared transactions are passed over');
my %prepared;
my $comes = sub {
	my ($name, @tasks) = @_;

	wait_for(sub { $prepared{$_}++ foreach column($node, "SELECT payload FROM fairq.pop('q', 100)"); return keys %prepared >= @tasks; }, 20);
	is(join(' ', map { "$_ $prepared{$_}" } sort { $a <=> $b } keys %prepared), join(' ', map { "$_ 1" } sort { $a <=> $b } @tasks), $name);
};
# (The end of any of those before has the line read again from there.)
sql($node, "ROLLBACK PREPARED 'd12'");
$comes->('what the last one has not removed after all comes', 38);
sql($node, "COMMIT PREPARED 'p1'; ROLLBACK PREPARED 'p2'; ROLLBACK PREPARED 'p12'; COMMIT PREPARED 'd1'; ROLLBACK PREPARED 'd2'");
$comes->('and what others have not, and what was enqueued', 4, 24, 28, 38, 101);
$_->quit foreach $one, $two;
$node->restart;
$one = session($node);
sql($node, join '; ', map { (($_ % 3 ? 'COMMIT' : 'ROLLBACK') . " PREPARED 'p$_'", ($_ % 3 ? 'ROLLBACK' : 'COMMIT') . " PREPARED 'd$_'") } 3 .. 11);
$comes->('and after a restart',
	4, 24, 28, 38, 101, map({ 100 + $_ } grep { $_ % 2 && $_ % 3 } 3 .. 11), map({ 2 * $_ } grep { $_ % 2 == 0 && $_ % 3 == 0 } 3 .. 11), map({ 26 + $_ } grep { $_ % 3 } 3 .. 11));
counts('prepared');

#
# Many that wait, and one commit
#
sql($node, 'CREATE TABLE woken (id bigint PRIMARY KEY)');
foreach my $settings ('max_ready_per_group => 1', 'subgroups => true')
{
	make_queue($settings);
	$one->safe('TRUNCATE woken');
	my $waiters = start_pgbench($node, { wait => "INSERT INTO woken SELECT id FROM fairq.claim('q', 1, wait => '10 min');\n" }, '-c', 64, '-j', 2, '-t', 1);
	ok(wait_event_of($node, 'Extension', "query LIKE '%woken%'", 64), "$settings: 64 wait");
	$one->safe("SELECT fairq.enqueue_many('q', numbers(1, 100), '{a}')");
	$waiters->ran_well("$settings: all are woken by one commit");
	is($one->safe('SELECT count(*) FROM woken'), 64, "$settings: each has a task");
	is($one->safe("SELECT count(*) FROM fairq.pop('q', 100)"), 36, "$settings: and the rest is there");
}

#
# Killed, promoted, restored with lines full
#
make_queue('max_ready_per_group => 2, durable_leases => true', map { [ $_, 1, 50 ] } 'a', 'b');
$one->safe("SELECT count(fairq.ack(receipt)) FROM fairq.claim('q', 20); SELECT count(*) FROM fairq.claim('q', 4)");
my $as_it_was = sub {
	my ($server, $name) = @_;
	my $position = sub {
		return sql($server, "SELECT string_agg(group_key || payload || ' ' || ahead::text, ', ' ORDER BY ahead) FROM fairq.q_q t, LATERAL fairq.get_task_position('q', t.id) p WHERE payload IN ('13', '30', '50')");
	};

	is(sql($server, "SELECT group_key, ready, overflow, leased FROM fairq.group_stats WHERE queue = 'q' ORDER BY 1"), "a|0|38|2\nb|0|38|2", "$name: counts");
	# Of those in a line it is about that.
	my %true = (a13 => 0, b13 => 1, a30 => 34, b30 => 35, a50 => 74, b50 => 75);
	my %said = split /, | /, $position->();
	is(join(' ', grep { abs($true{$_} - ($said{$_} // 1000)) > 2 } sort keys %true), '', "$name: positions") or diag($position->());
	is(sql($server, "SELECT string_agg(group_key || payload, ' ') FROM fairq.peek('q', 4)"), 'a13 b13 a14 b14', "$name: what is next");
};
$as_it_was->($node, 'before');
$node->backup('backup');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($node, 'backup', has_streaming => 1);
$standby->start;
$node->wait_for_catchup($standby);
$standby->promote;
is(sql($standby, "SELECT string_agg(group_key || payload, ' ') FROM fairq.claim('q', 2)"), 'a13 b13', 'promoted: the first claim has the first tasks');
sql($standby, "SELECT fairq.release(receipt) FROM fairq.leases JOIN fairq.q_q USING (id) WHERE payload = '13'");
$as_it_was->($standby, 'promoted');
$standby->stop;
my $dump = $node->basedir . '/dump';
$node->command_ok([ 'pg_dump', '-Fc', '-f', $dump, $node->connstr('postgres') ], 'pg_dump');
$one->quit;
kill 'KILL', $node->{_pid};
ok(start_after_kill($node), 'killed');
is(sql($node, "SELECT string_agg(group_key || payload, ' ') FROM fairq.claim('q', 2)"), 'a13 b13', 'killed: the first claim has the first tasks');
sql($node, "SELECT fairq.release(receipt) FROM fairq.leases JOIN fairq.q_q USING (id) WHERE payload = '13'");
$as_it_was->($node, 'killed');
sql($node, 'CREATE DATABASE copy');
$node->command_ok([ 'pg_restore', '-e', '-d', $node->connstr('copy'), $dump ], 'pg_restore');
is(sql($node, "SELECT string_agg(group_key || payload, ' ') FROM fairq.pop('q', 4)", 'copy'), 'a11 b11 a12 b12', 'a copy: the first claim has the first tasks, as it has no leases');
is(sql($node, "SELECT group_key, ready + overflow FROM fairq.group_stats WHERE queue = 'q' ORDER BY 1", 'copy'), "a|38\nb|38", 'a copy: counts');

nothing_swept($node);
$node->stop;
unlike(PostgreSQL::Test::Utils::slurp_file($node->logfile), qr/PANIC|TRAP|terminated by signal (6|11)/, 'no process broke down');
done_testing();
