# The regression tests of producing, consuming and settling, through a proxy of one node
# beside a server of its own: what an application sees is the same, but for what
# test/same_results lists, with a reason for each.
#
# What the tests read of a server's tables and views they read at the proxy, too: where
# it has none of that name, a foreign table stands for that of the node. Both databases
# and the proxy are of one server, so that roles are everywhere; both are node 1.
#
# Seen to fail where peek() without a number showed nothing (looking), where a row of nulls
# stood for NULL (group_stats), and where an error had a statement of the proxy's own as
# its context (consuming).
#
# FAIRQ_SAME_RESULTS=DIRECTORY writes there the differences that a list should have;
# the reasons are for who reads them.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use FairqNode;
use PostgreSQL::Test::Utils;
use Test::More;

my $top = "$FindBin::RealBin/../..";
my $directory = PostgreSQL::Test::Utils::tempdir();
my @tests = $ENV{FAIRQ_SAME_TESTS} ? split(' ', $ENV{FAIRQ_SAME_TESTS}) : qw(
  consuming deadlines group_stats groups looking policies producing sessions settling
  subgroups topics unique_for unique_keys);

my $server = fairq_node('server', conf => "max_connections = 60\nmax_prepared_transactions = 10\n");
my $there = $server->connstr;

foreach my $database (qw(direct node proxy))
{
	sql($server, "CREATE DATABASE $database");

	# as pg_regress has it
	sql($server, "ALTER DATABASE $database SET $_")
	  for "timezone = 'PST8PDT'", "datestyle = 'Postgres, MDY'", "intervalstyle = 'postgres_verbose'";
}
sql($server, 'CREATE EXTENSION pgfairq; SELECT fairq.set_node(1)', $_) for qw(direct node);
sql($server, "SELECT fairq.create_queue('any', keep_done => '1 h')", $_) for qw(direct node);

# What is done to a table by hand is done at the node, too, in a transaction that ends
# with that of the proxy.
sql($server, <<'SQL', 'node');
CREATE TABLE public.done_there (statement text);
GRANT INSERT ON public.done_there TO PUBLIC;
CREATE FUNCTION public.do_it() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE NEW.statement;
	RETURN NULL;
END
$$;
CREATE TRIGGER do_it BEFORE INSERT ON public.done_there FOR EACH ROW EXECUTE FUNCTION public.do_it();
SQL
sql($server, <<SQL, 'proxy');
CREATE EXTENSION pgfairq_cluster CASCADE;
INSERT INTO fairq.node VALUES (1, 0, '$there dbname=node');
CREATE EXTENSION postgres_fdw;
CREATE EXTENSION dblink;
GRANT EXECUTE ON FUNCTION dblink_connect_u(text) TO PUBLIC;
CREATE SERVER node FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host '${\$server->host}', port '${\$server->port}', dbname 'node');
CREATE USER MAPPING FOR PUBLIC SERVER node OPTIONS (password_required 'false');

-- A foreign table for a table or a view of the node, where there is nothing of that name.
CREATE FUNCTION public.look_at_node(name regnamespace, relation text) RETURNS void LANGUAGE plpgsql AS \$\$
BEGIN
	IF to_regclass(format('%s.%I', name, relation)) IS NULL THEN
		EXECUTE format('IMPORT FOREIGN SCHEMA %s LIMIT TO (%I) FROM SERVER node INTO %1\$s', name, relation);
		EXECUTE format('GRANT ALL ON %s.%I TO PUBLIC', name, relation);
	END IF;
END
\$\$;
IMPORT FOREIGN SCHEMA public LIMIT TO (done_there) FROM SERVER node INTO public;
GRANT INSERT ON public.done_there TO PUBLIC;
-- Those that all servers have.
SELECT public.look_at_node(s::regnamespace, r) FROM dblink('$there dbname=node',
	\$\$SELECT relnamespace::regnamespace, relname FROM pg_class
		WHERE relnamespace IN ('fairq'::regnamespace, 'fairq_internal'::regnamespace)
			AND relkind IN ('r', 'v') AND relname NOT IN ('q_any', 'done_any')\$\$) AS t (s text, r text);
-- And the table of a queue, before there is that queue.
CREATE FUNCTION public.look_at_queue(queue_table text) RETURNS void LANGUAGE plpgsql AS \$\$
DECLARE
	columns text;
	pattern text := split_part(queue_table, '_', 1) || '_any';
BEGIN
	PERFORM public.look_at_node('fairq', pattern);
	IF to_regclass(format('fairq.%I', queue_table)) IS NULL THEN
		SELECT string_agg(format('%I %s', attname, format_type(atttypid, atttypmod)), ', ' ORDER BY attnum) INTO columns
			FROM pg_attribute WHERE attrelid = ('fairq.' || pattern)::regclass AND attnum > 0 AND NOT attisdropped;
		EXECUTE format('CREATE FOREIGN TABLE fairq.%I (%s) SERVER node OPTIONS (schema_name ''fairq'', table_name %1\$L)',
			queue_table, columns);
		EXECUTE format('GRANT ALL ON fairq.%I TO PUBLIC', queue_table);
	END IF;
END
\$\$;
-- The tests have transactions that write, for what they keep is in temporary tables.
ALTER DATABASE proxy SET pgfairq.calls_in_transaction = on;
SQL

# What the tests share, but for passes by hand, which are made at the node.
my $helpers = slurp_file("$top/test/sql/include/helpers.sql");
$helpers =~ s/(CREATE PROCEDURE pg_temp\.maintain_until.*?)EXECUTE lock_table;\s+PERFORM fairq.maintain\(queue\);\s+COMMIT;\s+EXECUTE lock_table;(.*?holds;)\s+COMMIT;/$1PERFORM public.dblink_connect_u('$there dbname=node');
        PERFORM public.dblink_exec('BEGIN; ' || lock_table || '; SELECT fairq.maintain(' || quote_literal(queue) || '); COMMIT; BEGIN; ' || lock_table);$2
        PERFORM public.dblink_exec('COMMIT');
        PERFORM public.dblink_disconnect();
        COMMIT;/s
  or die 'maintain_until has changed';
$helpers =~ s/^\\set ECHO .*\n//mg;

# What a script says in a database.
sub said
{
	my ($script, $db) = @_;
	my $said = '';

	IPC::Run::run([ 'psql', '-X', '-a', '-q', '-d', $server->connstr($db) ], '<', \$script, '>&', \$said, init => sub { chdir $top },
		IPC::Run::timeout($PostgreSQL::Test::Utils::timeout_default * 2));
	$said =~ s/[0-9a-f]{8}-0001-8[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}/<receipt or session>/g;
	$said =~ s/"\w{3} \w{3} \d\d [\d:.]+ \d{4} P[SD]T"/<time>/g;
	return $said;
}

# A script as the proxy gets it. What stands for other words is a file, whose name stands
# for them in what it says.
my %instead;

sub for_proxy
{
	my ($script) = @_;
	my $file = sub {
		my ($words, $does) = @_;
		my $name = "$directory/instead-" . (1 + keys %instead);

		append_to_file($name, "\\set ECHO none\n$does\n\\set ECHO all\n");
		$instead{$name} = $words =~ /helpers/ ? "$words\n\\set ECHO none" : $words;
		return "\\i $name\n";
	};

	$script =~ s{^(\\i test/sql/include/helpers.sql)\n}{$file->($1, $helpers)}me;
	$script =~ s{^(CREATE ROLE (\w+));\n}{$file->("$1;", "$1 LOGIN;\nCREATE USER MAPPING FOR $2 SERVER node OPTIONS (user '$2', password_required 'false');")}mge;
	$script =~ s{^(DROP ROLE (\w+(?:, \w+)*);)\n}{$file->($1, join("\n", (map { "DROP OWNED BY $_;\nINSERT INTO public.done_there VALUES ('DROP OWNED BY $_');" } split /, /, $2), $1))}mge;
	$script =~ s{^((?:GRANT|REVOKE|ALTER TABLE) [^;]*\bfairq\b[^;]*;)\n}{$file->($1, "$1\nINSERT INTO public.done_there VALUES (\$\$$1\$\$);")}mge;
	$script =~ s{^((?:DROP TABLE|CREATE INDEX) [^;]*\bfairq\b[^;]*;)\n}{$file->($1, "INSERT INTO public.done_there VALUES (\$\$$1\$\$);")}mge;
	return $script;
}

sub of_proxy
{
	my ($said) = @_;

	$said =~ s{^\\i (\S+/instead-\d+)\n\\set ECHO none\n}{$instead{$1}\n}mg;

	# Where it was is said of every error.
	$said =~ s/^(CONTEXT:  |)at node 1\n//mg;

	# What a rollback leaves in force is said at a proxy only (cluster_rollback).
	$said =~ s/^WARNING:  what was called at nodes stays in force, .*\nDETAIL:  In force: .*\nHINT:  A call at a proxy .*\n//mg;

	# Of the tables that stand for others.
	$said =~ s/^CONTEXT:  remote SQL command: .*\n//mg;

	# A call that is cancelled may be at the node by then, or not.
	$said =~ s/^CONTEXT:  SQL statement "SELECT \* FROM fairq_internal\.at_claim\(.*\n//mg;
	$said =~ s{psql:\S+/instead-\d+:\d+: }{}g;
	return $said;
}

# A transaction that keeps the worker away from a queue while time passes: through a proxy
# it does not, and what is there then is one thing or the other. And what is of a node
# alone: how a definition is made there, indexes of a queue's table.
my %left_out = (
	unique_for => qr/^SELECT fairq\.create_queue\('for unswept'.*?^COMMIT;\n/ms,
	subgroups => qr/^-- A definition makes the same queue\..*?(?=^-- )|^-- An index that does not fit.*?(?=^-- With the queue )/ms);

# The differences between what a test says in both, each with the statement before it.
sub differences
{
	my ($test) = @_;
	my $script = slurp_file("$top/test/sql/$test.sql");
	$script =~ s/$left_out{$test}//g or die "$test has changed" if $left_out{$test};
	my ($direct, $proxied) = ("$directory/$test.direct", "$directory/$test.proxy");
	my %tables = map { $_ => 1 } $script =~ /"?fairq"?\.("(?:q|done)_[^"]*"|(?:q|done)_[a-z0-9_]+)/g;
	my $diff;

	append_to_file($direct, said($script, 'direct'));
	sql($server, join('', map { "SELECT public.look_at_queue(\$\$${\(s/\"//gr)}\$\$);\n" } sort keys %tables) || 'SELECT', 'proxy');
	append_to_file($proxied, of_proxy(said(for_proxy($script), 'proxy')));
	IPC::Run::run([ 'diff', '-a', '-U0', '-F', '^\(SELECT\|INSERT\|UPDATE\|DELETE\|CALL\|WITH\|CREATE\|DROP\|EXECUTE\|DO\|TABLE\)', $direct, $proxied ], '>', \$diff);
	$diff =~ s/^(---|\+\+\+) .*\n//mg;
	$diff =~ s/^@@ \S+ \S+ @@/@@/mg;
	$diff =~ s/^(.{200}).+/$1 .../mg;
	return $diff;
}

foreach my $test (@tests)
{
	my $differences = differences($test);
	my $list = "$top/test/same_results/$test.diff";
	my $listed = -e $list ? slurp_file($list) : '';

	append_to_file("$ENV{FAIRQ_SAME_RESULTS}/$test.diff", $differences) if $ENV{FAIRQ_SAME_RESULTS};
	like($listed, qr/\A(#.*\n|\z)/, "$test: each difference has a reason");
	is($differences, $listed =~ s/^#.*\n//mgr, "$test: nothing else differs");
}

done_testing();
