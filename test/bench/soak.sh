#!/usr/bin/env bash
# test/bench/soak.sh [MINUTES] [HELD-SECONDS]
#
# A queue in steady use for MINUTES (10): enqueue, schedule, claim, ack, nack,
# release and leases that run out, at an even pace, on ONE throwaway cluster. The
# memory of the background worker and of the clients' sessions, and how old the
# oldest snapshot of the server is, are looked at all the time, and have to stay
# flat. Then HELD-SECONDS (120) of the same with sweeps on while another session
# holds a snapshot: the share of a processor that the background worker takes has
# to stay flat. Prints Markdown tables; ends with 1 if something was not flat.
#
# It needs pgfairq installed in the server of PG_CONFIG, or BUILD=1: then it is
# built and installed into a copy of that server first. BENCH_DIR: where the
# cluster is put (default /var/tmp). RESULTS: where soak.md and soak.csv go.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/throwaway.sh"

minutes=${1:-10} held=${2:-120}
case $minutes$held in
	*[!0-9.]* | '') usage ;;
esac
[ -z "${RESULTS:-}" ] || RESULTS=$(directory "$RESULTS")
throwaway soak 1

cluster_make "$cluster" "max_connections = 50" "shared_buffers = ${BENCH_SHARED_BUFFERS:-512MB}" \
	"max_wal_size = 4GB" "jit = off" "autovacuum_naptime = 10s" "pgfairq.sweep_interval = 5s"
cluster_start "$cluster"
cluster_psql "$cluster" postgres -c "CREATE EXTENSION pgfairq"
run "$PYTHON" -B "$here/soak.py" --bindir "$BINDIR" --data "$cluster/data" --work "$WORK" --minutes "$minutes" \
	--held "$held" ${RESULTS:+--results "$RESULTS"}
