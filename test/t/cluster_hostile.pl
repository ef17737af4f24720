# A node that lies, and a tenant who is in the way at one node: neither is the others' matter.
#
# Shown: what a node that somebody else controls answers becomes no SQL at the proxy or at other
# nodes, whatever is in it, and gives no table of one role to another; a queue whose table
# refuses the tasks that are moved to it stays, and the others go; while a tenant's code runs as
# tasks depart, tasks that wait for others can be enqueued; and what the node is told and asked
# of has types.
#
# To see it fail: take the look at grants out of give_queue(), or that at owners; the EXCEPTION
# WHEN OTHERS out of move_tasks() and finish_moves(); lock fairq.dependency first in depart().

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use FairqCluster;
use FairqNode;
use Test::More;

my ($proxy, $one, $two) = fairq_cluster(2);

sql($_, 'CREATE ROLE tenant LOGIN; CREATE ROLE victim LOGIN; CREATE SCHEMA attack AUTHORIZATION tenant') foreach $proxy, $one, $two;
sql($proxy, "SELECT fairq.create_queue('aa_theirs'), fairq.create_queue('ours')");
sql($_, 'ALTER TABLE fairq.q_aa_theirs OWNER TO tenant') foreach $one, $two;

#
# A tenant whose table refuses what is moved.
#
sql($two, "SELECT count(fairq.enqueue(q, to_jsonb(i))) FROM generate_series(1, 20) i, unnest('{aa_theirs,ours}'::text[]) q");
sql($one, 'SET ROLE tenant; ALTER TABLE fairq.q_aa_theirs ADD CONSTRAINT no CHECK (payload <> \'7\')');
sql($proxy, 'SELECT fairq.drain_node(2)');
my ($ret, $moved, $warning) = answer_of($proxy, 'SELECT fairq.move_tasks(2)');
is("$ret $moved", '0 20', 'a tenant\'s table refuses a task: the tasks of the other queue are moved');
like($warning, qr/WARNING:  could not move the tasks of queue "aa_theirs" from node 2: .*violates check constraint "no"/, 'and it is said of which queue they are not');
is(sql($two, 'SELECT count(*) FROM fairq.q_ours'), 0, 'none is left there');
is(sql($proxy, 'SELECT fairq.move_tasks(2)'), 0, 'nor does it keep them the next time, when it is tried first');
like(sql($proxy, 'SELECT object, repaired FROM fairq.check_cluster(repair => true)'), qr/^queue "aa_theirs"\|no: .*violates check constraint/m, 'check_cluster says so, too');
sql($one, 'ALTER TABLE fairq.q_aa_theirs DROP CONSTRAINT no');
is(sql($proxy, 'SELECT fairq.move_tasks(2)'), 20, 'when it is taken away they are moved');
sql($proxy, 'SELECT fairq.drop_node(2)');
is(sql($one, q{SELECT count(*), count(DISTINCT payload) FROM fairq.tasks('aa_theirs')}), '20|20', 'each once, and the node goes');

#
# A tenant's code runs as tasks depart: what others need is not locked meanwhile.
#
sql($one, <<'SQL');
CREATE TYPE attack.kind AS ENUM ('one');
CREATE TABLE attack.begun (pid int);
GRANT ALL ON attack.begun TO tenant;
CREATE FUNCTION attack.slow(attack.kind) RETURNS json LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_advisory_xact_lock(4711); RETURN '"one"'; END $$;
CREATE CAST (attack.kind AS json) WITH FUNCTION attack.slow(attack.kind);
ALTER TABLE fairq.q_aa_theirs ADD mine attack.kind DEFAULT 'one';
SQL
my $holder = session($one);
my $mover = session($one);
$holder->safe('SELECT pg_advisory_lock(4711)');
$mover->send(q{SELECT fairq_internal.depart('aa_theirs', ARRAY(SELECT id FROM fairq.q_aa_theirs ORDER BY id LIMIT 1), gen_random_uuid(), 2)});
ok(wait_event_of($one, 'Lock', "query LIKE '%depart%'"), 'code of the tenant runs, and does not end');
is(sql($one, q{SET lock_timeout = '20 s'; SELECT fairq.enqueue('ours', '1') AS id \gset
	SELECT count(fairq.enqueue('ours', '2', after => ARRAY[:id]::bigint[]))}), 1, 'others enqueue tasks that wait for others');
$holder->safe('SELECT pg_advisory_unlock(4711)');
is($mover->ended, '', 'and it goes on');
is(sql($one, 'SELECT count(*) FROM fairq_internal.departing'), 1, 'the task has left');
#
# A node that lies: node 1, which is the first to be asked what a queue is.
#
sql($one, "SELECT fairq_internal.depart_no_more(batch) FROM fairq_internal.departures(); ALTER TABLE fairq.q_aa_theirs DROP mine");
sql($two, "SELECT fairq.drop_queue(queue) FROM fairq.queues");
add_node($proxy, 2, $two);
sub lies
{
	my ($queue, $definition) = @_;

	sql($one, <<"SQL");
CREATE OR REPLACE FUNCTION fairq_internal.queue_definitions(OUT queue text, OUT definition jsonb) RETURNS SETOF record LANGUAGE sql STABLE AS \$f\$
	SELECT '$queue', jsonb_build_object('settings', '{"policy": "fair"}'::jsonb, 'owner', 'postgres', 'groups', '{}'::jsonb, 'topics', '[]'::jsonb, 'grants', '[]'::jsonb)
		|| \$d\$$definition\$d\$ \$f\$
SQL
	my ($ret, $out, $err) = answer_of($proxy, 'SELECT object, problem, repaired FROM fairq.check_cluster(repair => true)');
	return "$out\n$err";
}

sub unharmed
{
	my ($name) = @_;

	foreach my $node ($proxy, $two)
	{
		is(sql($node, "SELECT count(*) FROM pg_roles WHERE rolname = 'hacked' OR rolsuper AND rolname IN ('tenant', 'victim')"), 0, "$name: no role was made or raised");
	}
	is(sql($two, q{SELECT count(*) FROM pg_class c, aclexplode(c.relacl) a WHERE c.relnamespace = 'fairq'::regnamespace AND c.relname IN ('queue', 'q_ours', 'q_aa_theirs')
			AND a.privilege_type <> 'SELECT' AND a.grantee <> c.relowner}), 0, "$name: nothing of others was granted");
	is(sql($two, q{SELECT relowner::regrole FROM pg_class WHERE oid = 'fairq.q_aa_theirs'::regclass}), 'tenant', "$name: and no table given");
	return;
}

my $hack = 'CREATE ROLE hacked SUPERUSER';
foreach my $lie (
	[ 'a privilege that is SQL', 'evil', q({"grants": [{"prefix": "q_", "role": null, "grantable": false, "privilege": "SELECT ON fairq.q_evil TO PUBLIC; HACK; --"}]}) ],
	[ 'a role that is SQL', 'evil', q({"grants": [{"prefix": "q_", "role": "PUBLIC; HACK; --", "grantable": false, "privilege": "SELECT"}]}) ],
	[ 'a prefix of another table', 'e', q({"grants": [{"prefix": "queu", "role": "tenant", "grantable": true, "privilege": "UPDATE"}]}) ],
	[ 'an owner that is SQL', 'evil', q({"owner": "tenant; HACK; --"}) ],
	[ 'a name that is SQL', q(evil'"; HACK; --), '{}' ],
	[ 'a setting that is SQL', 'evil', q~{"settings": {"policy": "fair", "buckets => 1); HACK; --": "1", "lease": "1 s'); HACK; --"}}~ ],
	[ 'a group that is SQL', 'evil', q~{"groups": {"'); HACK; --": {"weight": "1); HACK", "paused": true}}}~ ],
	[ 'a topic that is SQL', 'evil', q~{"topics": ["'); HACK; --"]}~ ],
	[ 'arrays for objects', 'evil', '{"settings": [], "groups": [], "topics": {}, "grants": {}}' ],
	[ 'nulls', 'evil', '{"settings": null, "groups": null, "topics": null, "grants": null, "owner": null}' ],
	[ 'numbers', 'evil', '{"settings": 1e300, "groups": -1, "topics": 0, "grants": 1, "owner": 1}' ],
	[ 'a table of a tenant for a superuser', 'aa_theirs', '{"owner": "postgres"}' ],
	[ 'a table of a tenant for another role', 'aa_theirs', '{"owner": "victim"}' ])
{
	my ($name, $queue, $definition) = map { s/HACK/$hack/gr } @$lie;
	my $said = lies($queue =~ s/'/''/gr, $definition);

	unlike($said, qr/ERROR:  (?!.*(invalid|cannot|must|null|not exist))/, "$name: nothing breaks") or diag($said);
	unharmed($name);
}
like(lies('aa_theirs', '{"owner": "victim"}'), qr/queue "aa_theirs"\|differs.*owner\|no: .*belongs to role "tenant", and is not given to role "victim"/, 'it is said what is not done');
sql($proxy, 'SELECT fairq.drop_node(1, lost => true)');
is(sql($proxy, "SELECT count(fairq.enqueue('ours', '1')) FROM generate_series(1, 3)"), 3, 'and the others go on');
$_->stop foreach $proxy, $one, $two;
done_testing();
