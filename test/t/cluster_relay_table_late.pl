# clients/relay/pgfairq-relay --from-table: rows that become visible after later ones are
# found, in their order, without reading everything again; by a model
# (test/load/table_relay_late.py), and with transactions that are open for long.
#
# Seen to fail: with what was seen taken for settled at once, or when the transactions of a
# snapshot are over (whose end, xmax, is not above all that have begun), rows are settled that
# are not committed; with lines that are read from the lowest row that is known, a row comes
# after one that was written when it was committed.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use FairqNode;
use FairqTableRelay;
use IPC::Run;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my ($origin, $target) = origin_and_target();

foreach my $seed (1 .. 4)
{
	my ($out, $err) = ('', '');

	ok( IPC::Run::run(
			[ python_program('table_relay_late.py'), $origin->connstr('postgres'), $target->connstr('postgres'), $seed, 400 ],
			'>', \$out, '2>', \$err),
		"seed $seed");
	is($err, '', 'nothing went wrong with the relay');
	note $out;
	like($out, qr/"wrong": \[\]/, 'each row is found, in its order');
	my ($late) = $out =~ /"late transactions": (\d+)/;
	cmp_ok($late, '>', 10, "transactions came after later ones: $late");
	sql($target, "SELECT fairq.purge('letters')");
}

$_->stop foreach $origin, $target;
done_testing();
