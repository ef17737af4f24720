#!/usr/bin/env bash
# test/bench/thousand_schedules.sh [NUMBER [SECONDS]]
#
# A thousand (or NUMBER) schedules with a tick each second, on ten queues of ONE
# throwaway cluster, for 30 (or SECONDS) seconds: what the background worker needs
# of a core, whether there was a task for each tick, and how late. Prints a Markdown
# table; keeps nothing.
#
# It needs pgfairq installed in the server of PG_CONFIG, or BUILD=1: then it is
# built and installed into a copy of that server first. BENCH_DIR: where the
# cluster is put (default /var/tmp).
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/throwaway.sh"

number=${1:-1000} seconds=${2:-30}
case $number$seconds in
	*[!0-9]* | '') usage ;;
esac
throwaway schedules

cluster_make "$cluster" "max_connections = 50" "shared_buffers = ${BENCH_SHARED_BUFFERS:-256MB}" \
	"track_commit_timestamp = on" "checkpoint_timeout = 1d" "max_wal_size = 8GB" "jit = off" "pgfairq.max_schedules = $((number + 10))"
cluster_start "$cluster"
cluster_psql "$cluster" postgres -c "CREATE EXTENSION pgfairq"
PYTHONPATH=$here/../load run "$PYTHON" -B "$here/thousand_schedules.py" --conninfo "host=$cluster/socket user=postgres dbname=postgres" \
	--schedules "$number" --seconds "$seconds"
echo "| load of the machine at the end | $(cut -d ' ' -f 1 /proc/loadavg) on $(nproc) cores |"
