# A schedule at a proxy is active at one node of three. It goes to another one when its
# node is drained or lost, and no tick is given twice.
#
# To see it fail: have the schedule active everywhere in route_schedule; leave out
# move_schedules() in fairq.drain_node or fairq.drop_node, or the times in move_schedules();
# leave out check_schedules().

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use FairqCluster;
use FairqNode;
use PostgreSQL::Test::Utils;
use Test::More;

my ($proxy, @nodes) = fairq_cluster(3);
my %up = map { $_ => $nodes[ $_ - 1 ] } 1 .. 3;

# the nodes at which the schedule is active
sub active
{
	return join ' ', grep { sql($up{$_}, "SELECT active FROM fairq.schedule WHERE name = 's'") eq 't' } sort keys %up;
}

# the ticks that were given, at the nodes that are there
sub ticks
{
	return map { column($_, "SELECT headers ->> 'tick' FROM fairq.tasks('q')") } values %up;
}

sub goes_on
{
	my ($name) = @_;
	my $before = ticks();

	ok(wait_for(sub { ticks() > $before + 1 }), $name);
	my %seen;
	my @twice = grep { $seen{$_}++ } ticks();
	is("@twice", '', 'and no tick comes twice');
	return;
}

sql($proxy, "SELECT fairq.create_queue('q')");
sql($proxy, "SELECT fairq.schedule('s', 'q', '\@every 1 s', overlap => true)");
my $runner = active();
like($runner, qr/^[123]$/, 'a schedule is active at one node');
is(sql($_, "SELECT count(*) FROM fairq.schedule WHERE name = 's'"), 1, 'and there at all') for @nodes;
goes_on('it runs');
is(sql($proxy, "SELECT name, active FROM fairq.schedules"), 's|t', 'the proxy shows it once');
sql($proxy, "SELECT fairq.schedule('s', 'q', '\@every 1 s', overlap => true, payload => '2')");
is(active(), $runner, 'it stays where it is when it is replaced');
sql($proxy, "SELECT fairq.schedule('other', 'q', '0 0 1 1 *', active => false)");
is(join('', map { sql($_, "SELECT active FROM fairq.schedule WHERE name = 'other'") } @nodes), 'fff', 'one that is not active is so nowhere');

# drained
my $next = sql($up{$runner}, "SELECT anchor FROM fairq.schedule WHERE name = 's'");
sql($proxy, "SELECT fairq.drain_node($runner)");
my $second = active();
like($second, qr/^[123]$/, 'when its node is drained it is active at one');
isnt($second, $runner, 'which is another one');
is(sql($up{$second}, "SELECT anchor FROM fairq.schedule WHERE name = 's'"), $next, 'with the times that it had');
goes_on('it runs there');

# a drain that died between stop and start
sql($proxy, "SELECT fairq.undrain_node($runner)");
sql($proxy, "SELECT fairq_internal.node_stop_schedule($second, 's')");
is(active(), '', 'stopped, and not started');
sql($proxy, "SELECT fairq.drain_node($second)");
my $third = active();
like($third, qr/^[123]$/, 'the next one ends it');
isnt($third, $second, 'at another node');
goes_on('it runs there, too');
sql($proxy, "SELECT fairq.undrain_node($second)");

# lost
my $lost = delete $up{$third};
$lost->stop('immediate');
my ($ret, $out, $err) = answer_of($proxy, "SELECT fairq.drain_node($third)");
like($err, qr/WARNING:  schedule "s" of node $third did not move: node $third is out of reach/, 'a node that is away keeps its schedule');
is(active(), '', 'for it may run it');
sql($proxy, "SELECT fairq.drop_node($third, lost => true)");
my $fourth = active();
like($fourth, qr/^[123]$/, 'unless it is lost for good');
goes_on('it runs again');
is(sql($proxy, "SELECT node FROM fairq.schedule_node WHERE name = 's'"), $fourth, 'and that is noted');

# added
my $spare = fairq_node('spare');
sql($spare, 'SELECT fairq.set_node(4)');
add_node($proxy, 4, $spare);
$up{4} = $spare;
is(sql($spare, "SELECT name, active FROM fairq.schedule ORDER BY 1"), "other|f\ns|f", 'a node that is added has the schedules, and runs none');
is(active(), $fourth, 'which go on where they were');

# found and mended
sql($up{$fourth}, "UPDATE fairq.schedule SET active = false WHERE name = 's'");
sql($spare, "UPDATE fairq.schedule SET active = true WHERE name = 's'; DELETE FROM fairq.schedule WHERE name = 'other'");
my $problems = "SELECT node, object, problem, repaired FROM fairq.check_cluster(%s) ORDER BY 2, 1";
my $found = join "\n", '4|schedule "other"|is missing|no', "$fourth|schedule \"s\"|does not run here, and should|no", "4|schedule \"s\"|runs here, and should at node $fourth|no";
is(sql($proxy, sprintf($problems, '')), $found, 'schedules that are missing, or run where they should not, are found');
is(sql($proxy, sprintf($problems, 'true')), $found =~ s/\|no$/|yes/mgr, 'and mended');
is(sql($proxy, sprintf($problems, '')) . active(), $fourth, 'then nothing is wrong');

# a standby of the node list may not
refused($proxy, "BEGIN READ ONLY; SELECT fairq.schedule('t', 'q', '\@daily')", '25006', qr/read-only/, undef, 'not in a read-only transaction');
is(sql($proxy, "SELECT fairq.unschedule('s')"), 't', 'it is removed');
is(sql($proxy, "SELECT fairq.unschedule('s')"), 'f', 'once');
is(join(' ', map { sql($_, "SELECT count(*) FROM fairq.schedule WHERE name = 's'") } values %up), '0 0 0', 'everywhere');
is(sql($proxy, "SELECT count(*) FROM fairq.schedule_node WHERE name = 's'"), 0, 'and is noted no more');

# of a role that owns nothing of the proxy
sql($_, "CREATE ROLE clerk LOGIN; GRANT CREATE ON SCHEMA fairq TO clerk") for $proxy, values %up;
sql($proxy, "SET ROLE clerk; SELECT fairq.create_queue('own')");
sql($proxy, "SET ROLE clerk; SELECT fairq.schedule('own', 'own', '\@hourly')");
is(sql($proxy, "SELECT count(*) FROM fairq.schedule_node WHERE name = 'own'"), 1, 'a role may have schedules in its queues');
refused($proxy, 'SET ROLE clerk; DELETE FROM fairq.schedule_node', '42501', undef, undef, 'but not write where they run');

done_testing();
