# Many small transactions, as fast as the machine can: pgbench with 16 clients
# that enqueue, claim, acknowledge, pop, nack, release and roll back, once
# with more claimers than work, so that the queue is hardly ever longer than a
# few tasks, and once with more work than claimers, so that windows overflow.
# VACUUM and VACUUM FULL run beside it.  The clients of faults_stress look closer,
# these are fifty times faster.
#
# Shown: I1, I3 and I8: at the end a drain finds what was not acknowledged,
# nothing is lost and nothing acknowledged twice.
#
# To see it fail: take the guards out that faults_stress names; or those of the
# races in handing tasks over, which need speed to be met:
# - an offer while the index is being read is entered into the window (to be sure to
#   meet it, with LANE_WINDOW 8, and pg_usleep(300) before lanes_refill_end());
# - the row is looked at and its lease granted under one lock of its page;
# - a lease is dropped before its task is offered, not after.
# One offer in 5000 that lanes_offer_of_group() loses is enough: there is no sweep
# to find its task.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use FairqNode;
use FairqPgbench;
use PostgreSQL::Test::Utils;
use Test::More;

my $seconds = $ENV{FAIRQ_HAMMER_SECONDS} // 10;

my $node = fairq_node('hammer', conf => <<'CONF');
max_connections = 60
shared_buffers = 256MB
autovacuum = on
autovacuum_naptime = 1s
CONF

sql($node, <<'SQL');
CREATE TABLE produced (task bigint);
CREATE TABLE results (task bigint);
SELECT fairq.create_queue(q, buckets => 3, max_attempts => 0, backoff_base => '0') FROM (VALUES ('shallow'), ('deep')) v(q);
SQL

my %scripts = (
	enqueue => "\\set g random(1, 50)\n" . transaction(10, <<'SQL'),
INSERT INTO produced SELECT fairq.enqueue(:q, '{}', group_key => 'g' || :g);
SQL
	enqueue_many => <<'SQL',
\set g random(1, 50)
\set end random(1, 10)
BEGIN;
INSERT INTO produced SELECT unnest(fairq.enqueue_many(:q, array_fill('{}'::jsonb, ARRAY[20]), group_keys => ARRAY['g' || :g]));
SAVEPOINT a;
INSERT INTO produced SELECT unnest(fairq.enqueue_many(:q, ARRAY['{}', '{}']::jsonb[], priorities => ARRAY[0, 1]));
\if :end < 3
ROLLBACK TO a;
\elif :end < 5
ROLLBACK;
BEGIN;
\endif
COMMIT;
SQL
	consumers(),
	pop => "\\set n random(1, 5)\n" . transaction(3, <<'SQL'));
SAVEPOINT a;
SELECT count(*) FROM fairq.claim(:q, 3);
ROLLBACK TO a;
INSERT INTO results SELECT id FROM fairq.pop(:q, :n);
SQL

my %weights = (
	shallow => {
		enqueue => 300, enqueue_many => 5, consume => 200, steps => 150,
		pop => 100, walk_away => 10
	},
	deep => {
		enqueue => 50, enqueue_many => 200, consume => 150, steps => 50,
		pop => 50, walk_away => 10
	});

foreach my $q ('shallow', 'deep')
{
	sql($node, 'TRUNCATE produced, results');
	my $vacuum = start_pgbench($node, { vacuum => "VACUUM fairq.q_$q;\n\\sleep 300 ms\n" }, '-T', $seconds);
	# Once, and early: what was lost would be found again after it.
	my $rewrite = session($node);
	$rewrite->send("SELECT pg_sleep($seconds / 4.0); VACUUM FULL fairq.q_$q");
	my $load = run_pgbench($node, { map { $_ => [ $weights{$q}{$_}, $scripts{$_} ] } keys %{ $weights{$q} } },
		'-c', 16, '-j', 2, '-T', $seconds, '-D', "q='$q'", '-D', 'most=20', '-D', 'done=results', '-D', "lease='200 ms'");
	$vacuum->ran_well("$q: VACUUM");
	is($rewrite->ended, '', "$q: VACUUM FULL ran");
	$rewrite->quit;
	$load->ran_well("$q: the load");

	my $produced = sql($node, 'SELECT count(*) FROM produced');
	my $acked = sql($node, 'SELECT count(*) FROM results');
	my $left = sql($node, "SELECT count(*) FROM fairq.q_$q");
	note("$q: $produced produced, $acked acknowledged, $left left");
	cmp_ok($produced, '>', 100 * $seconds, "$q: $produced tasks");
	cmp_ok($acked, '>', 50 * $seconds, "$q: $acked acknowledged");

	# The drain: what a worker that went away held comes when its lease has
	# run out, all else at once.
	my $came = 0;
	wait_for(
		sub {
			my $n;
			do
			{
				$n = sql($node, "WITH r AS (INSERT INTO results SELECT id FROM fairq.pop('$q', 10000) RETURNING 1) SELECT count(*) FROM r");
				$came += $n;
			} while ($n);
			return $came >= $left;
		},
		31);
	is($came, $left, "$q: the drain finds what was left");
	is(sql($node, "SELECT count(*) FROM fairq.q_$q"), 0, "$q: and that is all");
	is( sql(
			$node,
			"SELECT count(*) FROM produced p WHERE NOT EXISTS (SELECT FROM results r WHERE r.task = p.task)"
		),
		0,
		"$q: nothing is lost");
	is( sql(
			$node, 'SELECT count(*) FROM (SELECT task FROM results GROUP BY task HAVING count(*) > 1) x'
		),
		0,
		"$q: nothing is acknowledged twice");
	is(sql($node, 'SELECT count(*) FROM results'),
		$produced, "$q: nothing came from nowhere");
	is( sql(
			$node,
			"SELECT ready, leased, dead, enqueued, acked FROM fairq.queue_stats WHERE queue = '$q'"
		),
		"0|0|0|$produced|$produced",
		"$q: and the statistics say so");
}
nothing_swept($node);

$node->stop;
unlike(
	PostgreSQL::Test::Utils::slurp_file($node->logfile),
	qr/PANIC|TRAP|terminated by signal/,
	'no process broke down');
done_testing();
