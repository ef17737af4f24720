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
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/../scripts/common.sh"
. "$here/../scripts/cluster.sh"

minutes=${1:-10} held=${2:-120}
case $minutes$held in
	*[!0-9.]* | '') sed -n '2,15s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; exit 2 ;;
esac
[ -n "${PG_CONFIG:-}" ] || find_pg_config || die "no usable PostgreSQL (set PG_CONFIG)"
find_python || die "no Python with psycopg"

# Not /tmp, which may be a tmpfs: there fsync costs nothing.
WORK=$(mktemp -d "${BENCH_DIR:-/var/tmp}/pgfairq-soak.XXXXXX")
[ "$(id -u)" -ne 0 ] || chown "$TEST_USER" "$WORK"
cluster=$WORK/cluster
BINDIR=$("$PG_CONFIG" --bindir)

cleanup() {
	local status=$?
	trap - EXIT
	cd /
	[ "$status" -le 1 ] || cluster_log "$cluster" 15 >&2
	cluster_stop "$cluster" immediate || true
	rm -rf "$WORK"
	exit "$status"
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
cd "$WORK"

if [ -n "${BUILD:-}" ]; then
	copy_tree "$WORK/tree"
	make_private_server "$WORK/root"
	build_and_install "$WORK/tree" "$WORK/root" with_llvm=no >"$WORK/build.log" 2>&1 ||
		{ cat "$WORK/build.log" >&2; die "it cannot be built"; }
fi

cluster_make "$cluster" "max_connections = 50" "shared_buffers = ${BENCH_SHARED_BUFFERS:-512MB}" \
	"max_wal_size = 4GB" "jit = off" "autovacuum_naptime = 10s" "pgfairq.sweep_interval = 5s"
cluster_start "$cluster"
cluster_psql "$cluster" postgres -c "CREATE EXTENSION pgfairq"
export PGHOST=$cluster/socket PGPORT=5432 PGUSER=postgres PGDATABASE=postgres
unset PGOPTIONS PGSERVICE PGPASSWORD PGHOSTADDR
"$PYTHON" -B "$here/soak.py" --bindir "$BINDIR" --data "$cluster/data" --work "$WORK" --minutes "$minutes" \
	--held "$held" ${RESULTS:+--results "$RESULTS"}
