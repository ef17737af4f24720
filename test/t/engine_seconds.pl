# charge => 'seconds' when workers claim several tasks at a time.
#
# Shown: a task is charged the time since the last task of the same claim ended, so that
# what the tasks of a claim are charged is no more than the time that it took, whether they
# are done one after the other or end together; a task that is put back without an attempt
# is charged nothing; and groups whose tasks take very different times get equal time of a
# worker that claims batches.
#
# Nothing depends on how soon anything happens: what a task took is read from the clock
# around it.  What a group's next task is charged is the distance of two of its tasks.
#
# Seen to fail without since_last_of_claim (lease_table.c: every task is measured from its
# claim): the second and third of a claim, and the shares (87 % and more for the long tasks).
# Without the division between those that end together: what they are charged in all.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use FairqNode;
use List::Util qw(sum);
use Test::More;

my $node = fairq_node('seconds', conf => "max_connections = 20\n");

# What the next task of a group is charged.
sub charge
{
	my ($group) = @_;

	return sql($node, <<SQL);
WITH e AS MATERIALIZED (SELECT fairq.enqueue_many('q', '{1,2}', group_keys => '{$group}') AS ids) SELECT cardinality(ids) FROM e \\gset
SELECT max(b) - min(b) FROM (SELECT substring(address::text FROM '([0-9.]+),[0-9]+[)]')::numeric AS b FROM fairq.q_q WHERE group_key = '$group' ORDER BY id DESC LIMIT 2) x
SQL
}

# A claim of one task of each group, in the order of their names.  The steps are SQL, each
# a transaction; answers the seconds from before the first to after each of them.
sub work
{
	my ($groups, @steps) = @_;

	sql($node, "SELECT fairq.create_queue('q', charge => 'seconds', buckets => 1)");
	sql($node, "SELECT count(fairq.enqueue('q', '1', group_key => g)) FROM unnest('{$groups}'::text[]) g");
	my @at = split /\n/, sql($node, join("\n", <<'SQL', map { "$_;\nSELECT extract(epoch FROM clock_timestamp());" } @steps));
\pset tuples_only on
CREATE TEMP TABLE c (group_key text, receipt uuid);
SELECT extract(epoch FROM clock_timestamp());
INSERT INTO c SELECT group_key, receipt FROM fairq.claim('q', 10);
SQL
	@at = grep { /^[0-9.]+$/ } @at;
	return map { $_ - $at[0] } @at[ 1 .. $#at ];
}

my $ack = "DO \$\$ BEGIN PERFORM pg_sleep(%s); PERFORM fairq.%s(receipt) FROM c WHERE group_key = '%s'; END \$\$";

# One after the other.
my @at = work('a,b,c', map { sprintf($ack, @$_) } [ 0.6, 'ack', 'a' ], [ 0.1, 'nack', 'b' ], [ 0.3, 'ack', 'c' ]);
my %charged = map { $_ => charge($_) } 'a' .. 'c';
my $all = sum(values %charged);
note("charged $charged{a}, $charged{b} and $charged{c} in $at[2] seconds");
cmp_ok($charged{a}, '>=', 0.6, 'the first task is charged from the claim on');
cmp_ok($charged{b}, '<=', $at[1] - 0.6 + 0.002, 'the second from the end of the first');
cmp_ok($charged{c}, '<=', $at[2] - 0.7 + 0.002, 'the third from the end of the second, which has failed');
cmp_ok($charged{c}, '>=', 0.3, 'and all of it');
cmp_ok($all, '<=', $at[2] + 0.002, 'all of them not more than the time that they took');
sql($node, "SELECT fairq.drop_queue('q')");

# Together: those of one group, as a transaction is charged what came last.
@at = work('a,a,a,a', "SELECT pg_sleep(0.5)", 'DO $$ BEGIN PERFORM fairq.ack_many(array_agg(receipt)) FROM c; END $$');
$all = 4 * charge('a');
cmp_ok($all, '>=', 0.5, 'tasks that end together: all are charged the time that they took,');
cmp_ok($all, '<=', $at[1] + 0.004, "and no more ($all in $at[1] seconds)");
sql($node, "SELECT fairq.drop_queue('q')");

# One that is given back is charged nothing, and takes nothing from those that follow.
@at = work('a,b', map { sprintf($ack, @$_) } [ 0.4, 'release', 'a' ], [ 0.2, 'ack', 'b' ]);
is(charge('a') + 0, 1, 'a task that is released: its group is charged what it was');
cmp_ok(charge('b'), '>=', 0.6, 'and the next one from the claim on');
sql($node, "SELECT fairq.drop_queue('q')");

# Shares: a long and a short task, a worker that claims ten at a time.
sql($node, <<'SQL');
SELECT fairq.create_queue('q', charge => 'seconds', max_ready_per_group => 20);
CREATE TABLE took (group_key text, seconds float8);
SELECT count(fairq.enqueue('q', '1', group_key => g, cost => c)) FROM generate_series(1, 1500), (VALUES ('long', 0.1), ('short', 0.01)) v(g, c);
CREATE PROCEDURE work(claims int) LANGUAGE plpgsql AS $$
DECLARE
	tasks fairq.task[];
	since timestamptz;
BEGIN
	FOR i IN 1 .. claims LOOP
		since := clock_timestamp();
		tasks := ARRAY(SELECT t::fairq.task FROM fairq.claim('q', 10) t);
		COMMIT;
		FOR j IN 1 .. cardinality(tasks) LOOP
			PERFORM pg_sleep(CASE tasks[j].group_key WHEN 'long' THEN 0.1 ELSE 0.01 END);
			PERFORM fairq.ack(tasks[j].receipt);
			COMMIT;
			INSERT INTO took VALUES (tasks[j].group_key, extract(epoch FROM clock_timestamp() - since));
			since := clock_timestamp();
			COMMIT;
		END LOOP;
	END LOOP;
END $$;
SQL
sql($node, 'SET statement_timeout = 0; CALL work(60)');
my ($share, $long, $short) = @{ (rows($node, <<'SQL'))[0] };
SELECT sum(seconds) FILTER (WHERE group_key = 'long') / sum(seconds), count(*) FILTER (WHERE group_key = 'long'), count(*) FILTER (WHERE group_key = 'short') FROM took
SQL
note("$long long tasks and $short short ones");
cmp_ok($share, '>', 0.3, sprintf('the long tasks get %.0f %% of the time', 100 * $share));
cmp_ok($share, '<', 0.7, 'and no more than about half');

$node->stop;
done_testing();
