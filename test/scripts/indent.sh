#!/usr/bin/env bash
# make indent: lays out the C sources as PostgreSQL does its own, with pgindent.
#
#   indent.sh           writes them
#   indent.sh --check   shows what that would change, and ends with 1 if there is
#                       anything, with 2 if pgindent cannot be had
#   indent.sh --get     only gets pgindent, if it is not there
#
#   INDENT_TOOLS=DIR    where pgindent, pg_bsd_indent and typedefs.list are
#                       ($CACHE/indent); "no": nowhere
#   INDENT_MISSING=WHY  what to say where they are not: why --get has not got them
#
# Debian's packages of the server have the three from version 16 on. Where the
# server is older they come, once, from the source package of a later one in
# Debian's suite $SUITE, from the mirror that the machine's apt has.
#
# Versions 16 to 18 write the same, on any server: the names of our own types
# are read from the sources, not from debug information, which has those of the
# server at hand and of the C library as well.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
. "$(dirname "${BASH_SOURCE[0]}")/server_build.sh"

SUITE=trixie
MAJOR=17
INDENT_TOOLS=${INDENT_TOOLS:-$CACHE/indent}
# A type of ECPG's; for us it is a word like others.
NO_TYPES=decimal

case ${1:-} in
'' | --check | --get) ;;
*) die "usage: ${0##*/} [--check | --get]" ;;
esac
work=$(mktemp -d)
getting=
trap 'rm -rf "$work" ${getting:+"$getting"}' EXIT

# --- the tools ------------------------------------------------------------------

tools_in() {
	[ -x "$1/pg_bsd_indent" ] && [ -f "$1/typedefs.list" ] && "$1/pgindent" --help >/dev/null 2>&1
}

# Those of the server's package, in a directory of links.
tools_of_server() {
	local bindir
	bindir=$("$PG_CONFIG" --bindir)
	mkdir "$work/tools"
	ln -s "$bindir/pgindent" "$bindir/pg_bsd_indent" "$("$PG_CONFIG" --sharedir)/typedefs.list" "$work/tools/"
	tools_in "$work/tools"
}

# Unpacks and builds them in the working directory.
build_tools() {
	local bindir libdir
	bindir=$("$PG_CONFIG" --bindir)
	libdir=$("$PG_CONFIG" --libdir)
	tar -x -f "${SOURCE%-*}".orig.tar.* --strip-components=3 --wildcards \
		'*/src/tools/pg_bsd_indent' '*/src/tools/pgindent' &&
		mv pg_bsd_indent source && mv pgindent script && mv script/pgindent script/typedefs.list . &&
		# libpgport is beside the server's programs, or where libpq is
		"$("$PG_CONFIG" --cc)" -O1 -w -I"$("$PG_CONFIG" --includedir-server)" -o pg_bsd_indent \
			source/*.c -L"$bindir/../lib" -L"$libdir" -lpgport &&
		rm -r source script
}

# Puts them into the directory INDENT_TOOLS, all at once.
get_tools() {
	[ "$INDENT_TOOLS" != no ] && have apt-get && have bzip2 || return
	getting=$INDENT_TOOLS.$$
	mkdir -p "$getting" 2>/dev/null && (
		CACHE=$getting
		fetch_source $MAJOR $SUITE && cd "$getting" && build_tools && rm -r apt
	) >"$work/get.log" 2>&1 || return
	rm -rf "$INDENT_TOOLS"
	mv -T "$getting" "$INDENT_TOOLS"
}

find_tools() {
	find_pg_config || return
	tools_in "$INDENT_TOOLS" || { [ "$INDENT_TOOLS" != no ] && tools_of_server; } || get_tools
}

# --- laying out -----------------------------------------------------------------

sources() {
	find src cluster test -path test/.node -prune -o -name '*.[ch]' -print | LC_ALL=C sort
}

# The names that typedefs of these sources make.
own_types() {
	# shellcheck disable=SC2046
	perl -0777 -ne '
		s,/\*.*?\*/, ,gs;
		while (/\btypedef\b((?:[^;{}]|(\{(?:[^{}]|(?2))*\}))*);/g) {
			(my $type = $1) =~ s/\{.*\}//s;
			print "$1\n" if $type =~ /\(\s*\*\s*(\w+)\s*\)/ || $type =~ /(\w+)\s*(?:\[.*\]\s*)?$/s;
		}' $(sources)
}

if ! find_tools; then
	[ ! -f "$work/get.log" ] || tail -n 20 "$work/get.log" >&2
	[ "$INDENT_TOOLS" = no ] || INDENT_TOOLS="neither of the server nor in $INDENT_TOOLS"
	why=$(grep -hE '^(E:|Err:|error|mkdir|make|cc|gcc)' "$work/get.log" 2>/dev/null | tail -n 1 || true)
	warn "${INDENT_MISSING:-there is no pgindent: $INDENT_TOOLS${why:+, and it cannot be got: $why}}"
	exit 2
fi
[ "${1:-}" != --get ] || exit 0
tools=$work/tools
[ -d "$tools" ] || tools=$INDENT_TOOLS

cd "$CHECKOUT"
mkdir "$work/copy"
sources | tar -c -f - -T - | tar -x -f - -C "$work/copy"
{
	grep -vxE "$NO_TYPES" "$tools/typedefs.list"
	own_types
} | LC_ALL=C sort -u >"$work/types"
# its exit code says nothing, and it makes its own files where it is
(cd "$work/copy" && "$tools/pgindent" --typedefs="$work/types" --indent="$tools/pg_bsd_indent" src cluster test) 2>"$work/errors" || true
if [ -s "$work/errors" ]; then
	cat "$work/errors" >&2
	die "pgindent does not understand a file"
fi

status=0
while read -r file; do
	cmp -s "$file" "$work/copy/$file" && continue
	if [ "${1:-}" = --check ]; then
		diff -u --label "$file" --label "$file (make indent)" "$file" "$work/copy/$file" || status=1
	else
		cp "$work/copy/$file" "$file"
		say "$file"
	fi
done < <(sources)
exit $status
