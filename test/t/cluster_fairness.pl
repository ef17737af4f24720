# Tenants that are over their share all the time are served alike by claims through a proxy,
# at four nodes in turn: after 1,000 tasks each, the most and the least served differ by
# 3 % at most; and a newcomer's task does not wait behind all of theirs.
#
# Seen to fail: with claims that all begin at one node (claim_anywhere: newcomers at other
# nodes wait until it is empty), with width 1 in fairq.spread (the range), with all
# claims at random (RANDOM_CLAIMS 100: tenants at one node), and without raise_floors().

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use FairqCluster;
use FairqNode;
use PostgreSQL::Test::Utils;
use Test::More;

my ($tenants, $tasks) = (8, 1500);
# At the proxy thousands of calls are one statement.
my ($proxy, @nodes) = fairq_cluster(4, conf => "shared_buffers = 32MB\n", proxy => "statement_timeout = 0\n");

sql($proxy, "SELECT fairq.create_queue('q')");
sql($proxy, "SELECT count(fairq.enqueue_many('q', array_fill('1'::jsonb, ARRAY[$tasks]), array_fill('tenant ' || i, ARRAY[$tasks])))
	FROM generate_series(1, $tenants) i");
my ($least, $most) = split /\|/, sql($proxy, "SELECT min(n), max(n) FROM (SELECT count(*) AS n FROM fairq.tasks('q')
	GROUP BY fairq.node_of_id(id)) c");
cmp_ok($most - $least, '<', $tenants * $tasks / 10, 'every node has its part of them');

# Newcomers with a task each wait for about one of each tenant at each node, 32 in all, and
# not for the 12,000 that wait.
sql($proxy, "CREATE TABLE served (n bigint GENERATED ALWAYS AS IDENTITY, group_key text)");
my $serve = "SET pgfairq.calls_in_transaction = on; INSERT INTO served (group_key) SELECT t.group_key";
sql($proxy, "$serve FROM generate_series(1, 100) i, fairq.pop('q', 1 + 0 * i) t");
sql($proxy, "SELECT fairq.enqueue('q', '1', 'newcomer ' || i) FROM generate_series(1, 12) i");
sql($proxy, "$serve FROM generate_series(1, $tenants * 1000 - 100) i, fairq.pop('q', 1 + 0 * i) t");
my ($newcomers, $last) = split /\|/, sql($proxy, "SELECT count(*), max(n) - 100 FROM served WHERE group_key LIKE 'newcomer%'");
is($newcomers, 12, 'all newcomers are served');
cmp_ok($last, '<', 300, 'before long');
note("the last newcomer was the ${last}th");

my ($range, $served) = split /\|/, sql($proxy, "SELECT 100.0 * (max(n) - min(n)) / avg(n), sum(n)
	FROM (SELECT count(*) AS n FROM served WHERE group_key LIKE 'tenant%' GROUP BY group_key) c");
is($served, $tenants * 1000 - 12, 'and the tenants');
cmp_ok($range, '<=', 3, 'the most and the least served') or diag(sql($proxy, 'SELECT group_key, count(*) FROM served GROUP BY group_key'));
note("range $range %");

# Each tenant at one node, with other numbers of them: claims go by virtual time.
sql($proxy, "SELECT fairq.create_queue('narrow', buckets => 1); INSERT INTO fairq.spread VALUES ('narrow', NULL, 1)");
my $groups = "(SELECT i, row_number() OVER (PARTITION BY nodes ORDER BY i) AS nth, nodes[1] AS node
	FROM generate_series(1, 100) i, fairq.nodes_of_group('narrow', 'tenant ' || i) nodes) g";

# one, two, three and one tenant at nodes 1 to 4
sql($proxy, "CREATE TABLE tenant AS SELECT i, node FROM $groups WHERE nth <= (ARRAY[1, 2, 3, 1])[node]");
sql($proxy, "SELECT count(fairq.enqueue_many('narrow', array_fill('1'::jsonb, ARRAY[1500]), array_fill('tenant ' || i, ARRAY[1500]))) FROM tenant");
is(join(' ', map { sql($_, "SELECT count(*) FROM fairq.tasks('narrow')") } @nodes), '1500 3000 4500 1500', 'tenants at one node each');
sql($proxy, "TRUNCATE served; $serve FROM generate_series(1, 7000) i, fairq.pop('narrow', 1 + 0 * i) t");
$range = sql($proxy, "SELECT 100.0 * (max(n) - min(n)) / avg(n) FROM (SELECT count(*) AS n FROM served GROUP BY group_key) c");
cmp_ok($range, '<=', 3, 'are served alike') or diag(sql($proxy, 'SELECT group_key, count(*) FROM served GROUP BY group_key'));
note("range $range %");

# A node that was empty: its floor follows, so whoever comes to it is not served until even
# with the others' past.
sql($proxy, "SELECT fairq.create_queue('late', buckets => 1); INSERT INTO fairq.spread VALUES ('late', NULL, 1)");
my ($early, $late) = column($proxy, "SELECT i FROM $groups WHERE nth = 1 AND node IN (2, 4) ORDER BY node");
sql($proxy, "SELECT count(fairq.enqueue_many('late', array_fill('1'::jsonb, ARRAY[8000]), array_fill('tenant $early'::text, ARRAY[8000])))");
sql($proxy, "TRUNCATE served; $serve FROM generate_series(1, 1000) i, fairq.pop('late', 1 + 0 * i) t");
ok(wait_for(
	sub {
		sql($proxy, "SELECT count(*) FROM fairq.pop('late')");
		return sql($nodes[3], "SELECT fairq.enqueue('late', '1', 'probe'); SELECT (fairq.block(address) > 500)::int FROM fairq.pop('late')") =~ /1$/;
	}), 'the floor of a node without tasks follows');
sql($proxy, "SELECT count(fairq.enqueue_many('late', array_fill('1'::jsonb, ARRAY[2000]), array_fill('tenant $late'::text, ARRAY[2000])))");
sql($proxy, "TRUNCATE served; $serve FROM generate_series(1, 2000) i, fairq.pop('late', 1 + 0 * i) t");
my $share = sql($proxy, "SELECT count(*) / 20.0 FROM served WHERE group_key = 'tenant $late'");
cmp_ok($share, '<', 75, 'and its tenant gets no credit');
note("share $share %");

done_testing();
