# What others do with a task whose transaction has committed for all to see, but has not
# carried out yet what it owes for it: its commit is held up there (lib/held_commit.c), so
# each of these is met every time.
#
# Shown: of all pairs of what may happen to a task, by functions or SQL, the second while the
# first is held up (load/pairs.py): each task ends once, and counts are true afterwards.
# So they are where the first was done in a savepoint, and of both in one transaction. Of
# queues that are not the plainest, and of savepoints, one of five pairs; of all of them with
# FAIRQ_PAIRS_ALL=1.
# Whoever awaits a task is told of its end also where SQL has moved its row.
#
# Seen to fail without these guards:
# - pending_settled_gone(): DELETE, then an ack, a nack or a release (race 31);
# - row_reader_wait_writer(), in row_reader_task_wait(): a change of group, then a cancel; in
#   the trigger: a change of the row, then a DELETE (race 32);
# - leases_task_written(): that it tells the lease of before from one of the new row: a change
#   of group, then a pop (race 30); that the lease joins the group where the task is now;
# - transit_horizon_top(): the first in a savepoint; placement_leaves_lease(): a change of
#   group, then an ack, a nack or a cancel in one transaction;
# - begin_settling(): tell where a claim has met the row; end_lease(): wait for the writer; a
#   change of group, and the lease runs out;
# - leases_task_removed(): that it knows the lease of before: a row removed and inserted again,
#   then a claim; remove_revive_all(): wait for the writer;
# - promote_entry(), held_tasks_let_run(), revive_task(): make ready what is leased: a task that
#   SQL has put off, held or made dead;
# - row_reader_depth(): by the state alone: such a task; placement_group(): the class of the
#   priority: a change of priority, then a cancel;
# - end_lease(): tell nobody where the row had gone: whoever awaits it.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use FairqNode;
use IPC::Run;
use PostgreSQL::Test::Utils;
use Test::More;

my $dir = PostgreSQL::Test::Utils::tempdir();
my $hold = "$dir/hold";
# An installation of its own, as make check has, has no headers of the server.
chomp(my $includes = $ENV{FAIRQ_INCLUDES} // qx(pg_config --includedir-server));

system_or_bail($ENV{CC} // 'cc', '-shared', '-fPIC', '-O', "-I$includes", '-o', "$dir/held_commit.so", "$FindBin::RealBin/lib/held_commit.c");
my $node = fairq_node('held_commits', conf => "max_connections = 20\n");
$node->stop;
{
	local $ENV{FAIRQ_HOLD} = $hold;
	$node->start;
}

foreach my $way ('held', 'together', 'savepoint')
{
	foreach my $queue ('addressed', 'overflow', 'limited', 'durable', 'subgroups')
	{
		# a number that has no factor with how many pairs there are of one first
		my $every = $ENV{FAIRQ_PAIRS_ALL} || ($queue eq 'addressed' && $way ne 'savepoint') ? 1 : 5;
		my $out = '';

		IPC::Run::run([ python_program('pairs.py'), $node->connstr('postgres'), '--module', "$dir/held_commit.so", '--hold', $hold,
			'--way', $way, '--queue', $queue, '--every', $every ], '>&', \$out);
		like($out, qr/^\d{3} pairs, 0 wrong$/, "$way, $queue: each task ends once, and is counted once") or diag($out);
	}
}

# Its row is in no place any more when its last attempt fails: it is dead.
my $one = session($node);
my $other = session($node);

sub told { return $one->safe($_[0]); }

told("SELECT fairq.create_queue('awaited', lease => '1 h')");
my $id = told("SELECT fairq.enqueue('awaited', '1')");
my $receipt = told("SELECT receipt FROM fairq.claim('awaited', 1)");

$other->send("SELECT (fairq.await('awaited', $id, '1 h')).state");
ok(wait_event_of($node, 'Extension', "query LIKE '%fairq.await%'"), 'a session awaits a task');
told("UPDATE fairq.q_awaited SET state = 's', run_at = now() + '1 day', address = NULL WHERE id = $id");
is(told("SELECT fairq.nack('$receipt', final => true)"), 't', 'SQL has moved its row, and its last attempt fails');
is_deeply([ $other->ended_with ], [ 'dead', '' ], 'it is told that the task is dead');
done_testing();
