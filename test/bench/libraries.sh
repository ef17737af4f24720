#!/usr/bin/env bash
# test/bench/libraries.sh [SYSTEM]...
#
# Jobs a second and waits through the libraries (make bench-clients): pgfairq's
# for Node, Python, Go and Celery beside graphile-worker, pg-boss, BullMQ and Celery
# on Redis and RabbitMQ, in one run and in turn. test/bench/README.md says how.
# What cannot be had is left out, and the report says so.
#
# Prints the tables that the figures of doc/performance.md come from.
#
# BUILD=1     build this tree into a private copy of the server first; without
#             it pgfairq is to be installed in the server of PG_CONFIG
# QUICK=1     one round, shorter: less than eight minutes; else forty
# SAVE=1      replace test/bench/results/libraries.md and .csv by these
# KEEP=FILE   keep there all that was measured, as JSON; libraries/report.py
#             makes tables of it
# BENCH_DIR   where the servers are put (default /var/tmp); a real disk
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/throwaway.sh"

case "${1:-}" in -*) usage ;; esac
[ -d "$NODE_PACKAGES/typescript" ] || die "the libraries for Node are missing; make bench-clients installs them"
throwaway libraries 1

cluster_make "$cluster" "max_connections = 800" "shared_buffers = 512MB" "max_wal_size = 20GB" "checkpoint_timeout = 1h" \
	"wal_compression = on" "fsync = on" "synchronous_commit = on"
cluster_start "$cluster"
cluster_psql "$cluster" postgres -c "CREATE EXTENSION pgfairq"

# The library for Node, compiled in a copy: nothing is written to the checkout.
[ -d "$WORK/tree" ] || copy_tree "$WORK/tree"
ln -s "$NODE_PACKAGES" "$WORK/tree/clients/node/node_modules"
(cd "$WORK/tree/clients/node" && node node_modules/typescript/bin/tsc --project tsconfig.json)

run "$PYTHON" -B "$WORK/tree/test/bench/libraries/bench.py" --work "$WORK" --modules "$NODE_PACKAGES" ${QUICK:+--quick} \
	--only "$*" --out "$WORK/measured.json"
[ -z "${KEEP:-}" ] || cp "$WORK/measured.json" "$KEEP"
"$PYTHON" -B "$here/libraries/report.py" "$WORK/measured.json" "$here/results" ${SAVE:+--save}
