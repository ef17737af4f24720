# Rows that the owner's constraints refuse are no reason for others to wait.
#
# Shown: with forty tasks of a queue that cannot be made ready, or put back, or let go
# on, the others of the queue become ready, and this is said once in the log; when the
# constraint is gone so do those. Of tasks that cannot be ended when they expire, more
# than a pass reads, none keeps the others.
#
# To see it fail: have pass_takes_care() of pass.c say no; have expire_due() return at
# once, or want no more, where retry_at is to come.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use FairqNode;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = fairq_node('refused');
my $bad = 40;

# A queue whose table refuses those that are bad in what they become.
sub queue
{
	my ($name, $condition) = @_;

	sql($node, "SELECT fairq.create_queue('$name', buckets => 1)");
	sql($node, "ALTER TABLE fairq.q_$name ADD CONSTRAINT refuses CHECK (payload <> '\"bad\"' OR $condition)");
	return;
}

sub tasks
{
	my ($name, $payload, $condition) = @_;

	return sql($node, "SELECT count(*) FROM fairq.tasks('$name') WHERE payload = '\"$payload\"' AND $condition");
}

# Shown of each of the three: the good one goes on, and when nothing is refused all do.
sub goes_on
{
	my ($name, $what, $before, $after) = @_;
	my $line = qr/WARNING:  could not $what of queue "$name": .*"refuses"/;

	ok(wait_for(sub { tasks($name, 'good', $after) == 1 }), "$name: the others go on");
	is(tasks($name, 'bad', $before), $bad, 'what is refused is as it was');
	ok(wait_for(sub { slurp_file($node->logfile) =~ $line }), 'the log says so');
	sql($node, "ALTER TABLE fairq.q_$name DROP CONSTRAINT refuses");
	ok(wait_for(sub { tasks($name, 'bad', $after) == $bad }), 'and is tried again');
	is(scalar(() = slurp_file($node->logfile) =~ /$line/g), 1, 'it was said once');
	return;
}

queue('due', 'address IS NULL');
sql($node, <<"SQL");
SELECT count(fairq.enqueue('due', '"bad"', delay => '2 s')) FROM generate_series(1, $bad);
SELECT fairq.enqueue('due', '"good"', delay => '2 s')
SQL
goes_on('due', 'make due tasks ready', "state = 'scheduled'", "state = 'ready'");

queue('lost', 'lost = 0');
sql($node, <<"SQL");
SELECT count(fairq.enqueue('lost', '"bad"')) FROM generate_series(1, $bad);
SELECT fairq.enqueue('lost', '"good"');
SELECT count(*) FROM fairq.claim('lost', 100, lease => '100 ms')
SQL
goes_on('lost', 'put back lost tasks', "state = 'leased'", 'lost = 1');

queue('waits', 'address IS NULL');
my $first = sql($node, "SELECT fairq.enqueue('waits', '\"first\"', run_at => '2100-01-01')");
sql($node, <<"SQL");
SELECT count(fairq.enqueue('waits', '"bad"', after => ARRAY[$first])) FROM generate_series(1, $bad);
SELECT fairq.enqueue('waits', '"good"', after => ARRAY[$first]);
DELETE FROM fairq.dependency WHERE queue = 'waits'
SQL
goes_on('waits', 'make held tasks ready', "state = 'held'", "state = 'ready'");

# Without a worker, so that it is one pass by hand that comes to the good one.
$node->append_conf('postgresql.conf', "pgfairq.max_workers = 0\n");
$node->restart;
sql($node, "SELECT fairq.create_queue('old', buckets => 1, keep_done => '1 day')");
sql($node, "ALTER TABLE fairq.done_old ADD CONSTRAINT refuses CHECK (payload <> '\"bad\"')");
sql($node, <<'SQL');
SELECT count(fairq.enqueue('old', '"bad"')) FROM generate_series(1, 1500);
SELECT fairq.enqueue('old', '"good"');
UPDATE fairq.q_old SET expires_at = '2001-01-01'::timestamptz + id * interval '1 s'
SQL
is(sql($node, "SELECT fairq.maintain('old')"), 1, 'what expires behind those that cannot is ended');
is(tasks('old', 'bad', 'true'), 1500, 'which are there');
sql($node, 'ALTER TABLE fairq.done_old DROP CONSTRAINT refuses');
ok(wait_for(sub { sql($node, "SELECT fairq.maintain('old')"); tasks('old', 'bad', 'true') == 0 }), 'and end when they may');

$node->stop;
done_testing();
