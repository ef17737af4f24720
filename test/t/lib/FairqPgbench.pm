# pgbench with scripts that a test writes inline: in the foreground or beside something
# else, and what is asked of each run. For one run of scripts in files of the test's own
# there is the Cluster's pgbench().

package FairqPgbench;

use strict;
use warnings;

use Exporter 'import';
use IPC::Run;
use PostgreSQL::Test::Utils;
use Test::More;

our @EXPORT = qw(
  start_pgbench
  run_pgbench
  transaction
  consumers
);

# Start pgbench in database postgres. scripts: name => text, or name => [weight, text];
# options are its own.
sub start_pgbench
{
	my ($node, $scripts, @options) = @_;
	my $directory = PostgreSQL::Test::Utils::tempdir();
	my $self = bless { out => '', err => '' }, 'FairqPgbench';
	my @files;

	foreach my $name (sort keys %$scripts)
	{
		my $script = $scripts->{$name};
		my ($weight, $text) = ref $script ? @$script : (1, $script);

		append_to_file("$directory/$name.sql", $text);
		push @files, '-f', "$directory/$name.sql\@$weight";
	}
	$self->{process} = IPC::Run::start([ 'pgbench', '-n', @files, @options, $node->connstr('postgres') ],
		'>', \$self->{out}, '2>', \$self->{err},
		IPC::Run::timeout(900 + ($ENV{FAIRQ_HAMMER_SECONDS} // 0)));
	return $self;
}

# Run it to its end.
sub run_pgbench
{
	my $load = start_pgbench(@_);

	$load->finish;
	return $load;
}

# Is it at work still?
sub goes_on
{
	my ($self) = @_;

	$self->{process}->pump_nb;
	return $self->{process}->pumpable;
}

# Wait for its end; false if it failed.
sub finish
{
	my ($self) = @_;

	$self->{good} = $self->{process}->finish unless defined $self->{good};
	return $self->{good};
}

# What it has written.
sub output
{
	my ($self) = @_;

	return $self->{out};
}

sub errors
{
	my ($self) = @_;

	return $self->{err};
}

sub kill_kill
{
	my ($self) = @_;

	return $self->{process}->kill_kill;
}

# What went wrong, '' if nothing did. A transaction that met a deadlock is counted only,
# and nothing else is said of it.
sub trouble
{
	my ($self) = @_;

	return "pgbench failed: $self->{err}" unless $self->finish;
	return $self->{err} if $self->{err} =~ /ERROR|aborted/;
	return "failed transactions: $self->{out}" if $self->{out} !~ /number of failed transactions: 0 /;
	return '';
}

# One test: it ran to its end, without an error or a deadlock.
sub ran_well
{
	my ($self, $name) = @_;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	return is($self->trouble, '', "$name: without an error or a deadlock");
}

# A script: a transaction that is rolled back one time in so many. end is random and may
# be used in its text.
sub transaction
{
	my ($times, $text) = @_;

	return "\\set end random(1, $times)\nBEGIN;\n$text\\if :end = 1\nROLLBACK;\n\\else\nCOMMIT;\n\\endif\n";
}

# Scripts that claim and acknowledge. They take variables: :q is the queue, :most the
# largest claim, :done the table with the ids of what was acknowledged, :lease what is
# claimed for and given up.
sub consumers
{
	my $consume = "\\set n random(1, :most)\n" . transaction(5, <<'SQL');
WITH c AS MATERIALIZED (SELECT id, receipt FROM fairq.claim(:q, :n)) INSERT INTO :done SELECT id FROM c WHERE fairq.ack(receipt);
SQL
	return (
		consume => $consume,
		steps => <<'SQL',
\set end random(1, 5)
SELECT coalesce(max(id), 0) AS id, coalesce(max(receipt::text), '00000000-0000-0000-0000-000000000000') AS receipt FROM fairq.claim(:q, 1) \gset
BEGIN;
INSERT INTO :done SELECT :id WHERE fairq.ack(':receipt');
\if :end = 1
ROLLBACK;
SELECT fairq.nack(':receipt', NULL, '0');
\elif :end = 2
ROLLBACK;
SELECT fairq.release(':receipt');
\else
COMMIT;
\endif
SQL
		walk_away => <<'SQL');
SELECT count(*) FROM fairq.claim(:q, 2, lease => :lease);
SQL
}

1;
