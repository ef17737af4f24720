#!/usr/bin/env bash
# test/bench/million_keys.sh [NUMBER]
#
# A million (or NUMBER) remembered keys of one queue, on ONE throwaway cluster: how
# many instructions an enqueue with a key, and one without, takes there and in a
# queue that has none (counted as instructions.sh does it), and how fast they are
# forgotten when the time of all is over. Prints a Markdown table; keeps nothing.
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
have valgrind || die "valgrind is missing; on Debian: apt-get install valgrind"
throwaway keys

cluster_make "$cluster" "max_connections = 20" "shared_buffers = ${BENCH_SHARED_BUFFERS:-512MB}" "huge_pages = off" \
	"checkpoint_timeout = 1d" "max_wal_size = 16GB" "jit = off" "autovacuum = off"
cluster_start "$cluster"
cluster_psql "$cluster" postgres -c "CREATE EXTENSION pgfairq"
step() {
	PYTHONPATH=$here/../load run "$PYTHON" -B "$here/million_keys.py" "$1" \
		"host=$cluster/socket user=postgres dbname=postgres" "$number" "${@:2}"
}

step fill
cluster_stop "$cluster"
as_test_user mkdir "$WORK/counts"
as_test_user tee "$WORK/postgres" >/dev/null <<WRAPPER
#!/bin/sh
exec "$(command -v valgrind)" --quiet --tool=callgrind --callgrind-out-file='$WORK/counts/%p' "$BINDIR/postgres" "\$@"
WRAPPER
as_test_user chmod +x "$WORK/postgres"
as_test_user "$BINDIR/pg_ctl" -D "$cluster/data" -l "$cluster/log" -p "$WORK/postgres" -w -t 120 -s start </dev/null
step count "$WORK/counts"
cluster_stop "$cluster"
cluster_start "$cluster"
step forget
echo "| load of the machine at the end | $(cut -d ' ' -f 1 /proc/loadavg) on $(nproc) cores |"
