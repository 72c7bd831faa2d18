#!/bin/sh
# setup.sh -- names the Debian packages that are missing and installs them.
#
# In: nothing; the list below.  Out: exit 0 when every package is there.  `make` runs it before it compiles anything.
# As root it calls apt-get; as another user it goes through sudo where that needs no password or a terminal is there to type
# one.  Where neither works, or with TDSL_SETUP=check, it prints the one command to run and stops with exit 1.
# LLVM is pinned: Debian's unversioned llvm packages are too old to know gfx942.
set -eu

packages="g++ llvm-22-dev llvm-22 clang-22 lld-22 liblld-22-dev re2c lemon pkg-config check zlib1g-dev libzstd-dev libxxhash-dev libcjson-dev
libamdhip64-dev python3 python3-dev python3-venv"
# Lays out the compiler's code by counts of x86-64.
[ "$(uname -m)" != x86_64 ] || packages="$packages bolt-22"

if ! command -v dpkg-query >/dev/null 2>&1; then
	command -v llvm-config-22 >/dev/null 2>&1 && exit 0
	echo "setup: this is not Debian; what is needed: $packages" >&2
	exit 1
fi

missing=
for p in $packages; do
	case $(dpkg-query -W -f='${db:Status-Status}' "$p" 2>/dev/null || true) in
	installed) ;;
	*) missing="$missing $p" ;;
	esac
done
[ -n "$missing" ] || exit 0

echo "setup: missing Debian packages:$missing" >&2
command="apt-get update && apt-get install -y --no-install-recommends$missing"
if [ "${TDSL_SETUP:-}" != check ]; then
	if [ "$(id -u)" = 0 ]; then
		as_root=
	elif command -v sudo >/dev/null 2>&1 && { sudo -n true 2>/dev/null || [ -t 0 ]; }; then
		as_root="sudo"
	else
		as_root=none
	fi
	if [ "$as_root" != none ]; then
		export DEBIAN_FRONTEND=noninteractive
		$as_root apt-get update -q >&2
		# shellcheck disable=SC2086  # a list of words
		$as_root apt-get install -y -q --no-install-recommends $missing >&2
		exit 0
	fi
fi
echo "setup: as root, run:  $command" >&2
exit 1
