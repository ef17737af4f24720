#!/usr/bin/env bash
# test/bench/run.sh [quick|full|long] [W1 W2 ...]
#
# Starts ONE throwaway cluster with pgfairq preloaded, measures pgfairq beside
# the bare statements and its peers in systems/, all workloads or only those
# named, writes test/bench/results/<mode>.md and .csv, and removes the cluster.
# What is measured, how to read it, and the settings: test/bench/README.md.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/throwaway.sh"

mode=full
case ${1:-} in
	quick|full|long) mode=$1; shift ;;
	-*) usage ;;
esac
for workload; do
	[ -f "$here/workloads/${workload,,}.py" ] || die "no workload $workload in $here/workloads"
done
results=$(directory "${BENCH_RESULTS:-$here/results}")
throwaway bench

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
	"maintenance_work_mem = 256MB" \
	"jit = off" \
	"autovacuum = off" \
	"autovacuum_naptime = 10s"
cluster_start "$cluster"

run "$PYTHON" -B "$here/bench.py" --mode "$mode" --pg-config "$PG_CONFIG" --bindir "$BINDIR" --data "$cluster/data" --work "$WORK" \
	--results "$results" "$@"
