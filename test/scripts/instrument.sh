# What check.sh does with INSTRUMENT=assert|asan|valgrind, which the goals of
# these names set: it has the server of the tests run under the instrument, and
# counts what that has found. Sourced by check.sh.
#
# The instrument writes to files of its own, one for each process, so that what
# it finds is counted also where a test passes and where no test looks.

case $INSTRUMENT in
assert | asan | valgrind) ;;
*) die "there is no instrument '$INSTRUMENT', only assert, asan and valgrind" ;;
esac
FINDINGS=$WORK/findings
as_test_user mkdir "$FINDINGS"

# Puts a script in the place of the server's program below a directory. Only
# servers are instrumented: not initdb's, which takes long and loads no library,
# and not what answers a question and ends.
instrument_server() { # instrument_server BINDIR TREE
	local bindir=$1 tree=$2 how library
	case $INSTRUMENT in
	assert) return ;;
	asan)
		# A server forgets memory at its end by design, so leaks are not looked for. Its
		# own guess how deep the stack is needs locals to be on that stack.
		library=$("$("$PG_CONFIG" --cc | cut -d ' ' -f 1)" -print-file-name=libasan.so)
		how="LD_PRELOAD='$library' \
ASAN_OPTIONS='log_path=$FINDINGS/asan:detect_leaks=0:detect_stack_use_after_return=0:abort_on_error=1:disable_coredump=1:print_stacktrace=1' \
UBSAN_OPTIONS='log_path=$FINDINGS/asan:print_stacktrace=1' exec"
		;;
	valgrind)
		how="exec valgrind --quiet --log-file='$FINDINGS/valgrind.%p' --error-markers=FINDING,END-OF-FINDING --leak-check=no \
--num-callers=30 --gen-suppressions=all --suppressions='$tree/test/scripts/valgrind.supp'"
		;;
	esac
	as_test_user mv "$bindir/postgres" "$bindir/postgres-bare"
	as_test_user tee "$bindir/postgres" >/dev/null <<-SCRIPT
		#!/bin/sh
		for argument; do
			case \$argument in
			--boot | --single | --check | --describe-config | --version | --help | -V | -C) exec '$bindir/postgres-bare' "\$@" ;;
			esac
		done
		$how '$bindir/postgres-bare' "\$@"
	SCRIPT
	# A server notes the program that it is, which pg_ctl restarts: it is to be the script.
	as_test_user mv "$bindir/pg_ctl" "$bindir/pg_ctl-bare"
	as_test_user tee "$bindir/pg_ctl" >/dev/null <<-SCRIPT
		#!/bin/bash
		directory=\$PGDATA
		for ((i = 1; i < \$#; i++)); do
			next=\$((i + 1))
			if [ "\${!i}" = -D ]; then directory=\${!next}; fi
		done
		if [ -f "\$directory/postmaster.opts" ]; then
			sed -i 's,/postgres-bare,/postgres,' "\$directory/postmaster.opts"
		fi
		exec '$bindir/pg_ctl-bare' "\$@"
	SCRIPT
	as_test_user chmod 0755 "$bindir/postgres" "$bindir/pg_ctl"
}

# One line for each finding: what and where it is. An assertion that does not
# hold is one whatever the instrument is.
list_findings() { # list_findings TREE
	{ grep -rhaoE 'TRAP: .*' "$1/tmp_check/log" "$WORK"/*/log 2>/dev/null || true; } | sed -E 's/,? *PID: [0-9]+//'
	case $INSTRUMENT in
	asan) grep -rhE 'runtime error:|^SUMMARY: AddressSanitizer' "$FINDINGS" ;;
	valgrind)
		# what it is, and the first functions of its stack, without addresses
		find "$FINDINGS" -type f -exec awk '
			/FINDING/ && !/END-OF-FINDING/ { inside = 1; words = ""; frames = 0; next }
			/END-OF-FINDING/ { if (inside) print words; inside = 0; next }
			!inside || /[{}]/ { if (/{/) frames = 9; next }
			{ sub(/^==[0-9]+== */, "") }
			words == "" { words = $0; next }
			/(at|by) 0x/ && frames < 4 { sub(/.*0x[0-9A-F]+: /, ""); words = words " < " $0; frames++ }' {} \;
		;;
	esac
}

# Shows the findings; the last line is their number.
instrument_report() { # instrument_report TREE
	list_findings "$1" | sort | uniq -c | sort -rn >"$WORK/findings.txt" || true
	FOUND=$(awk '{ n += $1 } END { print n + 0 }' "$WORK/findings.txt")
	head -n 100 "$WORK/findings.txt"
	say "$INSTRUMENT: $FOUND findings, $(wc -l <"$WORK/findings.txt") different ones"
}
