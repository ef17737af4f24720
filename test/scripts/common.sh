# What the scripts share: words to the user, which server to use, as whom to run.
# Sourced, not run.

OLDEST_SUPPORTED=15
NEWEST_SUPPORTED=18

CHECKOUT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)

say() { printf '%s\n' "$*"; }
warn() { printf '%s\n' "$*" >&2; }
die() { warn "error: $*"; exit 1; }

have() { command -v "$1" >/dev/null 2>&1; }

# What is kept between runs: servers, chroots, pgindent, what Go has compiled.
if [ -n "${XDG_CACHE_HOME:-}" ]; then
	CACHE=$XDG_CACHE_HOME/pgfairq
elif [ "$(id -u)" -eq 0 ]; then
	CACHE=/var/cache/pgfairq
else
	CACHE=${HOME:-/nonexistent}/.cache/pgfairq
fi

# --- which PostgreSQL -------------------------------------------------------

# The major version a pg_config belongs to; nothing when it cannot be run.
pg_major() {
	"$1" --version 2>/dev/null | sed -n 's/^PostgreSQL \([0-9]*\).*/\1/p'
}

supported_major() {
	[ -n "$1" ] && [ "$1" -ge $OLDEST_SUPPORTED ] && [ "$1" -le $NEWEST_SUPPORTED ]
}

# Can this pg_config's server be run, and an extension be built for it?
complete_server() {
	local config=$1
	supported_major "$(pg_major "$config")" &&
		[ -x "$("$config" --bindir)/postgres" ] &&
		[ -f "$("$config" --pgxs)" ] &&
		[ -f "$("$config" --includedir-server)/postgres.h" ]
}

# Sets PG_CONFIG to the one that was asked for, or else to the first complete
# one: that on PATH, then the newest of Debian's. False: there is none.
find_pg_config() {
	local major candidate
	if [ -n "${PG_CONFIG:-}" ]; then
		complete_server "$PG_CONFIG"
		return
	fi
	for candidate in "$(command -v pg_config)" $(
		for major in $(seq $NEWEST_SUPPORTED -1 $OLDEST_SUPPORTED); do
			echo "/usr/lib/postgresql/$major/bin/pg_config"
		done); do
		if [ -n "$candidate" ] && complete_server "$candidate"; then
			PG_CONFIG=$candidate
			return 0
		fi
	done
	return 1
}

# Sets PYTHON to a Python 3 that has psycopg (version 3). The one of the system
# comes first: that is where a package puts it.
find_python() {
	local candidate
	for candidate in ${PYTHON:-} /usr/bin/python3 python3; do
		if "$candidate" -c 'import psycopg' 2>/dev/null; then
			PYTHON=$candidate
			return 0
		fi
	done
	return 1
}

# Where node finds its packages beside those of its own: Debian's, and what
# prerequisites.sh took from npm.
NODE_PACKAGES=$CHECKOUT/test/.node/node_modules
export NODE_PATH=$NODE_PACKAGES:/usr/share/nodejs:/usr/lib/nodejs

# --- as whom ----------------------------------------------------------------

# A server refuses to run as root, so root lends everything that needs no root
# to an unprivileged user. Who has had prerequisites.sh install a server asks
# again, for its package brings the user postgres.
find_test_user() {
	if [ "$(id -u)" -ne 0 ]; then
		TEST_USER=$(id -un)
	elif getent passwd postgres >/dev/null; then
		TEST_USER=postgres
	else
		TEST_USER=nobody
	fi
}
find_test_user

# Runs a command as that user, with nothing in its environment that could lead
# it to another server or to another user's files. With EXEC set it takes the
# shell's place, so that a signal to the one is a signal to the other.
as_test_user() {
	local clean=(env --default-signal=INT,QUIT -u EXEC -u PGHOST -u PGPORT -u PGUSER -u PGDATABASE -u PGPASSWORD -u PGPASSFILE
		-u PGSERVICE -u PGSERVICEFILE -u PGOPTIONS -u PGDATA -u PGHOSTADDR -u MAKEFLAGS -u MFLAGS -u MAKELEVEL
		-u PSQLRC -u PERL5LIB -u PYTHONPATH -u TMPDIR HOME="${WORK:-/nonexistent}" LANG=C.UTF-8 LC_ALL=C.UTF-8)
	if [ "$(id -u)" -ne 0 ]; then
		${EXEC:+exec} "${clean[@]}" "$@"
	else
		${EXEC:+exec} runuser -u "$TEST_USER" -- "${clean[@]}" "$@"
	fi
}

# Sets WORK to a new directory that only the test user (and root) can enter.
# Not in TMPDIR: the way to root's may be closed to others, and the path of a
# unix socket has room for a hundred bytes only.
make_work_directory() {
	WORK=$(mktemp -d "/tmp/pgfairq-$1.XXXXXX")
	[ "$(id -u)" -ne 0 ] || chown "$TEST_USER" "$WORK"
	cd "$WORK"
}

# --- a tree and a server of its own -----------------------------------------

# Writes the checked-out tree, with changes and new files but without what is
# built or ignored, to standard output as a tar file.
pack_tree() {
	cd "$CHECKOUT"
	if git -c safe.directory='*' rev-parse --is-inside-work-tree >/dev/null 2>&1; then
		git -c safe.directory='*' ls-files -z --cached --others --exclude-standard |
			while IFS= read -r -d '' file; do
				if [ -e "$file" ] || [ -L "$file" ]; then printf '%s\0' "$file"; fi
			done | tar -c --null --no-recursion -f - -T -
	else
		tar -c -f - --exclude=./.git --exclude='*.o' --exclude='*.bc' --exclude='*.so' \
			--exclude=./results --exclude=./tmp_check --exclude=./test/.node .
	fi
}

# Copies it to a directory of the test user.
copy_tree() {
	local target=$1
	as_test_user mkdir -p "$target"
	(pack_tree) | as_test_user tar -x -f - -C "$target"
}

# Copies the installed server's programs, libraries and data files below a
# directory, and sets PRIVATE_CONFIG to the pg_config there. The programs find
# everything relative to their own place, so that an extension installed with
# DESTDIR is in this copy alone: nobody needs to be root to try it, and no
# server of the user's is changed.
make_private_server() {
	local root=$1 bindir pkglibdir sharedir program
	bindir=$("$PG_CONFIG" --bindir)
	pkglibdir=$("$PG_CONFIG" --pkglibdir)
	sharedir=$("$PG_CONFIG" --sharedir)
	as_test_user mkdir -p "$root$bindir" "$root$pkglibdir" "$root$sharedir"
	for program in clusterdb createdb createuser dropdb dropuser initdb oid2name pg_amcheck pg_archivecleanup \
		pg_basebackup pg_checksums pg_combinebackup pg_config pg_controldata pg_createsubscriber pg_ctl pg_dump \
		pg_dumpall pg_isready pg_receivewal pg_recvlogical pg_resetwal pg_restore pg_rewind pg_upgrade \
		pg_verifybackup pg_waldump pg_walsummary pgbench postgres psql reindexdb vacuumdb vacuumlo; do
		if [ -x "$bindir/$program" ]; then
			as_test_user cp -L "$bindir/$program" "$root$bindir/"
		fi
	done
	as_test_user cp -R "$pkglibdir/." "$root$pkglibdir/"
	as_test_user cp -R "$sharedir/." "$root$sharedir/"
	PRIVATE_CONFIG=$root$bindir/pg_config
	BINDIR=$root$bindir
	[ "$("$PRIVATE_CONFIG" --pkglibdir)" = "$root$pkglibdir" ] ||
		die "the copy of PostgreSQL in $root looks for its libraries in $("$PRIVATE_CONFIG" --pkglibdir)"
}

# Builds the copied tree, with make's variables given, and installs it into the private server.
build_and_install() {
	local tree=$1 root=$2
	shift 2
	as_test_user make -C "$tree" -j"$(nproc)" PG_CONFIG="$PG_CONFIG" "$@" &&
		as_test_user make -C "$tree" PG_CONFIG="$PG_CONFIG" DESTDIR="$root" "$@" install
}

# --- the parts --------------------------------------------------------------

# What is not the server's: clients, monitoring, packaging. Each suite of a part
# is a directory with a program run, which prints TAP, and needs.sh, which says
# to prerequisites.sh what it needs.
declare -A PART_DIRECTORIES=(
	[python]=clients/python/test
	[celery]=clients/python/test/celery
	[node]=clients/node/test
	[dashboard]=clients/node/test/dashboard
	[ruby]=clients/ruby/test
	[go]=clients/go/test
	[examples]=clients/examples/test
	[conformance]=clients/conformance
	[monitoring]=monitoring/test
	[packaging]=packaging/test
	[moving]=test/moving
)
PART_SUITES=$(
	for suite in python celery node dashboard ruby go examples conformance monitoring packaging moving; do
		[ ! -x "$CHECKOUT/${PART_DIRECTORIES[$suite]}/run" ] || echo "$suite"
	done | xargs
)
