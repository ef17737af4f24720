#!/usr/bin/env bash
# make check: every test of pgfairq, on throwaway clusters and on a copy of the
# installed PostgreSQL. The last line is the sum over all suites.
#
# Most tests wait rather than compute, so several TAP tests run at a time, those that
# take longest first, and beside them two of the other suites, four when these are done.
# The output of these comes after that of the TAP tests; that they begin and end is said at
# once.
#
#   SUITES="regress tap"     only these (unit regress isolation tap pgtap readme hostile,
#                            and those of the parts, PART_SUITES of common.sh)
#   ATTACKS="schedule_slow"  only these of the suite hostile
#   PROVE_TESTS="test/t/…"   only these TAP tests
#   JOBS=1                   TAP tests at a time (two for each processor)
#   BUILD="with_llvm=no …"   variables for make when pgfairq is built
#   LANES=1                  other suites at a time, beside the TAP tests (two)
#   SLOWER=3                 a suite may take that much longer until it is stopped
#   INSTRUMENT=asan          see instrument.sh
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
. "$(dirname "${BASH_SOURCE[0]}")/cluster.sh"

read -ra build_variables <<<"${BUILD:-}"
ALL_SUITES="unit regress isolation tap pgtap readme hostile $PART_SUITES"
SUITES=${SUITES:-$ALL_SUITES}
JOBS=${JOBS:-$((2 * $(nproc)))}
LANES=${LANES:-2}
# Seconds until a suite is stopped. This is for what hangs: at a load of 25 the longest
# suites take most of it.
LIMIT=3600
have_suite() { # HAVE_SUITE NAME: it is to be run
	case " $SUITES " in *" $1 "*) ;; *) return 1 ;; esac
}
for suite in $SUITES; do
	case " $ALL_SUITES " in
	*" $suite "*) ;;
	*) die "there is no suite '$suite', only $ALL_SUITES" ;;
	esac
done

say "make check: $(wc -w <<<"$SUITES") suites. All of them take 24 minutes on an idle machine with two processors, and as much longer as it is busy: it is at a load of $(cut -d ' ' -f 1 /proc/loadavg), with $(nproc). Before that, what is missing is installed."
"$CHECKOUT/test/scripts/prerequisites.sh" check
find_test_user
find_pg_config || die "no usable PostgreSQL"
find_python || die "no Python with psycopg"

running= # the process of the suite under way
others=  # the process that runs the suites beside it
in_memory= # the directory with the data of the TAP tests' servers, unless it is on the disk
stop_running() {
	local process
	for process in $others $running; do
		kill "$process" 2>/dev/null || true
		wait "$process" 2>/dev/null || true
	done
}
cleanup() {
	trap - EXIT INT TERM
	stop_running
	cd /
	stop_clusters_below "$WORK"
	[ -z "$in_memory" ] || stop_clusters_below "$in_memory"
	if [ "$(sum failed)" -gt 0 ] && [ -z "${CI:-}" ]; then
		rm -rf "${root:?}"
		[ -z "$in_memory" ] || mv "$in_memory" "$WORK/tap-data" || rm -rf "$in_memory"
		warn "What failed has left $(du -sh "$WORK" | cut -f 1) in $WORK: logs, and the data of its servers. It may be deleted."
	else
		rm -rf "$WORK" ${in_memory:+"$in_memory"}
	fi
}
make_work_directory check
summary=$WORK/summary # a line for each suite, from all processes
skips=$WORK/skips     # for each test that was skipped
failures=$WORK/failures # for each that failed; shown last, where one looks first
: >"$summary"
: >"$skips"
: >"$failures"
# Where the tests have their temporary files: PostgreSQL's keep those of a test that failed.
as_test_user mkdir "$WORK/tmp"
[ -z "${INSTRUMENT:-}" ] || . "$CHECKOUT/test/scripts/instrument.sh"
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

tree=$WORK/tree
root=$WORK/root

# --- running and counting ---------------------------------------------------

# The server's test modules note every exchange with a psql in the background;
# those are left to the logs.
hide_exchanges() {
	perl -ne 'BEGIN { $| = 1 }
		$hide = 1 if /^# (connect output:|issuing query \d+ via background psql|results query \d+:)/;
		$hide = 0 if !/^#/;
		print unless $hide;
		$hide = 0 if /^# \}$/'
}

# run_suite NAME SECONDS COMMAND...: shows and counts what the command prints,
# and what it leaves in the directory NAME-results.
# A suite that fails without a failed test, or runs none, is one failure.
run_suite() {
	local name=$1 limit=$2 log=$WORK/$1.log results=$WORK/$1-results status=0 passed failed skipped started=$SECONDS note=
	local files=("$log")
	shift 2
	: >"$log"
	limit=$((limit * ${SLOWER:-1}))
	(EXEC=yes as_test_user TMPDIR="$WORK/tmp" timeout -k 20 "$limit" "$@") </dev/null >"$log" 2>&1 &
	running=$!
	tail -n +1 -s 0.2 -f --pid=$running "$log" | hide_exchanges &
	local shown=$!
	wait $running || status=$?
	running=
	wait $shown || true
	[ ! -d "$results" ] || mapfile -t -O 1 files < <(find "$results" -type f)
	read -r passed failed skipped < <(awk -v LABEL="$name" -v SKIPS="$skips" -v FAILURES="$failures" \
		-f "$CHECKOUT/test/scripts/results.awk" "${files[@]}")
	if [ $status -eq 124 ] || [ $status -eq 137 ]; then
		note="stopped after $limit s"
	elif [ $status -ne 0 ] && [ "$failed" -eq 0 ]; then
		note="exit code $status"
	elif [ $((passed + failed)) -eq 0 ]; then
		note="no test was run"
	fi
	if [ -n "$note" ]; then
		failed=$((failed + 1))
		say "$name: $note" | tee -a "$failures"
	fi
	record "$name" "$passed" "$failed" "$skipped" $((SECONDS - started))
	[ "$failed" -eq 0 ]
}

record() { # record SUITE PASSED FAILED SKIPPED SECONDS
	printf '%-10s %5d passed %4d failed %4d skipped %5d s\n' "$@" >>"$summary"
}

sum() { # sum passed|failed|skipped
	awk -v what="$1" '{ for (i = 2; i <= NF; i++) if ($i == what) sum += $(i - 1) } END { print sum + 0 }' "$summary"
}

heading() { printf '\n=== %s\n\n' "$*"; }

# To who looks on, also from a suite whose output is kept for later.
exec 3>&1
progress() { printf '[%(%H:%M:%S)T] %s\n' -1 "$*" >&3; }

# suite_cluster NAME [LINE OF postgresql.conf]...: a cluster of its own for a suite. Its
# log is about the server: the errors that tests provoke are in their results.
suite_cluster() {
	cluster_make "$WORK/$1" "fsync = off" "max_prepared_transactions = 10" \
		"log_min_messages = log" "log_line_prefix = '%m [%p] %q%a '" "${@:2}" &&
		cluster_start "$WORK/$1"
}

# suite_end NAME: a server process that died is a failure even when every
# answer was right.
suite_end() {
	local log=$WORK/$1/log
	cluster_stop "$WORK/$1" || true
	if grep -E 'PANIC:|TRAP:|was terminated by signal' "$log" >/dev/null; then
		say "$1: a server process died"
		record "$1 server" 0 1 0 0
		cluster_log "$WORK/$1"
	fi
	rm -rf "${WORK:?}/$1/data"
}

installcheck() { # installcheck NAME SECONDS MAKE-ARGUMENT...
	local name=$1 limit=$2
	shift 2
	run_suite "$name" "$limit" env PGHOST="$WORK/$name/socket" PGUSER=postgres \
		FAIRQ_PYTHON="$PYTHON" FAIRQ_INCLUDES="$("$PG_CONFIG" --includedir-server)" \
		make -s --no-print-directory -C "$tree" installcheck PG_CONFIG="$PRIVATE_CONFIG" "$@"
}

show_diffs() {
	if [ -s "$tree/regression.diffs" ]; then
		head -n 400 "$tree/regression.diffs"
		mv "$tree/regression.diffs" "$WORK/$1.diffs"
	fi
}

# --- the suites -------------------------------------------------------------
# Each answers false only when it could not be run at all.

# The TAP tests that take longest, the longest of them first.
LONGEST="cluster_simulation engine_fuzz engine_held_commits engine_shares cluster_checker limits_lines limits_groups engine_late_rows
	limits_shared_memory time_archive faults_durable_leases engine_fair_order limits_overflow limits_settings_commit
	engine_model limits_shares_of_overflow faults_kills cluster_same_results cluster_relay cluster_relay_table cluster_relay_table_faults
	cluster_relay_table_flood cluster_relay_table_stuck"

suite_unit() {
	local why status=0
	why=$(PG_CONFIG="$PG_CONFIG" timeout 300 "$CHECKOUT/test/scripts/indent.sh" --get 2>&1 | tail -n 1) || status=$?
	[ $status -ne 124 ] || why="there is no pgindent: its source did not come within 300 s"
	run_suite unit "$LIMIT" env PG_CONFIG="$PG_CONFIG" FAIRQ_PYTHON="$PYTHON" INDENT_TOOLS="${INDENT_TOOLS:-$CACHE/indent}" \
		INDENT_MISSING="$why" \
		"$tree/test/unit/run.sh"
	return 0
}

suite_regress() {
	suite_cluster regress || return
	if ! installcheck regress "$LIMIT" ISOLATION= TAP_TESTS=; then
		show_diffs regress
		cluster_log "$WORK/regress"
	fi
	suite_end regress
}

suite_isolation() {
	suite_cluster isolation || return
	if ! installcheck isolation "$LIMIT" REGRESS= TAP_TESTS=; then
		show_diffs isolation
		cluster_log "$WORK/isolation"
	fi
	suite_end isolation
}

# Those that take longest come first, so that none of them is left alone at the end.
tap_tests() {
	(cd "$tree" && for name in $LONGEST; do echo "test/t/$name.pl"; done && ls test/t/*.pl) | awk '!seen[$0]++' | xargs
}

# Each server of the TAP tests begins with a thousand new files, which takes a disk many
# times as long as memory. So their data is there, where there is enough of it.
data_in_memory() {
	local room=$((2 * 1024 * 1024 * JOBS)) free available # in kB
	[ "$(stat -f -c %T /dev/shm 2>/dev/null)" = tmpfs ] || return
	free=$(df -k --output=avail /dev/shm | tail -n 1)
	available=$(awk '$1 == "MemAvailable:" { print $2 }' /proc/meminfo)
	[ "$free" -ge $room ] && [ "${available:-0}" -ge $room ] &&
		in_memory=$(as_test_user mktemp -d /dev/shm/pgfairq-check.XXXXXX)
}

suite_tap() {
	data_in_memory || in_memory=
	# The tests' own output of several at a time is readable only by file.
	as_test_user mkdir "$WORK/tap-results"
	if ! PERL_TEST_HARNESS_DUMP_TAP=$WORK/tap-results FAIRQ_DATA=$in_memory \
		installcheck tap $((2 * LIMIT)) REGRESS= ISOLATION= PROVE_FLAGS="--timer --jobs=$JOBS" \
		PROVE_TESTS="${PROVE_TESTS:-$(tap_tests)}"; then
		show_failed_tap_tests
	fi
	return 0
}

# prove names the programs that failed at the end, "test/t/001_x.pl (Wstat: …",
# but for one that stopped everything.
show_failed_tap_tests() {
	local program log
	{
		sed -n 's,^\(test/t/[^ ]*\.pl\) *(Wstat.*,\1,p' "$WORK/tap.log"
		grep -rlE '^Bail out!' "$WORK/tap-results" | sed "s,^$WORK/tap-results/,,"
	} | sort -u | while read -r program; do
		for log in "$WORK/tap-results/$program" "$tree"/tmp_check/log/*"$(basename "$program" .pl)"*; do
			say "--- the last lines of $log"
			tail -n 60 "$log"
		done
		# each line begins with "[12:34:56.789](0.123s) "
		grep -h -A 12 '#  *Failed test' "$tree/tmp_check/log/regress_log_$(basename "$program" .pl)" |
			sed -E 's/^\[[^]]*\]\([^)]*\) *//; s/^# */    /' | cut -c 1-600 | head -n 40 >>"$failures" || true
	done
}

# Each file of test/pgtap has a database of its own with both extensions.
suite_pgtap() {
	suite_cluster pgtap || return
	cluster_psql "$WORK/pgtap" postgres -c "CREATE DATABASE pgtap_template" &&
		cluster_psql "$WORK/pgtap" pgtap_template -c "CREATE EXTENSION pgtap" -c "CREATE EXTENSION pgfairq" || return
	run_suite pgtap "$LIMIT" env PGHOST="$WORK/pgtap/socket" PGUSER=postgres PATH="$BINDIR:$PATH" bash -c '
		cd "$1" || exit
		status=0
		for file in test/pgtap/*.sql; do
			[ -e "$file" ] || continue
			database=pgtap_$(basename "$file" .sql)
			createdb -T pgtap_template "$database" &&
				pg_prove -v --timer -d "$database" "$file" || status=1
		done
		exit $status' pgtap "$tree" || cluster_log "$WORK/pgtap"
	suite_end pgtap
}

# Go keeps what it has compiled, by the content of all that went into it: most of that is Go's
# own library, with the race detector. It removes what was not used for days.
keep_go_cache() {
	export GOCACHE=$CACHE/go
	mkdir -p "$GOCACHE" 2>/dev/null && { [ "$(id -u)" -ne 0 ] || chown "$TEST_USER" "$GOCACHE"; } &&
		as_test_user test -w "$GOCACHE" || export GOCACHE=$WORK/go
}

# What came from npm, where the test user can read it.
copy_node_packages() {
	[ -d "$NODE_PACKAGES" ] && [ ! -d "$WORK/node_modules" ] || return 0
	as_test_user mkdir -p "$WORK/node_modules"
	tar -c -C "$NODE_PACKAGES" . | as_test_user tar -x -C "$WORK/node_modules"
}

suite_readme() {
	suite_cluster readme || return
	copy_node_packages
	run_suite readme "$LIMIT" env PGHOST="$WORK/readme/socket" PGUSER=postgres PGDATABASE=app PATH="$BINDIR:$PATH" \
		NODE_PATH="$WORK/node_modules:$NODE_PATH" \
		"$tree/test/scripts/readme.sh" "$PYTHON" "$tree" || cluster_log "$WORK/readme"
	suite_end readme
}

# Few entries of groups, which attacks use up.
suite_hostile() {
	suite_cluster hostile "pgfairq.max_groups = 16384" || return
	run_suite hostile "$LIMIT" "$PYTHON" "$tree/test/hostile/hostile.py" "$BINDIR" "$WORK/hostile" ${ATTACKS:-} || cluster_log "$WORK/hostile"
	suite_end hostile
}

# suite_part NAME: with a server of its own, which it may restart and kill.
suite_part() {
	local name=$1
	suite_cluster "$name" || return
	copy_node_packages
	as_test_user mkdir "$WORK/$name-tmp"
	run_suite "$name" "$LIMIT" env PGHOST="$WORK/$name/socket" PGUSER=postgres PGDATABASE=postgres PATH="$BINDIR:$PATH" \
		TMPDIR="$WORK/$name-tmp" FAIRQ_CHECKOUT="$tree" FAIRQ_CLUSTER="$WORK/$name" FAIRQ_PYTHON="$PYTHON" \
		FAIRQ_PG_CONFIG="$PRIVATE_CONFIG" FAIRQ_NODE_MODULES="$WORK/node_modules" NODE_PATH="$WORK/node_modules:$NODE_PATH" \
		"$tree/${PART_DIRECTORIES[$name]}/run" || cluster_log "$WORK/$name"
	suite_end "$name"
}

# run_suites SUITE...: one after another
run_suites() {
	local suite run directory
	for suite in "$@"; do
		progress "$suite begins"
		heading "$suite"
		case " $PART_SUITES " in
		*" $suite "*) run="suite_part $suite" ;;
		*) run=suite_$suite ;;
		esac
		if ! $run 3>&-; then
			record "$suite" 0 1 0 0
		fi
		directory=$WORK/$suite
		[ "$suite" != tap ] || directory=$tree/tmp_check
		[ ! -d "$directory" ] || stop_clusters_below "$directory"
		[ "$suite" != tap ] || [ -z "$in_memory" ] || stop_clusters_below "$in_memory"
		progress "$suite ends:$(sed -n "s/^$suite .* \([0-9]* passed\)/ \1/p" "$summary" | tr -s ' ')"
	done
}

# How many suites at a time, beside TAP tests or without.
lanes() {
	[ -e "$WORK/tap-ended" ] && echo $((2 * LANES)) || echo "$LANES"
}

# run_lanes SUITE...: LANES of them at a time, the output of each in a file of its own
run_lanes() {
	local suite
	trap 'kill $(jobs -p) 2>/dev/null; wait; exit 143' TERM
	for suite in "$@"; do
		while [ "$(jobs -rp | wc -l)" -ge "$(lanes)" ]; do
			wait -n || true
		done
		(
			trap 'stop_running; exit 143' TERM
			run_suites "$suite"
		) >"$WORK/$suite.output" 2>&1 &
	done
	wait
}

# --- all of it --------------------------------------------------------------

say "PostgreSQL $("$PG_CONFIG" --version | cut -d ' ' -f 2) of $("$PG_CONFIG" --bindir), as user $TEST_USER, in $WORK"

# As many warnings as the compiler has are errors here. What is released under a version
# must say that version everywhere.
same_version() {
	"$PYTHON" - "$CHECKOUT" <<'PYTHON'
import json, re, sys
meta = json.load(open(sys.argv[1] + "/META.json"))
versions = {meta["version"]}
for name, provided in meta["provides"].items():
    with open(f"{sys.argv[1]}/{name}.control") as control:
        versions.add(re.search(r"^default_version *= *'(.*)'", control.read(), re.M)[1])
    versions |= {provided["version"], re.fullmatch(f"sql/{name}--(.*)\\.sql", provided["file"])[1]}
if len(versions) > 1:
    sys.exit(f"META.json and the control files name different versions: {', '.join(sorted(versions))}")
PYTHON
}

# clang's, which makes the bitcode, are no errors.
no_warning() {
	! grep 'warning:' "$WORK/build.log"
}

# What install has put there, uninstall takes away, with the directories that are ours.
leaves_nothing() {
	local elsewhere=$WORK/elsewhere how=(make -s -C "$tree" PG_CONFIG="$PG_CONFIG" DESTDIR="$WORK/elsewhere" "${build_variables[@]}") left
	as_test_user "${how[@]}" install >/dev/null && as_test_user "${how[@]}" uninstall >/dev/null || return
	# the server itself may be below a directory of that name, that of check-assert is
	left=$(find "$elsewhere" ! -type d -o -name '*pgfairq*' |
		awk -v server="$elsewhere$("$PG_CONFIG" --bindir)/" 'index(server, $0 "/") != 1')
	rm -rf "$elsewhere"
	[ -z "$left" ] || { say "make uninstall has left: $left"; return 1; }
}

progress "build begins"
heading "build"
copy_tree "$tree"
make_private_server "$root"
passed=0
if build_and_install "$tree" "$root" WERROR=1 "${build_variables[@]}" >"$WORK/build.log" 2>&1; then
	passed=1
	for check in no_warning same_version leaves_nothing; do
		if $check; then passed=$((passed + 1)); fi
	done
	[ $passed -lt 4 ] || say "built and installed without a warning"
	record build $passed $((4 - passed)) 0 $SECONDS
else
	cat "$WORK/build.log"
	record build 0 1 0 $SECONDS
	build_and_install "$tree" "$root" "${build_variables[@]}" >"$WORK/build.log" 2>&1 || true # a warning need not stop the tests
fi
if [ -f "$root$("$PG_CONFIG" --pkglibdir)/pgfairq.so" ]; then
	keep_go_cache
	[ -z "${INSTRUMENT:-}" ] || instrument_server "$BINDIR" "$tree"
	if have_suite tap && [ "$SUITES" != tap ]; then
		# those that take longest first
		beside=()
		for suite in hostile dashboard celery python conformance node go ruby readme packaging $ALL_SUITES; do
			if have_suite "$suite" && [ "$suite" != tap ] && [[ " ${beside[*]} " != *" $suite "* ]]; then beside+=("$suite"); fi
		done
		say "beside the TAP tests, and shown after them: ${beside[*]}"
		copy_node_packages
		run_lanes "${beside[@]}" &
		others=$!
		run_suites tap
		: >"$WORK/tap-ended"
		[ -z "$(jobs -rp)" ] || progress "waiting for the other suites"
		wait $others || true
		others=
		for suite in "${beside[@]}"; do
			[ ! -f "$WORK/$suite.output" ] || cat "$WORK/$suite.output"
			grep -q "^$suite " "$summary" || record "$suite" 0 1 0 0
		done
	else
		run_suites $SUITES
	fi
else
	say "no library, no tests"
fi

if [ -n "${INSTRUMENT:-}" ]; then
	heading "findings"
	instrument_report "$tree"
	record "findings" 0 "$FOUND" 0 0
fi
if [ -s "$skips" ]; then
	heading "skipped"
	sort -u "$skips"
fi
heading "summary ($SECONDS s)"
cat "$summary"
cat "$failures"
say "$(sum passed) passed, $(sum failed) failed, $(sum skipped) skipped"
[ "$(sum failed)" -eq 0 ]
