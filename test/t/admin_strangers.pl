# What somebody does in a database of his own, whatever he calls it there, is
# nothing to the engine; the server goes on.
#
# Shown: in a database without the extension an ordinary role has a schema fairq
# with relations that are called like the extension's, of all kinds, and creates,
# changes and drops tables that are called like queues.  Other databases' leases
# stay, so nothing has crashed, and no session has met an error.
#
# To see it fail: look up fairq.durable_lease by its name alone in
# durable_table_forget_queue(), that is in durable_table_open() (signal 11).

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use FairqNode;
use Test::More;

my $node = fairq_node('strangers');

sql($node, <<'SQL');
CREATE ROLE stranger LOGIN CREATEDB;
SELECT fairq.create_queue('q'), fairq.create_queue('d', durable_leases => true);
SELECT fairq.enqueue(queue, '1') FROM fairq.queues;
SELECT receipt FROM fairq.queues, fairq.claim(queue, lease => '1 h');
SQL
my $started = sql($node, 'SELECT pg_postmaster_start_time()');

# One object of each kind that can have the name of a table of the extension.
my %named = (
	view => 'CREATE VIEW fairq.%1$s AS SELECT 1 AS x',
	'materialized view' => 'CREATE MATERIALIZED VIEW fairq.%1$s AS SELECT 1 AS x',
	sequence => 'CREATE SEQUENCE fairq.%1$s',
	'composite type' => 'CREATE TYPE fairq.%1$s AS (x int)',
	index => 'CREATE TABLE fairq.t (x int); CREATE INDEX %1$s ON fairq.t (x)',
	'partitioned table' => 'CREATE TABLE fairq.%1$s (x int) PARTITION BY LIST (x)',
	'table of no columns' => 'CREATE TABLE fairq.%1$s ()',
	'table of other types' => "CREATE TABLE fairq.%1\$s (queue text, attempt text, task text, lease_until text, claimed_at text, receipt text, of_session text); INSERT INTO fairq.%1\$s VALUES ('a', 'b', 'c', 'd', 'e', 'f', 'g')",
);

$node->safe_psql('postgres', 'CREATE DATABASE plain', extra_params => [ '-U', 'stranger' ]);
foreach my $kind (sort keys %named)
{
	my $make = join(";\n", map { sprintf($named{$kind} =~ s/fairq\.t /fairq.t_$_ /gr, $_) } qw(durable_lease queue group_setting topic));

	my ($ret, $out, $err) = $node->psql('plain', <<"SQL", extra_params => [ '-U', 'stranger' ]);
\\set ON_ERROR_STOP 1
CREATE SCHEMA fairq;
CREATE SCHEMA fairq_internal;
$make;
CREATE TABLE fairq.q_x (id int);
CREATE FUNCTION fairq_internal.row_written() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
CREATE TRIGGER fairq_row_written AFTER INSERT ON fairq.q_x FOR EACH ROW EXECUTE FUNCTION fairq_internal.row_written();
ALTER TABLE fairq.q_x ENABLE ALWAYS TRIGGER fairq_row_written;
INSERT INTO fairq.q_x VALUES (1);
TRUNCATE fairq.q_x;
ALTER TABLE fairq.q_x RENAME TO q_y;
DROP TABLE fairq.q_y;
CREATE VIEW fairq.q_x AS SELECT 1;
DROP VIEW fairq.q_x;
DROP SCHEMA fairq, fairq_internal CASCADE;
SQL
	is($ret, 0, "$kind: nothing fails") or diag($err);
}
is(sql($node, 'SELECT pg_postmaster_start_time()'), $started, 'the server has not been restarted');
is(sql($node, 'SELECT count(*) FROM fairq.leases'), '2', 'nor have leases been lost');
unlike(PostgreSQL::Test::Utils::slurp_file($node->logfile), qr/was terminated by signal/, 'and no process was ended');
$node->stop;
done_testing();
