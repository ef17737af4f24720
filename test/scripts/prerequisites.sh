#!/usr/bin/env bash
# Installs what a purpose needs and this machine lacks.
#
#   prerequisites.sh build|demo|cluster|check|check-assert|check-asan|check-valgrind|check-versions|check-patroni|bench|bench-cluster|bench-clients|torture
#
# With SUITES, a check needs what these suites need; check-versions needs only
# what makes a chroot, in which the rest is installed.
#
# It looks for programs and modules, not for packages, so that a server built
# from source will do. What is missing it takes from Debian's packages, as root
# or through sudo; where it may not, it says what to install.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

purpose=${1:-check}
case $purpose in
build | demo | cluster | check | check-assert | check-asan | check-valgrind | check-versions | check-patroni | bench | bench-cluster | bench-clients | torture) ;;
*) die "usage: ${0##*/} build|demo|cluster|check|check-assert|check-asan|check-valgrind|check-versions|check-patroni|bench|bench-cluster|bench-clients|torture" ;;
esac

# --- what is missing --------------------------------------------------------

missing=()  # words for people
packages=() # the packages that bring it
wishes=() # packages that something can do without
npm_packages=() npm_wishes=() # the same from npm

need() { # NEED WHAT PACKAGE...
	missing+=("$1")
	shift
	packages+=("$@")
}

need_npm() { # NEED_NPM PACKAGE VERSION
	if [ ! -d "$NODE_PACKAGES/$1" ]; then
		missing+=("$1 from npm")
		npm_packages+=("$1@$2")
	fi
}

python_has() { # PYTHON_HAS MODULE
	find_python && "$PYTHON" -c "import $1" 2>/dev/null
}

wish() { # WISH WHAT PACKAGE
	wishes+=("$2")
}

# The server's major version in package names: that of the PG_CONFIG asked for,
# of a server that is there without its headers, or the distribution's own,
# which is not known before the package lists are read.
server_major() {
	local major
	if [ -n "${PG_CONFIG:-}" ]; then
		pg_major "$PG_CONFIG" | grep . && return
		printf '%s\n' "$PG_CONFIG" | sed -n 's,^/usr/lib/postgresql/\([0-9]*\)/bin/pg_config$,\1,p'
		return
	fi
	for major in $(seq $NEWEST_SUPPORTED -1 $OLDEST_SUPPORTED); do
		if [ -x "/usr/lib/postgresql/$major/bin/postgres" ]; then
			echo "$major"
			return
		fi
	done
	{ apt-cache depends postgresql 2>/dev/null || true; } | sed -n 's/^ *Depends: postgresql-\([0-9]*\)$/\1/p'
}

# What the bench compares pgfairq with, and plots with. Where it cannot be had, it is left out.
look_for_peers() {
	local sharedir
	sharedir=$([ -n "${PG_CONFIG:-}" ] && "$PG_CONFIG" --sharedir 2>/dev/null || true)
	# a server built from source gets nothing from Debian's package
	case $sharedir in
	'' | /usr/share/postgresql/*) [ -f "$sharedir/extension/pgq.control" ] || wish "PgQ" "postgresql-${major:-VERSION}-pgq3" ;;
	esac
	# not redis-server, which would start a daemon: the server's program is in both
	have redis-server || have redis-check-rdb || wish "Redis" redis-tools
	have node || wish "Node.js" nodejs
	have npm || wish "npm" npm
	have gnuplot || wish "gnuplot" gnuplot-nox
}

# The libraries for workers that ours are measured beside, and their brokers. What cannot be had is left out.
look_for_libraries() {
	local package
	for package in graphile-worker@0.18 pg-boss@12 bullmq@6 ioredis@6; do
		[ -d "$NODE_PACKAGES/${package%@*}" ] || npm_wishes+=("$package")
	done
	{ python_has celery && python_has kombu; } || wish "Celery" python3-celery
	python_has redis || wish "Python's redis" python3-redis
	python_has amqp || wish "Python's amqp" python3-amqp
	# not redis-server, which would start a daemon: the server's program is in both
	have redis-server || have redis-check-rdb || wish "Redis" redis-tools
	[ -x /usr/lib/rabbitmq/bin/rabbitmq-server ] || wish "RabbitMQ" rabbitmq-server
}

# Is a suite among those to be run?
wanted() {
	case " ${SUITES:-tap pgtap readme $PART_SUITES} " in
	*" $1 "*) return 0 ;;
	*) return 1 ;;
	esac
}

# Uses major of look().
look() {
	local major
	missing=() packages=() wishes=() npm_packages=() npm_wishes=()
	if [ "$purpose" = check-versions ]; then
		have debootstrap || [ -x /usr/sbin/debootstrap ] || need "debootstrap" debootstrap
		return
	fi
	major=$(server_major)
	if ! find_pg_config; then
		if [ -n "${PG_CONFIG:-}" ] && [ -z "$major" ]; then
			die "PG_CONFIG=$PG_CONFIG cannot be run"
		fi
		if [ -n "$major" ] && ! supported_major "$major"; then
			die "PostgreSQL $major is not supported, only $OLDEST_SUPPORTED to $NEWEST_SUPPORTED; give PG_CONFIG=/path/to/pg_config of one"
		fi
		# A server that is there is not named: it would be upgraded and restarted.
		if [ -n "$major" ] && [ -x "/usr/lib/postgresql/$major/bin/postgres" ]; then
			need "the server headers of PostgreSQL $major" "postgresql-server-dev-$major"
		else
			need "PostgreSQL ${major:-$OLDEST_SUPPORTED to $NEWEST_SUPPORTED} and its server headers" \
				"postgresql-${major:-VERSION}" "postgresql-server-dev-${major:-VERSION}"
		fi
	else
		major=$(pg_major "$PG_CONFIG")
	fi
	if ! have make || ! { have gcc || have cc; } || [ ! -e /usr/include/stdio.h ]; then
		need "make and a C compiler" build-essential
	fi
	[ "$purpose" != build ] || return 0

	find_python || need "Python 3 with psycopg" python3 python3-psycopg
	if [ "$purpose" = bench ]; then
		# Debian's headers of the server bring it
		[ -z "${PG_CONFIG:-}" ] || [ -f "$("$PG_CONFIG" --includedir)/libpq-fe.h" ] || need "libpq's header" libpq-dev
		look_for_peers
	fi
	case $purpose in
	check) ;;
	demo)
		look_for_node_build
		return
		;;
	bench-clients)
		look_for_node_build
		look_for_libraries
		return
		;;
	bench-cluster)
		have valgrind || need "valgrind" valgrind
		look_for_plproxy
		return
		;;
	check-patroni)
		have patroni || need "Patroni" patroni
		have etcd || need "etcd" etcd-server
		{ [ -x /usr/bin/python3 ] && /usr/bin/python3 -c 'import psycopg2' 2>/dev/null; } || need "Python's psycopg2" python3-psycopg2
		return
		;;
	check-*) look_for_server_build ;;
	*) return 0 ;;
	esac

	if wanted tap; then
		have prove || need "prove" perl
		perl -MIPC::Run -e 1 2>/dev/null || need "Perl's IPC::Run" libipc-run-perl
		have sqlsmith || need "sqlsmith" sqlsmith
		look_for_plproxy
		python_has hypothesis || need "Python's hypothesis" python3-hypothesis
	fi
	if wanted pgtap; then
		look_for_pgtap
	fi
	if wanted readme; then
		look_for_plproxy
		look_for_node_build
		need_npm postgres 3
		look_for_drivers
	fi
	local suite
	for suite in $PART_SUITES; do
		if wanted "$suite"; then
			. "$CHECKOUT/${PART_DIRECTORIES[$suite]}/needs.sh"
		fi
	done
}

# What builds a server from Debian's source package (server_build.sh).
look_for_server_build() {
	have dpkg-source || need "dpkg-source" dpkg-dev
	have bison || need "bison" bison
	have flex || need "flex" flex
	perl -MIPC::Run -e 1 2>/dev/null || need "Perl's IPC::Run" libipc-run-perl
	if [ "$purpose" = check-valgrind ]; then
		{ have valgrind && [ -f /usr/include/valgrind/memcheck.h ]; } || need "valgrind" valgrind
	fi
}

# What a proxy of a cluster needs.
look_for_plproxy() {
	local sharedir
	sharedir=$([ -n "${PG_CONFIG:-}" ] && "$PG_CONFIG" --sharedir 2>/dev/null || true)
	[ -f "$sharedir/extension/plproxy.control" ] || need "PL/Proxy" "postgresql-${major:-VERSION}-plproxy"
}

look_for_pgtap() {
	local sharedir
	sharedir=$([ -n "${PG_CONFIG:-}" ] && "$PG_CONFIG" --sharedir 2>/dev/null || true)
	[ -f "$sharedir/extension/pgtap.control" ] || need "pgTAP" "postgresql-${major:-VERSION}-pgtap"
	have pg_prove || need "pg_prove" libtap-parser-sourcehandler-pgtap-perl
}

# What compiles the Node library and its dashboard.
look_for_node_build() {
	have node || need "Node.js" nodejs
	have npm || need "npm" npm
	need_npm pg 8
	need_npm typescript 5
	need_npm @types/node 20
	need_npm @types/pg 8
}

# The drivers that doc/drivers.md has examples for.
look_for_drivers() {
	python_has psycopg2 || need "Python's psycopg2" python3-psycopg2
	python_has asyncpg || need "Python's asyncpg" python3-asyncpg
	ruby -e 'require "pg"' 2>/dev/null || need "Ruby with pg" ruby ruby-pg
	{ have go && [ -d /usr/share/gocode/src/github.com/lib/pq ]; } || need "Go with lib/pq" golang-go golang-github-lib-pq-dev
	{ have javac && [ -f /usr/share/java/postgresql.jar ]; } ||
		need "Java with PostgreSQL's JDBC driver" default-jdk-headless libpostgresql-jdbc-java
}

is_installed() { # IS_INSTALLED PACKAGE
	dpkg-query -W -f '${db:Status-Status}\n' "$1" 2>/dev/null | grep -qx installed
}

# The services that a package brings, but for PostgreSQL's: that is a server of the
# user's, which is there to be used.
units_of() { # UNITS_OF PACKAGE
	case $1 in postgresql*) return ;; esac
	dpkg -L "$1" 2>/dev/null | sed -n 's,^\(/usr\)\?/lib/systemd/system/\([^/@]*\.service\)$,\2,p'
}

disable_units() { # DISABLE_UNITS PACKAGE
	local unit
	have systemctl || return 0
	for unit in $(units_of "$1"); do
		"${as_root[@]}" systemctl --quiet disable "$unit" || true
	done
}

# Without asking for a password where nobody can type one.
may_install() {
	have apt-get || return
	[ "$(id -u)" -eq 0 ] || { have sudo && { [ -t 0 ] || sudo -n true 2>/dev/null; }; }
}

look
if [ ${#missing[@]} -eq 0 ]; then
	[ $((${#wishes[@]} + ${#npm_wishes[@]})) -gt 0 ] || exit 0
	if [ ${#wishes[@]} -gt 0 ] && ! may_install; then
		say "Not installed, and left out (as root: apt-get install ${wishes[*]})."
		wishes=()
	fi
else
	say "Missing:"
	printf '  %s\n' "${missing[@]}"
fi

# --- get it -----------------------------------------------------------------

as_root=()
if [ $((${#packages[@]} + ${#wishes[@]})) -gt 0 ]; then
	hint="install it and try again; on Debian: apt-get install ${packages[*]}"
	case $hint in *VERSION*) hint="$hint (VERSION is one of $OLDEST_SUPPORTED to $NEWEST_SUPPORTED)" ;; esac
	have apt-get || die "this machine has no apt-get; $hint"
	if [ "$(id -u)" -ne 0 ]; then
		have sudo || die "only root can install packages, and there is no sudo; as root, $hint"
		as_root=(sudo)
		if [ ! -t 0 ]; then as_root=(sudo -n); fi
		"${as_root[@]}" true || die "sudo refuses; as root, $hint"
	fi
	apt_get() {
		"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o DPkg::Lock::Timeout=300 "$@"
	}

	say "Reading the package lists (apt-get update)."
	apt_get update >/dev/null
	look # the distribution's PostgreSQL version is known only now
	case ${packages[*]} in
	*VERSION*) die "no package of PostgreSQL $OLDEST_SUPPORTED to $NEWEST_SUPPORTED found; give PG_CONFIG=/path/to/pg_config of one" ;;
	esac

	# Debian's server package makes a cluster of its own and starts it. Nobody
	# asked for one, so it is told not to, for this installation only.
	no_cluster=/etc/postgresql-common/createcluster.d/pgfairq-prerequisites.conf
	cleanup() {
		"${as_root[@]}" rm -f "$no_cluster"
		[ -z "$made_no_daemons" ] || "${as_root[@]}" rm -f "$no_daemons"
		[ -n "$had_directory" ] || "${as_root[@]}" rmdir --ignore-fail-on-non-empty "${no_cluster%/*}"
	}
	had_directory=$([ ! -d "${no_cluster%/*}" ] || echo yes)
	# Nor have the services of other packages anything to do here: PgQ's ticker,
	# Patroni, etcd, Redis, Prometheus and its exporters.
	no_daemons=/usr/sbin/policy-rc.d
	made_no_daemons=
	trap cleanup EXIT
	"${as_root[@]}" mkdir -p "${no_cluster%/*}"
	printf '%s\n' "# left by an interrupted installation; may be deleted" "create_main_cluster = false" |
		"${as_root[@]}" tee "$no_cluster" >/dev/null

	if [ ! -e "$no_daemons" ]; then
		made_no_daemons=yes
		printf '%s\n' "#!/bin/sh" "# left by an interrupted installation; may be deleted" "exit 101" |
			"${as_root[@]}" tee "$no_daemons" >/dev/null
		"${as_root[@]}" chmod 0755 "$no_daemons"
	fi

	if [ ${#packages[@]} -gt 0 ]; then
		say "Installing: ${packages[*]}"
		new_packages=()
		for package in "${packages[@]}"; do
			is_installed "$package" || new_packages+=("$package")
		done
		log=$(mktemp)
		if ! apt_get install --no-install-recommends "${packages[@]}" >"$log" 2>&1; then
			tail -n 40 "$log" >&2
			rm -f "$log"
			die "apt-get could not install: ${packages[*]}"
		fi
		rm -f "$log"
		# nor are they to be started with the machine
		for package in "${new_packages[@]}"; do
			disable_units "$package"
		done
		look
	fi

	for wish in "${wishes[@]}"; do
		say "Installing: $wish"
		if apt_get install --no-install-recommends "$wish" >/dev/null 2>&1; then
			disable_units "$wish"
		else
			say "apt-get could not install $wish; what needs it is left out."
		fi
	done
	look
fi

# npm notes them in a package.json beside them, and so keeps what it was asked for before.
npm_install() { # npm_install PACKAGE@VERSION...
	say "Installing from npm, into test/.node: $*"
	mkdir -p "$(dirname "$NODE_PACKAGES")" &&
		npm install --silent --no-fund --no-audit --fetch-retries=1 --fetch-timeout=30000 \
			--prefix "$(dirname "$NODE_PACKAGES")" "$@" >/dev/null
}

if [ ${#npm_packages[@]} -gt 0 ]; then
	npm_install "${npm_packages[@]}" || die "npm could not install ${npm_packages[*]}; install it and try again"
	look
fi
if [ ${#npm_wishes[@]} -gt 0 ]; then
	npm_install "${npm_wishes[@]}" || say "npm could not install ${npm_wishes[*]}; what needs it is left out."
fi

if [ ${#missing[@]} -gt 0 ]; then
	warn "Still missing:"
	printf '  %s\n' "${missing[@]}" >&2
	exit 1
fi
