# What make torture, make torture-cluster and make check-patroni have in common: a server of
# their own with pgfairq, a driver that runs there (test/load/driver.py), and that nothing
# stays but the data and logs of a run that failed.  Sourced, not run.
#
# Of the environment: BUILD, variables for make when pgfairq is built; SEED, PLANT and VERBOSE,
# which are given to the driver.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
. "$(dirname "${BASH_SOURCE[0]}")/cluster.sh"

read -ra build_variables <<<"${BUILD:-with_llvm=no}"
running= may=(as_test_user)

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
	stop_clusters_below "$WORK" # of a run that was killed itself
	if [ $status -ne 0 ] && [ -d "$WORK/run" ] && [ -z "${CI:-}" ]; then
		rm -rf "${WORK:?}"/tree* "${WORK:?}"/root*
		warn "Journals, data and the servers' logs are in $WORK/run, which may be deleted."
	else
		rm -rf "$WORK" 2>/dev/null || true
	fi
	exit $status
}

# build TREE ROOT: into a server of its own.
build() {
	make_private_server "$2"
	build_and_install "$1" "$2" "${build_variables[@]}" >"$WORK/build.log" 2>&1 || { cat "$WORK/build.log"; die "it cannot be built for $PG_CONFIG"; }
}

# prepare PURPOSE: all that prerequisites.sh has for it, and $WORK with the tree, built, the clock, and run.
prepare() {
	"$CHECKOUT/test/scripts/prerequisites.sh" "$1"
	find_test_user
	find_pg_config || die "no usable PostgreSQL"
	find_python || die "no Python with psycopg"
	make_work_directory "$1"
	trap cleanup EXIT
	trap 'exit 130' INT
	trap 'exit 143' TERM
	tree=$WORK/tree root=$WORK/root
	copy_tree "$tree"
	build "$tree" "$root"
	as_test_user cc -shared -fPIC -O2 -Wall -Wextra -Werror -o "$WORK/clock.so" "$tree/test/torture/clock.c"
	as_test_user mkdir "$WORK/run"
}

# drive PROGRAM [ARGUMENT]...
drive() {
	local status=0
	say "PostgreSQL $("$PG_CONFIG" --version | cut -d ' ' -f 2), as user $TEST_USER, in $WORK"
	(EXEC=yes "${may[@]}" "$PYTHON" -B "$tree/test/$1" --work "$WORK/run" --bindir "$BINDIR" --clock "$WORK/clock.so" \
		${SEED:+--seed "$SEED"} ${PLANT:+--plant "$PLANT"} ${VERBOSE:+--verbose} "${@:2}") </dev/null &
	running=$!
	wait $running || status=$?
	running=
	exit $status
}
