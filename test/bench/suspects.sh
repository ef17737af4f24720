#!/usr/bin/env bash
# test/bench/suspects.sh [ROUNDS [SECONDS]]
#
# What tasks that were lost twice, which run alone, cost the others: sessions that
# always have work, on ONE throwaway cluster, beside 0, 1, 100 and 1,000 suspects.
# Prints a Markdown table: the ordinary tasks a second in ratio to those without
# suspects, and when the last suspect had run, as medians of three (or ROUNDS)
# rounds. Each measurement lasts until the last suspect has run, and for 5 (or
# SECONDS) seconds at least; keeps nothing.
#
# It needs pgfairq installed in the server of PG_CONFIG, or BUILD=1: then it is
# built and installed into a copy of that server first. BENCH_DIR: where the
# cluster is put (default /var/tmp).
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/throwaway.sh"

rounds=${1:-3} seconds=${2:-5}
case $rounds$seconds in
	*[!0-9]* | '') usage ;;
esac
load=$(cut -d ' ' -f 1 /proc/loadavg)
throwaway suspects

cluster_make "$cluster" "max_connections = 50" "shared_buffers = ${BENCH_SHARED_BUFFERS:-256MB}" \
	"checkpoint_timeout = 1d" "max_wal_size = 8GB" "jit = off"
cluster_start "$cluster"
cluster_psql "$cluster" postgres -c "CREATE EXTENSION pgfairq" >/dev/null
run "$PYTHON" -B "$here/suspects.py" --conninfo "host=$cluster/socket user=postgres dbname=postgres" \
	--rounds "$rounds" --seconds "$seconds"
echo
echo "Load of the machine before: $load on $(nproc) cores."
