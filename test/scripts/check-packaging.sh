#!/usr/bin/env bash
# make check-packaging: the Debian packages are built, looked at by lintian, installed and
# tested in a Debian of each version of the server; one line for each version at the end.
# With Debian's tests of the build, with bitcode, and with the tests of the installed
# package (debian/tests). Where the server is 18, also as CloudNativePG mounts it.
#
#   VERSIONS="17 18"   only these (15 17 18); no Debian suite has 16
#
# The chroots are those of check-versions.sh. Only root may make them.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../../packaging/common.sh"
. "$(dirname "${BASH_SOURCE[0]}")/chroot.sh"

VERSIONS=${VERSIONS:-15 17 18}
for version in $VERSIONS; do
	case $version in
	15 | 17 | 18) ;;
	*) die "there is no version '$version', only 15, 17 and 18" ;;
	esac
done
if [ "$(id -u)" -ne 0 ]; then
	have sudo || die "only root can make chroots, and there is no sudo"
	exec sudo --preserve-env=VERSIONS,CI "${BASH_SOURCE[0]}"
fi
"$CHECKOUT/test/scripts/prerequisites.sh" check-versions
LOGS=$(mktemp -d /tmp/pgfairq-packaging.XXXXXX)

# What is run in the chroot, as root and as the user who builds; $1 is the version.
install_tools='
	set -e
	getent passwd builder >/dev/null || useradd --create-home builder
	apt-get -q update
	apt-get -q -y install --no-install-recommends build-essential debhelper lintian "postgresql-$1" \
		postgresql-server-dev-all libipc-run-perl git'
build='
	set -e
	cd /home/builder
	tar -x -f tree.tar -C tree
	tree/packaging/debian.sh /home/builder/packages -d
	lintian --fail-on error packages/pgfairq_*.changes'
install_package='
	set -e
	apt-get -q -y purge "postgresql-$1-pgfairq" >/dev/null 2>&1 || true
	apt-get -q -y install --no-install-recommends /home/builder/packages/postgresql-"$1"-pgfairq_*.deb
	dpkg -s "postgresql-$1-pgfairq" | grep "^Status: install ok installed"'
test_installed='
	set -e
	cd /home/builder/packages/pgfairq-*/
	debian/tests/installcheck'
purge_package='
	set -e
	apt-get -q -y purge "postgresql-$1-pgfairq"
	left=$(find / -xdev -path /home -prune -o -name "*pgfairq*" ! -path "/root/*" ! -path "/tmp/*" ! -path "/proc/*" -print)
	[ -z "$left" ] || { printf "left behind: %s\n" $left; exit 1; }'
# As CloudNativePG mounts an extension image: nothing is in the directories of the server.
mounted='
	set -e
	rm -rf /tmp/cnpg
	mkdir -p /tmp/cnpg/unpacked /tmp/cnpg/extensions/pgfairq/share
	dpkg-deb --extract /home/builder/packages/postgresql-"$1"-pgfairq_*.deb /tmp/cnpg/unpacked
	cp -R "/tmp/cnpg/unpacked/usr/lib/postgresql/$1/lib" /tmp/cnpg/extensions/pgfairq/lib
	cp -R "/tmp/cnpg/unpacked/usr/share/postgresql/$1/extension" /tmp/cnpg/extensions/pgfairq/share/extension
	cd /tmp/cnpg
	PATH=/usr/lib/postgresql/$1/bin:$PATH
	initdb -D data -U postgres -A trust --no-sync >/dev/null
	cat >>data/postgresql.conf <<-END
		listen_addresses = \x27\x27
		unix_socket_directories = \x27/tmp/cnpg\x27
		shared_preload_libraries = \x27pgfairq\x27
		extension_control_path = \x27\$system:/tmp/cnpg/extensions/pgfairq/share\x27
		dynamic_library_path = \x27\$libdir:/tmp/cnpg/extensions/pgfairq/lib\x27
	END
	pg_ctl -D data -l log -w -s start || { cat log; exit 1; }
	trap "pg_ctl -D data -m immediate -w -s stop" EXIT
	psql -X -q -v ON_ERROR_STOP=1 -h /tmp/cnpg -U postgres -d postgres -c "CREATE EXTENSION pgfairq" \
		-c "SELECT fairq.create_queue(\x27q\x27)" -c "SELECT fairq.enqueue(\x27q\x27, \x271\x27)" \
		-c "SELECT fairq.ack(receipt) FROM fairq.claim(\x27q\x27)"
	psql -X -A -t -h /tmp/cnpg -U postgres -d postgres -c "SELECT backend_type FROM pg_stat_activity" | grep "pgfairq launcher"'

# step VERSION NAME USER SCRIPT: notes the result in a line of the table.
step() {
	local version=$1 name=$2 user=$3 script=$4 log=$LOGS/$1-${2// /-}.log started=$SECONDS
	local as=()
	[ "$user" = root ] || as=(runuser -u "$user" -- env HOME=/home/builder)
	if in_chroot "${as[@]}" bash -c "${script//\\x27/\'}" step "$version" </dev/null >"$log" 2>&1; then
		say "ok $version: $name ($((SECONDS - started)) s)"
	else
		tail -n 60 "$log"
		say "not ok $version: $name; all of it is in $log"
		failures=$((failures + 1))
		return 1
	fi
}

check_version() {
	local version=$1
	chroot_make "$(debian_suite "$version")" || return
	step "$version" "tools" root "$install_tools" || return
	rm -rf "$ROOT/home/builder/packages" "$ROOT/home/builder/tree"
	mkdir "$ROOT/home/builder/tree"
	(pack_tree) >"$ROOT/home/builder/tree.tar"
	in_chroot chown -R builder: /home/builder
	step "$version" "build and lintian" builder "$build" || return
	step "$version" "install" root "$install_package" || return
	step "$version" "installcheck" builder "$test_installed" || true
	step "$version" "purge" root "$purge_package" || true
	[ "$version" -lt 18 ] || step "$version" "mounted as by CloudNativePG" builder "$mounted" || true
}

failures=0
for version in $VERSIONS; do
	check_version "$version" || { [ "$failures" -gt 0 ] || failures=1; }
done
say "$([ "$failures" -eq 0 ] && echo "All is well" || echo "$failures failed"). The logs are in $LOGS."
[ "$failures" -eq 0 ]
