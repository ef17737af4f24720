# What the tests of pgfairq-relay --from-table share: an origin without pgfairq, a target
# with it, the roles that doc/managed.md gives them, and relays.

package FairqTableRelay;

use strict;
use warnings;

use Exporter 'import';
use FairqNode;
use FindBin;
use IPC::Run;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

our @EXPORT = qw(
  origin_and_target
  grants_of_page
  as_role
  start_relay
  relay_once
  kill_relay
  end_relay
  relay_log
  said
  error_of_relay
  close_gate
  open_gate
  stopped_at_gate
);

my $checkout = "$FindBin::RealBin/../..";
my ($python) = python_program('');
my $program = "$checkout/clients/relay/pgfairq-relay";
my ($origin, $target);

# The statements of a block of doc/managed.md.
sub grants_of_page
{
	my ($name) = @_;
	my $page = slurp_file("$checkout/doc/managed.md");
	my ($block) = $page =~ /<!-- test: \Q$name\E -->\n```sh\npsql[^\n]*\n(.*?)\nSQL\n```/s;

	die "doc/managed.md has no block \"$name\"" unless defined $block;
	return $block;
}

# Both servers, with tables and roles: the owner of the outbox is no superuser.
sub origin_and_target
{
	my (%params) = @_;

	$origin = fairq_node('origin', preload => 0, conf => $params{origin_conf});
	$target = fairq_node('target', conf => $params{target_conf});
	sql($origin, 'CREATE ROLE shop LOGIN; GRANT CREATE ON DATABASE postgres TO shop');
	$origin->command_ok([ 'psql', '-qX', '-v', 'ON_ERROR_STOP=1', '-d', as_role($origin, 'shop'), '-f', "$checkout/clients/relay/outbox.sql" ],
		'the outbox, made by a role that is no superuser')
	  for 1 .. 2;
	$target->command_ok([ 'psql', '-qX', '-v', 'ON_ERROR_STOP=1', '-d', $target->connstr('postgres'), '-f', "$checkout/clients/relay/target.sql" ],
		'the tables of the target')
	  for 1 .. 2;
	sql($target, "SELECT fairq.create_queue('letters', keep_done => '1 day')");
	sql($origin, grants_of_page('roles of the application\'s database'));
	sql($target, grants_of_page('the role of the database with the queues'));
	return ($origin, $target);
}

sub as_role
{
	my ($node, $role) = @_;

	return $node->connstr('postgres') . " user=$role";
}

# A relay that runs.
sub start_relay
{
	my (@more) = @_;

	return IPC::Run::start(
		[
			$python, '-B', $program, '--from-table',
			'--from', as_role($origin, 'carrier'), '--to', as_role($target, 'carrier'), @more
		],
		'<', \undef, '>>', relay_log(), '2>>', relay_log());
}

# One that ends when there is nothing more: whether it went well.
sub relay_once
{
	return start_relay('--once', @_)->finish;
}

sub kill_relay
{
	my ($relay) = @_;

	$relay->signal('KILL');
	eval { $relay->finish };
	return;
}

# One test: SIGTERM ends it, and all is well.
sub end_relay
{
	my ($relay, $name) = @_;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	$relay->signal('TERM');
	ok($relay->finish, $name // 'SIGTERM ends a relay');
	return;
}

# Where the relays log.
sub relay_log
{
	return $PostgreSQL::Test::Utils::log_path . '/relays_of_' . ($0 =~ s{.*/}{}r) . '.log';
}

# Have the relays logged something, behind so many bytes?
sub said
{
	my ($behind, $what) = @_;

	return substr(slurp_file(relay_log()), $behind) =~ $what;
}

# What a relay with options that are no good says.
sub error_of_relay
{
	my (@arguments) = @_;
	my $err;

	IPC::Run::run([ $python, '-B', $program, '--from', 'x', '--to', 'y', @arguments ], '2>', \$err);
	return $err;
}

# A place where an enqueue into a queue can be stopped, for as long as a test wants, with
# no lock whose time runs out.
sub close_gate
{
	my ($queue) = @_;

	sql($target, <<SQL) if sql($target, "SELECT count(*) FROM pg_constraint WHERE conname = 'gate'") eq '0';
CREATE TABLE gate (closed boolean);
GRANT SELECT ON gate TO PUBLIC;
CREATE FUNCTION pass_gate() RETURNS boolean LANGUAGE plpgsql AS \$\$
BEGIN
	WHILE EXISTS (SELECT FROM public.gate) LOOP
		PERFORM pg_catalog.pg_sleep(0.01);
	END LOOP;
	RETURN true;
END \$\$;
ALTER TABLE fairq.q_$queue ADD CONSTRAINT gate CHECK (pass_gate());
SQL
	sql($target, 'INSERT INTO gate VALUES (true)');
	return;
}

sub open_gate
{
	sql($target, 'DELETE FROM gate');
	return;
}

# A relay is on its way through the gate.
sub stopped_at_gate
{
	return wait_for_answer($target, "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE wait_event = 'PgSleep' AND query LIKE '%fairq_relay.take%' AND pid <> pg_backend_pid())");
}

1;
