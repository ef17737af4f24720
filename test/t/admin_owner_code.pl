# The code of a queue's owner runs as him also where nobody called: in the worker,
# and at a promotion.
#
# Shown: index predicates with constant arguments, which already a look at the index
# may call, constraints, defaults and expressions note as whom they run; the worker
# has opened the queue in sessions that had not, and worked on it; it was nobody but
# the owner.  He tries to make himself a superuser wherever he is one.
#
# To see it fail: RelationGetIndexPredicate() in examine_indexes() (superuser, by
# the worker if it does not enter the owner's context in one_pass() first, and by who
# looks).

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use FairqNode;
use Test::More;

my $node = fairq_node('owner_code', init => { allows_streaming => 1 });

sql($node, <<'SQL');
CREATE ROLE tenant LOGIN;
CREATE ROLE creator LOGIN;
GRANT CREATE ON SCHEMA fairq TO creator;
CREATE SCHEMA code;
GRANT ALL ON SCHEMA code TO tenant, creator;
CREATE TABLE code.seen (who name DEFAULT current_user, superuser boolean, pid int DEFAULT pg_backend_pid());
GRANT INSERT ON code.seen TO PUBLIC;
CREATE FUNCTION code.note() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	IF (SELECT rolsuper FROM pg_catalog.pg_roles WHERE rolname = current_user) THEN
		ALTER ROLE tenant SUPERUSER;
		ALTER ROLE creator SUPERUSER;
	END IF;
	INSERT INTO code.seen (superuser) SELECT rolsuper FROM pg_catalog.pg_roles WHERE rolname = current_user;
END $$;
CREATE FUNCTION code.is_so(text) RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN PERFORM code.note(); RETURN true; END $$;
CREATE FUNCTION code.is_so(bigint) RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN PERFORM code.note(); RETURN true; END $$;
SELECT fairq.create_queue('given');
ALTER TABLE fairq.q_given OWNER TO tenant;
SQL
$node->safe_psql('postgres', <<'SQL', extra_params => [ '-U', 'creator' ]);
SELECT fairq.create_queue('created', keep_done => '1 ms');
CREATE INDEX ON fairq.q_created (id) WHERE code.is_so('x');
CREATE INDEX ON fairq.q_created (code.is_so(id)) WHERE code.is_so('y');
ALTER TABLE fairq.q_created ADD a boolean DEFAULT code.is_so('x'), ADD CHECK (code.is_so(id));
CREATE INDEX ON fairq.done_created (done_at, id) WHERE code.is_so('x');
CREATE FUNCTION code.deleted() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN PERFORM code.note(); RETURN old; END$$;
CREATE TRIGGER deleted BEFORE DELETE ON fairq.done_created FOR EACH ROW EXECUTE FUNCTION code.deleted();
SQL
# He may not create anything in the schema, but partitions have their indexes made for them.
$node->safe_psql('postgres', <<'SQL', extra_params => [ '-U', 'tenant' ]);
BEGIN;
CREATE TABLE code.p (LIKE fairq.q_given) PARTITION BY RANGE (id);
CREATE INDEX ON code.p (id) WHERE code.is_so('x');
CREATE INDEX ON code.p (code.is_so(id));
ALTER TABLE code.p ATTACH PARTITION fairq.q_given DEFAULT;
ALTER TABLE code.p DETACH PARTITION fairq.q_given;
DROP TABLE code.p;
COMMIT;
SQL
is(sql($node, q{SELECT count(*) FROM pg_index WHERE indrelid = 'fairq.q_given'::regclass AND indpred IS NOT NULL AND pg_get_expr(indpred, indrelid) LIKE '%is_so%'}),
	'1', 'an index that was left behind');

# The worker begins with it, and does all that it does.
$node->restart;
sql($node, 'TRUNCATE code.seen');
foreach my $queue ('given', 'created')
{
	sql($node, "SELECT fairq.enqueue('$queue', '1', run_at => now() + interval '200 ms'), fairq.enqueue('$queue', '2')");
	sql($node, "SELECT count(*) FROM fairq.claim('$queue', 1, lease => '100 ms')");
	ok(wait_for(sub { sql($node, "SELECT count(*) FROM fairq.tasks('$queue') WHERE state = 'ready' AND (payload = '1' OR lost = 1)") eq '2' }),
		"$queue: the worker has put back one and made one ready");
}
sql($node, q{SELECT fairq.ack(receipt) FROM fairq.claim('created', 10)});
# The planner calls such functions, too: so not as a superuser.
ok(wait_for(sub { sql($node, 'SET ROLE creator; SELECT count(*) FROM fairq.done_created') eq '0' }), 'and removed what is old from an archive');
is(sql($node, q{SELECT string_agg(DISTINCT who, ' ' ORDER BY who) FROM code.seen WHERE pid = } . worker_pid($node)),
	'creator tenant', 'code was run in the worker, as the owners');

# Others, and another server.
$node->stop('immediate');
$node->start;
sql($node, 'SELECT (SELECT count(*) FROM fairq.queue_stats), (SELECT count(*) FROM fairq.bucket_stats), (SELECT count(*) FROM fairq.group_stats)');
$node->backup('copy', backup_options => [ '-c', 'fast' ]);
my $standby = PostgreSQL::Test::Cluster->new('owner_code_standby');
$standby->init_from_backup($node, 'copy', has_streaming => 1);
$standby->start;
sql($standby, 'SELECT (SELECT count(*) FROM fairq.queue_stats), (SELECT count(*) FROM fairq.bucket_stats), (SELECT count(*) FROM fairq.group_stats)');
$standby->promote;
sql($standby, q{SELECT fairq.enqueue('given', '3', run_at => now() + interval '100 ms')});
ok(wait_for(sub { sql($standby, q{SELECT count(*) FROM fairq.tasks('given', 'scheduled')}) eq '0' }), 'after a promotion, too');
$standby->command_ok([ 'pg_dump', '-f', $standby->basedir . '/dump', 'postgres' ], 'and a dump');

foreach my $server ($node, $standby)
{
	is(sql($server, 'SELECT count(*) FROM code.seen WHERE superuser OR NOT who IN (\'tenant\', \'creator\')'), '0', 'it was never anybody else');
	is(sql($server, q{SELECT count(*) FROM pg_roles WHERE rolsuper AND rolname IN ('tenant', 'creator')}), '0', 'and no one has become superuser');
}
$standby->stop;
$node->stop;
done_testing();
