# Front and floor of a queue, and wait_ready, where memory was lost or no worker runs.
#
# Shown: after a restart, before anything was read, the floor is where the rows begin, and
# raising it to less does not let those who come start there; after a crash a floor that was
# raised is forgotten, but not what the rows say; a standby has neither; the floor stays
# while tasks of the overflow are about to get places; wait_ready makes tasks ready that are
# due where there is no worker, and says so.
#
# Seen to fail, in sql_front.c:
# - raise the floor without recovery_tags(): a newcomer starts at 5 after the restart, far
#   before those who have waited;
# - floor_of(): leave out what holds while the rows have not been read: 0;
# in sql_claim.c:
# - wait_for_queues(): do not end when the worker's work was done: wait_ready says false.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use FairqNode;
use Test::More;

# Without a worker: nothing happens by itself.
my $node = fairq_node('front', conf => "pgfairq.max_workers = 0\n", init => { allows_streaming => 1 });

sub front_of
{
	my ($queue) = @_;

	return sql($node, "SELECT class, ready, front, floor FROM fairq.front('$queue')");
}

sub raised
{
	my ($queue, $block) = @_;

	return sql($node, "SELECT fairq.raise_floor('$queue', 0, $block)");
}

# Where a group that is new starts.
sub start_of_new
{
	my ($queue, $group) = @_;

	return sql($node, <<"SQL");
SELECT fairq.enqueue('$queue', '"new"', '$group') > 0;
SELECT fairq.block(address) FROM fairq.tasks('$queue', group_key => '$group');
SQL
}

sql($node, <<'SQL');
SELECT fairq.create_queue('q', buckets => 2, lease => '1 h', default_priority => 0);
SELECT fairq.create_queue('empty', default_priority => 0);
SELECT fairq.raise_floor('q', 0, 1000.5), fairq.raise_floor('empty', 0, 1000.5);
SELECT count(fairq.enqueue('q', '1', 'a')) FROM generate_series(1, 3) n;
SQL
is(front_of('q'), '0|3|1000.5|1000.5', 'the floor was raised, and tasks start there');

# A clean restart, and a crash
foreach my $mode ('fast', 'immediate')
{
	$node->stop($mode);
	$node->start;
	is(front_of('q'), '0|3|1000.5|1000.5', "$mode: the floor is where the rows begin");
	is(raised('q', 5), 'f', "$mode: it is not raised to less");
	is(start_of_new('q', "new $mode"), "t\n1000.5", "$mode: who comes starts there");
	is(front_of('empty'), '0|0||0', "$mode: where there are no rows it is forgotten");
	is(raised('empty', 7), 't', "$mode: and can be raised anew");
	sql($node, "SELECT count(*) FROM fairq.pop('q', 10) WHERE group_key LIKE 'new%'; SELECT fairq.purge('q')");
	sql($node, "SELECT count(fairq.enqueue('q', '1', 'a', cost => 0.5)) FROM generate_series(1, 3) n");
	$node->stop('fast') && $node->start;
	sql($node, "SELECT fairq.purge('q'), fairq.raise_floor('q', 0, 1000.5), count(fairq.enqueue('q', '1', 'a')) FROM generate_series(1, 3) n");
	last if $mode eq 'immediate';
	sql($node, "SELECT fairq.drop_queue('q'), fairq.create_queue('q', buckets => 2, lease => '1 h', default_priority => 0)");
	sql($node, "SELECT fairq.raise_floor('q', 0, 1000.5); SELECT count(fairq.enqueue('q', '1', 'a')) FROM generate_series(1, 3) n");
}

# Tasks of the overflow, and nothing else: their group's turn is the front.
sql($node, <<'SQL');
SELECT fairq.create_queue('over', buckets => 1, max_ready_per_group => 2, default_priority => 0);
SELECT count(fairq.enqueue('over', to_jsonb(n), 'a')) FROM generate_series(1, 10) n;
SELECT count(fairq.cancel('over', id)) FROM fairq.tasks('over', 'ready');
SQL
is(sql($node, "SELECT count(*) FROM fairq.claim('over')"), '1', 'a group has overflow only, and its task is claimed');
is(front_of('over'), '0|1|2|1', 'its turn is the front');
is(raised('over', 5000), 't', 'the floor is raised');
is(front_of('over'), '0|1|2|2', 'and no further than that');

# What is due where there is no worker
sql($node, "SELECT fairq.create_queue('due'), fairq.enqueue('due', '1', delay => '1 s')");
wait_for(sub { sql($node, "SELECT run_at < clock_timestamp() FROM fairq.tasks('due')") eq 't' });
is(sql($node, "SELECT ready FROM fairq.front('due')"), '0', 'without a worker nobody has made ready what is due');
is(sql($node, "SELECT fairq_internal.wait_ready('{empty,due}', '1 s')"), 't', 'wait_ready does it, and says so');
is(sql($node, "SELECT count(*) FROM fairq.claim('due')"), '1', 'and the task can be claimed');
ok(wait_for(sub { sql($node, "SELECT fairq_internal.wait_ready('{empty,due}', '0')") eq 'f' }), 'there is no other');

# A standby
$node->backup('standby');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($node, 'standby', has_streaming => 1);
$standby->start;
refused($standby, $_, '25006', undef, undef, "standby: $_")
  foreach "SELECT fairq.front('q')", "SELECT fairq.raise_floor('q', 0, 1)", "SELECT fairq_internal.wait_ready('{q}')";
$standby->stop;
$node->stop;
done_testing();
