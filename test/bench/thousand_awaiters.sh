#!/usr/bin/env bash
# test/bench/thousand_awaiters.sh [NUMBER [ROUNDS]]
#
# A thousand (or NUMBER) sessions that await a task each, on ONE throwaway cluster:
# how long from the end of an ack until the one that awaits the task has its row,
# and the same when one statement acknowledges all of them. Prints a Markdown table
# with a row for each of three (or ROUNDS) rounds, in microseconds; keeps nothing.
#
# It needs pgfairq installed in the server of PG_CONFIG, or BUILD=1: then it is
# built and installed into a copy of that server first. BENCH_DIR: where the
# cluster is put (default /var/tmp).
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/throwaway.sh"

number=${1:-1000} rounds=${2:-3}
case $number$rounds in
	*[!0-9]* | '') usage ;;
esac
load=$(cut -d ' ' -f 1 /proc/loadavg) # the sessions' start raises it
throwaway awaiters
ulimit -n $((number + 500))

cluster_make "$cluster" "max_connections = $((number + 20))" "shared_buffers = ${BENCH_SHARED_BUFFERS:-256MB}" "jit = off"
cluster_start "$cluster"
cluster_psql "$cluster" postgres -c "CREATE EXTENSION pgfairq" -c "SELECT fairq.create_queue('many', keep_done => '1 h')" >/dev/null
echo "| $number sessions | median | 99 % | last | wrong answers |"
echo "|---|---:|---:|---:|---:|"
for _ in $(seq "$rounds"); do
	for how in "many:one ack each" "burst:one statement for all"; do
		arguments=("${how%%:*}" "host=$cluster/socket user=postgres dbname=postgres" "$number")
		[ "${how%%:*}" = burst ] || arguments+=(1 1)
		run "$PYTHON" -B "$here/../load/awaiters.py" "${arguments[@]}" >"$WORK/facts"
		"$PYTHON" -c 'import json, sys
facts = json.load(open(sys.argv[1]))
print("| %s | %d | %d | %d | %d |" % (*sys.argv[2:], facts["p50"], facts["p99"], facts["last"], len(facts["wrong"])))' \
			"$WORK/facts" "${how#*:}"
	done
done
echo "| load of the machine before | $load on $(nproc) cores | | | |"
