# Entries of groups are one number for the server (pgfairq.max_groups), and keys of users
# can be made up: who that refuses, and what becomes of tasks that are there already.
#
# Shown: a group has as many subgroups with work as there are entries left, so made-up users
# of some tenants, in however many classes, refuse no other tenant and none of its users;
# what is due, or is held for nothing any more, and has no entry waits, and nothing else waits
# for it; what a restart finds is not refused; entries of what was purged are free without a claim; and as many of
# pgfairq.max_limits, where users have limits by default, as are left, beyond which the tenant
# waits, and nobody else.
#
# To see it fail, take one of these guards out of the engine:
# - the bound of make_entry: one tenant has all the entries (a tenant of made-up users);
# - it is for all classes (subgroups_of): one tenant has nearly all of them;
# - it holds for tasks that come only (ENTRY_KNOWN_TASK at group_overflow_found): a restart;
# - what is due and has no room is passed over (promote_due.c, placement_has_room): due;
# - what may run and has no room is scheduled (placement_by_run_at): held, where the
#   acknowledgement fails;
# - tasks that wait are counted, not looked for in lanes alone (reclaim_order): purged;
# - a subgroup that comes to a crowded group has no limit made (limited_groups_join), and its group
#   waits (crowded_until, in limit_table_room): claims fail with 53400, or do not end.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use FairqNode;
use Test::More;

my $entries = 100;
my $node = fairq_node('made_up', conf => "pgfairq.max_groups = $entries\n");
sql($node, <<'SQL');
-- How many users a tenant can have made up, each with a task.
CREATE PROCEDURE make_up(q text, tenant text, inout n int) LANGUAGE plpgsql AS $$
BEGIN
	n := 0;
	LOOP
		PERFORM fairq.enqueue(q, '1', tenant, subgroup_key => 'made up ' || n + 1);
		n := n + 1;
	END LOOP;
EXCEPTION WHEN configuration_limit_exceeded THEN
	-- What failed has taken all of it back.
	NULL;
END $$;
-- The same, each kept.
CREATE PROCEDURE flood(q text, tenant text, inout n int, class int DEFAULT 4) LANGUAGE plpgsql AS $$
BEGIN
	n := 0;
	LOOP
		BEGIN
			PERFORM fairq.enqueue(q, '1', tenant, subgroup_key => 'made up ' || n + 1, priority => class);
		EXCEPTION WHEN configuration_limit_exceeded THEN
			EXIT;
		END;
		n := n + 1;
	END LOOP;
END $$;
SQL

sub enqueue
{
	my ($q, $tenant, $user, $more) = @_;
	return "SELECT fairq.enqueue('$q', '1', '$tenant'" . (defined $user ? ", subgroup_key => '$user'" : '') . ($more // '') . ')';
}

sub states
{
	my ($q) = @_;
	return sql($node, "SELECT string_agg(concat_ws(' ', group_key, state, n), ', ' ORDER BY group_key, state)"
		  . " FROM (SELECT group_key, state, count(*) AS n FROM fairq.tasks('$q') GROUP BY 1, 2) s");
}

# So many tasks are scheduled, and then due. (Not with a delay, which may be over at once.)
sub due
{
	my ($q, $whose, $n) = @_;
	sql($node, "CREATE TEMP TABLE t AS SELECT fairq.enqueue('$q', '1', $whose, delay => '1 h') AS id FROM generate_series(1, $n) i;"
		  . "UPDATE fairq.q_$q SET run_at = now() WHERE id IN (SELECT id FROM t)");
	return;
}

# All tasks of a queue come, each once, however often it takes a pass to make room.
sub drained
{
	my ($q, $wanted, $what) = @_;
	my $came = 0;
	wait_for(sub { $came += sql($node, "SELECT count(*) FROM fairq.pop('$q', 1000)"); return $came >= $wanted; }, 60);
	is($came + sql($node, "SELECT count(*) FROM fairq.pop('$q', 1000)"), $wanted, "$what: all come, each once");
	return;
}

# A tenant of made-up users
sql($node, "SELECT fairq.create_queue('s', subgroups => true, max_attempts => 0, lease => '1 h')");
sql($node, "SELECT fairq.create_queue('plain', backoff_base => '0')");
is(sql($node, "CALL make_up('s', 'hog', 0)"), 50, 'users of one tenant take half of the entries');
is(sql($node, "CALL flood('s', 'hog', 0)"), 50, 'and as many when what was refused has been rolled back');
my ($state, $message, $hint) = error_of($node, enqueue('s', 'hog', 'late'));
is("$state: $message", '53400: group "hog" cannot have more subgroups with work at a time', 'a further one is refused');
is(sql($node, "CALL flood('s', 'hog', 0, 5)"), 0, 'of another class, too');
like($hint, qr/pgfairq\.max_groups/, 'and told why');
isnt(sql($node, enqueue('s', 'hog', 'made up 7')), '', 'one that is known goes on');
isnt(sql($node, enqueue('s', 'small', 'ann') . ';' . enqueue('s', 'small', 'bob') . ';' . enqueue('plain', 'p')), '', 'and so do other tenants, and other queues');
is(sql($node, "CALL flood('s', 'second', 0)"), 22, 'a second one takes half of what is left');
my $tenants = 0;
$tenants++ while $tenants < $entries && !(error_of($node, enqueue('s', "tenant $tenants", 'first')))[0];
is($tenants, 11, 'tenants with a user each come until all entries are taken');
($state, $message) = error_of($node, enqueue('plain', 'another'));
is("$state: $message", "53400: cannot have more than $entries groups with work at a time", 'then groups are refused');
my $tasks = 50 + 1 + 2 + 22 + $tenants;
is(sql($node, "SELECT ready + overflow FROM fairq.queue_stats WHERE queue = 's'"), $tasks, 'what was refused is not counted');
is(sql($node, "SELECT string_agg(group_key, ' ' ORDER BY group_key COLLATE \"C\") FROM fairq.claim('s', 4) WHERE group_key !~ '^tenant'"), 'hog second small',
	'a turn for each tenant, whatever number of users it has');
sql($node, "SELECT count(fairq.release(receipt)) FROM fairq.leases");

# Restart: the tenants with most users come first in the table, or last
$node->restart;
is(sql($node, "SELECT ready + overflow FROM fairq.queue_stats WHERE queue = 's'"), $tasks, 'a restart finds all of them');
sql($node, "BEGIN; CREATE TEMP TABLE t AS SELECT * FROM fairq.q_s; DELETE FROM fairq.q_s; INSERT INTO fairq.q_s SELECT * FROM t ORDER BY group_key COLLATE \"C\" DESC, id; COMMIT; DROP TABLE t");
$node->restart;
is(sql($node, "SELECT ready + overflow FROM fairq.queue_stats WHERE queue = 's'"), $tasks, 'in whatever order');
drained('s', $tasks, 'restarted');
sql($node, "SELECT count(*) FROM fairq.pop('plain', 100)");

# Due
sql($node, "SELECT fairq.pause('s')");
due('s', "'hog', subgroup_key => 'made up ' || i", 200);
ok(wait_for(sub { states('s') =~ /^hog overflow (\d+), hog scheduled (\d+)$/ && $1 >= 49 && $1 + $2 == 200 }), 'due: as many as there is room for') or diag(states('s'));
due('s', "'small', subgroup_key => 'u' || i", 9);
ok(wait_for(sub { sql($node, "SELECT count(*) FROM fairq.tasks('s', 'overflow', 'small')") eq '9' }), 'due: those of others become ready all the same') or diag(states('s'));
sql($node, "SELECT fairq.resume('s')");
drained('s', 209, 'due');

# Groups that are made up, where they have all the entries
sql($node, "SELECT fairq.pause('plain'); SELECT fairq.enqueue('plain', '1', 'known')");
my ($groups) = (0);
$groups++ while $groups < $entries && !(error_of($node, enqueue('plain', "made up $groups")))[0];
due('plain', "'later ' || i", 100);
due('plain', "'known'", 1);
ok(wait_for(sub { sql($node, "SELECT count(*) FROM fairq.tasks('plain', 'ready', 'known')") eq '2' }), 'a group with work is not kept from what is due by groups without entries')
  or diag(states('plain'));
is(sql($node, "SELECT count(*) FROM fairq.tasks('plain', 'scheduled')"), 100, 'which wait');
sql($node, "SELECT fairq.resume('plain')");
drained('plain', $groups + 102, 'groups');

# Held, behind a task that ends and behind a unique key
my $first = sql($node, enqueue('s', 'small', 'ann'));
sql($node, "SELECT fairq.enqueue('s', '1', 'hog', subgroup_key => 'made up ' || i, after => ARRAY[$first]) FROM generate_series(1, 200) i");
sql($node, "SELECT fairq.enqueue('s', '1', 'small', subgroup_key => 'bob', after => ARRAY[$first])");
my $receipt = sql($node, "SELECT receipt FROM fairq.claim('s')");
sql($node, "SELECT fairq.pause('s')");
is(sql($node, "SELECT fairq.ack('$receipt')"), 't', 'held: the end of what they wait for');
ok(wait_for(sub { states('s') =~ /^hog overflow (\d+), hog scheduled (\d+), small overflow 1$/ && $1 + $2 == 200 }), 'held: they run, or wait for room') or diag(states('s'));
is(sql($node, "SELECT count(*) FROM fairq.queue_stats WHERE queue = 's' AND held > 0"), '0', 'held: none is any more');
my $keyed = sql($node, "SELECT fairq.resume('s'); " . enqueue('s', 'small', 'key', ", unique_key => 'k'")) =~ s/\s//gr;
$receipt = sql($node, "SELECT receipt FROM fairq.claim('s', 1, group_keys => '{small}') WHERE subgroup_key = 'key'");
$receipt = sql($node, "SELECT receipt FROM fairq.claim('s', 1, group_keys => '{small}')") if $receipt eq '';
sql($node, enqueue('s', 'hog', 'behind the key', ", unique_key => 'k'") . "; SELECT fairq.pause('s')");
$receipt = sql($node, "SELECT receipt FROM fairq.leases WHERE id = $keyed");
is(sql($node, "SELECT fairq.ack('$receipt')"), 't', 'held: the end of the first of a key');
is(sql($node, "SELECT state FROM fairq.get_task_by_key('s', 'k')"), 'scheduled', 'held: the next waits for room');
sql($node, "SELECT fairq.resume('s'); SELECT fairq.release(receipt) FROM fairq.leases");
drained('s', 202, 'held');

# Purged
foreach my $round (1 .. 3)
{
	is(sql($node, "SELECT count(fairq.enqueue('plain', '1', 'round $round ' || i)) FROM generate_series(1, $entries) i"), $entries, "purged, round $round: a group for each entry");
	is((error_of($node, enqueue('plain', 'one more')))[0], '53400', 'there are no more entries');
	is(sql($node, "SELECT fairq.purge('plain')"), $entries, 'all are purged');
}
sql($node, "SELECT fairq.enqueue('plain', '1', 'g' || i % 9) FROM generate_series(1, 90) i; SELECT count(*) FROM fairq.claim('plain', 30)");
is(sql($node, "SELECT fairq.purge('plain')"), 60, 'with leases left');
is(sql($node, "SELECT count(fairq.enqueue('plain', '1', 'new ' || i)) FROM generate_series(1, 90) i"), 90, 'groups come');

nothing_swept($node, 'made up');
$node->stop;

#
# Limits that users have by default: a limit that has given away its tokens, or has a task in
# flight, is not forgotten
#
my $limits = 64;
$node = fairq_node('crowded', conf => "pgfairq.max_limits = $limits\n");
foreach my $how ('rate => 0.0001, burst => 1', 'max_leased => 1')
{
	my $leases = $how =~ /max_leased/;
	my $take = sub { return sql($node, 'SELECT string_agg(group_key, $$ $$ ORDER BY group_key) FROM fairq.' . ($leases ? 'claim' : 'pop') . "('limited', 1000)"); };
	my $came = 0;

	sql($node, "SELECT fairq.create_queue('limited', subgroups => true, lease => '1 h'); SELECT fairq.set_subgroup_defaults('limited', $how)");
	foreach my $round (1 .. 5)
	{
		sql($node, "SELECT fairq.enqueue('limited', '1', 'hog', subgroup_key => 'round $round ' || i) FROM generate_series(1, 30) i");
		$came += () = $take->() =~ /hog/g;
	}
	cmp_ok($came, '>=', $limits / 2 - 1, "$how: made-up users have half of the limits");
	cmp_ok($came, '<=', $limits / 2 + 1, 'and no more');
	sql($node, "SELECT fairq.enqueue('limited', '1', 'small', subgroup_key => u) FROM unnest('{ann,bob,cid}'::text[]) u");
	sql($node, "SELECT fairq.enqueue('limited', '1', 'other', subgroup_key => 'dot')");
	is($take->(), 'other small small small', 'those of other tenants have theirs, at once');
	is(sql($node, "SELECT count(*) FROM fairq.q_limited WHERE group_key = 'hog'"), 150 - ($leases ? 0 : $came), 'the rest of them wait');
	if ($leases)
	{
		sql($node, "SELECT count(fairq.ack(receipt)) FROM fairq.leases");
		ok(wait_for(sub { my $more = () = $take->() =~ /hog/g; $came += $more; return $more > 0; }), 'and go on when leases end');
		sql($node, "SELECT count(fairq.ack(receipt)) FROM fairq.leases");
	}
	sql($node, "SELECT fairq.set_subgroup_defaults('limited', max_leased => 0, rate => 0)");
	drained('limited', sql($node, "SELECT ready + overflow FROM fairq.queue_stats WHERE queue = 'limited'"), 'without limits');
	sql($node, "SELECT fairq.drop_queue('limited')");
}

nothing_swept($node, 'crowded');
$node->stop;
done_testing();
