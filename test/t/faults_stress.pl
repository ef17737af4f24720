# Sixteen clients use one queue in every way there is for 40 seconds, while
# backends are terminated, clients are killed with signal 9 and replaced, and
# the table is vacuumed, rewritten, clustered and reindexed.  Then the queue is
# drained: every committed task must have been acknowledged exactly once.
#
# FAIRQ_STRESS_SECONDS sets the duration, FAIRQ_STRESS_SEED repeats a run as
# far as the scheduler allows, FAIRQ_STRESS_CLIENTS the number of clients.
#
# Shown: I1 (none lost), I2 (no two live leases on one task), I3 (no second
# ack), I8 (what may run is claimable: the drain finds every row).
#
# To see it fail, take one of these guards out of the engine:
# - the look into the lease table before a task is handed out: overlaps,
#   leases lost too early;
# - the test that the receipt is that of the lease, in ack: acks of leases that
#   have ended, tasks acknowledged twice;
# - the mark "settling" of a lease whose ack is not committed, or that it keeps
#   the lease from running out: a task handed out while its ack is under way;
# - the hand-over of a claim's tasks at rollback, or of an enqueue's at commit:
#   rows that no claim finds, so that the queue is not empty after the drain;
# - the test, in ack, that the row at the remembered place is the task: after
#   VACUUM FULL or CLUSTER other tasks are deleted than those acknowledged.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use FairqNode;
use FaultLoad;
use PostgreSQL::Test::Utils;
use Test::More;

my $seconds = $ENV{FAIRQ_STRESS_SECONDS} // 40;
my $clients = $ENV{FAIRQ_STRESS_CLIENTS} // 16;
my $seed = $ENV{FAIRQ_STRESS_SEED} // time;

my $node = fairq_node('stress', conf => <<'CONF');
max_connections = 60
shared_buffers = 128MB
autovacuum = on
autovacuum_naptime = 1s
CONF

my $r = FaultLoad::stress($node, "stress, seed $seed", $seconds, '--clients' => $clients, '--seed' => $seed);

# That something happened at all.
my $few = $seconds * 5;
cmp_ok($r->{enqueued}, '>', $few, "tasks: $r->{enqueued}");
cmp_ok($r->{'claims held'}, '>', $few, "leases held for a while: $r->{'claims held'}");
foreach my $how (qw(ack ack_many ack_and_claim pop savepoint shared drain))
{
	cmp_ok($r->{how}{$how} // 0, '>', 0,
		"acknowledged by $how: " . ($r->{how}{$how} // 0));
}
foreach my $action (
	qw(enqueue_slowly settle_nack settle_release extend cancel walk_away try_stale)
  )
{
	cmp_ok($r->{actions}{$action} // 0, '>', 0,
		"$action: " . ($r->{actions}{$action} // 0));
}
my $cancelled = $r->{'removed on purpose'};
cmp_ok($cancelled, '>', 0, "tasks cancelled: $cancelled");
cmp_ok($r->{terminated}, '>', $seconds / 2,
	"backends terminated: $r->{terminated}");
cmp_ok($r->{killed}, '>', $seconds / 8, "clients killed: $r->{killed}");
foreach my $word ('VACUUM', 'ANALYZE', 'VACUUM FULL', 'CLUSTER',
	'REINDEX TABLE CONCURRENTLY')
{
	cmp_ok($r->{maintenance}{$word} // 0, '>', 0, "$word ran");
}
is_deeply($r->{maintenance_errors}, [], 'and without an error');

# What must hold.
is($r->{acknowledged} + $cancelled, $r->{enqueued}, 'acknowledged and cancelled are all');
is($r->{receipts_again}, 0, 'no receipt is good a second time');
is($r->{leases}, 0, 'no leases are left');

my $stats = $r->{stats};
is($stats->{$_} // 0, 0, "queue_stats: $_ is 0") foreach qw(ready leased dead);
is($stats->{enqueued}, $r->{enqueued}, 'queue_stats: enqueued');
is($stats->{cancelled}, $cancelled, 'queue_stats: cancelled');
is($stats->{acked}, $r->{acknowledged}, 'queue_stats: acked');
cmp_ok($stats->{claimed}, '>=', $stats->{acked}, 'queue_stats: claimed');
cmp_ok($stats->{$_}, '>', 0, "queue_stats: $_")
  foreach qw(nacked released expired);
nothing_swept($node);

$node->stop;
is( PostgreSQL::Test::Utils::slurp_file($node->logfile) =~
	  /(PANIC|TRAP|was terminated by signal|server process .* exited).*/ ? $& : '',
	'', 'no server process broke down');

done_testing();
