# One throwaway cluster, in a directory that is gone when the script has ended.
# Sourced by the scripts beside it, which say in their heads how they are used.
#
#   PG_CONFIG   the server; pgfairq has to be installed there
#   BUILD=1     builds this tree and installs it into a copy of that server first
#   BENCH_DIR   where the directory is made (default /var/tmp)
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/../scripts/common.sh"
. "$here/../scripts/cluster.sh"

# The head of the script that was started.
usage() {
	awk 'NR > 1 && !/^#/ { exit } NR > 1 { sub(/^# ?/, ""); print }' "$0"
	exit 2
}

# The absolute path of a directory, which is made if there is none.
directory() {
	mkdir -p "$1" && (cd "$1" && pwd)
}

# throwaway NAME [STATUS]: sets BINDIR and PYTHON, makes WORK and goes there, and
# has it removed at the end, with what runs in it. "$cluster" is to be made with
# cluster_make, and is where psql and libpq go. An end with more than STATUS (0)
# shows the server's log, unless it is an interruption.
throwaway() {
	local name=$1
	harmless=${2:-0} child=
	if [ -n "${BUILD:-}" ]; then
		find_pg_config || die "no usable PostgreSQL (set PG_CONFIG)"
	else
		# A server that was chosen need not be one to build with.
		[ -n "${PG_CONFIG:-}" ] || find_pg_config || die "no usable PostgreSQL (set PG_CONFIG)"
		[ -f "$("$PG_CONFIG" --pkglibdir)/pgfairq.so" ] ||
			die "pgfairq is not installed in $("$PG_CONFIG" --pkglibdir): make install, or set BUILD=1"
	fi
	find_python || die "no Python with psycopg"
	BINDIR=$("$PG_CONFIG" --bindir)
	[ -x "$BINDIR/pgbench" ] || die "$BINDIR/pgbench is missing"

	# Not /tmp, which may be a tmpfs: there fsync costs nothing.
	WORK=$(mktemp -d "${BENCH_DIR:-/var/tmp}/pgfairq-$name.XXXXXX")
	cluster=$WORK/cluster
	trap cleanup EXIT
	trap 'exit 130' INT
	trap 'exit 143' TERM
	[ "$(id -u)" -ne 0 ] || chown "$TEST_USER" "$WORK"
	cd "$WORK"

	if [ -n "${BUILD:-}" ]; then
		copy_tree "$WORK/tree"
		make_private_server "$WORK/root"
		build_and_install "$WORK/tree" "$WORK/root" with_llvm=no >"$WORK/build.log" 2>&1 ||
			{ cat "$WORK/build.log" >&2; die "it cannot be built"; }
	fi
	export PGHOST=$cluster/socket PGPORT=5432 PGUSER=postgres PGDATABASE=postgres
	unset PGOPTIONS PGSERVICE PGPASSWORD PGHOSTADDR
}

# Runs a program to its end; in the background, for a signal to this script would otherwise wait until then.
run() {
	local status=0
	"$@" &
	child=$!
	wait "$child" || status=$?
	child=
	return "$status"
}

cleanup() {
	local status=$?
	trap - EXIT
	trap '' INT TERM
	cd /
	# it ends what it started, and the sessions of its clients with it
	if [ -n "$child" ]; then
		kill "$child" 2>/dev/null || true
		wait "$child" 2>/dev/null || true
	fi
	[ "$status" -le "$harmless" ] || [ "$status" -ge 128 ] || cluster_log "$cluster" 15 >&2
	stop_clusters_below "$WORK"
	# a server under valgrind writes its counts when it has ended already
	rm -rf "$WORK" 2>/dev/null || { sleep 2; rm -rf "$WORK"; }
	exit "$status"
}
