#!/usr/bin/env bash
# test/bench/run.sh [quick|full|long] [W1 W2 ...]
#
# Starts ONE throwaway cluster with pgfairq preloaded, measures pgfairq beside
# the bare statements and its peers in systems/, all workloads or only those
# named, writes test/bench/results/<mode>.md and .csv, and removes the cluster.
# What is measured, how to read it, and the settings: test/bench/README.md.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/../scripts/common.sh"
. "$here/../scripts/cluster.sh"

mode=full
case ${1:-} in
	quick|full|long) mode=$1; shift ;;
	-*) sed -n '2,7s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; exit 2 ;;
esac
for workload; do
	[ -f "$here/workloads/${workload,,}.py" ] || die "no workload $workload in $here/workloads"
done

# A server that was chosen need not be one to build with.
[ -n "${PG_CONFIG:-}" ] || find_pg_config || die "no usable PostgreSQL (set PG_CONFIG)"
find_python || die "no Python with psycopg"
BINDIR=$("$PG_CONFIG" --bindir)
[ -x "$BINDIR/pgbench" ] || die "$BINDIR/pgbench is missing"
[ -f "$("$PG_CONFIG" --pkglibdir)/pgfairq.so" ] ||
	die "pgfairq is not installed in $("$PG_CONFIG" --pkglibdir): make install, or let make bench do it"

# Not /tmp, which may be a tmpfs: there fsync costs nothing.
WORK=$(mktemp -d "${BENCH_DIR:-/var/tmp}/pgfairq-bench.XXXXXX")
[ "$(id -u)" -ne 0 ] || chown "$TEST_USER" "$WORK"
cluster=$WORK/cluster

bench=
cleanup() {
	local status=$?
	trap - EXIT
	trap '' INT TERM
	# it ends what it started, and the sessions of its clients with it
	if [ -n "$bench" ]; then
		kill "$bench" 2>/dev/null || true
		wait "$bench" 2>/dev/null || true
	fi
	[ "$status" -eq 0 ] || [ "$status" -ge 128 ] || cluster_log "$cluster" 15 >&2
	cluster_stop "$cluster" immediate || true
	rm -rf "$WORK"
	exit "$status"
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# No checkpoint may fall into a measurement: bench.py asks for them in between.
say "bench: a cluster in $WORK"
cluster_make "$cluster" \
	"max_connections = 600" \
	"pgfairq.max_leases = 1500000" \
	"shared_buffers = ${BENCH_SHARED_BUFFERS:-2GB}" \
	"fsync = on" \
	"synchronous_commit = on" \
	"full_page_writes = on" \
	"checkpoint_timeout = 1d" \
	"max_wal_size = 24GB" \
	"maintenance_work_mem = 256MB" \
	"jit = off" \
	"autovacuum = off" \
	"autovacuum_naptime = 10s"
cluster_start "$cluster"

export PGHOST=$cluster/socket PGPORT=5432 PGUSER=postgres PGDATABASE=postgres
unset PGOPTIONS PGSERVICE PGPASSWORD PGHOSTADDR
export BENCH_USER=$TEST_USER
"$PYTHON" -B "$here/bench.py" --mode "$mode" --bindir "$BINDIR" --data "$cluster/data" --work "$WORK" \
	--results "${BENCH_RESULTS:-$here/results}" "$@" &
bench=$!
status=0
wait "$bench" || status=$?
bench=
exit "$status"
