# The edges of what is counted: the last lease, the last attempt.
#
# Shown: a claim near pgfairq.max_leases returns as many tasks as there are leases,
# though many of the places that it comes to lead to rows that were rolled back; the
# number of an attempt stays at the highest there is.
#
# To see it fail:
# - claim_from_lanes(): return whenever fewer are reserved than were taken: the claim
#   returns the few that happen to be among the first places;
# - claim_grant(): attempts + 1, unbounded: the attempt after 2^31 - 1 has a negative
#   number, and its task is never dead.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use FairqNode;
use Test::More;

my $node = fairq_node('edges', conf => "pgfairq.max_leases = 64\n");

#
# The last leases
#
sql($node, "SELECT fairq.create_queue('few', buckets => 4, lease => '1 h')");
for (1 .. 3)
{
	sql($node, <<'SQL');
BEGIN;
SELECT count(fairq.enqueue('few', '"rolled back"')) FROM generate_series(1, 50);
ROLLBACK;
SQL
}
sql($node, "SELECT count(fairq.enqueue('few', '1')) FROM generate_series(1, 100)");
is(sql($node, "SELECT count(*) FROM fairq.claim('few', 100)"),
	64, 'a claim of more than there are leases gets all of them, whatever lies before');
refused($node, "SELECT count(*) FROM fairq.claim('few', 100)",
	'53400', qr/64 leases/, qr/max_leases/, 'and the next one an error');
is( sql($node, "SELECT count(*) FROM fairq.release_many(ARRAY(SELECT receipt FROM fairq.leases))"),
	64, 'they are given back');

#
# The last attempt
#
sql($node, <<'SQL');
SELECT fairq.create_queue('often', max_attempts => 0, lease => '1 h');
SELECT fairq.enqueue('often', '"for ever"');
SELECT fairq.enqueue('often', '"to the last"', max_attempts => 2147483647);
UPDATE fairq.q_often SET attempts = 2147483646;
SQL
for my $time (1, 2)
{
	is( sql($node, "SELECT string_agg(attempt || ' ' || fairq.nack(receipt, delay => '0'), ' ') FROM fairq.claim('often', 2)"),
		$time == 1 ? '2147483647 true 2147483647 true' : '2147483647 true',
		"attempt 2^31 - 1, time $time");
}
is( sql($node, "SELECT string_agg(concat_ws(' ', payload, state, attempts), ', ' ORDER BY id) FROM fairq.tasks('often')"),
	'"for ever" ready 2147483647, "to the last" dead 2147483647',
	'the task with a last attempt is dead after it, the other one goes on');

$node->stop;
done_testing();
