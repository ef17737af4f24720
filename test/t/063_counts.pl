# Counts are true: what queue_stats and group_stats say is what there is.
#
# Shown: a group that is paused keeps max_ready_per_group beside a busy one; so do
# groups at their limits; a purge beside a producer, and a cancel beside who releases the
# task, count off what they remove; what a prepared transaction that is rolled back had
# counted is counted off; in the thick of it (test/load/counts.py), with a busy overflow,
# purges, limits, savepoints, rollbacks and restarts, every count of every view is what
# the tasks say after each round.
# FAIRQ_COUNTS_SECONDS, FAIRQ_COUNTS_ROUNDS and FAIRQ_COUNTS_SEED set how long, how many
# rounds at most, and which.
#
# Meant for these guards, which were not yet taken out one by one to see it fail:
# - count_given_back(): count always, or never: the thick of it;
# - leases_task_removed(): do not look for a lease: the cancel;
# - groups_tag(), level_group(): set ready to 0 with a purge: the purge;
# - group_overflow_seek_hungry(): starve with tasks set aside: the paused group;
# - group_overflow_feed(): do not ask whether the task is fed already, or count_row()
#   whether it is leased: the thick of it;
# - claim_resolve_doubts(): do not ask whether it was rolled back: the prepared one.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use FairqNode;
use IPC::Run;
use JSON::PP;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = fairq_node('counts', conf => "fsync = off\nmax_prepared_transactions = 10\nmax_connections = 40\n");

# What group_stats says of a queue's groups, and what its tasks do.
sub said
{
	my ($queue) = @_;

	return sql($node, "SELECT string_agg(format('%s %s %s %s', group_key, ready, overflow, leased), ', ' ORDER BY group_key) FROM fairq.group_stats WHERE queue = '$queue'");
}

sub true_counts
{
	my ($queue) = @_;

	return sql($node, <<"SQL");
SELECT string_agg(format('%s %s %s %s', group_key, r, o, l), ', ' ORDER BY group_key)
FROM (SELECT group_key, count(*) FILTER (WHERE state = 'ready') AS r, count(*) FILTER (WHERE state = 'overflow') AS o,
		count(*) FILTER (WHERE state = 'leased') AS l
	FROM fairq.tasks('$queue') WHERE state IN ('ready', 'overflow', 'leased') GROUP BY 1) t
SQL
}

# They are the same when the worker has done what there is to do; then that is these.
sub counts_are
{
	my ($queue, $wanted, $name) = @_;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	wait_for(sub { said($queue) eq true_counts($queue) && said($queue) eq $wanted }, 20);
	is(said($queue) . '; ' . true_counts($queue), "$wanted; $wanted", $name);
	return;
}

#
# Groups that may have no task just now
#
sql($node, <<'SQL');
SELECT fairq.create_queue('paused', max_ready_per_group => 20, buckets => 4);
SELECT fairq.enqueue_many('paused', array_fill('1'::jsonb, ARRAY[500]), group_keys => '{stopped}');
SELECT fairq.enqueue_many('paused', array_fill('1'::jsonb, ARRAY[3000]), group_keys => '{busy}');
SELECT fairq.pause('paused', 'stopped');
-- For as long as some looks for hungry groups take.
CREATE PROCEDURE consume(q text) LANGUAGE plpgsql AS $$
DECLARE
	begun timestamptz := clock_timestamp();
BEGIN
	WHILE clock_timestamp() < begun + interval '3 s' LOOP
		PERFORM fairq.ack(receipt) FROM fairq.claim(q, 5);
		COMMIT;
		PERFORM pg_sleep(0.01);
		COMMIT;
	END LOOP;
END $$;
SQL
sql($node, "CALL consume('paused')");
is(sql($node, "SELECT count(*) FROM fairq.tasks('paused', 'ready', 'stopped')"), 20,
	'a paused group has no more ready than it may, however long others are served');
ok(wait_for(sub { said('paused') eq true_counts('paused') }, 20), 'and the views say so');

sql($node, <<'SQL');
SELECT fairq.create_queue('few', max_ready_per_group => 20, buckets => 4);
SELECT fairq.set_group('few', 'g' || g, max_leased => g) FROM generate_series(1, 3) g;
SELECT fairq.enqueue_many('few', array_fill('1'::jsonb, ARRAY[1500]), group_keys => ARRAY['g' || g]) FROM generate_series(1, 3) g;
SQL
sql($node, "CALL consume('few')");
ok(wait_for(sub { said('few') eq true_counts('few') }, 20), 'groups at their limits: the views say what there is');
is(sql($node, "SELECT max(n) <= 20 FROM (SELECT count(*) AS n FROM fairq.tasks('few', 'ready') GROUP BY group_key) t"), 't',
	'and they have no more ready than they may') or diag(said('few'));

#
# Removed beside others
#
my $one = session($node);
my $two = session($node);
sql($node, "SELECT fairq.create_queue('beside', max_ready_per_group => 50); SELECT fairq.enqueue_many('beside', array_fill('1'::jsonb, ARRAY[10]), group_keys => '{a}')");
$one->safe("BEGIN; SELECT fairq.purge('beside', 'a')");
$two->safe("SELECT fairq.enqueue_many('beside', array_fill('1'::jsonb, ARRAY[30]), group_keys => '{a}')");
$one->safe('COMMIT');
counts_are('beside', 'a 30 0 0', 'a purge takes nothing of what came meanwhile');
sql($node, "SELECT fairq.purge('beside')");
counts_are('beside', '', 'a purge of all takes all');

# Who cancels the task of one who releases it waits for nobody, and it is counted once.
foreach my $first ('release', 'cancel')
{
	sql($node, "SELECT fairq.enqueue('beside', '1', 'b')");
	my ($receipt, $id) = split /\|/, sql($node, "SELECT receipt, id FROM fairq.claim('beside', 1)");
	$one->safe("BEGIN; SELECT fairq.release('$receipt')");
	$two->safe("BEGIN; SELECT fairq.cancel('beside', $id)");
	$_->safe('COMMIT') foreach $first eq 'release' ? ($one, $two) : ($two, $one);
	counts_are('beside', '', "a task that is released and cancelled at once, the $first first");
}

#
# Prepared, and rolled back
#
sql($node, "SELECT fairq.create_queue('prepared', max_ready_per_group => 3); SELECT fairq.enqueue('prepared', '1', 'a')");
sql($node, "BEGIN; SELECT fairq.enqueue_many('prepared', array_fill('1'::jsonb, ARRAY[10]), group_keys => ARRAY[g]) FROM unnest('{a,b}'::text[]) g; PREPARE TRANSACTION 'p'");
sql($node, "ROLLBACK PREPARED 'p'");
counts_are('prepared', 'a 1 0 0', 'what was prepared and rolled back is counted off');

#
# The thick of it
#
$_->quit foreach $one, $two;
my $output = '';
my $ran = IPC::Run::run(
	[
		python_program('counts.py'), $node->connstr('postgres'),
		'--seconds', $ENV{FAIRQ_COUNTS_SECONDS} // 30,
		'--rounds', $ENV{FAIRQ_COUNTS_ROUNDS} // 1000000,
		'--seed', $ENV{FAIRQ_COUNTS_SEED} // time(),
		'--pg-ctl', 'pg_ctl',
		'--data', $node->data_dir,
		'--log', $node->logfile
	],
	'>&', \$output);

# The program has restarted the server.
$node->_update_pid(1);
ok($ran, 'the views say what the tasks do, after each round') or diag($output);
note($output);
my $counts = $ran ? decode_json($output) : {};
cmp_ok($counts->{$_} // 0, '>', 0, "there were some: $_")
  foreach (qw(rounds enqueue claim ack nack release cancel purge rollback));
unlike(slurp_file($node->logfile), qr/PANIC|TRAP|terminated by signal/, 'no server process broke down');

$node->stop;
done_testing();
