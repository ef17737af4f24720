# What is not known is not taken for nothing: the counts after a restart, when
# nobody has claimed yet, and a sweep that finds only what is lost.
#
# Shown: a queue that was left alone, with tasks beyond what its lanes have read, has
# nothing swept; nor has one whose surviving leases are settled after a restart,
# before anybody claims.  After a restart, clean or not, the overflow is not fed a
# second time, and queue_stats and group_stats say what is in the table.
#
# To see it fail:
# - lanes_has(): compare with the frontier as it is: one task a lane is swept;
# - is_overlooked(): take a lane that is not there for one without the task;
# - note_of_group() (row_trigger.c): do not say that a row may have been missed by who
#   counts them (pending_not_counted).

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use FairqNode;
use Test::More;

my $node = fairq_node('after_restart', conf => "pgfairq.sweep_interval = '100ms'\n");

sub entries_read
{
	my ($queue) = @_;

	return sql($node, "SELECT idx_tup_read FROM pg_stat_user_indexes WHERE indexrelname = 'id_of_$queue'");
}

# Wait until sweeps have read so many entries, and then no more for many intervals:
# as long as there is a missing one they look it up.
sub swept_through
{
	my ($queue, $least) = @_;

	return wait_for(
		sub {
			my $before = entries_read($queue);

			sql($node, 'SELECT pg_sleep(2)');
			return $before >= $least && entries_read($queue) == $before;
		});
}

sub swept
{
	my ($queue) = @_;

	return sql($node, "SELECT swept FROM fairq.queue_stats WHERE queue = '$queue'");
}

#
# A deep queue that nobody touches
#
sql($node, <<'SQL');
SELECT fairq.create_queue('deep', buckets => 4);
SELECT count(fairq.enqueue('deep', '1', group_key => (n % 7)::text)) FROM generate_series(1, 4000) n;
SELECT count(*) FROM fairq.claim('deep', 1);
SQL
ok(swept_through('deep', 4000), 'a sweep has looked at a deep queue');
is(swept('deep'), 0, 'and nothing of it was lost');

#
# A lease that survives, and is settled when nobody has claimed yet
#
sql($node, "SELECT fairq.create_queue('left'); SELECT count(fairq.enqueue('left', '1')) FROM generate_series(1, 3)");
my $receipt = sql($node, "SELECT receipt FROM fairq.claim('left', 1, lease => '1 hour')");
$node->restart;
my $before = entries_read('left');
is(sql($node, "SELECT fairq.ack('$receipt')"), 't', 'acknowledged after a restart');
ok(swept_through('left', $before + 2), 'a sweep has looked at the others');
is(swept('left'), 0, 'and they were not lost');
is(sql($node, "SELECT count(*) FROM fairq.claim('left', 10)"), 2, 'they are claimed');

#
# The overflow after a restart
#

# Passes of the worker that begin after now: it has made ready what was scheduled
# before it looked for room.
sub worker_passes
{
	foreach my $pass (1 .. 2)
	{
		sql($node, "SELECT fairq.enqueue('over', '1', group_key => 'due', run_at => clock_timestamp() + interval '50 ms')");
		wait_for(sub { sql($node, "SELECT scheduled FROM fairq.queue_stats WHERE queue = 'over'") eq '0' })
		  or die 'the worker does not come';
	}
	return;
}

my $counts = "SELECT ready, overflow FROM fairq.queue_stats WHERE queue = 'over'";
my $groups = "SELECT string_agg(format('%s %s %s', group_key, ready, overflow), ', ' ORDER BY group_key) FROM fairq.group_stats WHERE queue = 'over'";
my $true_groups = <<'SQL';
SELECT string_agg(format('%s %s %s', group_key, r, o), ', ' ORDER BY group_key)
FROM (SELECT group_key, count(*) FILTER (WHERE state = 'ready') AS r, count(*) FILTER (WHERE state = 'overflow') AS o
	FROM fairq.tasks('over') GROUP BY 1) t
SQL
sql($node, <<'SQL');
SELECT fairq.create_queue('over', max_ready_per_group => 100);
SELECT cardinality(fairq.enqueue_many('over', array_fill('1'::jsonb, ARRAY[1000]), group_keys => ARRAY['g' || g])) FROM generate_series(1, 5) g;
SQL
is(sql($node, $counts), '500|4500', 'so many are ready');
foreach my $mode (qw(fast immediate))
{
	$node->stop($mode);
	$node->start;
	worker_passes();
	my ($due) = sql($node, "SELECT count(*) FROM fairq.tasks('over', NULL, 'due')");
	is(sql($node, $counts), (500 + $due) . '|4500', "$mode: no more are ready after a restart");
	is(sql($node, $groups), sql($node, $true_groups), "$mode: and group_stats says what there is");
}

#
# Rows written with SQL by who was there before the rows were counted, and has not
# committed when they are.  (The worker would be the first to count them.)
#
$node->append_conf('postgresql.conf', 'pgfairq.max_workers = 0');
foreach my $what ([ "DELETE FROM fairq.q_hand WHERE payload IN ('1', '2')", 'a 3' ],
	[ "UPDATE fairq.q_hand SET group_key = 'b' WHERE payload IN ('1', '2')", 'a 3, b 2' ])
{
	my ($statement, $ready) = @$what;

	sql($node, "SELECT fairq.create_queue('hand'); SELECT count(fairq.enqueue('hand', to_jsonb(n), 'a')) FROM generate_series(1, 4) n");
	$node->restart;
	my $writer = session($node);
	$writer->safe("BEGIN; $statement");
	sql($node, "SELECT fairq.enqueue('hand', '5', 'a')");
	$writer->safe('COMMIT');
	$writer->quit;
	my $shown = "SELECT string_agg(group_key || ' ' || ready, ', ' ORDER BY group_key) FROM fairq.group_stats WHERE queue = 'hand'";
	ok(wait_for(sub { sql($node, "SELECT FROM fairq.maintain('hand')"); return sql($node, $shown) eq $ready }, 30), "$statement: is counted")
	  or diag(sql($node, $shown) . ", not $ready");
	sql($node, "SELECT fairq.drop_queue('hand')");
}
$node->stop;
done_testing();
