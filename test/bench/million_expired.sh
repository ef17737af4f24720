#!/usr/bin/env bash
# test/bench/million_expired.sh [NUMBER]
#
# A million (or NUMBER) tasks that expire in the same second, on ONE throwaway
# cluster: how long until all have ended, and how the queue and another one can be
# used meanwhile. Prints Markdown tables; keeps nothing.
#
# It needs pgfairq installed in the server of PG_CONFIG, or BUILD=1: then it is
# built and installed into a copy of that server first. BENCH_DIR: where the
# cluster is put (default /var/tmp), with room for 3 GB for a million.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/throwaway.sh"

number=${1:-1000000}
case $number in
	*[!0-9]* | '') usage ;;
esac
throwaway expired

cluster_make "$cluster" "max_connections = 50" "shared_buffers = ${BENCH_SHARED_BUFFERS:-1GB}" \
	"max_wal_size = 16GB" "checkpoint_timeout = 1d" "jit = off" "autovacuum = off"
cluster_start "$cluster"
cluster_psql "$cluster" postgres -c "CREATE EXTENSION pgfairq"
run "$PYTHON" -B "$here/../load/many_expired.py" --conninfo "host=$cluster/socket user=postgres dbname=postgres" \
	--tasks "$number" --hold $((20 + number / 8000)) --patience 600 --markdown
