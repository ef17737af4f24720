# Throwaway clusters. Sourced, after common.sh; needs BINDIR, the directory of
# the server's programs.
#
# A cluster is a directory with its data, its log and its socket. It listens on
# that socket only, and only its owner can get at the socket, so that it needs
# no password and no port, and cannot be mistaken for a cluster of the user's.

# cluster_make DIRECTORY [LINE OF postgresql.conf]...
cluster_make() {
	local directory=$1 line
	shift
	as_test_user mkdir -m 0700 "$directory" "$directory/socket" || return
	as_test_user "$BINDIR/initdb" -D "$directory/data" -U postgres -A trust -E UTF8 --no-locale --no-sync \
		>"$directory.initdb" 2>&1 || { cat "$directory.initdb" >&2; return 1; }
	rm -f "$directory.initdb"
	for line in "listen_addresses = ''" "unix_socket_directories = '$directory/socket'" \
		"shared_preload_libraries = 'pgfairq'" "$@"; do
		printf '%s\n' "$line"
	done | as_test_user tee -a "$directory/data/postgresql.conf" >/dev/null
}

cluster_start() {
	local directory=$1
	if ! as_test_user "$BINDIR/pg_ctl" -D "$directory/data" -l "$directory/log" -w -t "${PGCTLTIMEOUT:-60}" -s start </dev/null; then
		cluster_log "$directory"
		return 1
	fi
}

cluster_stop() {
	local directory=$1 mode=${2:-fast}
	[ -f "$directory/data/postmaster.pid" ] || return 0
	as_test_user "$BINDIR/pg_ctl" -D "$directory/data" -m "$mode" -w -t "${PGCTLTIMEOUT:-60}" -s stop </dev/null
}

cluster_remove() {
	cluster_stop "$1" fast || cluster_stop "$1" immediate || true
	rm -rf "$1"
}

# Stops whatever server still runs with its data somewhere below a directory.
stop_clusters_below() {
	local pidfile data
	# directories may vanish while it looks
	{ find "$1" -name postmaster.pid -print 2>/dev/null || true; } | while read -r pidfile; do
		data=$(dirname "$pidfile")
		as_test_user "$BINDIR/pg_ctl" -D "$data" -m immediate -w -t 30 -s stop </dev/null >/dev/null 2>&1 || true
	done
}

cluster_log() {
	[ -f "$1/log" ] || return 0
	say "--- the last lines of $1/log"
	tail -n "${2:-60}" "$1/log"
}

# cluster_psql DIRECTORY DATABASE [psql's arguments]...
cluster_psql() {
	local directory=$1 database=$2
	shift 2
	as_test_user "$BINDIR/psql" -X -q -v ON_ERROR_STOP=1 -h "$directory/socket" -U postgres -d "$database" "$@"
}
