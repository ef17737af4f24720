# Debians in chroots, as debootstrap makes them; no package of the machine's is touched.
# Sourced, after common.sh, by root; needs LOGS, a directory.
#
# They take packages from where the machine's own apt and npm take them.

debian_suite() {
	case $1 in
	15 | 16) echo bookworm ;;
	17) echo trixie ;;
	18) echo sid ;;
	esac
}

# The suite that this machine is of.
machine_suite() {
	sed -n 's/^VERSION_CODENAME=//p' /etc/os-release
}

# What the machine's apt is told about getting at archives.
machine_apt_settings() {
	apt-config dump | grep -E '^Acquire::[^ ]* "[^"]' | grep -vE '^Acquire::(IndexTargets|Changelogs|CompressionTypes|cdrom)' || true
}

# Lines "URI SUITE COMPONENT" of the distribution's own archives, as the machine's apt
# has them. What others offer for the same suite is left out: a bare machine has it not.
machine_sources() {
	local suite
	suite=$(machine_suite)
	apt-get indextargets --format '$(ORIGIN)|$(REPO_URI)|$(RELEASE)|$(COMPONENT)' 'Identifier: Packages' |
		awk -F'|' -v suite="$suite" '
			$1 !~ /^(Debian|Ubuntu|\$\(ORIGIN\)|)$/ || $2 !~ /^https?:/ || $4 !~ /^(main|universe)$/ { next }
			$3 == suite || $3 == suite "-updates" || $3 == suite "-security" { print $2, $3, $4 }' | sort -u
}

# The machine's mirror, from which another suite of the same distribution comes too.
machine_mirror() {
	machine_sources | awk -v suite="$(machine_suite)" '$2 == suite { print $1; exit }'
}

# What programs need in their environment to get at archives: NAME=VALUE, a line each.
machine_environment() {
	env | grep -iE '^(https?_proxy|ftp_proxy|no_proxy|all_proxy|npm_config_[a-z0-9_:/.-]*|NODE_EXTRA_CA_CERTS)=' |
		grep -viE '^npm_config_(prefix|globalconfig|userconfig|cache|local_prefix|user_agent|node_gyp|global_prefix|init_module|noproxy)=' || true
}

# A debootstrap of a suite in the directory ROOT, which is new. It is kept as a tar file in
# $CACHE for a week.
chroot_bootstrap() { # chroot_bootstrap SUITE ROOT
	local suite=$1 root=$2 base=$CACHE/base-$1.tar log=$LOGS/debootstrap-$1.log mirror proxy include=()
	mkdir -p "$root"
	if [ -n "$(find "$base" -mtime -7 2>/dev/null)" ] && tar -x --numeric-owner -f "$base" -C "$root" 2>"$log"; then
		return 0
	fi
	rm -rf "$root"
	mirror=$(machine_mirror)
	case $mirror in https:*) include=(--include=ca-certificates) ;; esac
	proxy=$(apt-config dump --format '%v%n' Acquire::http::Proxy)
	say "Making a Debian $suite in $root, from ${mirror:-its own mirror}: a minute or two."
	setpriv --pdeathsig KILL unshare --mount --pid --fork --kill-child=KILL \
		env PATH="$PATH:/usr/sbin:/sbin" ${proxy:+http_proxy="$proxy"} timeout 1200 \
		debootstrap --variant=minbase "${include[@]}" "$suite" "$root" $mirror >"$log" 2>&1 </dev/null || {
		tail -n 20 "$log" >&2
		return 1
	}
	rm -f "$root"/var/cache/apt/archives/*.deb
	tar -c --numeric-owner -f "$base.$$" -C "$root" . && mv "$base.$$" "$base" || rm -f "$base.$$"
}

# What of the machine's is written into a chroot: where archives are, and how to get at
# them. It brings no package.
chroot_settings() { # chroot_settings SUITE ROOT
	local suite=$1 root=$2 file
	machine_apt_settings >"$root/etc/apt/apt.conf.d/90machine"
	if [ "$suite" = "$(machine_suite)" ] && machine_sources | grep -q .; then
		machine_sources | sed 's/^/deb /' >"$root/etc/apt/sources.list"
	fi
	for file in auth.conf auth.conf.d trusted.gpg trusted.gpg.d keyrings; do
		[ ! -e "/etc/apt/$file" ] || cp -R "/etc/apt/$file" "$root/etc/apt/"
	done
	cp -L /etc/resolv.conf /etc/hosts "$root/etc/"
	# the machine's own certificates; ca-certificates takes them up when it is installed
	if compgen -G "/usr/local/share/ca-certificates/*.crt" >/dev/null; then
		mkdir -p "$root/usr/local/share/ca-certificates"
		cp -L /usr/local/share/ca-certificates/*.crt "$root/usr/local/share/ca-certificates/"
	fi
	(umask 077 && for file in /usr/etc/npmrc /usr/local/etc/npmrc /etc/npmrc ~/.npmrc; do
		if [ -f "$file" ]; then
			cat "$file"
			echo
		fi
	done >"$root/root/.npmrc")
	if [ -f /etc/ssl/certs/ca-certificates.crt ]; then
		cp -L /etc/ssl/certs/ca-certificates.crt "$root/usr/local/share/machine-certificates"
		echo cafile=/usr/local/share/machine-certificates >>"$root/root/.npmrc"
	fi
	# packages start no servers, and need not survive a loss of power
	printf '%s\n' '#!/bin/sh' 'exit 101' >"$root/usr/sbin/policy-rc.d"
	chmod 0755 "$root/usr/sbin/policy-rc.d"
	echo force-unsafe-io >"$root/etc/dpkg/dpkg.cfg.d/unsafe-io"
}

# Sets ROOT to the chroot of a suite that is kept in $CACHE, which is made if need be.
chroot_make() { # chroot_make SUITE
	ROOT=$CACHE/chroot-$1
	mkdir -p "$CACHE"
	if [ ! -f "$ROOT.complete" ]; then
		rm -rf "$ROOT"
		chroot_bootstrap "$1" "$ROOT" || return
		: >"$ROOT.complete"
	fi
	chroot_settings "$1" "$ROOT"
}

# Packages that were fetched before are links in the chroot: apt compares their sums. Those
# that are still to be had are kept for the next.
chroot_archives_in() { # chroot_archives_in SUITE ROOT
	local kept=$CACHE/archives-$1
	if compgen -G "$kept/*.deb" >/dev/null; then
		cp -l "$kept"/*.deb "$2/var/cache/apt/archives/" 2>/dev/null || true
	fi
}

chroot_archives_out() { # chroot_archives_out SUITE ROOT
	local kept=$CACHE/archives-$1 new=$CACHE/archives-$1.$$
	mkdir -p "$new"
	cp -l "$2"/var/cache/apt/archives/*.deb "$new/" 2>/dev/null || true
	rm -rf "$kept.old.$$"
	{ [ ! -d "$kept" ] || mv -T "$kept" "$kept.old.$$"; } && mv -T "$new" "$kept" || true
	rm -rf "$new" "$kept.old.$$"
}

# in_chroot COMMAND...: what is mounted for it, and every process that it starts, is gone
# when it ends, however it ends, or when the shell is killed that has called it. With EXEC
# set it takes the shell's place.
in_chroot() {
	local settings=()
	mapfile -t settings < <(machine_environment)
	${EXEC:+exec} setpriv --pdeathsig KILL unshare --mount --pid --fork --kill-child=KILL sh -c '
		root=$1
		shift
		mount --make-rprivate / &&
			mount -t proc proc "$root/proc" &&
			mount --rbind /dev "$root/dev" &&
			mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm" &&
			mount -t tmpfs -o mode=755 tmpfs "$root/run" || exit 125
		exec chroot "$root" env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root \
			LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive "$@"' in_chroot "$ROOT" "${settings[@]}" "$@"
}
