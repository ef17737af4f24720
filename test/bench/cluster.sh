#!/usr/bin/env bash
# test/bench/cluster.sh
#
# What a queue over several nodes costs (make bench-cluster): four nodes and a
# proxy as throwaway clusters, and beside pgfairq a plain SKIP LOCKED table at
# the same nodes behind PL/Proxy. Mostly counts, which are the same on a busy
# machine: WAL, buffers and transactions a task for 1, 2 and 4 nodes, and the
# instructions of a call, by valgrind's callgrind. Times are taken in turn with
# what they are compared with. test/bench/README.md says how, and what for.
#
# Prints a table of goals with what was measured, and what capacity follows.
#
# BUILD=1     build this tree into a private copy of the server first; without
#             it pgfairq is to be installed in the server of PG_CONFIG
# QUICK=1     shorter: a few minutes
# SAVE=1      replace test/bench/results/cluster.md and .csv by these
# KEEP=FILE   keep there all that was measured, as JSON; cluster_report.py makes
#             tables of it
# BENCH_DIR   where the clusters are put (default /var/tmp); a real disk
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/throwaway.sh"

[ $# -eq 0 ] || usage
have valgrind || die "valgrind is missing; on Debian: apt-get install valgrind"
throwaway cluster 1
[ -f "$("$BINDIR/pg_config" --sharedir)/extension/plproxy.control" ] ||
	die "PL/Proxy is missing; on Debian: apt-get install postgresql-15-plproxy (or of your version)"
cluster=$WORK/proxy

# Nothing in the background that would be counted, and no page that is written
# as a whole because a checkpoint was just before.
settings=("max_connections = 60" "shared_buffers = 128MB" "huge_pages = off" "fsync = off" "full_page_writes = off"
	"checkpoint_timeout = 1d" "max_wal_size = 8GB" "jit = off" "autovacuum = off" "bgwriter_lru_maxpages = 0"
	"update_process_title = off")
for node in 1 2 3 4; do
	cluster_make "$WORK/node$node" "${settings[@]}" "pgfairq.sweep_interval = 0"
	cluster_start "$WORK/node$node"
done
cluster_make "$cluster" "${settings[@]}" "shared_preload_libraries = ''"
cluster_start "$cluster"

measure() {
	run "$PYTHON" -B "$here/cluster.py" --work "$WORK" ${QUICK:+--quick} "$@"
}
measure counts

# A node and the proxy again, where every process leaves its count when it ends.
for server in node1 node2 node3 node4 proxy; do
	cluster_stop "$WORK/$server" fast
done
as_test_user mkdir "$WORK/counts"
as_test_user tee "$WORK/postgres" >/dev/null <<WRAPPER
#!/bin/sh
exec "$(command -v valgrind)" --quiet --tool=callgrind --callgrind-out-file='$WORK/counts/%p' "$BINDIR/postgres" "\$@"
WRAPPER
as_test_user chmod +x "$WORK/postgres"
for server in node1 proxy; do
	as_test_user "$BINDIR/pg_ctl" -D "$WORK/$server/data" -l "$WORK/$server/log" -p "$WORK/postgres" -w -t 300 -s start </dev/null
done
measure instructions

[ -z "${KEEP:-}" ] || cp "$WORK/measured.json" "$KEEP"
"$PYTHON" -B "$here/cluster_report.py" "$WORK/measured.json" "$here/results" ${SAVE:+--save}
