#!/usr/bin/env bash
# test/bench/relay_table.sh [ROUNDS [ROWS]]
#
# What pgfairq-relay --from-table costs, on TWO throwaway clusters, of which one has no
# pgfairq: rows a second by the size of batches, and the time of a processor for each;
# the latency that it adds; and what becomes of both while a snapshot of the origin is
# held. Prints Markdown tables, with medians of three (or ROUNDS) rounds of 20,000 (or
# ROWS) rows; keeps nothing.
#
# It needs pgfairq installed in the server of PG_CONFIG, or BUILD=1: then it is
# built and installed into a copy of that server first. BENCH_DIR: where the
# clusters are put (default /var/tmp).
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/throwaway.sh"

rounds=${1:-3} rows=${2:-20000}
case $rounds$rows in
	*[!0-9]* | '') usage ;;
esac
load=$(cut -d ' ' -f 1 /proc/loadavg)
throwaway relay-table

origin=$WORK/origin
for one in "$origin" "$cluster"; do
	cluster_make "$one" "max_connections = 50" "shared_buffers = ${BENCH_SHARED_BUFFERS:-256MB}" \
		"checkpoint_timeout = 1d" "max_wal_size = 8GB" "jit = off"
	cluster_start "$one"
done
cluster_psql "$origin" postgres -c "SET client_min_messages = warning" -f "$CHECKOUT/clients/relay/outbox.sql" >/dev/null
cluster_psql "$cluster" postgres -c "CREATE EXTENSION pgfairq" -f "$CHECKOUT/clients/relay/target.sql" \
	-c "SELECT fairq.create_queue('bench', keep_done => '1 h', max_ready_per_group => 1000000)" >/dev/null
run "$PYTHON" -B "$here/relay_table.py" --origin "host=$origin/socket user=postgres dbname=postgres" \
	--target "host=$cluster/socket user=postgres dbname=postgres" --rounds "$rounds" --rows "$rows"
echo
echo "Load of the machine before: $load on $(nproc) cores."
