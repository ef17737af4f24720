# A lease that ran out while its task was being settled: when that is rolled back the
# worker is woken for it at once.
#
# He would look for himself a second after the lease ran out, so that the best of some
# rounds tells.  Seen to fail without worker_slots_wake_at() in leases_unsettle (leases.c).

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use FairqNode;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = fairq_node('late', conf => "pgfairq.max_leases = 1000\npgfairq.max_groups = 1000\n");
sql($node, "SELECT fairq.create_queue('x', buckets => 1, backoff_base => '0', max_attempts => 0, max_lost => 0)");
ok(worker_pid($node), 'there is a worker');
sql($node, "SELECT fairq.enqueue('x', '1')");

my $best = 1e9;
foreach my $round (1 .. 8)
{
	my $took = sql($node, <<'SQL');
SELECT receipt FROM fairq.claim('x', lease => '100 ms') \gset
BEGIN;
SELECT fairq.ack(:'receipt') \g /dev/null
SELECT pg_sleep(0.3) \g /dev/null
ROLLBACK;
SELECT clock_timestamp() AS since \gset
DO $$
BEGIN
    WHILE (SELECT state <> 'ready' FROM fairq.tasks('x')) LOOP
        PERFORM pg_sleep(0.01);
    END LOOP;
END $$;
SELECT extract(epoch FROM clock_timestamp() - :'since')::real;
SQL
	note("round $round: $took s");
	$best = $took if $took < $best;
}
cmp_ok($best, '<', 0.35, 'the task is put back at once');
is(sql($node, "SELECT attempt, fairq.ack(receipt) FROM fairq.claim('x')"), '9|t', 'each attempt counts');

$node->stop;
done_testing();
