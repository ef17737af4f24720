#!/usr/bin/env bash
# Random queries on the functions, views and tables of pgfairq, by sqlsmith.
#
#   sqlsmith.sh [SECONDS [SEED]]
#
# The server is the one that PGHOST and PGPORT name, with the role that may do
# everything there; its log is FUZZ_LOG. Without FUZZ_LOG it is a throwaway
# cluster of the installed server. It fails if a server process crashes, if there
# is an internal error, if too many functions were never reached, or if a task is not what
# it was: sqlsmith rolls back all it does. Each turn gives it more time, since on a busy
# machine its start may take most of SECONDS; the thirty turns may be 140 times SECONDS.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
seconds=${1:-15}
seed=${2:-1}

command -v sqlsmith >/dev/null || { echo "sqlsmith is not installed (Debian: sqlsmith)" >&2; exit 2; }

if [ -z "${FUZZ_LOG:-}" ]; then
	. "$here/../scripts/common.sh"
	. "$here/../scripts/cluster.sh"
	find_pg_config || die "no usable PostgreSQL"
	BINDIR=$("$PG_CONFIG" --bindir)
	trap 'cluster_remove "$WORK/fuzz"; rm -rf "$WORK"' EXIT
	make_work_directory fuzz
	cluster_make "$WORK/fuzz" "log_line_prefix = '%p %e '"
	cluster_start "$WORK/fuzz"
	export PGHOST="$WORK/fuzz/socket" PGUSER=postgres
	FUZZ_LOG=$WORK/fuzz/log
fi

psql=(psql -X -q -A -t -v ON_ERROR_STOP=1)
database=fuzz_sqlsmith
"${psql[@]}" -d postgres -c "DROP DATABASE IF EXISTS $database" -c "CREATE DATABASE $database" 2>/dev/null
"${psql[@]}" -d $database -f "$here/sqlsmith.sql" >/dev/null
before=$(wc -c <"$FUZZ_LOG")
started=$("${psql[@]}" -d $database -c "SELECT pg_postmaster_start_time()")

failures=0
failed() {
	echo "FAILED: $*"
	failures=$((failures + 1))
}

# A claim may wait for as long as sqlsmith thinks of. Not for us. On a slow machine
# even what sqlsmith reads at its start takes longer, so each turn gives more time.
export PGOPTIONS='-c statement_timeout=0'
patience=250

# track_functions counts calls that succeeded.
functions() { # functions COLUMNS
	"${psql[@]}" -d $database -c "
		SELECT $1 FROM pg_proc p LEFT JOIN pg_stat_user_functions s ON s.funcid = p.oid
		WHERE pronamespace = 'fairq'::regnamespace AND pronargs > 0 AND proargnames IS NOT NULL AND proargmodes IS NULL"
}
missing() {
	functions "string_agg(proname, ' ') FILTER (WHERE coalesce(calls, 0) = 0)"
}

# So many may be missed: each needs arguments that are good by chance.
most_missed=20
[ "$seconds" -ge 10 ] || most_missed=1000

for turn in $(seq 0 29); do
	# sqlsmith goes on until it is stopped, and says so with status 130 or 124.
	# It gives up by itself only when the server is gone.
	status=0
	"${psql[@]}" -d $database -c "ALTER DATABASE $database SET statement_timeout = $patience" >/dev/null
	patience=$((patience < 8000 ? 2 * patience : patience))
	output=$(PGOPTIONS='' timeout -s INT -k 10 $((seconds * (4 + turn) / 4)) sqlsmith --exclude-catalog --verbose --seed=$((seed + 1000 * turn)) \
		--target="host=${PGHOST:-} port=${PGPORT:-5432} dbname=$database user=sqlsmith" 2>&1 >/dev/null) || status=$?
	case $status in
	124 | 130) ;;
	*)
		if [[ $output == *"statement timeout"* ]] && [ "$turn" -lt 29 ]; then
			continue
		fi
		failed "sqlsmith ended with status $status: $(printf '%s\n' "$output" | tail -n 3)"
		break
		;;
	esac
	[ "$(missing | wc -w)" -gt $most_missed ] || break
done

"${psql[@]}" -d postgres -c "ALTER DATABASE $database RESET statement_timeout" >/dev/null
for attempt in $(seq 100); do
	"${psql[@]}" -d $database -c "SELECT 1" >/dev/null 2>&1 && break
	sleep 0.1
done
# The last transaction of sqlsmith goes on until its time is over.
for attempt in $(seq 600); do
	[ "$("${psql[@]}" -d postgres -c "SELECT count(*) FROM pg_stat_activity WHERE usename = 'sqlsmith'")" = 0 ] && break
	sleep 0.1
done
new_log=$(tail -c "+$((before + 1))" "$FUZZ_LOG")
crashes=$(printf '%s\n' "$new_log" | grep -E 'was terminated by signal|terminated by exception|PANIC: |TRAP: |reinitializing' || true)
[ -z "$crashes" ] || failed "the server crashed: $crashes"
[ "$started" = "$("${psql[@]}" -d $database -c "SELECT pg_postmaster_start_time()")" ] || failed "the server was restarted"
# With %e in log_line_prefix, SQLSTATE XX000 to XX002: errors that nobody should see.
internal=$(printf '%s\n' "$new_log" | grep -E '(^| )XX[0-9]{3} .*(ERROR|FATAL): ' | sort | uniq -c | head -n 20 || true)
[ -z "$internal" ] || failed "internal errors: $internal"

difference=$("${psql[@]}" -d $database <<'SQL'
CREATE TEMP VIEW now AS SELECT q.queue, t.id, t.state, t.group_key, t.payload, t.attempts, t.address::text FROM fairq.queues q, LATERAL fairq.tasks(q.queue) t;
SELECT 'gone: ' || d FROM (TABLE smith.before EXCEPT TABLE now) d LIMIT 5;
SELECT 'new: ' || d FROM (TABLE now EXCEPT TABLE smith.before) d LIMIT 5;
-- Every lease is still good, every task that was ready can be had.
SELECT 'lease lost: ' || queue || ' ' || id FROM smith.leased WHERE NOT fairq.ack(receipt) LIMIT 5;
CREATE TEMP TABLE got AS SELECT queue, c.id FROM fairq.queues, LATERAL fairq.claim(queue, 100000) c;
SELECT 'not to be had: ' || d FROM (SELECT queue, id FROM smith.before WHERE state = 'ready' EXCEPT TABLE got) d LIMIT 5;
SELECT 'to be had, and should not: ' || d FROM (TABLE got EXCEPT SELECT queue, id FROM smith.before WHERE state = 'ready') d LIMIT 5;
SELECT 'nothing to be had' WHERE NOT EXISTS (SELECT FROM got);
SQL
)
[ -z "$difference" ] || failed "tasks are not what they were: $difference"
reached=$(functions "count(*) FILTER (WHERE calls > 0) || ' of ' || count(*) || ' functions reached, ' || coalesce(sum(calls), 0) || ' calls'")
missed=$(missing)
[ "$(printf '%s' "$missed" | wc -w)" -le $most_missed ] || failed "never reached: $missed"

printf '%s\n' "$output" | grep -E '^queries:|^error rate' || true
echo "seed $seed, $((turn + 1)) turns of $seconds s and more: $reached${missed:+, not: $missed}"
[ "$failures" -eq 0 ]
