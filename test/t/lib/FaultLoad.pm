# The load of test/load/faults.py: start it, tell it what to do, and have it
# judged.

package FaultLoad;

use strict;
use warnings;

use FairqNode;
use IPC::Run;
use JSON::PP;
use PostgreSQL::Test::Utils;
use Test::More;

# More arguments are the program's.
sub new
{
	my ($class, $connstr, @arguments) = @_;
	my $self = bless { in => '', out => '', err => '' }, $class;

	$self->{process} = IPC::Run::start(
		[
			python_program('faults.py'),
			'--conninfo' => $connstr,
			'--directory' => PostgreSQL::Test::Utils::tempdir(),
			@arguments
		],
		'<', \$self->{in}, '>', \$self->{out}, '2>', \$self->{err},
		$self->{timer} = IPC::Run::timer($PostgreSQL::Test::Utils::timeout_default));
	return $self;
}

# The answer to a command.  It is sent at once; to have something done while
# the program is at it, ask for the answer later.
sub ask
{
	my ($self, $command) = @_;

	$self->{timer}->start;
	$self->{in} .= "$command\n";
	$self->{process}->pump while length $self->{in};
	return;
}

sub answer
{
	my ($self) = @_;

	while (index($self->{out}, "\n") < 0)
	{
		die "the load takes too long: $self->{err}" if $self->{timer}->is_expired;
		die "the load has ended: $self->{err}" unless $self->{process}->pumpable;
		$self->{process}->pump;
	}
	my ($line, $rest) = split /\n/, $self->{out}, 2;
	$self->{out} = $rest;
	return $line;
}

sub command
{
	my ($self, $command) = @_;

	$self->ask($command);
	return $self->answer;
}

# End it.  What must hold after whatever fault is tested here; the report is
# returned for the rest.
sub finish
{
	my ($self, $name, %expected) = @_;
	my $r = decode_json($self->command('finish'));

	$self->{process}->finish;
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	note("$name: " . JSON::PP->new->canonical->encode($r));
	is_deeply($r->{broken}, [], "$name: no client broke down");
	cmp_ok($r->{known_acked}, '>', 50, "$name: $r->{known_produced} tasks that are known to be committed");
	cmp_ok($r->{intervals}, '>', 50, "$name: $r->{intervals} leases looked at");
	my %what = (
		enqueue_lost => 'committed tasks that are not there',
		enqueued_twice => 'tasks enqueued twice',
		unfinished => 'committed tasks without a result',
		finished_twice => 'tasks with two results',
		from_nowhere => 'results of tasks that were not committed',
		ack_lost => 'committed acks without a result',
		left => 'tasks that are left in the queue',
		two_holders => 'tasks with two live leases',
		swept => 'queues whose tasks the sweep found',
		violations => 'other wrong answers');
	foreach my $key (sort keys %what)
	{
		next if $expected{$key};
		is($r->{$key}, 0, "$name: no $what{$key}")
		  or diag(join "\n", @{ $r->{examples}{$key} });
	}
	return $r;
}

1;
