# Who may do what through a proxy: a call is made at the node as the role that makes it at
# the proxy, and the node looks at its privileges. Nothing at the proxy makes anybody more.
#
# To see it fail: take the event trigger out of sql/cluster/12_user_mappings.sql; make
# fairq_internal.make_twins() create SECURITY DEFINER functions.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use FairqCluster;
use FairqNode;
use PostgreSQL::Test::Utils;
use Test::More;

my ($proxy, @nodes) = fairq_cluster(2);

# The second node wants a password of one role.
for my $node ($proxy, @nodes)
{
	sql($node, "SET password_encryption = 'scram-sha-256'; CREATE ROLE tenant LOGIN; CREATE ROLE worker LOGIN; CREATE ROLE locked LOGIN PASSWORD 'secret'");
}
sql($proxy, "CREATE ROLE here_only LOGIN; CREATE ROLE member LOGIN; GRANT worker TO member");
sql($proxy, "SELECT fairq.create_queue('q'), fairq.create_queue('r')");
sql($_, "GRANT SELECT, INSERT, UPDATE, DELETE ON fairq.q_q TO worker, locked") for @nodes;
for my $node (@nodes)
{
	my $hba = $node->data_dir . '/pg_hba.conf';
	my $lines = slurp_file($hba);

	unlink $hba;
	append_to_file($hba, "local all locked scram-sha-256\n$lines");
	$node->reload;
}

# As a role.
sub as
{
	my ($role, $sql) = @_;

	return "SET SESSION AUTHORIZATION $role;\n$sql";
}

# A role that has nothing at the nodes
for my $call ("fairq.enqueue('q', '1')", "fairq.claim('q')", "fairq.purge('q')", "fairq.peek('q')", "fairq.tasks('q')",
	"fairq.pause('q')", "fairq.set_group('q', 'g', weight => 2)", "fairq.reset_stats('q')", "fairq.enqueue_many('q', '{1,2}')")
{
	refused($proxy, as('tenant', "SELECT $call"), '42501', qr/permission denied for queue "q"|must be owner of queue "q"/, undef, "a role with nothing: $call");
}
refused($proxy, as('tenant', "SELECT fairq.create_queue('mine')"), '42501', undef, undef, 'and creates no queue');
is(sql($proxy, as('tenant', "SELECT (SELECT count(*) FROM fairq.queues), (SELECT count(*) FROM fairq.queue_stats), (SELECT count(*) FROM fairq.dead_tasks)")),
	'2|0|0', 'it sees what it sees at a node');

# A role with privileges on one queue
is(sql($proxy, as('worker', "SELECT count(fairq.enqueue('q', '1')) FROM generate_series(1, 20)")), 20, 'a role with privileges enqueues');
is(sql($proxy, as('worker', "SELECT count(*) FROM generate_series(1, 20) i, fairq.claim('q', 1 + 0 * i) c WHERE fairq.ack(c.receipt)")), 20, 'claims and acknowledges');
refused($proxy, as('worker', "SELECT fairq.enqueue('r', '1')"), '42501', qr/permission denied for queue "r"/, undef, 'but not in another queue');
is(sql($proxy, as('worker', "SELECT string_agg(queue, ' ') FROM fairq.queue_stats")), 'q', 'nor does it see that');
refused($proxy, as('here_only', "SELECT fairq.enqueue('q', '1')"), '08006', qr/out of reach/, undef, 'a role that the nodes do not have');

# SET ROLE, and a function that is another role's
is(sql($proxy, as('member', "SET ROLE worker; SELECT fairq.enqueue('q', '1') > 0")), 't', 'a member of it that has set its role');
refused($proxy, as('member', "SET ROLE worker; SELECT fairq.enqueue('q', '1') > 0; RESET ROLE; SELECT fairq.enqueue('q', '1')"), '08006', undef, undef,
	'and is itself again: the nodes do not have it');
sql($proxy, "CREATE FUNCTION public.work() RETURNS bigint LANGUAGE sql SECURITY DEFINER AS \$\$ SELECT fairq.enqueue('q', '1') \$\$; ALTER FUNCTION public.work() OWNER TO worker");
is(sql($proxy, as('tenant', "SELECT public.work() > 0")), 't', 'a SECURITY DEFINER function is its owner at the nodes');
refused($proxy, as('tenant', "SELECT public.work() > 0;\nSELECT fairq.enqueue('q', '1')"), '42501', qr/permission denied for queue "q"/, undef, 'and its caller is not');

# What is beneath gives no more
refused($proxy, as('tenant', "SELECT fairq_internal.at_purge(0, 'q')"), '42501', qr/permission denied for queue "q"/, undef, 'the twin of a function');
refused($proxy, as('tenant', "SELECT * FROM fairq_internal.at_claim(0, 'q', 1, NULL, NULL, '0', NULL, NULL)"), '42501', qr/permission denied for queue "q"/, undef, 'and of another');
is(sql($proxy, as('tenant', "SELECT count(*) FROM fairq_internal.rows_of_queue_stats()")), 0, 'the rows of a view');
refused($proxy, as('tenant', $_->[0]), '42501', $_->[1], undef, "a role with nothing: $_->[0]")
  for (
	[ "SELECT fairq.add_node(9, 'dbname=none')",                                                                            qr/add_node/ ],
	[ "SELECT fairq.drain_node(1)",                                                                                         qr/drain_node/ ],
	[ "SELECT connection FROM fairq.node",                                                                                  qr/table node/ ],
	[ "UPDATE fairq.node SET state = 'draining'",                                                                           qr/table node/ ],
	[ "INSERT INTO fairq.spread VALUES ('q', NULL, 1)",                                                                     qr/table spread/ ],
	[ "ALTER SERVER pgfairq OPTIONS (SET p0 'host=/nonexistent')",                                                          qr/foreign server pgfairq/ ],
	[ "CREATE USER MAPPING FOR worker SERVER pgfairq",                                                                      qr/foreign server pgfairq/ ],
	[ "CREATE USER MAPPING FOR tenant SERVER pgfairq OPTIONS (user 'postgres')",                                            qr/set a user for server "pgfairq"/ ],
	[ "CREATE USER MAPPING FOR tenant SERVER pgfairq;\nALTER USER MAPPING FOR tenant SERVER pgfairq OPTIONS (user 'worker')", qr/set a user for server "pgfairq"/ ],
	[ "CREATE FUNCTION pg_temp.f() RETURNS int LANGUAGE plproxy AS 'CLUSTER ''pgfairq''; RUN ON 0; SELECT 1;'",             qr/language plproxy/ ]);

# Passwords: of a user mapping
refused($proxy, as('locked', "SELECT fairq.enqueue('q', '1')"), '08006', qr/out of reach/, undef, 'a role whose password the proxy does not have');
is(sql($proxy, as('locked', "CREATE USER MAPPING FOR locked SERVER pgfairq OPTIONS (password 'secret');\nSELECT fairq.enqueue('q', '1') > 0")), 't', 'it gives that itself');
refused($proxy, as('locked', "ALTER USER MAPPING FOR locked SERVER pgfairq OPTIONS (SET password 'wrong');\nSELECT fairq.enqueue('q', '1')"), '08006', qr/out of reach/, undef, 'or a wrong one');
is(sql($proxy, "ALTER USER MAPPING FOR locked SERVER pgfairq OPTIONS (SET password 'secret', ADD user 'locked');\nSET SESSION AUTHORIZATION locked;\nSELECT fairq.enqueue('q', '1') > 0"),
	't', 'the owner of the server may say who it is');
is(sql($proxy, as('tenant', "SELECT count(*) FROM pg_user_mappings WHERE umoptions IS NOT NULL")), 0, 'which others do not see');

done_testing();
