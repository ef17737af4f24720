# What the TAP tests of pgfairq share: nodes with the library preloaded,
# sessions that survive errors, and checks for SQLSTATEs.

package FairqNode;

use strict;
use warnings;

use Exporter 'import';
use FairqConnection;
use IPC::Run;
use List::Util qw(min);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time usleep);

our @EXPORT = qw(
  fairq_node
  sql
  answer_of
  rows
  column
  error_of
  refused
  session
  wait_for
  wait_for_answer
  crash_of
  wait_for_crash_restart
  start_after_kill
  nothing_swept
  worker_pid
  wait_event_of
  acknowledge_all
  python_program
  run_restarting
);

# The encoding of a new cluster follows the locale, and the tests have more than ASCII.
$ENV{LANG} //= 'C.UTF-8';

# FAIRQ_DATA: where servers have their data, if not beside the logs. Other files of tests
# are not there: libraries may not be loaded from it.
if ($ENV{FAIRQ_DATA})
{
	no warnings 'redefine';
	my $new = \&PostgreSQL::Test::Cluster::new;

	*PostgreSQL::Test::Cluster::new = sub {
		local $PostgreSQL::Test::Utils::tmp_check = $ENV{FAIRQ_DATA};
		return $new->(@_);
	};
}

# A running node with the library preloaded and the extension in database
# postgres.  Parameters: conf (lines of postgresql.conf), preload (0: not
# preloaded, and no extension is created), init (parameters of init).
sub fairq_node
{
	my ($name, %params) = @_;
	my $node = PostgreSQL::Test::Cluster->new($name);

	init_node($node, %{ $params{init} // {} });
	$node->append_conf('postgresql.conf', <<'CONF');
log_statement = none
autovacuum = off
# nothing takes that long: better an error than a test that hangs
statement_timeout = 120s
CONF
	# A task that nobody hands over must be missed: no sweep mends it meanwhile.
	$node->append_conf('postgresql.conf',
		"shared_preload_libraries = 'pgfairq'\npgfairq.sweep_interval = 0\n")
	  unless defined $params{preload} && !$params{preload};
	$node->append_conf('postgresql.conf', $params{conf})
	  if defined $params{conf};
	$node->start;
	sql($node, 'CREATE EXTENSION pgfairq')
	  unless defined $params{preload} && !$params{preload};
	return $node;
}

# The node's init, with a copy of a cluster instead of a new one (lib/bin/initdb).
sub init_node
{
	my ($node, %params) = @_;
	my $dir = __FILE__ =~ s{[^/]*$}{}r;
	my ($initdb) = grep { -x } map { "$_/initdb" } split /:/, $ENV{PATH};

	local $ENV{FAIRQ_INITDB} = $initdb;
	local $ENV{FAIRQ_TEMPLATE} = ($ENV{FAIRQ_DATA} || $PostgreSQL::Test::Utils::tmp_check) . '/initdb-template';
	local $ENV{PATH} = "${dir}bin:$ENV{PATH}";
	$node->init(%params);
	return;
}

# The exit code, the output and the errors of psql with a script, in a session of its own.
# A psql is started only for what needs one (FairqConnection.pm).
sub answer_of
{
	my ($node, $sql, $db, %params) = @_;
	my @answer = FairqConnection::run_script($node, $db // 'postgres', $sql, $params{verbose});

	@answer = $node->psql($db // 'postgres', $params{verbose} ? "\\set VERBOSITY verbose\n$sql" : $sql)
	  unless @answer;
	return @answer;
}

# The output of a script in a session of its own; dies on an error.
sub sql
{
	my ($node, $sql, $db) = @_;
	my ($ret, $out, $err) = answer_of($node, $sql, $db);

	die(($ret == 2 ? 'connection error' : 'error running SQL') . ": '$err'\nin database '" . ($db // 'postgres') . "' with sql '$sql'")
	  if $ret;
	print "#### Begin standard error\n$err\n#### End standard error\n" if $err ne '';
	return $out;
}

# What it returns as a list of rows, each a list of columns.
sub rows
{
	my ($node, $sql, $db) = @_;

	return map { [ split /\|/, $_, -1 ] } split /\n/, sql($node, $sql, $db);
}

# The first column of the result.
sub column
{
	my ($node, $sql, $db) = @_;

	return map { $_->[0] } rows($node, $sql, $db);
}

# SQLSTATE, message and hint of the error a script ends with; empty strings
# if there is none.
sub error_of
{
	my ($node, $sql, $db) = @_;
	my ($ret, $out, $err) = answer_of($node, $sql, $db, verbose => 1);

	my ($state, $message) = $err =~ /(?:ERROR|FATAL):  (\w{5}): (.*)/;
	my ($hint) = $err =~ /^HINT:  (.*)/m;
	return ($state // '', $message // '', $hint // '', $err);
}

# One test: the script is refused with this SQLSTATE, and message and hint
# are like these.
sub refused
{
	my ($node, $sql, $state, $message_like, $hint_like, $name, $db) = @_;
	my ($s, $m, $h, $err) = error_of($node, $sql, $db);

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	my $good = $s eq $state
	  && (!defined $message_like || $m =~ $message_like)
	  && (!defined $hint_like || $h =~ $hint_like);
	ok($good, $name)
	  or diag("expected $state, got $s\nmessage: $m\nhint: $h\nall: $err");
	return;
}

# A session that stays open.  query() answers the output; error() what the
# last query wrote to standard error.
sub session
{
	my ($node, $db) = @_;

	return FairqSession->new($node, $db // 'postgres');
}

# Ask until the answer is true.  A time-out answers false; what is waited for
# is always a condition, never an amount of time.  Questions come at longer and longer
# intervals, a fifth of a second at most.
sub wait_for
{
	my ($condition, $seconds) = @_;
	my $deadline =
	  time() + ($seconds // $PostgreSQL::Test::Utils::timeout_default);
	my $pause = 10_000;

	while (1)
	{
		return 1 if $condition->();
		return 0 if time() > $deadline;
		usleep($pause);
		$pause = min($pause * 1.5, 200_000);
	}
}

# Ask a server until it answers this, 't' if it is not said what. Errors are no answer.
sub wait_for_answer
{
	my ($node, $sql, $answer) = @_;
	my ($out, $err);

	return 1
	  if wait_for(
		sub {
			(undef, $out, $err) = answer_of($node, $sql);
			return $out eq ($answer // 't') && $err eq '';
		});
	diag("$sql\nanswers '$out' to the end, not '" . ($answer // 't') . "'\n$err");
	return 0;
}

# Kill a process of the server, which ends all others and starts again.
sub crash_of
{
	my ($node, $pid) = @_;
	my $offset = -s $node->logfile;

	kill 9, $pid or die "there is no process $pid: $!";
	$node->wait_for_log(qr/all server processes terminated; reinitializing/, $offset);
	return;
}

# Wait until a server that ends all its processes after a crash takes
# connections again.
sub wait_for_crash_restart
{
	my ($node, $postmaster_was_up_at) = @_;

	return wait_for(
		sub {
			my ($ret, $out, $err) = answer_of($node,
				"SELECT pg_postmaster_start_time() IS NOT NULL AND NOT pg_is_in_recovery()");
			return $ret == 0 && $out eq 't';
		});
}

# Start a node whose postmaster was killed: the children it left behind hold
# on to shared memory until they have noticed.
sub start_after_kill
{
	my ($node) = @_;

	return wait_for(
		sub {
			# A start that fails leaves the pid of the killed one behind.
			$node->{_pid} = undef;
			return $node->start(fail_ok => 1);
		});
}

# The pid of the worker of database postgres. If there is none yet, or none any more,
# that is waited for; '' if it does not come.
sub worker_pid
{
	my ($node, $seconds) = @_;
	my $pid = '';

	wait_for(
		sub {
			($pid = sql($node,
				"SELECT pid FROM pg_stat_activity WHERE backend_type = 'pgfairq worker' AND datname = current_database()")) ne '';
		},
		$seconds);
	return $pid;
}

# Wait until some processes wait for events of a type: Lock; Extension for those that
# sleep until there is something for them.  who is a condition on pg_stat_activity,
# number how many there are to be (1).  Answers false if it does not come to that.
sub wait_event_of
{
	my ($node, $type, $who, $number) = @_;

	return wait_for_answer($node,
		"SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = '$type' AND pid <> pg_backend_pid() AND ($who)",
		$number // 1);
}

# Claim and acknowledge all there is in a queue, ten tasks at a time, each ten in a
# transaction.
sub acknowledge_all
{
	my ($node, $queue) = @_;

	sql($node, <<SQL);
DO \$\$
DECLARE
	r uuid[];
BEGIN
	LOOP
		r := ARRAY(SELECT receipt FROM fairq.claim('$queue', 10));
		EXIT WHEN r = '{}';
		PERFORM fairq.ack_many(r);
		COMMIT;
	END LOOP;
END \$\$;
SQL
	return;
}

# One test: no sweep has found a task, for there was none, unless by hand.
sub nothing_swept
{
	my ($node, $name) = @_;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	is( sql($node, "SELECT current_setting('pgfairq.sweep_interval'), coalesce(sum(swept), 0) FROM fairq.queue_stats"),
		'0|0', ($name ? "$name: " : '') . 'and no sweep has helped');
	return;
}

# The command line of a Python program in test/load.
sub python_program
{
	my ($program) = @_;
	my $dir = __FILE__;
	$dir =~ s{t/lib/[^/]*$}{load};

	foreach my $python (grep { defined } $ENV{FAIRQ_PYTHON},
		'/usr/bin/python3', 'python3')
	{
		my ($out, $err);
		my $good = eval {
			IPC::Run::run(
				[
					$python, '-c',
					'import psycopg, sys; sys.exit(psycopg.__version__ < "3")'
				],
				'>', \$out, '2>', \$err);
		};
		return ($python, '-B', "$dir/$program") if $good;
	}
	die
	  "a python3 with psycopg 3 is needed (Debian: python3-psycopg), or FAIRQ_PYTHON";
}

# Run a program of test/load that restarts the server.  Answers whether it went well, and
# its output.
sub run_restarting
{
	my ($node, $program, @arguments) = @_;
	my $output = '';
	my $good = IPC::Run::run(
		[
			python_program($program), $node->connstr('postgres'), @arguments,
			'--pg-ctl', 'pg_ctl', '--data', $node->data_dir, '--log', $node->logfile
		],
		'>&', \$output);

	# The postmaster is another one.
	$node->_update_pid(1);
	return ($good, $output);
}

package FairqSession;

sub new
{
	my ($class, $node, $db) = @_;

	return bless {
		psql => $node->background_psql($db, on_error_stop => 0),
		error => ''
	}, $class;
}

# Answers the output.
sub query
{
	my ($self, $sql) = @_;

	$self->{psql}{stderr} = '';
	$self->{psql}->set_query_timer_restart;
	my $out = $self->{psql}->query($sql);
	$self->{error} = $self->{psql}{stderr};
	$self->{psql}{stderr} = '';
	return $out;
}

# As query(); dies if there was an error.
sub safe
{
	my ($self, $sql) = @_;
	my $out = $self->query($sql);

	die "query failed: $self->{error}\n$sql" if $self->{error} =~ /ERROR|FATAL/;
	return $out;
}

sub error
{
	my ($self) = @_;

	return $self->{error};
}

# Send a query and do not wait for its end.
sub send
{
	my ($self, $sql) = @_;

	$self->{psql}->query_until(qr/sent/, "\\echo sent\n$sql;\n");
	return;
}

# Wait for the end of what was sent.  Answers what was written to standard error
# since then, '' if all went well.
sub ended
{
	my ($self) = @_;

	return ($self->ended_with)[1];
}

# The same, and its output before that.
sub ended_with
{
	my ($self) = @_;
	my ($out, $error);

	$self->{psql}->set_query_timer_restart;
	$out = $self->{psql}->query('');
	$error = $self->{psql}{stderr};
	$self->{psql}{stderr} = '';
	return ($out, $error);
}

sub pid
{
	my ($self) = @_;

	return $self->safe('SELECT pg_backend_pid()');
}

sub quit
{
	my ($self) = @_;

	eval { $self->{psql}->quit };
	return;
}

1;
