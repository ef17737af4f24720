# A transaction that owes more than its list may have (pending.h) has what it owes
# summed up: some lanes are read again from a place on, instead of being told of each row.
#
# Shown: when it commits, all that it has enqueued can be claimed at once, also in a lane
# that had been read to its end.  limits_overflow.pl has the same for one that is rolled back.
#
# Seen to fail when the list does not say from where on such a lane is to be read
# (fold_address in pending_placed).  The sweep, which would mend it, is off.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use FairqNode;
use Test::More;

my $node = fairq_node('large_transaction', conf => "shared_buffers = 256MB\nsynchronous_commit = off\nfsync = off\n");

sql($node, <<'SQL');
SELECT fairq.create_queue('large', buckets => 1, max_ready => 3000000, max_ready_per_group => 3000000), fairq.create_queue('small', buckets => 1);
SELECT fairq.enqueue('small', '0');
SELECT count(*) FROM fairq.pop('small');
SQL
is(sql($node, "SELECT count(*) FROM fairq.claim('small')"), 0, 'a lane is read to its end');
sql($node, <<'SQL');
BEGIN;
SELECT cardinality(fairq.enqueue_many('large', array_fill('1'::jsonb, ARRAY[1050000])));
SELECT fairq.enqueue('small', '1');
COMMIT;
SQL
is(sql($node, "SELECT count(*) FROM fairq.claim('small', 10)"), 1, 'what is enqueued in it after a million others can be claimed');
is(sql($node, "SELECT count(*) FROM fairq.claim('large', 1000)"), 1000, 'and so can these');
nothing_swept($node, 'nothing was overlooked');

$node->stop;
done_testing();
