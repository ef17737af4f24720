# Keys that are remembered, and the clock: a window goes by the server's clock, so a clock
# that is set has a key forgotten sooner or later, and no more than that. And
# prepared transactions, and a standby that takes over.
#
# Shown: set forward, a key whose time has passed is free at once, and the worker
# forgets it without another reason to wake; set back, what was remembered stays so;
# a key that was remembered while the clock was ahead is forgotten when that time
# comes, or when the clock is set there. A prepared transaction keeps producers of
# its key waiting; what it remembers counts if it commits. A standby that was
# promoted remembers what the primary did, and forgets it.
#
# Seen to fail: without "row_until <= now" in remembered_keys_find() what is over is
# not free when the clock was set forward, when what remembered it began later, and
# after the promotion.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use FairqClock;
use FairqNode;
use PostgreSQL::Test::Utils;
use Test::More;

$ENV{LD_PRELOAD} = $clock_library;
my $node = fairq_node('keys', init => { allows_streaming => 1 }, conf => "max_prepared_transactions = 5\n");

sub enqueue
{
	my ($key, $for, $on) = @_;

	return sql($on // $node, "SELECT fairq.enqueue('q', '1', unique_key => '$key'" . ($for ? ", unique_for => '$for')" : ')'));
}

sub forgotten
{
	my ($key, $name, $on) = @_;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	ok(wait_for(sub { sql($on // $node, "SELECT count(*) FROM fairq_internal.remembered_key WHERE unique_key = '$key'") eq '0' }), $name);
	return;
}

sub remembered
{
	my ($key, $id, $name, $on) = @_;

	sql($on // $node, "SELECT fairq.pop('q', 100)");
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	is(enqueue($key, undef, $on), $id, $name);
	return;
}

sql($node, "SELECT fairq.create_queue('q', buckets => 1)");

#
# The clock is set
#
my ($hour, $day) = (enqueue('hour', '1 h'), enqueue('day', '1 d'));
sql($node, "SELECT fairq.pop('q', 100)");
ok(wait_event_of($node, 'Extension', "backend_type = 'pgfairq worker'"), 'the worker sleeps');
set_clock(7200);
isnt(enqueue('hour'), $hour, 'forward: what is over is free');
forgotten('hour', 'forward: and the worker forgets it');
remembered('day', $day, 'forward: the rest is remembered');
my $ahead = enqueue('ahead', '1 h');
set_clock(-7200);
remembered('day', $day, 'back: it is remembered still');
remembered('ahead', $ahead, 'back: also what was remembered while the clock was ahead');
my $behind = enqueue('behind', '1 h');
remembered('behind', $behind, 'back: and what is new');
set_clock(0);
isnt(enqueue('behind'), $behind, 'as it was: what began behind is over');
forgotten('behind', 'as it was: and forgotten');
remembered('ahead', $ahead, 'as it was: what began ahead is not');
$node->restart;
remembered('ahead', $ahead, 'after a restart neither');
set_clock(3 * 3600 + 60);
isnt(enqueue('ahead'), $ahead, 'forward again: it is over');
forgotten('ahead', 'forward again: and forgotten');
remembered('day', $day, 'forward again: the rest is remembered');
set_clock(0);

#
# Prepared transactions
#
my $waits = session($node);
my $pid = $waits->pid;
foreach my $end ('COMMIT', 'ROLLBACK')
{
	my $id = sql($node, "BEGIN; SELECT fairq.enqueue('q', '1', unique_key => '$end', unique_for => '1 d'); PREPARE TRANSACTION 'p'");

	$waits->send("SELECT fairq.enqueue('q', '2', unique_key => '$end');");
	ok(wait_event_of($node, 'Lock', "pid = $pid"), "$end PREPARED: a producer of the key waits");
	sql($node, "$end PREPARED 'p'");
	$waits->ended;
	sql($node, "SELECT fairq.pop('q', 100)");
	if ($end eq 'COMMIT')
	{
		is(enqueue($end), $id, "$end PREPARED: it is remembered");
		my $short = sql($node, "BEGIN; SELECT fairq.enqueue('q', '1', unique_key => 'short', unique_for => '1 ms'); PREPARE TRANSACTION 'p'");
		enqueue('other', '1 ms');
		forgotten('other', 'keys are forgotten while a transaction is prepared');
		sql($node, "COMMIT PREPARED 'p'");
		sql($node, "SELECT fairq.pop('q', 100)");
		isnt(enqueue('short'), $short, 'and its own are free, when it has committed');
	}
	else
	{
		isnt(enqueue($end), $id, "$end PREPARED: it is not");
	}
}

#
# Promotion
#
$node->backup('b');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($node, 'b', has_streaming => 1);
$standby->start;
my $late = enqueue('late', '1 d');
my $soon = enqueue('soon', '1 h');
sql($node, "SELECT fairq.pop('q', 100)");
$node->wait_for_catchup($standby, 'replay', $node->lsn('insert'));
$node->stop('immediate');
$standby->promote;
remembered('late', $late, 'promoted: it is remembered', $standby);
remembered('day', $day, 'promoted: also of before', $standby);
set_clock(7200);
isnt(enqueue('soon', undef, $standby), $soon, 'promoted: what is over is free');
forgotten('soon', 'promoted: and forgotten', $standby);
$standby->stop;
done_testing();
