# Random input: arguments of all kinds to every function, with books kept of
# what must be there (test/fuzz/arguments.py); random changes of queues' tables
# beside those who use them (test/fuzz/tables.py); and random queries on functions,
# views and tables by sqlsmith (test/fuzz/sqlsmith.sh). None may crash the server,
# see an internal error, or lose or double a task.
#
# FUZZ_SECONDS is how long each runs (10), FUZZ_SEED where they begin (1).
#
# To see it fail, take a check of an argument out of the functions, let a receipt
# be good twice, or let queue_open_relation() leave *rel as it is when a
# queue was dropped and made again.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use FairqNode;
use IPC::Run;
use JSON::PP;
use PostgreSQL::Test::Utils;
use Test::More;

my $seconds = $ENV{FUZZ_SECONDS} // 10;
my $seed = $ENV{FUZZ_SEED} // 1;
my $fuzz = "$FindBin::RealBin/../fuzz";

my $node = fairq_node('fuzz', conf => <<'CONF');
log_line_prefix = '%m [%p] %e '
log_min_messages = warning
log_min_error_statement = panic
fsync = off
CONF

# Runs one of the programs, for so many seconds and up to others more. What it says.
sub fuzzed
{
	my ($program, $others, $promise, @options) = @_;
	my ($python) = python_program('stress.py');
	my ($out, $err);

	IPC::Run::run(
		[
			$python, '-B', "$fuzz/$program.py",
			'--dsn', $node->connstr('postgres'),
			'--seed', $seed, '--seconds', $seconds, @options
		],
		'>', \$out, '2>', \$err,
		IPC::Run::timeout($seconds + $others));
	my $result = eval { decode_json($out) };

	ok(defined $result, "$program: the program ran to its end")
	  or diag($out, $err);
	is_deeply($result->{violations}, [], "$program: $promise (seed $seed)")
	  or diag($err);
	return $result;
}

#
# Arguments
#
{
	my $result = fuzzed('arguments', 300, 'the functions keep their promises', '--workers', 2);
	my %calls = %{ $result->{calls} // {} };
	my @missed = grep { !$calls{$_} } column(
		$node, q{
		SELECT proname FROM pg_proc WHERE pronamespace = 'fairq'::regnamespace
			AND prokind = 'f'
			AND proargnames IS NOT NULL AND proargmodes IS NULL});
	is("@missed", '', 'arguments: every function was called');
	cmp_ok($result->{errors}{'22023'} // 0, '>', 20, 'arguments: bad ones, too');
	note("$result->{transactions} transactions, errors: ",
		join(' ', map { "$_: $result->{errors}{$_}" } sort keys %{ $result->{errors} // {} }));
}

#
# Tables
#
{
	my $result = fuzzed('tables', 300, 'all tasks come out, whatever was done to the tables');
	cmp_ok($result->{calls}, '>', 100, 'tables: a lot was done');
	note("$result->{calls} calls, errors: ",
		join(' ', map { "$_: $result->{errors}{$_}" } sort keys %{ $result->{errors} // {} }));
}

#
# sqlsmith
#
SKIP:
{
	skip 'sqlsmith is not installed', 1
	  if !IPC::Run::run([ 'sh', '-c', 'command -v sqlsmith' ], '>', \my $path);

	local %ENV = (
		%ENV,
		PGHOST => $node->host,
		PGPORT => $node->port,
		FUZZ_LOG => $node->logfile);
	my ($out, $err);
	my $good = IPC::Run::run(
		[ "$fuzz/sqlsmith.sh", $seconds, $seed ],
		'>', \$out, '2>', \$err,
		IPC::Run::timeout(140 * $seconds + 900));
	ok($good, "sqlsmith: no crash, no internal error, no task lost (seed $seed)")
	  or diag($out, $err);
	note($out);
}

#
# The server has survived, and logged nothing that must not be.
#
is(sql($node, 'SELECT count(*) FROM fairq.queues'),
	'0', 'the server is up, and nothing was left behind');
unlike(slurp_file($node->logfile),
	qr/terminated by signal|PANIC:|TRAP:| XX00\d .*(ERROR|FATAL)/,
	'no crash and no internal error in the log');
$node->stop;

done_testing();
