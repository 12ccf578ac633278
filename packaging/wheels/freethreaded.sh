#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Builds a free-threaded Python from Debian's source package: freethreaded.sh FOLDER
# FOLDER/bin/python is there afterwards: 3.14t, or 3.13t where the source of 3.14 cannot be had. Exit
# status 77: neither can, or no compiler. No registry of packages has such a Python for Linux; a workflow
# takes it from actions/setup-python.
set -eu
mkdir -p "$1"
work=$(cd "$1" && pwd)
skip() {
	echo "SKIPPED: $1: the free-threaded Python is not tried" >&2
	exit 77
}
[ ! -e "$work/ready" ] || exit 0
for tool in apt-get gcc make; do
	command -v $tool >/dev/null || skip "$tool is not here"
done
for header in zlib.h ffi.h openssl/ssl.h; do
	echo "#include <$header>" | gcc -E - >/dev/null 2>&1 || skip "$header is not here (apt-get install zlib1g-dev libffi-dev libssl-dev)"
done

# apt with a state of its own, so that the machine's packages are left alone.
mirror=$(sed -n 's/^URIs: *\(.*debian\)\/*$/\1/p; s/^deb [^ ]* *\(http.*debian\)\/* .*/\1/p' /etc/apt/sources.list /etc/apt/sources.list.d/* 2>/dev/null | head -1)
[ -n "$mirror" ] || skip "no Debian mirror is known"
mkdir -p "$work/cache/archives/partial"
version=
for choice in sid:3.14 testing:3.14 trixie:3.13; do
	rm -rf "$work/lists"
	mkdir -p "$work/lists/partial"
	echo "deb-src [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror ${choice%:*} main" >"$work/sources.list"
	apt="-q -oDir::Etc::sourcelist=$work/sources.list -oDir::Etc::sourceparts=- -oDir::State::Lists=$work/lists -oDir::Cache=$work/cache"
	# shellcheck disable=SC2086
	if apt-get $apt update >>"$work/log" 2>&1 &&
		(cd "$work" && apt-get $apt source --download-only --tar-only "python${choice#*:}" >>"$work/log" 2>&1); then
		version=${choice#*:}
		break
	fi
done
[ -n "$version" ] || skip "no source of Python 3.14 or 3.13"
rm -rf "$work/source"
mkdir "$work/source"
tar -xf "$work"/"python${version}"_*.orig.tar.* -C "$work/source" --strip-components=1
cd "$work/source"
./configure --quiet --prefix="$work" --disable-gil --disable-test-modules --with-ensurepip=install >>"$work/log" 2>&1
make -j"$(nproc)" >>"$work/log" 2>&1
make install >>"$work/log" 2>&1
cd "$work"
ln -sf "python${version}t" bin/python
rm -rf source lists cache
touch ready
