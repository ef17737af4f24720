#!/usr/bin/env bash
# make bench: builds pgfairq into a copy of the installed PostgreSQL and takes
# the measurements of test/bench/run.sh there, which explains the arguments.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

"$CHECKOUT/test/scripts/prerequisites.sh" bench
find_pg_config || die "no usable PostgreSQL"
find_python || die "no Python with psycopg"

bench=
cleanup() {
	trap '' INT TERM
	if [ -n "$bench" ]; then
		kill "$bench" 2>/dev/null || true
		wait "$bench" 2>/dev/null || true
	fi
	cd /
	rm -rf "$WORK"
}
make_work_directory bench
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

copy_tree "$WORK/tree"
make_private_server "$WORK/root"
if ! build_and_install "$WORK/tree" "$WORK/root" >"$WORK/build.log" 2>&1; then
	cat "$WORK/build.log" >&2
	die "pgfairq could not be built"
fi

# In the background, so that a signal to this script need not wait until it has ended by itself.
PG_CONFIG=$PRIVATE_CONFIG PYTHON=$PYTHON "$CHECKOUT/test/bench/run.sh" ${QUICK:+quick} "$@" &
bench=$!
status=0
wait "$bench" || status=$?
bench=
exit "$status"
