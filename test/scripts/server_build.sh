# PostgreSQL built from the distribution's own source package, for what the
# distribution does not build: a server with assertions, or one that tells a
# memory checker what it has allocated. Sourced, after common.sh.
#
# Sources and servers are kept in $CACHE. Nothing of the machine's is changed:
# apt has a directory of its own there, with the machine's sources as deb-src.
# The compiler is taken from PATH, so that of ccache serves here, too.

# apt-get and apt-cache with lists of source packages below $CACHE/apt.
source_apt() {
	local program=$1
	shift
	"$program" -q -o Dir::Etc::sourcelist=/dev/null -o "Dir::Etc::sourceparts=$CACHE/apt/sources.list.d" \
		-o "Dir::State::lists=$CACHE/apt/lists" -o "Dir::Cache=$CACHE/apt/cache" \
		-o APT::Sandbox::User= -o Debug::NoLocking=1 "$@"
}

# Reads the lists of the source packages of the machine's own sources; with
# SUITE, of that instead of the machine's own release, from the same mirror.
read_source_lists() {
	local suite=${1:-} file release= lists=$CACHE/apt/sources.list.d
	[ -z "$suite" ] || release=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
	rm -rf "$lists"
	mkdir -p "$lists" "$CACHE/apt/lists/partial" "$CACHE/apt/cache/archives/partial"
	for file in /etc/apt/sources.list /etc/apt/sources.list.d/*.list /etc/apt/sources.list.d/*.sources; do
		[ -f "$file" ] || continue
		case $file in
		*.sources) sed 's/^Types:.*/Types: deb-src/' "$file" >"$lists/${file##*/}" ;;
		*) sed -n 's/^deb\([[:space:]]\)/deb-src\1/p' "$file" >"$lists/${file##*/}" ;;
		esac
		[ -z "$suite" ] || of_suite "$release" "$suite" "$lists/${file##*/}"
	done
	source_apt apt-get update >"$CACHE/apt/update.log" 2>&1 || { cat "$CACHE/apt/update.log" >&2; return 1; }
}

# of_suite RELEASE SUITE FILE: leaves in a file of apt's sources those of RELEASE,
# and has SUITE in its place.
of_suite() {
	local text
	case $3 in
	*.sources)
		text=$(awk -v release="$1" -v suite="$2" 'BEGIN { RS = ""; ORS = "\n\n" }
			$0 ~ "\nSuites:([^\n]* )?" release "[ \n]" { gsub("\nSuites:[^\n]*", "\nSuites: " suite); print }' "$3")
		;;
	*) text=$(sed -n "s/^\(deb-src .* \)$1\( .*\)/\1$2\2/p" "$3") ;;
	esac
	printf '%s\n' "$text" >"$3"
}

# Sets SOURCE to the .dsc of a major version: the newest of those that can be
# had, for archives that list a version do not always have its source. With
# SUITE, from there.
fetch_source() {
	local major=$1 version
	SOURCE=
	read_source_lists "${2:-}" || return
	for version in $(source_apt apt-cache showsrc "postgresql-$major" 2>/dev/null | sed -n 's/^Version: //p' | sort -rVu); do
		SOURCE=$CACHE/apt/postgresql-${major}_${version#*:}.dsc
		[ ! -f "$SOURCE.complete" ] || return 0
		if (cd "$CACHE/apt" && source_apt apt-get source --download-only "postgresql-$major=$version") >"$CACHE/apt/source.log" 2>&1; then
			: >"$SOURCE.complete"
			return 0
		fi
	done
	[ ! -f "$CACHE/apt/source.log" ] || tail -n 5 "$CACHE/apt/source.log" >&2
	return 1
}

# server_build KIND MAJOR: sets PG_CONFIG to that of a server of its own.
#
#   assert     with assertions; what is freed is overwritten
#   asan       the same, and it marks what of its memory is not allocated, for
#              gcc's address sanitizer (asan_memcheck.h)
#   valgrind   the same, for valgrind
server_build() {
	local kind=$1 major=$2 flags= target build log options
	case $kind in
	assert) ;;
	asan) flags="-DUSE_VALGRIND -I$CACHE/asan" ;;
	valgrind) flags=-DUSE_VALGRIND ;;
	*) die "there is no server of the kind '$kind'" ;;
	esac
	fetch_source "$major" || die "no source package of PostgreSQL $major can be had from this machine's apt sources"
	target=$CACHE/server-$(basename "$SOURCE" .dsc)-$kind
	if [ "$kind" = asan ]; then
		mkdir -p "$CACHE/asan/valgrind"
		cmp -s "$CHECKOUT/test/scripts/asan_memcheck.h" "$CACHE/asan/valgrind/memcheck.h" || rm -rf "$target"
		cp "$CHECKOUT/test/scripts/asan_memcheck.h" "$CACHE/asan/valgrind/memcheck.h"
	fi
	PG_CONFIG=$target/bin/pg_config
	# with ICU, as the distribution's: there is no other way to some collations
	options="--enable-cassert --enable-debug --enable-tap-tests --without-readline --without-zlib --with-icu"
	[ "$(cat "$target/complete" 2>/dev/null)" != "$options" ] || return 0

	say "Building $(basename "$SOURCE" .dsc) ($kind) into $target; this takes some minutes, once."
	build=$CACHE/build-$kind.$$
	log=$target.log
	rm -rf "$target" "$build"
	# The server's Makefile writes its headers only where it is the outermost make, and
	# COPT, the sanitizers, is for pgfairq alone.
	# -O1 and frame pointers for call stacks that can be read
	if ! (
		unset MAKEFLAGS MFLAGS MAKELEVEL COPT
		mkdir "$build" && dpkg-source --no-check -x "$SOURCE" "$build/source" && cd "$build/source" &&
			CPPFLAGS=$flags CFLAGS="-O1 -g -fno-omit-frame-pointer" ./configure --prefix="$target" $options &&
			make -s -j"$(nproc)" && make -s install &&
			make -s -C contrib/amcheck && make -s -C contrib/amcheck install
	) >"$log" 2>&1 </dev/null; then
		tail -n 40 "$log" >&2
		die "PostgreSQL could not be built; all of it is in $log"
	fi
	cd /
	rm -rf "$build"
	echo "$options" >"$target/complete"
}

# server_take_plproxy MAJOR: a server of our own gets the PL/Proxy that the
# distribution has for its major version, which loads there.
server_take_plproxy() {
	local from=/usr/lib/postgresql/$1/bin/pg_config
	[ -x "$from" ] && [ -f "$("$from" --pkglibdir)/plproxy.so" ] || return 0
	cp "$("$from" --pkglibdir)/plproxy.so" "$("$PG_CONFIG" --pkglibdir)/"
	cp "$("$from" --sharedir)"/extension/plproxy* "$("$PG_CONFIG" --sharedir)/extension/"
}
