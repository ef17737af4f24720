#!/usr/bin/env bash
# Installs what a purpose needs and this machine lacks.
#
#   prerequisites.sh build|demo|cluster|check|check-assert|check-asan|check-valgrind|check-versions|check-patroni|bench|bench-cluster|bench-clients|torture|torture-cluster
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
build | demo | cluster | check | check-assert | check-asan | check-valgrind | check-versions | check-patroni | bench | bench-cluster | bench-clients | torture | torture-cluster) ;;
*) die "usage: ${0##*/} build|demo|cluster|check|check-assert|check-asan|check-valgrind|check-versions|check-patroni|bench|bench-cluster|bench-clients|torture|torture-cluster" ;;
esac

# --- what is missing --------------------------------------------------------

missing=()  # words for people
packages=() # the packages that bring it
wishes=() # packages that something can do without
npm_part= npm_wish= # the same from npm: nothing, library or all

holds() { # HOLDS WORD ELEMENT...
	local word=$1 element
	shift
	for element in "$@"; do
		[ "$element" != "$word" ] || return 0
	done
	return 1
}

# Several suites need the same; it is named once.
need() { # NEED WHAT PACKAGE...
	local package
	holds "$1" "${missing[@]}" || missing+=("$1")
	for package in "${@:2}"; do
		holds "$package" "${packages[@]}" || packages+=("$package")
	done
}

# What comes from npm is in test/npm, each package at one version, with those that it
# needs itself: the "library" is what the library for Node is compiled with, "all" is all.
# Beside what was installed is the lock file that it was installed by, so that a
# checkout that has other versions gets these.
NPM_LOCK=$CHECKOUT/test/npm/package-lock.json
NPM_INSTALLED=${NODE_PACKAGES%/*}

npm_has() { # NPM_HAS library|all
	[ -d "$NODE_PACKAGES" ] || return
	cmp -s "$NPM_LOCK" "$NPM_INSTALLED/all.lock" ||
		{ [ "$1" = library ] && cmp -s "$NPM_LOCK" "$NPM_INSTALLED/library.lock"; }
}

need_npm() { # NEED_NPM library|all
	npm_has "$1" && return
	need "packages from npm"
	[ "$npm_part" = all ] || npm_part=$1
}

# Several suites ask for the same; what was found once is there.
declare -A python_modules=()
python_has() { # PYTHON_HAS MODULE
	[ -z "${python_modules[$1]:-}" ] || return 0
	[ -n "${python_modules[psycopg]:-}" ] || find_python || return
	python_modules[psycopg]=found
	[ "$1" = psycopg ] || "$PYTHON" -c "import $1" 2>/dev/null || return
	python_modules[$1]=found
}

wish() { # WISH WHAT PACKAGE
	holds "$2" "${wishes[@]}" || wishes+=("$2")
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
	npm_has all || npm_wish=all
	{ python_has celery && python_has kombu; } || wish "Celery" python3-celery
	have go || wish "Go" golang-go
	[ -d /usr/share/gocode/src/github.com/lib/pq ] || wish "lib/pq for Go" golang-github-lib-pq-dev
	python_has redis || wish "Python's redis" python3-redis
	python_has amqp || wish "Python's amqp" python3-amqp
	# not redis-server, which would start a daemon: the server's program is in both
	have redis-server || have redis-check-rdb || wish "Redis" redis-tools
	[ -x /usr/lib/rabbitmq/bin/rabbitmq-server ] || wish "RabbitMQ" rabbitmq-server
}

# Is a suite among those to be run?
wanted() {
	[ -z "${SUITES:-}" ] || holds "$1" $SUITES
}

# Uses major of look().
look() {
	local major
	missing=() packages=() wishes=() npm_part='' npm_wish=''
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
	cluster)
		look_for_plproxy
		return
		;;
	torture-cluster)
		look_for_plproxy
		# Not in every PATH.
		have nft || [ -x /usr/sbin/nft ] || wish "nft" nftables
		have ip || [ -x /usr/sbin/ip ] || wish "ip" iproute2
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
		look_for_plproxy
	fi
	if wanted hostile; then
		look_for_plproxy
	fi
	if wanted readme; then
		look_for_plproxy
		look_for_node_build
		need_npm all
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
	have pkg-config || need "pkg-config" pkg-config
	pkg-config --exists icu-i18n 2>/dev/null || need "ICU's headers" libicu-dev
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
	need_npm library
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
	[ -n "${wishes[*]}$npm_wish" ] || exit 0
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
		"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive LC_ALL=C apt-get -q -y -o DPkg::Lock::Timeout=300 "$@"
	}

	# Installs packages, and shows how much that is and, every five seconds, how far it is. What
	# apt-get says goes to a log.
	install_packages() { # INSTALL_PACKAGES LOG PACKAGE...
		local log=$1 line total=0 fetched=0 unpacked=0 ready=0 shown=$SECONDS
		shift
		apt_get install --no-install-recommends "$@" 2>&1 | tee "$log" | while IFS= read -r line; do
			case $line in
			*" newly installed, "*)
				total=${line%% newly installed, *} total=${total##* }
				line=${line%% upgraded, *} total=$((total + line))
				;;
			"Need to get "* | "After this operation, "*) say "  $line" ;;
			Get:*) fetched=$((fetched + 1)) ;;
			"Unpacking "*) unpacked=$((unpacked + 1)) ;;
			"Setting up "*) ready=$((ready + 1)) ;;
			*) continue ;;
			esac
			if [ $((SECONDS - shown)) -ge 5 ] || { [ $ready -gt 0 ] && [ $ready -eq "$total" ]; }; then
				shown=$SECONDS
				if [ $unpacked -gt 0 ]; then # apt sets some up before it unpacks the others
					say "  of $total packages $unpacked are unpacked, $ready are installed"
				else
					say "  $fetched of $total packages are fetched"
				fi
			fi
		done
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
		if ! install_packages "$log" "${packages[@]}"; then
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

# The Node that came from npm, where those look who want it; Debian's npm removes that
# link beside a package for another processor.
own_node() { # own_node DIRECTORY
	local node
	for node in "$1"/node-linux-*/bin/node; do
		[ ! -x "$node" ] || ln -sfn "../${node#"$1"/}" "$1/.bin/node"
	done
}

# In a directory of its own first: what is there stays whole until the new is. No
# package runs a program of its own.
npm_install() { # npm_install library|all
	local new=$NPM_INSTALLED/new.$$ omit=()
	[ "$1" = all ] || omit=(--omit=dev --omit=optional)
	say "Installing from npm, into test/.node: $1 of test/npm/package.json, at most 190 MB on the disk"
	mkdir -p "$new" && cp "${NPM_LOCK%/*}"/package*.json "$new/" &&
		(cd "$new" && npm ci --silent --no-fund --no-audit --ignore-scripts --prefer-offline \
			--fetch-retries=2 --fetch-timeout=60000 "${omit[@]}" >/dev/null) &&
		own_node "$new/node_modules" && rm -rf "$new"/node_modules/node-linux-*/{include,share} "$NODE_PACKAGES" "$NPM_INSTALLED"/*.lock &&
		mv "$new/node_modules" "$NODE_PACKAGES" && cp "$NPM_LOCK" "$NPM_INSTALLED/$1.lock" || {
		rm -rf "$new"
		return 1
	}
	rm -rf "$new"
}

if [ -n "$npm_part" ]; then
	npm_install "$npm_part" || die "npm could not install what test/npm/package.json names ($npm_part); npm's log is in ~/.npm/_logs"
	look
fi
if [ -n "$npm_wish" ]; then
	npm_install "$npm_wish" || say "npm could not install what test/npm/package.json names; what needs it is left out."
fi

if [ ${#missing[@]} -gt 0 ]; then
	warn "Still missing:"
	printf '  %s\n' "${missing[@]}" >&2
	exit 1
fi
