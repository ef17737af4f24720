# The load of test/load/commanded.py: start it, tell it what to do, and have it
# judged.  And that of test/load/stress.py, which does all by itself.

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
			python_program('commanded.py'),
			'--conninfo' => $connstr,
			'--work' => PostgreSQL::Test::Utils::tempdir(),
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
	cmp_ok($r->{'known to be acknowledged'}, '>', 50, "$name: $r->{'known to be enqueued'} tasks that are known to be committed");
	cmp_ok($r->{'claims held'}, '>', 50, "$name: $r->{'claims held'} leases looked at");
	judged($r, $name, %expected);
	my %what = (left => 'tasks that are left in the queue', swept => 'queues whose tasks the sweep found');
	foreach my $key (sort keys %what)
	{
		is($r->{$key}, 0, "$name: no $what{$key}")
		  or diag(join "\n", @{ $r->{examples}{$key} });
	}
	return $r;
}

# Run stress.py for so long, with more arguments.  What must hold; the report is returned for
# the rest.
sub stress
{
	my ($node, $name, $seconds, @arguments) = @_;
	my ($out, $err) = ('', '');

	IPC::Run::run(
		[
			python_program('stress.py'),
			'--conninfo' => $node->connstr('postgres'),
			'--work' => PostgreSQL::Test::Utils::tempdir(),
			'--seconds' => $seconds,
			@arguments
		],
		'>', \$out, '2>', \$err,
		IPC::Run::timeout($seconds + 1800));
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	is($?, 0, "$name: the load ran to its end") or diag($err);
	note($out);
	my $r = eval { decode_json($out) } or die "no report: $@\n$out\n$err";
	is_deeply($r->{broken}, [], "$name: no client broke down");
	judged($r, $name);
	is($r->{left}, 0, "$name: the drain found every task ($r->{drained})") or diag(join "\n", @{ $r->{left_rows} });
	return $r;
}

# What the judge (test/load/judge.py) says: nothing is wrong but what is expected.
sub judged
{
	my ($r, $name, %expected) = @_;
	my %what = (
		lost => 'committed tasks or acks that are not there',
		doubled => 'tasks enqueued or ended twice, or in two hands',
		nowhere => 'tasks that were not committed',
		broken => 'leases that ended too early, or results that are not of their task',
		errors => 'other wrong answers');

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	foreach my $key (sort keys %what)
	{
		next if $expected{$key};
		my ($number, @lines) = @{ $r->{wrong}{$key} };
		is($number, 0, "$name: no $what{$key}") or diag(join "\n", @lines);
	}
	return;
}

1;
