# The libraries' producers work at a proxy, their workers at the nodes, which the proxy
# deals out. A worker at a proxy is refused: its session would be of one node, and the
# tasks of the others would wait forever.
#
# Seen to fail: without session_at_node() in the Python library's statements.py no worker
# is refused.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use FairqCluster;
use FairqNode;
use IPC::Run;
use PostgreSQL::Test::Utils;
use Test::More;

my ($proxy) = fairq_cluster(2);
my ($python) = python_program('');

$ENV{PYTHONPATH} = "$FindBin::RealBin/../../clients/python";
IPC::Run::run([ $python, "$FindBin::RealBin/../load/proxy_clients.py", $proxy->connstr('postgres'), 200 ], '>&', \my $out, IPC::Run::timeout(240));
like($out, qr/^this database is a proxy of a cluster.*worker_node/m, 'a worker at the proxy is refused, and told where to work');
like($out, qr/^done 200, repeated 0, nodes 2$/m, 'workers at the nodes do all that was enqueued at the proxy, once');
is(sql($proxy, "SELECT sum(ready + leased) FROM fairq.queue_stats"), 0, 'nothing is left');

done_testing();
