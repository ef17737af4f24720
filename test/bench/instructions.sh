#!/usr/bin/env bash
# test/bench/instructions.sh [CALL]...
#
# How many instructions the server executes (in user space, counted by
# valgrind's callgrind) for one call of what is hot: claim, ack, enqueue, of one
# task and of a hundred, and beside them a bare round trip and bare statements.
# Unlike a time this is the same on a busy machine as on an idle one, and the
# same tomorrow, so it shows a path that has become heavier by a few percent.
#
# CALL: only those whose name has this in it, for example 'claim'.
# BUILD=1   build this tree into a private copy of the server first; without it
#           pgfairq is to be installed in the server of PG_CONFIG
# SAVE=1    replace test/bench/results/instructions.md and .csv by these
# KEEP=DIR  keep there, for each call, which functions the instructions are in
# QUICK=1   shorter runs for calls of one task; compare only with saved ones of the same length
#
# Prints a table with what the saved results say beside it. It ends with 1 if a
# call has become heavier than these by more than 3 % (another TOLERANCE), and
# they are of the same major version of the server.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/throwaway.sh"

case ${1:-} in
	-*) usage ;;
esac
have valgrind || die "valgrind is missing; on Debian: apt-get install valgrind"
[ -z "${KEEP:-}" ] || KEEP=$(directory "$KEEP")
throwaway instructions 1

# Nothing in the background that would meet a session on its way, and pages that
# are as full as can be, so that two runs execute the same.
cluster_make "$cluster" "max_connections = 20" "shared_buffers = 256MB" "huge_pages = off" "fsync = off" \
	"checkpoint_timeout = 1d" "max_wal_size = 8GB" "jit = off" "autovacuum = off" "bgwriter_lru_maxpages = 0" \
	"track_activities = on" "update_process_title = off"

# Every process of the server leaves its count when it ends.
as_test_user mkdir "$WORK/counts"
as_test_user tee "$WORK/postgres" >/dev/null <<WRAPPER
#!/bin/sh
exec "$(command -v valgrind)" --quiet --tool=callgrind --callgrind-out-file='$WORK/counts/%p' "$BINDIR/postgres" "\$@"
WRAPPER
as_test_user chmod +x "$WORK/postgres"
as_test_user "$BINDIR/pg_ctl" -D "$cluster/data" -l "$cluster/log" -p "$WORK/postgres" -w -t 120 -s start </dev/null

run "$PYTHON" -B "$here/instructions.py" --conninfo "host=$cluster/socket user=postgres dbname=postgres" \
	--counts "$WORK/counts" --results "$here/results" ${SAVE:+--save} ${KEEP:+--keep "$KEEP"} ${QUICK:+--quick} \
	--tolerance "${TOLERANCE:-3}" "$@"
