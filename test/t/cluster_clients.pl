# Programs of the Python library at a proxy, producers and workers: the workers follow the
# cluster. Two of them do what there is at four nodes; a node that is added gets them, one
# that is drained is left, one that is killed is left and come back to; handlers write at
# the node of their task, in its transaction. No task is done twice, or fails.
#
# Seen to fail: in worker.py with a session that is closed when its node is left, before
# its handlers have ended, where attempts are 1 to 4.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use FairqCluster;
use FairqNode;
use IPC::Run;
use PostgreSQL::Test::Utils;
use Test::More;

my ($proxy, @nodes) = fairq_cluster(4);
my ($python, @options) = python_program('proxy_clients.py');

$ENV{PYTHONPATH} = "$FindBin::RealBin/../../clients/python";
sql($proxy, "SELECT fairq.create_queue('jobs')");
sql($_, 'CREATE TABLE done (id bigint, attempt int)') for @nodes;

my $new = fairq_node('node5');
sql($new, 'SELECT fairq.set_node(5); CREATE TABLE done (id bigint, attempt int)');

my ($run, $in, $out, $kind);
my $enqueued = 0;

# Tell the program something, and wait for its answer.
sub say_to
{
	my ($line, $answer) = @_;

	$out = '';
	$in .= "$line\n" if $line ne '';
	$run->pump until $out =~ $answer;
	return;
}

sub enqueue
{
	my ($word, $number, $takes) = @_;

	say_to("$word $number $takes", qr/^enqueued $number$/m);
	$enqueued += $number;
	return;
}

# How many tasks are done at a node.
sub done_at
{
	my ($node) = @_;

	return sql($node, 'SELECT count(DISTINCT id) FROM done');
}

sub all_done
{
	my $done = 0;

	$done += done_at($_) for @nodes;
	return $done == $enqueued;
}

sub sessions_at
{
	my ($node) = @_;

	return sql($node, 'SELECT count(*) FROM fairq.sessions');
}

foreach my $program (qw(sync async))
{
	$kind = $program;
	$run = IPC::Run::start([ $python, @options, $kind, $proxy->connstr('postgres'), 2 ], \$in, \$out, '2>', \my $err, IPC::Run::timeout(600));
	say_to('', qr/^ready$/m);

	enqueue('enqueue', 400, 0);
	ok(wait_for(\&all_done), "$kind: two workers do all tasks of four nodes");
	is(scalar(grep { done_at($_) > 0 } @nodes[ 0 .. 3 ]), 4, "$kind: which were at each");

	# handlers that take longer than a worker stays
	enqueue('slow', 16, 4);
	enqueue('enqueue', 100, 0);
	ok(wait_for(\&all_done), "$kind: also while handlers run");

	if ($kind eq 'sync')
	{
		add_node($proxy, 5, $new);
		push @nodes, $new;
	}
	my $before = done_at($new);
	enqueue('enqueue', 300, 0);
	ok(wait_for(\&all_done), "$kind: and those of a node that was added");
	isnt(done_at($new), $before, "$kind: where some were");

	sql($proxy, 'SELECT fairq.drain_node(1)');
	enqueue('enqueue', 100, 0);
	ok(wait_for(\&all_done), "$kind: one is drained");
	ok(wait_for(sub { sessions_at($nodes[0]) == 0 }), "$kind: and left");
	sql($proxy, 'SELECT fairq.undrain_node(1)');

	$nodes[1]->stop('immediate');
	my @others = @nodes[ 0, 2 .. $#nodes ];
	my $missing = $enqueued;
	$missing -= done_at($_) for @others;
	enqueue('enqueue', 100, 0);
	ok(wait_for(sub { my $sum = $missing; $sum += done_at($_) for @others; $sum == $enqueued }), "$kind: one is killed: the others are worked at");
	$nodes[1]->start;
	enqueue('enqueue', 400, 0);
	ok(wait_for(\&all_done), "$kind: it is back, and its tasks are done");

	$in .= "end\n";
	$run->finish;
	like($out, qr/^attempts 1$/m, "$kind: no attempt has failed, or was lost") or diag($err);
	is(join(' ', map { sql($_, 'SELECT count(*) - count(DISTINCT id) FROM done') } @nodes), '0 0 0 0 0', "$kind: nothing was done twice");
	is(sessions_at($nodes[0]), 0, "$kind: its sessions are closed");
}
is(sql($proxy, "SELECT sum(ready + leased + dead) FROM fairq.queue_stats"), 0, 'nothing is left');

done_testing();
