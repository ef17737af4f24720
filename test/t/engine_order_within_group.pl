# First in, first out within a group: one producer, one claimer, at the same time,
# and the order in which tasks were enqueued is that in which they are claimed,
# whatever the number of buckets, and also of groups that are at their limits.
#
# To see it fail, take one of these guards out of the engine:
# - take_overtaken (claim_lanes.c): that lanes are looked at again;
# - that a claim with something in hand does not look for more with the lock, or that
#   what it holds is in order (take_from_class, hold): with either taken out
#   one run in twenty fails, when the machine is so busy that claims are interrupted;
# - that a claimer waits for a lane that somebody else than a claimer has locked
#   (lanes_take);
# - that what comes later waits for what is parked (group_limits_take).
#
# FAIRQ_ORDER_TASKS sets how many tasks there are each time.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use FairqNode;
use Test::More;

my $tasks = $ENV{FAIRQ_ORDER_TASKS} // 30000;
my $node = fairq_node('order', conf => <<'CONF');
fsync = off
shared_buffers = 256MB
CONF

# Task i is of group i % 5, and says i.
sql($node, <<'SQL');
CREATE PROCEDURE produce(total int, at_once int) LANGUAGE plpgsql AS $$
BEGIN
	FOR i IN 1 .. total BY at_once LOOP
		IF at_once = 1 THEN
			PERFORM fairq.enqueue('q', to_jsonb(i), group_key => (i % 5)::text);
		ELSE
			PERFORM fairq.enqueue_many('q', (SELECT array_agg(to_jsonb(j) ORDER BY j) FROM generate_series(i, i + at_once - 1) j),
				group_keys => (SELECT array_agg((j % 5)::text ORDER BY j) FROM generate_series(i, i + at_once - 1) j));
		END IF;
		COMMIT;
	END LOOP;
END $$;
CREATE PROCEDURE consume(total int, at_once int, INOUT got int DEFAULT 0, INOUT swaps int DEFAULT 0, INOUT empty int DEFAULT 0)
LANGUAGE plpgsql AS $$
DECLARE
	latest int[] := array_fill(0, ARRAY[5], ARRAY[0]);
	before int;
	task record;
BEGIN
	WHILE got < total LOOP
		before := got;
		FOR task IN SELECT group_key::int AS g, payload::int AS i FROM fairq.pop('q', at_once) LOOP
			swaps := swaps + (task.i < latest[task.g])::int;
			latest[task.g] := greatest(task.i, latest[task.g]);
			got := got + 1;
		END LOOP;
		empty := empty + (got = before)::int;
		COMMIT;
	END LOOP;
END $$;
SQL

my $producer = session($node);
my $shallow = 0;
foreach my $case ([ 16, 1, 10 ], [ 16, 3, 5 ], [ 4, 1, 3 ], [ 16, 1, 1 ], [ 1, 3, 5 ], [ 16, 1, 10, 2 ], [ 4, 3, 3, 1 ])
{
	my ($buckets, $enqueue, $claim, $limit) = @$case;
	my $name = "$buckets buckets, $enqueue enqueued and $claim claimed at once" . ($limit ? ", max_leased $limit" : '');

	sql($node, "SELECT fairq.create_queue('q', buckets => $buckets)");
	sql($node, "SELECT fairq.set_group_defaults('q', max_leased => $limit)") if $limit;
	$producer->send("CALL produce($tasks, $enqueue)");
	my ($got, $swaps, $empty) = split /\|/, sql($node, "CALL consume($tasks, $claim)");
	is($got, $tasks, "$name: all came");
	is($swaps, 0, "$name: in order ($empty claims found nothing)");
	$shallow += $empty;
	$producer->safe('SELECT 1');
	sql($node, "SELECT fairq.drop_queue('q')");
}
cmp_ok($shallow, '>', 1000, 'the claimer was at the heels of the producer');
$producer->quit;
$node->stop;
done_testing();
