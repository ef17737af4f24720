# Debians of other versions of PostgreSQL, in chroots that are kept in $CACHE; no package
# of the machine's is touched. Sourced, after common.sh, by root; needs LOGS, a directory.

debian_suite() {
	case $1 in
	15 | 16) echo bookworm ;;
	17) echo trixie ;;
	18) echo sid ;;
	esac
}

# What the machine's apt is told about getting at archives.
machine_apt_settings() {
	apt-config dump | grep -E '^Acquire::(https?|Retries|Check-)[^ ]* "[^"]' || true
}

# Sets ROOT to the chroot of a Debian suite, which is made if need be.
chroot_make() {
	local suite=$1 log=$LOGS/debootstrap-$1.log
	ROOT=$CACHE/chroot-$suite
	if [ ! -f "$ROOT.complete" ]; then
		say "Making a Debian $suite in $ROOT."
		mkdir -p "$CACHE"
		rm -rf "$ROOT"
		if ! env ${http_proxy:+http_proxy="$http_proxy"} PATH="$PATH:/usr/sbin:/sbin" \
			debootstrap --variant=minbase "$suite" "$ROOT" >"$log" 2>&1; then
			tail -n 20 "$log" >&2
			return 1
		fi
		: >"$ROOT.complete"
	fi
	machine_apt_settings >"$ROOT/etc/apt/apt.conf.d/90machine"
	[ ! -d /etc/apt/auth.conf.d ] || cp -R /etc/apt/auth.conf.d "$ROOT/etc/apt/"
	cp -L /etc/resolv.conf /etc/hosts "$ROOT/etc/"
	# packages start no servers
	printf '%s\n' '#!/bin/sh' 'exit 101' >"$ROOT/usr/sbin/policy-rc.d"
	chmod 0755 "$ROOT/usr/sbin/policy-rc.d"
}

# in_chroot COMMAND...: what is mounted for it, and every process that it
# starts, is gone when it ends, however it ends.
in_chroot() {
	unshare --mount --pid --fork --kill-child=KILL sh -c '
		root=$1
		shift
		mount --make-rprivate / &&
			mount -t proc proc "$root/proc" &&
			mount --rbind /dev "$root/dev" &&
			mount -t tmpfs -o mode=1777 tmpfs "$root/run" || exit
		exec chroot "$root" env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root \
			LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive "$@"' in_chroot "$ROOT" "$@"
}
