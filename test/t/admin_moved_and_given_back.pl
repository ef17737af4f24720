# A task is leased, its row is moved (VACUUM FULL, an UPDATE of the owner's),
# a claim comes by the new place, and the task is given back: the next claim gets it.
# Who comes by finds it being acknowledged, or its group at its limit.
#
# Who gives a task back offers it at the place that its lease knows.  That is the old
# one, unless somebody has told the lease, and nothing is there.
#
# To see it fail: in claim_can_lease() (claim_grant.c) let a lease do that knows another place,
# or note nothing of a row that this transaction has removed; in claim_grant() ask
# leases_find() instead of leases_seen().

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use FairqNode;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = fairq_node('moved');
my $other = session($node);

my %moves = (
	'VACUUM FULL' => 'VACUUM FULL fairq.q_x',
	'an UPDATE' => "UPDATE fairq.q_x SET payload = '2'",
	'an UPDATE of a column with an index' => "UPDATE fairq.q_x SET run_at = now() - interval '1 h'");
# The end of an attempt after which the task is there, and not leased.
my %ends = (
	'given back' => "SELECT fairq.release(:'receipt')",
	'given up' => "SELECT fairq.nack(:'receipt', delay => '0')");

# A task in a queue of its own whose row is not the first of its page.
sub one_task
{
	my ($session) = @_;

	$session->safe("SELECT fairq.create_queue('x', buckets => 1, max_attempts => 0)");
	$session->safe("SELECT fairq.enqueue_many('x', ARRAY['0', '1']::jsonb[])");
	is($session->safe("SELECT count(*) FROM fairq.pop('x')"), 1, 'the first one is gone');
	return;
}

sub drop_it
{
	my ($session) = @_;

	$session->safe("SELECT fairq.drop_queue('x')");
	return;
}

foreach my $move (sort keys %moves)
{
	my $session = session($node);

	foreach my $end (sort keys %ends)
	{
		# While it is being acknowledged, by another one and by the same transaction.
		foreach my $claimer ($other, $session)
		{
			one_task($session);
			$session->safe("SELECT receipt FROM fairq.claim('x') \\gset");
			$other->safe($moves{$move});
			$session->safe('BEGIN');
			is($session->safe("SELECT fairq.ack(:'receipt')"), 't', "$move: it is being acknowledged");
			is($claimer->safe("SELECT count(*) FROM fairq.claim('x')"), 0, "$move: a claim comes by");
			$session->safe('ROLLBACK');
			is($session->safe($ends{$end}), 't', "$move: it is $end after all");
			ok( wait_for(sub { $other->safe("SELECT count(*) FROM fairq.pop('x')") }, 30),
				"$move: and claimed again");
			drop_it($session);
		}

		# Its group has no more in flight.
		one_task($session);
		$session->safe("SELECT fairq.set_group_defaults('x', max_leased => 1)");
		$session->safe("SELECT receipt FROM fairq.claim('x') \\gset");
		$other->safe($moves{$move});
		is($other->safe("SELECT count(*) FROM fairq.claim('x')"), 0, "$move: a claim finds the group at its limit");
		is($session->safe($ends{$end}), 't', "$move: it is $end");
		ok( wait_for(sub { $other->safe("SELECT count(*) FROM fairq.pop('x')") }, 30),
			"$move: and claimed again");
		drop_it($session);
	}
	$session->quit;
}

# Claimed and acknowledged in one transaction, and moved in between.
{
	my $session = session($node);

	foreach my $move (grep { /UPDATE/ } sort keys %moves)
	{
		one_task($session);
		$session->safe('BEGIN');
		$session->safe("SELECT receipt FROM fairq.claim('x') \\gset");
		$other->safe($moves{$move});
		is($session->safe("SELECT fairq.ack(:'receipt')"), 't', "$move: in one transaction");
		is($other->safe("SELECT count(*) FROM fairq.claim('x')"), 0, "$move: a claim comes by");
		$session->safe('ROLLBACK');
		ok( wait_for(sub { $other->safe("SELECT count(*) FROM fairq.pop('x')") }, 30),
			"$move: it is claimed again when that is rolled back");
		drop_it($session);
	}
	$session->quit;
}

nothing_swept($node);
$other->quit;
$node->stop;
done_testing();
