#!/usr/bin/env bash
# make check-patroni: two servers under Patroni, with etcd, configured as
# doc/high-availability.md shows, and clients that see nothing of it but lost
# connections. In each round, in random order: the primary's postmaster is killed;
# it and its Patroni; the same after replication has stalled; and a switchover and
# another one back, each standby restarted before, as for an upgrade. In the end
# each task whose enqueue committed has one result. The blocks of the page are what
# the test runs with; other are only hosts, ports, directories and passwords.
#
#   ROUNDS=n     so many (5, about 20 minutes)
#   SEED=n       the same order of faults again
#   BUILD="…"    variables for make when pgfairq is built
#   PLANT=apart         workers that acknowledge outside of the result's transaction
#   PLANT=asynchronous  synchronous_mode off
#                Both to see the test fail: with the first tasks had two results,
#                with the second answered enqueues and acks were lost.
#
# It is not part of make check, for the time that it takes and for what it installs:
# Debian's patroni and etcd-server, whose services are not started.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
. "$(dirname "${BASH_SOURCE[0]}")/cluster.sh"

read -ra build_variables <<<"${BUILD:-with_llvm=no}"
"$CHECKOUT/test/scripts/prerequisites.sh" check-patroni
find_test_user
find_pg_config || die "no usable PostgreSQL"
find_python || die "no Python with psycopg"

running=
# What the driver has not ended itself: only processes that name our directory.
end_processes() {
	local pid
	[ -f "$WORK/run/pids" ] || return 0
	while read -r pid; do
		if tr '\0' ' ' 2>/dev/null <"/proc/$pid/cmdline" | grep -qF "$WORK"; then
			kill -9 "$pid" 2>/dev/null || true
		fi
	done <"$WORK/run/pids"
}
cleanup() {
	local status=$?
	trap - EXIT INT TERM
	if [ -n "$running" ]; then
		kill "$running" 2>/dev/null || true
		wait "$running" 2>/dev/null || true
	fi
	cd /
	end_processes
	stop_clusters_below "$WORK"
	if [ $status -ne 0 ] && [ -d "$WORK/run" ] && [ -z "${CI:-}" ]; then
		rm -rf "${root:?}"
		warn "Logs, data and journals are in $WORK/run, which may be deleted."
	else
		rm -rf "$WORK" 2>/dev/null || true
	fi
	exit $status
}
make_work_directory patroni
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
tree=$WORK/tree root=$WORK/root

copy_tree "$tree"
make_private_server "$root"
build_and_install "$tree" "$root" "${build_variables[@]}" >"$WORK/build.log" 2>&1 || { cat "$WORK/build.log"; die "it cannot be built"; }
as_test_user mkdir "$WORK/run"

say "PostgreSQL $("$PG_CONFIG" --version | cut -d ' ' -f 2), $(patroni --version), as user $TEST_USER, in $WORK"
status=0
(EXEC=yes as_test_user "$PYTHON" -B "$tree/test/patroni/failovers.py" --work "$WORK/run" --bindir "$BINDIR" \
	--page "$tree/doc/high-availability.md" --rounds "${ROUNDS:-5}" --seed "${SEED:-}" ${PLANT:+--plant "$PLANT"}) </dev/null &
running=$!
wait $running || status=$?
running=
exit $status
