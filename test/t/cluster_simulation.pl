# A queue that is spread over several servers is as fair as its page says, in a simulation
# (test/simulation/spread.py): what is measured, and that broken rules of claims do not
# pass.
#
# The seeds are fixed, so the figures are the same each time, and nothing here
# depends on the machine. There is no server.
#
# The table of test/simulation/README.md, between two comments, is what the program prints
# now: some rows of it, or all if FAIRQ_SIMULATION_ALL is set, which takes minutes of a
# processor. The rows that are not checked are printed. What doc/cluster.md has of it are
# rows of that table.
#
# It takes 100 seconds of a processor.
#
# To see it fail: the last tests run the goals with a rule that is broken, and
# would fail if the goals were reached. Change a figure in the page.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use FairqNode;
use IPC::Run;
use PostgreSQL::Test::Utils;
use Test::More;

my $all = $ENV{FAIRQ_SIMULATION_ALL};

# Whether it went well, and its lines.
sub spread
{
	my (@arguments) = @_;
	my ($out, $err) = ('', '');
	my $good =
	  IPC::Run::run([ python_program('../simulation/spread.py'), @arguments ], '>', \$out, '2>', \$err);

	die "spread.py: $err" if $err ne '';
	return ($good, split /\n/, $out);
}

#
# The product's rule
#
my ($good, @lines) = spread('--goals', '--table', $all ? () : '--part');
my @goals = grep { /^(not )?ok/ } @lines;
my @rows = grep { /^\|/ } @lines;
ok($good && @goals >= 12, 'the goals are reached') or diag(join("\n", @goals));
like($_, qr/^ok/, s/^(not )?ok \d+ - //r) foreach @goals;
cmp_ok(scalar @rows, '>', $all ? 15 : 5, 'there is a table');

#
# The pages
#
my ($readme, $page) =
  map { slurp_file("$FindBin::RealBin/../../$_") } 'test/simulation/README.md', 'doc/cluster.md';
my ($table) = $readme =~ /^<!-- spread\.py --table -->\n+(.*?)\n+<!-- end -->$/ms;
my %printed = map { $_ => 1 } @rows;
my @unchecked;

my @there = grep { $printed{$_} || !push @unchecked, $_ } split /\n/, $table // '';
is(join("\n", @there), join("\n", @rows), 'the rows that spread.py prints are in its table');
# Those that are left out are of 32 or 100 servers, or of something that is otherwise.
@there = $all ? @unchecked : grep { !/^\| (?:32|100) \|/ && /^(\|[^|]*){2}\|\s*\|/ } @unchecked;
is(join("\n", @there), '', 'and no other ones');
note("not checked: $_") foreach @unchecked;

# The page of clusters has some of those of 16 servers, without the 99 %.
my %shown = map {
	my (undef, undef, $groups, $what, @figures) = split /\s*\|\s*/, $_;
	($what eq '' ? $groups : "$groups, $what") => join '|', map { s{ / .*}{}r } @figures[ 0 .. 3 ]
} grep { /^\| 16 \|/ } split /\n/, $table // '';
my ($part) = $page =~ /^\| a group is on \| range.*?\n\|[-|]+\n(.*?)\n\n/ms;
my %paged = map { /^\| (.*?) \|(.*)\|$/ ? ($1 => $2 =~ s/\s+//gr) : () } split /\n/, $part // '';
cmp_ok(scalar keys %paged, '>=', 5, 'doc/cluster.md has some of them');
is($paged{$_}, $shown{$_}, "doc/cluster.md: $_") foreach sort keys %paged;

#
# Broken rules: what is measured shows them
#
foreach my $case (
	[ 'claims where most tasks wait', '16 nodes, groups on 4: range', '--rule' => 'length' ],
	[ 'no floors', 'after a time with little to do: range', '--floors' => 'none' ],
	[ 'no floors', 'a node comes back with nothing', '--floors' => 'none' ],
	[ 'groups on one node', "a node is away: newcomer's 99 %", '--width' => 1 ],
	[ 'groups on 4 of 16 nodes', '16 nodes, groups on all, workers at their own nodes: range', '--width' => 4 ])
{
	my ($name, $goal, @rule) = @$case;
	my ($reached, @broken) = spread('--goals', '--seeds' => 1, '--only' => $goal, @rule);

	ok(!$reached && (grep { /^not ok 1 - \Q$goal\E/ } @broken), "$name: the goal is not reached")
	  or diag(join("\n", @broken));
	note($_) foreach @broken;
}
done_testing();
