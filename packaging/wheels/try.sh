#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Installs and tries the wheels of a folder on this machine: try.sh DIST
# Linux x86-64 natively, Windows under Wine, Linux aarch64 under qemu. The other systems' results
# are compared with the native ones. What cannot be tried here is skipped, loudly.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
dist=$(cd "$1" && pwd)
work=$root/build/try
rm -rf "$work"
mkdir -p "$work"
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet "$dist"/mast3r_runtime-*-manylinux_*_x86_64.whl
cd "$work" # and not in the repository, whose package must not be imported
"$work/venv/bin/mast3r" selfcheck
"$work/venv/bin/python" "$here/try.py" --write "$work/256.npz"
"$work/venv/bin/python" "$here/try.py" --resolution 128 --write "$work/128.npz"

# try NAME COMMAND...: 77 means that it could not be tried.
try() {
	name=$1
	shift
	echo "== $name"
	status=0
	"$@" || status=$?
	[ $status -eq 0 ] || [ $status -eq 77 ] || { echo "try.sh: $name failed with $status" >&2; exit 1; }
}
try "other Pythons" python3 "$here/pythons.py" "$dist"/mast3r_runtime-*-manylinux_*_x86_64.whl
try "Windows under Wine" sh "$here/wine.sh" "$dist"/mast3r_runtime-*-win_amd64.whl "$work/256.npz"
try "Linux aarch64 under qemu" sh "$here/qemu.sh" "$dist"/mast3r_runtime-*_aarch64.whl "$work/128.npz"
