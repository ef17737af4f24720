#!/usr/bin/env bash
# make cluster-demo: builds pgfairq, makes four nodes with a standby each and two proxies,
# all on this machine and below one directory of /tmp, and runs cluster.py there. Nothing
# stays.
#
#   BOB=2000    so many tasks of bob's (20,000)
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../scripts/common.sh"
. "$(dirname "${BASH_SOURCE[0]}")/../scripts/cluster.sh"

"$CHECKOUT/test/scripts/prerequisites.sh" cluster
find_test_user
find_pg_config || die "no usable PostgreSQL"
find_python || die "no Python with psycopg"

running=
cleanup() {
	local status=$?
	trap - EXIT INT TERM
	if [ -n "$running" ]; then
		kill "$running" 2>/dev/null || true
		wait "$running" 2>/dev/null || true
	fi
	cd /
	stop_clusters_below "$WORK" # of a run that was killed itself
	rm -rf "$WORK"
	exit $status
}
make_work_directory cluster
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

say "pgfairq cluster demo: PostgreSQL $(pg_major "$PG_CONFIG"), as user $TEST_USER, in $WORK"
say
say "Building pgfairq and installing it into a copy of the server ..."
copy_tree "$WORK/tree"
make_private_server "$WORK/root"
if ! build_and_install "$WORK/tree" "$WORK/root" with_llvm=no >"$WORK/build.log" 2>&1; then
	cat "$WORK/build.log" >&2
	die "pgfairq could not be built"
fi
as_test_user mkdir "$WORK/run"
status=0
(EXEC=yes as_test_user "$PYTHON" -B "$WORK/tree/test/demo/cluster.py" "$WORK/run" "$BINDIR" "${BOB:-20000}") </dev/null &
running=$!
wait $running || status=$?
running=
exit $status
