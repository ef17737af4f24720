# What groups are given is in force when the transaction that gave it has
# committed, not before, and not at all if it was rolled back; and it counts what
# is in flight by then, whoever knew of that.
#
# To see it fail, take one of these guards out of the engine:
# - own_settings in publish_settings (what is not committed is in force);
# - limited_groups_settle when a transaction is rolled back (limits are used up by that);
# - limited_groups_make in group_admin_set (what is taken away keeps its place);
# - announce_prepared_limit (what was prepared is never in force), or let set_limit be what is done
#   when a group_limit is prepared (it is in force though it is rolled back);
# - that limited_groups_join tells the group in all classes;
# - group_settings_adopt.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use FairqNode;
use PostgreSQL::Test::Utils;
use Test::More;

sub fill
{
	my ($q, $group, $n, $priority) = @_;

	$priority //= 0;
	return
	  "SELECT cardinality(fairq.enqueue_many('$q', array_fill('{}'::jsonb, ARRAY[$n]), group_keys => ARRAY['$group'], priorities => ARRAY[$priority]));\n";
}

my $node = fairq_node('commit', conf => <<'CONF');
pgfairq.max_limits = 16
max_prepared_transactions = 5
CONF
# In a session that knows the queue: one that opens it anew reads its settings.
my $o = session($node);
my $count = sub { return $o->safe("SELECT count(*) FROM fairq.claim('q', $_[0])") };
my $release = sub { sql($node, "SELECT fairq.release(receipt) FROM fairq.leases") };

#
# A transaction that is open: others go by what was before, it too
#
my $s = session($node);
foreach my $end ('ROLLBACK', 'ROLLBACK TO before', 'COMMIT')
{
	sql($node, "SELECT fairq.create_queue('q', lease => '1 h'); " . fill('q', 'a', 50));

	is($count->(10), 10, "$end: no limit");
	$release->();

	# Enqueue, as it makes the session read the settings that it has written.
	$s->safe("BEGIN; SAVEPOINT before; SELECT fairq.set_group_defaults('q', max_leased => 2); " . fill('q', 'a', 1));
	is($count->(10), 10, "$end: defaults are not in force before");
	is($s->safe("SELECT count(*) FROM fairq.claim('q', 10)"), 10, "$end: nor for the transaction itself");
	$s->safe($end);
	$release->() if $end ne 'ROLLBACK TO before';
	is($count->(10), $end eq 'COMMIT' ? 2 : 10, "$end: nor after, unless it has committed");
	$s->safe('COMMIT') if $end eq 'ROLLBACK TO before';
	$release->();
	sql($node, "SELECT fairq.set_group_defaults('q', max_leased => 0)") if $end eq 'COMMIT';

	$s->safe("BEGIN; SAVEPOINT before; SELECT fairq.set_group('q', 'a', max_leased => 3); " . fill('q', 'a', 1));
	is($count->(10), 10, "$end: a limit is not in force before");
	$s->safe($end);
	$release->();
	is($count->(10), $end eq 'COMMIT' ? 3 : 10, "$end: nor after, unless it has committed");
	$s->safe('COMMIT') if $end eq 'ROLLBACK TO before';
	$release->();
	sql($node, "SELECT fairq.set_group('q', 'a', max_leased => 0)") if $end eq 'COMMIT';

	$s->safe("BEGIN; SAVEPOINT before; SELECT fairq.pause_group('q', 'a'); " . fill('q', 'a', 1));
	is($count->(10), 10, "$end: a pause is not in force before");
	$s->safe($end);
	$release->();
	is($count->(10), $end eq 'COMMIT' ? 0 : 10, "$end: nor after, unless it has committed");
	$s->safe('COMMIT') if $end eq 'ROLLBACK TO before';

	# What is ready counts, and one task of the last transaction that committed.
	$release->();
	$s->safe("BEGIN; SAVEPOINT before; SELECT fairq.alter_queue('q', max_ready_per_group => 1); " . fill('q', 'b', 1));
	$o->safe(fill('q', 'c', 5));
	is(sql($node, "SELECT count(*) FROM fairq.tasks('q', 'overflow')"), 0, "$end: max_ready_per_group, too, is not in force before");
	$s->safe($end);
	$o->safe(fill('q', 'd', 5));
	is( sql($node, "SELECT count(*) > 0 FROM fairq.tasks('q', 'overflow')"),
		$end eq 'COMMIT' ? 't' : 'f',
		"$end: nor after, unless it has committed");
	$s->safe('COMMIT') if $end eq 'ROLLBACK TO before';
	sql($node, "SELECT fairq.drop_queue('q')");
}

#
# What was rolled back takes no room
#
sql($node, "SELECT fairq.create_queue('q', lease => '1 h')");
$s->safe("BEGIN; SELECT fairq.set_group('q', 'x' || i, max_leased => 1) FROM generate_series(1, 14) i");
sql($node, join '', map { fill('q', "x$_", 1) } 1 .. 14);
$s->safe('ROLLBACK');
$s->safe("BEGIN; SAVEPOINT s; SELECT fairq.set_group('q', 'y' || i, max_leased => 1) FROM generate_series(1, 14) i; ROLLBACK TO s; COMMIT");
$s->safe("DO \$\$ BEGIN PERFORM fairq.set_group('q', 'z' || i, max_leased => 1) FROM generate_series(1, 14) i; RAISE 'x'; EXCEPTION WHEN raise_exception THEN NULL; END \$\$");
is(sql($node, "SELECT count(fairq.set_group('q', 'w' || i, max_leased => 1)) FROM generate_series(1, 16) i"),
	16, 'settings that were rolled back leave room for all there may be');
refused($node, "SELECT fairq.set_group('q', 'one more', max_leased => 1)", '53400', undef, qr/max_limits/, 'and for no more');

# What is taken away leaves its place when that has committed, not before. (Groups of
# another queue ask for it: in the same one they would wait.)
sql($node, "SELECT fairq.create_queue('r')");
my %ways = (
	reset_group => [ "fairq.set_group('q', 'w1', max_leased => 1)", "fairq.reset_group('q', 'w1')" ],
	resume_group => [ "fairq.pause_group('q', 'w1')", "fairq.resume_group('q', 'w1')" ],
	set_group => [ "fairq.set_group('q', 'w1', max_leased => 1, weight => 2)", "fairq.set_group('q', 'w1', max_leased => 0, weight => 1)" ]);

sub is_full
{
	my ($name) = @_;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	refused($node, "SELECT fairq.set_group('r', 'one more', max_leased => 1)", '53400', undef, qr/max_limits/, $name);
	return;
}

foreach my $way (sort keys %ways)
{
	my ($given, $taken) = @{ $ways{$way} };

	foreach my $prepared ('', ' PREPARED')
	{
		foreach my $end ('ROLLBACK', 'COMMIT')
		{
			my $name = "$way, $end$prepared";

			sql($node, "SELECT fairq.reset_group('q', 'w1'), $given; " . fill('q', 'w1', 1));
			$s->safe("BEGIN; SELECT $taken;" . ($prepared && "PREPARE TRANSACTION 'p'"));
			is_full("$name: it has its place before");
			$s->safe($end . ($prepared && "$prepared 'p'"));
			if ($end eq 'COMMIT')
			{
				# No callback tells of a prepared transaction that it has committed: the next look does.
				sql($node, "SELECT count(*) FROM fairq.claim('q')") if $prepared;
				is((error_of($node, "SELECT fairq.set_group('r', 'one more', max_leased => 1)"))[0], '', "$name: the place is free");
				sql($node, "SELECT fairq.reset_group('r', 'one more')");
			}
			else
			{
				is_full("$name: it has its place still");
			}
		}
	}
	$s->safe("BEGIN; SAVEPOINT s; SELECT $given; SELECT $taken; ROLLBACK TO s; SELECT $given; COMMIT");
	is_full("$way, rolled back to a savepoint: the place is taken");
}
sql($node, "SELECT fairq.drop_queue('q'), fairq.drop_queue('r')");

#
# Prepared transactions
#
foreach my $end ('ROLLBACK', 'COMMIT')
{
	foreach my $case ([ "fairq.set_group('q', 'a', max_leased => 3)", 23 ], [ "fairq.set_group_defaults('q', max_leased => 4)", 8 ])
	{
		my ($what, $most) = @$case;
		my $expected = $end eq 'COMMIT' ? $most : 40;

		sql($node, "SELECT fairq.create_queue('q', lease => '1 h'); " . fill('q', 'a', 20) . fill('q', 'b', 20));
		is($count->(40), 40, "$what: no limit");
		$release->();
		sql($node, "BEGIN; SELECT $what; PREPARE TRANSACTION 'p'");
		is($count->(40), 40, "$what, prepared: not in force");
		$release->();
		sql($node, "$end PREPARED 'p'");
		is($count->(40), $expected, "$what, $end PREPARED: in force if it has committed");
		$release->();
		is(sql($node, "SELECT count(*) FROM fairq.claim('q', 40)"), $expected, "$what, $end PREPARED: for a new session, too");
		$release->();
		sql($node, "SELECT fairq.set_group('q', 'a', max_leased => 5)");
		is( sql($node, "SELECT count(*) FROM fairq.claim('q', 40, group_keys => '{a}')"),
			5, "$what, $end PREPARED: and what is set later holds");
		sql($node, "SELECT fairq.drop_queue('q')");
	}
}

#
# What is in flight when a limit comes counts, whatever its class
#
sql($node, "SELECT fairq.create_queue('q', lease => '1 h'); " . fill('q', 'a', 5));
is($count->(10), 5, 'five in flight');
sql($node, fill('q', 'a', 5, 1) . "SELECT fairq.set_group_defaults('q', max_leased => 5)");
is($count->(10), 0, 'defaults that come later count those of another class');
sql($node, "SELECT fairq.ack(receipt) FROM fairq.leases LIMIT 2");
is($count->(10), 2, 'and as they end others begin');
sql($node, "SELECT fairq.drop_queue('q')");
$_->quit foreach $s, $o;
$node->stop;

#
# Leases that were granted when the table of groups was full
#
$node = fairq_node('full', conf => 'pgfairq.max_groups = 100');
sql($node, "SELECT fairq.create_queue('fair'), fairq.create_queue('t', 'time', lease => '1 h'); " . fill('t', 'a', 30));
my ($n, $state) = (0, '');
do { ($state) = error_of($node, fill('fair', 'g' . $n++, 1)) } until $state ne '' || $n > 1000;
is($state, '53400', "the table is full of $n groups");
foreach my $case ('a group', 'all groups')
{
	my $limit = $case eq 'a group' ? "fairq.set_group('t', 'a', max_leased => 4)" : "fairq.set_group_defaults('t', max_leased => 4)";

	is(sql($node, "SELECT count(*) FROM fairq.claim('t', 4)"), 4, "$case: tasks are claimed though their group has no entry");
	refused($node, "SELECT $limit", '53400', undef, qr/max_groups/, "$case: a limit that could not be kept is refused");
	is(sql($node, "SELECT count(*) FROM fairq.claim('t', 1)"), 1, "$case: and then is none");
	sql($node, "SELECT fairq.release(receipt) FROM fairq.leases ORDER BY id DESC LIMIT 1; SELECT fairq.cancel('fair', id) FROM fairq.tasks('fair', 'ready') ORDER BY id LIMIT 60; SELECT count(*) FROM fairq.claim('fair', 5); SELECT fairq.ack(receipt) FROM fairq.leases WHERE queue = 'fair'; SELECT $limit");
	is(sql($node, "SELECT count(*) FROM fairq.claim('t', 10)"), 0, "$case: they count when there is a limit");
	sql($node, "SELECT fairq.ack(receipt) FROM fairq.leases WHERE queue = 't'");
	is(sql($node, "SELECT count(*) FROM fairq.claim('t', 10)"), 4, "$case: and when they have ended others begin");
	sql($node, "SELECT fairq.drop_queue('t'), fairq.create_queue('t', 'time', lease => '1 h'); " . fill('t', 'a', 30));
	$n = 0;
	do { ($state) = error_of($node, fill('fair', 'h' . $n++, 1)) } until $state ne '' || $n > 1000;
	is($state, '53400', 'the table is full again');
}
$node->stop;
done_testing();
