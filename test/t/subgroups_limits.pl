# Limits at two levels: of a subgroup, and of its group.
#
# Both are exact, whatever ends a lease (test/load/limits.py), and nobody waits who may
# go on: what stops a subgroup holds up no other one of its group, and what stops a group
# no other group.
#
# To see it fail, take one of these guards out of the engine:
# - room is kept at both levels or at none, under both locks (limit_room_reserve): the load;
# - a lease counts at both levels (groups_lease_begins): the load;
# - a subgroup that waits leaves the heap of its group (turns_take_place): a paused one;
# - each level learns its limit by default (joins): defaults.
# That what a refused task had kept is given up as any other (group_limits_take) takes
# settings that change between a claim's take and its grant: limits_in_hand.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use FairqNode;
use IPC::Run;
use JSON::PP;
use PostgreSQL::Test::Utils;
use Test::More;

my $seed = $ENV{FAIRQ_LIMITS_SEED} // 1;
note("seed $seed");
my $node = fairq_node('levels', conf => "max_connections = 60\nsynchronous_commit = off\n");

# What a claim of n gives, as "a/x 3, b/y 2".
sub claimed
{
	my ($q, $n, @more) = @_;

	return sql($node,
		"SELECT string_agg(k || ' ' || n, ', ' ORDER BY k) FROM (SELECT group_key || '/' || subgroup_key, count(*) FROM fairq.claim("
		  . join(', ', "'$q'", $n, @more) . ") GROUP BY 1) x (k, n)");
}

sub fill
{
	my ($q, %n) = @_;

	return join '', map {
		my ($group, $subgroup) = split '/';
		"SELECT count(fairq.enqueue_many('$q', array_fill('1'::jsonb, '{$n{$_}}'), group_keys => '{$group}', subgroup_keys => '{$subgroup}'));\n"
	} sort keys %n;
}

#
# One after the other
#
sql($node, "SELECT fairq.create_queue('q', subgroups => true, max_attempts => 0, lease => '1 h');" . fill('q', 'a/x' => 50, 'a/y' => 50, 'b/x' => 50));
sql($node, "SELECT fairq.set_group('q', 'a', max_leased => 5), fairq.set_subgroup('q', 'a', 'x', max_leased => 2)");
is(claimed('q', 20), 'a/x 2, a/y 3, b/x 15', 'both levels limit, and others have the rest');
is(claimed('q', 5), 'b/x 5', 'and no more');
sql($node, "SELECT fairq.ack(receipt) FROM fairq.leases JOIN fairq.q_q USING (id) WHERE subgroup_key = 'y'");
is(claimed('q', 5, "group_keys => ARRAY['a']"), 'a/y 3', 'room of the group goes to whom of its subgroups may have it');
sql($node, "SELECT fairq.pause_subgroup('q', 'a', 'y'), fairq.reset_group('q', 'a')");
is(claimed('q', 5, "group_keys => ARRAY['a']"), '', 'paused, and at its limit: nothing of the group');
sql($node, "SELECT fairq.ack(receipt) FROM fairq.leases JOIN fairq.q_q USING (id) WHERE subgroup_key = 'x' AND group_key = 'a'");
is(claimed('q', 3, "group_keys => ARRAY['a']"), 'a/x 2', 'whose lease ends goes on, beside the paused one');
sql($node, "SELECT fairq.resume_subgroup('q', 'a', 'y'), fairq.pause_group('q', 'a')");
is(claimed('q', 3), 'b/x 3', 'a group that is paused, with all its subgroups');
sql($node, "SELECT fairq.resume_group('q', 'a')");
is(claimed('q', 4), 'a/y 2, b/x 2', 'resumed: from virtual time on');
is(sql($node, "SELECT group_key, subgroup_key, overflow, leased, max_leased, paused FROM fairq.subgroup_stats WHERE queue = 'q' ORDER BY 1, 2"),
	"a|x|46|2|2|f\na|y|42|5||f\nb|x|25|25||f", 'subgroup_stats has it');
is(sql($node, "SELECT group_key, overflow, leased FROM fairq.group_stats WHERE queue = 'q' ORDER BY 1"),
	"a|88|7\nb|25|25", 'and group_stats the sums');
$node->restart;
is(sql($node, "SELECT group_key, subgroup_key, overflow, leased, max_leased, paused FROM fairq.subgroup_stats WHERE queue = 'q' ORDER BY 1, 2"),
	"a|x|46|2|2|f\na|y|42|5||f\nb|x|25|25||f", 'and so after a restart');
is(claimed('q', 3, "group_keys => ARRAY['a']"), 'a/y 3', 'with the limits');

# Released: at the front, and within the limits.
sql($node, "SELECT fairq.release(receipt) FROM fairq.leases JOIN fairq.q_q USING (id) WHERE group_key = 'a'");
is(claimed('q', 100, "group_keys => ARRAY['a']"), 'a/x 2, a/y 47', 'released tasks are claimed again, within the limit');
sql($node, "SELECT fairq.drop_queue('q')");

#
# Defaults
#
sql($node, "SELECT fairq.create_queue('d', subgroups => true, lease => '1 h');" . fill('d', map { ("g$_/x" => 5, "g$_/y" => 5) } 1 .. 3));
sql($node, "SELECT fairq.set_subgroup_defaults('d', max_leased => 1)");
is(claimed('d', 100), 'g1/x 1, g1/y 1, g2/x 1, g2/y 1, g3/x 1, g3/y 1', 'one of each subgroup by default');
sql($node, "SELECT fairq.set_group_defaults('d', max_leased => 3), fairq.set_subgroup_defaults('d', max_leased => 2)");
is(sql($node, "SELECT string_agg(n::text, ',') FROM (SELECT count(*) n FROM fairq.claim('d', 100) GROUP BY group_key) x"), '1,1,1', 'three of each group');
sql($node, "SELECT fairq.set_group_defaults('d', max_leased => 0), fairq.set_subgroup_defaults('d', max_leased => 0, rate => 0.001, burst => 1)");
is(claimed('d', 100), 'g1/x 1, g1/y 1, g2/x 1, g2/y 1, g3/x 1, g3/y 1', 'a rate of subgroups');
is(claimed('d', 100), '', 'and no more until it has a token');
sql($node, "SELECT fairq.set_subgroup_defaults('d', rate => 0)");
like(claimed('d', 100), qr/g1.*g2.*g3/, 'without it they go on');
sql($node, "SELECT fairq.drop_queue('d')");

#
# The worst hour of one user, and of a thousand: colleagues' claims read no more pages
#
sub pages
{
	my ($q, $n) = @_;
	my $plans = sql($node,
		"PREPARE c AS SELECT * FROM fairq.claim('$q');\n" . "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) EXECUTE c;\n" x $n);
	my $pages = 0;

	$pages += $1 + $2 while $plans =~ /"Plan": \{.*?"Shared Hit Blocks": (\d+).*?"Shared Read Blocks": (\d+)/sg;
	return $pages;
}
sql($node, <<'SQL');
SELECT fairq.create_queue(q, subgroups => true, lease => '1 h') FROM unnest('{alone,beside,many}'::text[]) q;
SELECT fairq.set_subgroup('beside', 't', 'full', max_leased => 1);
SELECT fairq.pause_subgroup('many', 't', 'u' || i) FROM generate_series(1, 1000) i;
SELECT count(fairq.enqueue_many('beside', array_fill('1'::jsonb, '{20000}'), group_keys => '{t}', subgroup_keys => '{full}'));
SELECT count(fairq.enqueue_many('many', array_fill('1'::jsonb, '{20000}'), group_keys => '{t}', subgroup_keys => ARRAY(SELECT 'u' || 1 + i % 1000 FROM generate_series(1, 20000) i)));
SELECT count(fairq.enqueue_many(q, array_fill('1'::jsonb, '{1000}'), group_keys => '{t}', subgroup_keys => '{colleague}')) FROM unnest('{alone,beside,many}'::text[]) q;
SQL
my $alone = pages('alone', 400);
foreach my $q ('beside', 'many')
{
	# The first claim finds that they may not have any.
	is(claimed($q, 1) =~ m{^t/(colleague|full)} ? 1 : 0, 1, "$q: claimed at once");
	my $pages = pages($q, 400);
	cmp_ok($pages, '<=', 1.1 * $alone + 200, "$q: 400 claims of a colleague read $pages pages, alone $alone");
	is(sql($node, "SELECT count(*) FROM fairq.leases l, fairq.get_task('$q', l.id) t WHERE l.queue = '$q' AND t.subgroup_key = 'colleague'") >= 400 ? 1 : 0,
		1, "$q: each has got a task");
}

#
# All at once
#
sql($node, "SELECT fairq.create_queue('q', subgroups => true, max_attempts => 0, backoff_base => '0', lease => '1 h', buckets => 4);"
	  . "SELECT fairq.set_group('q', 'a', max_leased => 3), fairq.set_subgroup('q', 'a', 'x', max_leased => 1),"
	  . " fairq.set_subgroup('q', 'b', 'x', max_leased => 2), fairq.set_group('q', 'c', max_leased => 1);"
	  . fill('q', map { $_ => 300 } qw(a/x a/y a/z b/x b/y c/x c/y d/x)));
my ($out, $err) = ('', '');
IPC::Run::run(
	[ python_program('limits.py'), '--conninfo' => $node->connstr('postgres'), '--queue' => 'q', '--seed' => $seed,
		'--claimers' => 24, '--seconds' => 15, '--groups' => 'a/x,a/y,a/z,b/x,b/y,c/x,c/y,d/x', '--leases' => 30 ],
	'>', \$out, '2>', \$err, IPC::Run::timeout(300)) or die "limits.py: $err";
my $r = decode_json($out);
note(JSON::PP->new->canonical->encode($r));
my %limit = ('a' => 3, 'a/x' => 1, 'b/x' => 2, 'c' => 1);
foreach my $key (sort keys %limit)
{
	cmp_ok($r->{overlap}{$key}, '<=', $limit{$key}, "$key: at most $limit{$key} at a time");
	is($r->{overlap}{$key}, $limit{$key}, "$key: and as many at some time");
	cmp_ok($r->{leases}{$key}, '>', 30, "$key: $r->{leases}{$key} leases");
}
cmp_ok($r->{leases}{$_}, '>', 30, "$_: $r->{leases}{$_} leases") foreach qw(a/y a/z b/y c/x c/y d/x);
ok(wait_for(sub { sql($node, "SELECT count(*) FROM fairq.leases WHERE queue = 'q'") eq '0' }), 'no lease is left');
is(claimed('q', 1, "group_keys => ARRAY['$_']") =~ /^$_/ ? 1 : 0, 1, "$_ goes on") foreach qw(a b c d);
is(sql($node, "SELECT group_key, overflow, ready, leased, n FROM fairq.group_stats, LATERAL (SELECT count(*) FROM fairq.q_q t WHERE t.group_key = group_stats.group_key AND t.state NOT IN ('s', 'd')) x (n)"
		  . " WHERE queue = 'q' AND (leased <> 1 OR overflow + ready + leased <> n)"),
	'', 'and the counts are right');
nothing_swept($node, 'nothing was overlooked');

$node->stop;
done_testing();
