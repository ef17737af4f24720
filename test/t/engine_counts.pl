# Counts are true: what queue_stats and group_stats say is what there is.
#
# Shown: a group that is paused keeps max_ready_per_group beside a busy one; so do
# groups at their limits; a purge beside a producer, and a cancel beside who releases the
# task, count off what they remove; what a prepared transaction that is rolled back had
# counted is counted off, also beside others who write, and one that was prepared before
# a restart is counted when it commits; in the thick of it (test/load/counts.py), with a busy overflow,
# purges, limits, savepoints, rollbacks and restarts, every count of every view is what
# the tasks say after each round.
# FAIRQ_COUNTS_SECONDS, FAIRQ_COUNTS_ROUNDS and FAIRQ_COUNTS_SEED set how long, how many
# rounds at most, and which.
#
# Seen to fail without these guards, taken out one by one:
# - count_given_back(): count always: the cancel first; never: the thick of it;
# - leases_task_removed(): do not look for a lease: the thick of it; so are
#   leases_task_written(), groups_lease_refused() without what it gives back, groups_untag()
#   that does not count off, count_row() that does not whether it is leased;
# - leases_task_written(): removed and written apart, with a pause of 50 us between the two: rows
#   that are changed while others claim them.  (So it was found, without the pause, after 400
#   rounds of the thick of it at a load of ten.)
# - level_group(): set ready to 0 with a purge: the purge; groups_tag(): when virtual time has
#   gone by: the group behind;
# - groups_count(): what is leased of the overflow is not counted off: the paused group;
# - claim_resolve_doubts(): do not ask whether it was rolled back: the prepared one;
# - lane_doubts_add(): forget what is counted when there are too many: one of many;
# - recovery_recount(): without the lock, or do_pass(): do not come again for it: others who
#   write meanwhile;
# - stats_before_prepare(): nothing where there is no lane: the purge after a restart;
# - prepared_before_start(): none: what was prepared before a restart;
# - find_task() of task_position.c: read it as a claim does, the version that comes first: its
#   position.
#
# Not seen to fail, as only a race of some instructions, or a count of many rows, meets
# them: leases_count_anew(), queue_state_is_counted(), is_counted() for rows that are not ready.  And uncounted_rows
# that is prepared: stats_before_prepare() stands in for it.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use FairqNode;
use FairqPgbench;
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
	wait_for(sub { said($queue) eq true_counts($queue) && said($queue) eq $wanted }, 90);
	is(said($queue) . '; ' . true_counts($queue), "$wanted; $wanted", $name);
	return;
}

# What queue_stats says: ready, leased, scheduled, overflow, held, dead.
sub depths
{
	my ($queue) = @_;

	return sql($node, "SELECT format('%s %s %s %s %s %s', ready, leased, scheduled, overflow, held, dead) FROM fairq.queue_stats WHERE queue = '$queue'");
}

#
# Groups that may have no task just now
#
sql($node, <<'SQL');
SELECT fairq.create_queue('paused', max_ready_per_group => 20, buckets => 4);
SELECT fairq.enqueue_many('paused', array_fill('1'::jsonb, ARRAY[500]), group_keys => '{stopped}');
SELECT fairq.enqueue_many('paused', array_fill('1'::jsonb, ARRAY[3000]), group_keys => '{busy}');
SELECT fairq.pause_group('paused', 'stopped');
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
ok(wait_for(sub { said('paused') eq true_counts('paused') }, 90), 'and the views say so');

sql($node, <<'SQL');
SELECT fairq.create_queue('few', max_ready_per_group => 20, buckets => 4);
SELECT fairq.set_group('few', 'g' || g, max_leased => g) FROM generate_series(1, 3) g;
SELECT fairq.enqueue_many('few', array_fill('1'::jsonb, ARRAY[1500]), group_keys => ARRAY['g' || g]) FROM generate_series(1, 3) g;
SQL
sql($node, "CALL consume('few')");
ok(wait_for(sub { said('few') eq true_counts('few') }, 90), 'groups at their limits: the views say what there is');
is(sql($node, "SELECT coalesce(max(n), 0) <= 20 FROM (SELECT count(*) AS n FROM fairq.tasks('few', 'ready') GROUP BY group_key) t"), 't',
	'and they have no more ready than they may') or diag(said('few'));

# A paused group does not starve, beside one whose ready tasks are in somebody's hands,
# and which is given others for that.
my $one = session($node);
my $two = session($node);
sql($node, <<'SQL');
SELECT fairq.create_queue('starving', max_ready_per_group => 5, buckets => 1);
SELECT fairq.enqueue_many('starving', array_fill('1'::jsonb, ARRAY[50]), group_keys => '{stopped}');
SELECT fairq.pause_group('starving', 'stopped');
SELECT fairq.enqueue_many('starving', array_fill('1'::jsonb, ARRAY[20]), group_keys => '{hands}');
SQL
$one->safe("BEGIN; DELETE FROM fairq.q_starving WHERE group_key = 'hands' AND address IS NOT NULL");
my $got = 0;
ok(wait_for(sub { $got += sql($node, "SELECT count(*) FROM fairq.pop('starving', 2)"); $got == 15 }, 90),
	'a group whose ready tasks are in the hands of a transaction is given all others');
$one->safe('COMMIT');
counts_are('starving', 'stopped 5 45 0', 'one that is paused beside it is not');

# Virtual time goes by a group that has tasks ready.
sql($node, <<'SQL');
SELECT fairq.create_queue('behind', max_ready_per_group => 20, buckets => 1);
SELECT fairq.enqueue_many('behind', array_fill('1'::jsonb, ARRAY[5]), group_keys => '{stopped}');
SELECT fairq.pause_group('behind', 'stopped');
SELECT fairq.enqueue_many('behind', array_fill('1'::jsonb, ARRAY[15]), group_keys => '{busy}');
SELECT count(*) FROM fairq.pop('behind', 15);
SELECT fairq.enqueue('behind', '1', 'stopped');
SQL
counts_are('behind', 'stopped 6 0 0', 'a group that virtual time has gone by keeps what it has ready');

#
# Removed beside others
#
sql($node, "SELECT fairq.create_queue('beside', max_ready_per_group => 50); SELECT fairq.enqueue_many('beside', array_fill('1'::jsonb, ARRAY[10]), group_keys => '{a}')");
$one->safe("BEGIN; SELECT fairq.purge_group('beside', 'a')");
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

# So is one that is leased, whatever its receipt is used for then.
foreach my $then ('ack', 'release', 'nack')
{
	sql($node, "SELECT fairq.enqueue_many('beside', '{1,2}', group_keys => '{c}')");
	my ($receipt, $id) = split /\|/, sql($node, "SELECT receipt, id FROM fairq.claim('beside', 1)");
	sql($node, "SELECT fairq.cancel('beside', $id)");
	sql($node, "SELECT fairq.$then('$receipt')");
	counts_are('beside', 'c 1 0 0', "a task that is leased and cancelled, then $then");
	sql($node, "SELECT count(*) FROM fairq.pop('beside', 2)");
}

#
# Prepared, and rolled back
#
sql($node, "SELECT fairq.create_queue('prepared', max_ready_per_group => 3); SELECT fairq.enqueue('prepared', '1', 'a')");
sql($node, "BEGIN; SELECT fairq.enqueue_many('prepared', array_fill('1'::jsonb, ARRAY[10]), group_keys => ARRAY[g]) FROM unnest('{a,b}'::text[]) g; PREPARE TRANSACTION 'p'");
sql($node, "ROLLBACK PREPARED 'p'");
counts_are('prepared', 'a 1 0 0', 'what was prepared and rolled back is counted off');

# Others write just when it is found out, and have ended before anybody comes again: the
# worker has nothing else to do, and no overflow.
sql($node, "SELECT fairq.drop_queue(queue) FROM fairq.queue");
sql($node, "SELECT fairq.create_queue('other'), fairq.create_queue('written'); SELECT fairq.enqueue('written', '1', 'a')");
$one->safe("BEGIN; SELECT fairq.enqueue('written', '1', 'a')");
sql($node, "BEGIN; SELECT fairq.enqueue('written', '1', 'a') FROM generate_series(1, 7); PREPARE TRANSACTION 'p'");
sql($node, "ROLLBACK PREPARED 'p'");
foreach (1 .. 3)
{
	# He has been to both queues when this is found out, and counted off.
	sql($node, "BEGIN; SELECT fairq.enqueue('other', '1', 'a'); PREPARE TRANSACTION 'p'");
	sql($node, "ROLLBACK PREPARED 'p'");
	wait_for(sub { said('other') eq '' }, 90);
}
$one->safe('COMMIT');
counts_are('written', 'a 2 0 0', 'and counted off when those have ended who write meanwhile');

# One more than a lane remembers: it is one of these that is rolled back.
sql($node, "SELECT fairq.create_queue('many', buckets => 1)");
sql($node, "BEGIN; SELECT fairq.enqueue('many', '1', 'a') FROM generate_series(1, 2); PREPARE TRANSACTION 'p$_'") foreach 1 .. 9;
sql($node, ($_ == 9 ? 'ROLLBACK' : 'COMMIT') . " PREPARED 'p$_'") foreach 1 .. 9;
counts_are('many', 'a 16 0 0', 'one of many that were prepared is rolled back');

#
# Prepared before a restart
#
foreach my $mode ('fast', 'immediate')
{
	$_->quit foreach $one, $two;
	sql($node, "SELECT fairq.create_queue('late'); SELECT fairq.enqueue('late', '1', 'a', run_at => now() + interval '1 h')");
	foreach my $queue ('kept', 'lost', 'direct')
	{
		sql($node, "SELECT fairq.create_queue('$queue', buckets => 1, max_ready_per_group => 5); SELECT fairq.enqueue('$queue', '1', 'a')");
	}
	sql($node, "SELECT fairq.create_queue('open'); SELECT fairq.enqueue_many('open', '{1,2,3}', group_keys => '{a}')");
	# No overflow, or the worker would count at once.
	sql($node, <<'SQL');
SELECT fairq.alter_queue('direct', max_ready_per_group => 50);
SELECT fairq.enqueue_many('direct', array_fill('1'::jsonb, ARRAY[7]), group_keys => '{a}');
UPDATE fairq.q_direct SET state = 'd', address = NULL WHERE id IN (SELECT id FROM fairq.q_direct ORDER BY id DESC LIMIT 3);
SQL
	foreach my $queue ('kept', 'lost')
	{
		sql($node, "BEGIN; SELECT fairq.enqueue('$queue', '1', 'a') FROM generate_series(1, 7); PREPARE TRANSACTION '$queue'");
	}
	$node->stop($mode);
	$node->start;
	$one = session($node);
	$two = session($node);

	# Somebody counts between what is done with SQL and its commit.
	$one->safe("BEGIN; DELETE FROM fairq.q_open WHERE id IN (SELECT id FROM fairq.q_open ORDER BY id LIMIT 1)");
	isnt(said('open'), '', 'what is deleted with SQL is counted before that is committed');
	$one->safe('COMMIT');
	counts_are('open', 'a 2 0 0', 'and is counted off then');

	# When it is known what there is, and there are no lanes.
	is(depths('late'), '0 0 1 0 0 0', "scheduled before a restart, $mode");
	sql($node, "BEGIN; SELECT fairq.purge('late'); PREPARE TRANSACTION 'late'");

	# When nobody knows what there is.
	sql($node, <<'SQL');
BEGIN;
DELETE FROM fairq.q_direct WHERE state = 'd';
DELETE FROM fairq.q_direct WHERE id IN (SELECT id FROM fairq.q_direct ORDER BY id LIMIT 2);
PREPARE TRANSACTION 'direct';
SQL
	counts_are('kept', 'a 1 0 0', "prepared before a restart, $mode: not counted");
	isnt(said('direct'), '', 'now they are counted');
	sql($node, "COMMIT PREPARED 'kept'");
	sql($node, "$_->[0] PREPARED '$_->[1]'") foreach ['ROLLBACK', 'lost'], ['ROLLBACK', 'late'], ['COMMIT', 'direct'];
	counts_are('kept', 'a 5 3 0', "prepared before a restart, $mode: counted when it has committed");
	counts_are('lost', 'a 1 0 0', "prepared before a restart, $mode: not counted if it is rolled back");
	counts_are('direct', 'a 3 0 0', "deleted with SQL and prepared, after a restart, $mode: counted off");
	ok(wait_for(sub { depths('direct') eq '3 0 0 0 0 0' }, 90), 'and those that were dead') or diag(depths('direct'));
	ok(wait_for(sub { depths('late') eq '0 0 1 0 0 0' }, 90), 'and a purge of it that is prepared and rolled back') or diag(depths('late'));
	sql($node, "SELECT fairq.drop_queue('$_')") foreach 'kept', 'lost', 'late', 'direct', 'open';
}

#
# Rows are changed with SQL while others claim them (race 30)
#
sql($node, "SELECT fairq.create_queue('changed', buckets => 2, lease => '1 h'); SELECT cardinality(fairq.enqueue_many('changed', array_fill('1'::jsonb, ARRAY[60]), group_keys => ARRAY(SELECT 'g' || n % 3 FROM generate_series(1, 60) n)))");
run_pgbench($node,
	{
		change => [ 1, "UPDATE fairq.q_changed SET payload = '2' WHERE id IN (SELECT id FROM fairq.q_changed ORDER BY id FOR UPDATE SKIP LOCKED);\n" ],
		claim => [ 3, "SELECT count(fairq.release(receipt)) FROM fairq.claim('changed', 10);\n" ]
	},
	'-c', 6, '-j', 2, '-T', 4)->ran_well('rows are changed while others claim them');
counts_are('changed', 'g0 20 0 0, g1 20 0 0, g2 20 0 0', 'and each task is counted once');
sql($node, "SELECT fairq.drop_queue('changed')");

#
# The thick of it
#
$_->quit foreach $one, $two;
my ($ran, $output) = run_restarting($node, 'counts.py',
	'--seconds', $ENV{FAIRQ_COUNTS_SECONDS} // 30,
	'--rounds', $ENV{FAIRQ_COUNTS_ROUNDS} // 1000000,
	'--seed', $ENV{FAIRQ_COUNTS_SEED} // time());
ok($ran, 'the views say what the tasks do, after each round') or diag($output);
note($output);
my $counts = $ran ? decode_json($output) : {};
cmp_ok($counts->{$_} // 0, '>', 0, "there were some: $_")
  foreach (qw(rounds enqueue claim ack nack release cancel purge rollback));

# How long the first of a group has waited is known after a restart, and of rows written with SQL.
sql($node, "SELECT fairq.create_queue('waited'); SELECT fairq.enqueue('waited', '1', 'a'), fairq.enqueue('waited', '1', 'b'); SELECT count(*) FROM fairq.claim('waited', 1)");
my $oldest = "SELECT count(*), count(*) FILTER (WHERE oldest_wait < '1 h') FROM fairq.group_stats WHERE queue = 'waited' AND ready > 0";
foreach my $mode ('fast', 'immediate')
{
	$node->stop($mode);
	$node->start;
	sql($node, 'SELECT count(fairq.release(receipt)) FROM fairq.leases');
	is(sql($node, $oldest), '2|2', "how long the first of a group has waited, after a restart ($mode)");
}
sql($node, "INSERT INTO fairq.q_waited SELECT * FROM jsonb_populate_record((SELECT q FROM fairq.q_waited q LIMIT 1), '{\"id\": 1000, \"group_key\": \"c\"}')");
is(sql($node, $oldest), '3|3', 'and of a row that is written with SQL');

# A task that is being changed is where it was, also when its row's new version is before the old.
sql($node, "SELECT fairq.create_queue('moved', buckets => 1)");
sql($node, "SELECT cardinality(fairq.enqueue_many('moved', array_agg(to_jsonb(n)))) FROM generate_series(1, 300) n");
is(sql($node, "SELECT count(*) FROM fairq.pop('moved', 150)"), '150', 'half of the tasks are done');
sql($node, 'VACUUM fairq.q_moved');
my $changes = session($node);
$changes->safe('BEGIN');
is($changes->safe("WITH was AS (SELECT id, ctid AS place FROM fairq.q_moved ORDER BY id OFFSET 50 LIMIT 1) UPDATE fairq.q_moved q SET headers = '{}' FROM was WHERE q.id = was.id RETURNING q.ctid < was.place"),
	't', 'one is being changed, and moves to the front of the table');
is(sql($node, "SELECT p.state || ' ' || p.ahead FROM (SELECT id FROM fairq.tasks('moved') ORDER BY id OFFSET 50 LIMIT 1) t, fairq.get_task_position('moved', t.id) p"),
	'ready 50', 'it has its position');
$changes->safe('ROLLBACK');
$changes->quit;
unlike(slurp_file($node->logfile), qr/PANIC|TRAP|terminated by signal/, 'no server process broke down');

$node->stop;
done_testing();
