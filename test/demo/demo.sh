#!/usr/bin/env bash
# make demo: builds pgfairq, starts a throwaway cluster with it, and runs
# demo.py there. The cluster stays, with a dashboard of it; `make demo-clean`
# (demo.sh --clean) stops and deletes both.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../scripts/common.sh"
. "$(dirname "${BASH_SOURCE[0]}")/../scripts/cluster.sh"

# One line: the directory of the cluster left running.
remembered=$CHECKOUT/.demo-cluster

# The process whose number is noted, if it is still a dashboard of this directory.
stop_dashboard() {
	local process
	process=$(cat "$1/dashboard.pid" 2>/dev/null) || return 0
	if tr '\0' ' ' <"/proc/$process/cmdline" 2>/dev/null | grep -qF " $1/tree/clients/node/"; then
		kill "$process" 2>/dev/null || true
	fi
}

# Compiles the dashboard and starts it. False: it does not run.
start_dashboard() {
	local package=$WORK/tree/clients/node
	as_test_user mkdir "$package/node_modules" || return
	tar -c -C "$NODE_PACKAGES" . | as_test_user tar -x -C "$package/node_modules" || return
	(cd "$package" && as_test_user node node_modules/typescript/bin/tsc --project tsconfig.json) || return
	(
		EXEC=yes as_test_user setsid node "$package/dist/dashboard/main.js" --listen 0 \
			"postgresql://postgres@/demo?host=$WORK/cluster/socket" </dev/null >"$WORK/dashboard.log" 2>&1 &
		echo $! >"$WORK/dashboard.pid"
	)
	local patience
	for patience in $(seq 100); do
		dashboard=$(sed -n 's/^pgfairq dashboard: //p' "$WORK/dashboard.log")
		[ -z "$dashboard" ] || return 0
		kill -0 "$(cat "$WORK/dashboard.pid")" 2>/dev/null || break
		sleep 0.1
	done
	cat "$WORK/dashboard.log" >&2
	return 1
}

# Only a directory this script has made is ever deleted.
clean() {
	local directory
	[ -f "$remembered" ] || return 1
	directory=$(cat "$remembered")
	case $directory in
	/tmp/pgfairq-demo.*)
		if [ -d "$directory" ]; then
			[ -O "$directory" ] || [ "$(id -u)" -eq 0 ] || die "$directory belongs to $(stat -c %U "$directory"), who must remove it"
			stop_dashboard "$directory"
			stop_clusters_below "$directory"
			rm -rf "$directory"
		fi
		;;
	esac
	rm -f "$remembered"
	say "The demo's cluster in $directory is stopped and deleted."
}

# stop_clusters_below needs the programs of the server that runs there.
find_programs_below() {
	local program
	program=$(find "$1" -name pg_ctl -path '*/bin/*' -print -quit 2>/dev/null || true)
	BINDIR=${program%/pg_ctl}
}

if [ -f "$remembered" ]; then
	find_programs_below "$(cat "$remembered")"
fi
case ${1:-} in
--clean)
	clean || say "No cluster of a demo is running."
	exit
	;;
"") clean || true ;;
*) die "usage: ${0##*/} [--clean]" ;;
esac

say "pgfairq demo: installs what this machine lacks, builds pgfairq (half a minute on an idle machine) and tries it in a cluster of its own (two minutes)."
"$CHECKOUT/test/scripts/prerequisites.sh" demo
find_test_user
find_pg_config || die "no usable PostgreSQL"
find_python || die "no Python with psycopg"

# What is not finished leaves nothing behind.
finished=no
cleanup() {
	trap - EXIT INT TERM
	cd /
	if [ $finished = no ]; then
		stop_dashboard "$WORK"
		stop_clusters_below "$WORK"
		rm -rf "$WORK" "$remembered"
	fi
}
make_work_directory demo
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
printf '%s\n' "$WORK" >"$remembered" || die "cannot write $remembered"

say "pgfairq demo: PostgreSQL $(pg_major "$PG_CONFIG"), as user $TEST_USER, in $WORK"
say
say "Building pgfairq and installing it into a copy of the server ..."
copy_tree "$WORK/tree"
make_private_server "$WORK/root"
if ! build_and_install "$WORK/tree" "$WORK/root" >"$WORK/build.log" 2>&1; then
	cat "$WORK/build.log" >&2
	die "pgfairq could not be built"
fi
say "Starting a throwaway cluster ..."
cluster_make "$WORK/cluster"
cluster_start "$WORK/cluster" || die "the cluster does not start"
cluster_psql "$WORK/cluster" postgres -c "CREATE DATABASE demo"
cluster_psql "$WORK/cluster" demo -c "CREATE EXTENSION pgfairq"
say

status=0
as_test_user env PGHOST="$WORK/cluster/socket" PGUSER=postgres PGDATABASE=demo PATH="$BINDIR:$PATH" \
	PYTHONPATH="$WORK/tree/clients/python" "$PYTHON" "$WORK/tree/test/demo/demo.py" || status=$?
[ $status -lt 128 ] || exit $status # interrupted
if ! start_dashboard; then
	dashboard="the dashboard does not start"
	status=1
fi
finished=yes
rm -f "$WORK/build.log"

psql=$(command -v psql || echo "$BINDIR/psql")
say
say "The cluster is still running."
say "  connect:  ${psql##/usr/bin/} -h $WORK/cluster/socket -U postgres demo"
say "  look:     TABLE fairq.queue_stats;  TABLE counted LIMIT 5;"
say "  remove:   make demo-clean"
say "  see:      $dashboard"
exit $status
