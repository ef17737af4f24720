# close_session gives back the leases of its session, and nobody else's.
#
# One worker claims and releases under a session and closes that when it has no
# lease; another one, without a session, claims and releases all the while.  Entries
# of the lease table go from the one to the other.  Seen to fail without the look
# under the lock in leases_of_session (lease_wheel.c), within the first seconds.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use FairqNode;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = fairq_node('close', conf => "statement_timeout = 0\npgfairq.max_leases = 1000\n");

sql($node, <<'SQL');
SELECT fairq.create_queue(q, buckets => 1, lease => '1 h') FROM (VALUES ('r'), ('s')) AS v (q);
SELECT fairq.enqueue_many(q, array_fill('1'::jsonb, ARRAY[50])) FROM (VALUES ('r'), ('s')) AS v (q);
CREATE TABLE ended (closed bigint);
CREATE TABLE result (claimed bigint, lost bigint);
CREATE PROCEDURE with_session(rounds int, OUT closed bigint, OUT released bigint) LANGUAGE plpgsql AS $$
DECLARE
    s uuid := fairq.open_session('a', '1 h');
    r uuid[];
    n int;
BEGIN
    closed := 0;
    released := 0;
    FOR round IN 1..rounds LOOP
        r := array(SELECT receipt FROM fairq.claim('s', 20, session => s));
        COMMIT;
        PERFORM fairq.release_many(r);
        COMMIT;
        FOR i IN 1..20 LOOP
            BEGIN
                n := fairq.close_session(s);
                closed := closed + 1;
                released := released + n;
                RAISE EXCEPTION 'undo';
            EXCEPTION WHEN raise_exception THEN NULL;
            END;
        END LOOP;
        COMMIT;
    END LOOP;
    PERFORM fairq.close_session(s);
    COMMIT;
    INSERT INTO ended VALUES (closed);
END $$;
CREATE PROCEDURE without() LANGUAGE plpgsql AS $$
DECLARE
    claimed bigint := 0;
    lost bigint := 0;
    r uuid[];
    n int;
BEGIN
    WHILE NOT EXISTS (SELECT FROM ended) LOOP
        r := array(SELECT receipt FROM fairq.claim('r', 20));
        COMMIT;
        claimed := claimed + cardinality(r);
        SELECT count(*) INTO n FROM fairq.release_many(r);
        lost := lost + cardinality(r) - n;
        COMMIT;
    END LOOP;
    INSERT INTO result VALUES (claimed, lost);
END $$;
SQL

my $without = session($node);
$without->send('CALL without()');
my ($closed, $released) = split /\|/, sql($node, 'CALL with_session(10000, NULL, NULL)');
ok(wait_for(sub { sql($node, 'SELECT count(*) FROM result') eq '1' }), 'both have come to an end');
my ($claimed, $lost) = split /\|/, sql($node, 'SELECT * FROM result');
note("closed $closed times; the other one claimed $claimed");
is($released, 0, 'a session without leases releases none');
cmp_ok($claimed, '>', 0, 'the other one has claimed all the while');
is($lost, 0, 'and lost none');
$without->quit;

$node->stop;
done_testing();
