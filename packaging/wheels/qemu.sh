#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Tries the Linux aarch64 wheel under qemu-user: qemu.sh WHEEL [REFERENCE.npz] | qemu.sh WHEEL --pytest ARGUMENTS
#
# Python and its libraries are Debian's for arm64, unpacked into a folder; the packages are
# aarch64 wheels from the package index. Exit status 77: something is missing here, and the wheel
# was not tried. A pair takes minutes: every instruction is translated.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
wheel=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
shift
python=${WHEELS_PYTHON:-$root/.venv-wheels/bin/python}
work=$root/build/qemu
mkdir -p "$work"
for tool in qemu-aarch64 apt-get dpkg unzip; do
	command -v $tool >/dev/null || { echo "SKIPPED: $tool is not here: the aarch64 wheel is not tried" >&2; exit 77; }
done

if [ ! -e "$work/ready" ]; then
	# apt with a state of its own, so that the machine's packages are left alone.
	apt="apt-get -q -oAPT::Architecture=arm64 -oAPT::Architectures=arm64 -oDir::State::Lists=$work/lists -oDir::Cache=$work/cache"
	mkdir -p "$work/lists/partial" "$work/cache/archives/partial" "$work/debs" "$work/root"
	$apt update >/dev/null 2>&1
	minor=$(apt-cache -oAPT::Architecture=arm64 -oAPT::Architectures=arm64 "-oDir::State::Lists=$work/lists" "-oDir::Cache=$work/cache" \
		show python3 2>/dev/null | sed -n 's/^Version: \(3\.[0-9]*\)\..*/\1/p' | head -1)
	[ -n "$minor" ] || { echo "SKIPPED: no arm64 packages could be had: the aarch64 wheel is not tried" >&2; exit 77; }
	(cd "$work/debs" && $apt download "python$minor-minimal" "libpython$minor-minimal" "libpython$minor-stdlib" libc6 libgcc-s1 \
		libstdc++6 libexpat1 zlib1g libssl3 libffi8 libbz2-1.0 liblzma5 libsqlite3-0 libuuid1 libcrypt1 >/dev/null)
	for deb in "$work"/debs/*.deb; do dpkg -x "$deb" "$work/root"; done
	"$python" -m pip download -q --no-deps --only-binary=:all: --python-version "$minor" --implementation cp --platform manylinux_2_28_aarch64 \
		--platform manylinux_2_27_aarch64 --platform manylinux_2_17_aarch64 --platform manylinux2014_aarch64 -d "$work/packages" \
		numpy pillow pyyaml tqdm trimesh filelock pytest pluggy iniconfig packaging pygments
	mkdir -p "$work/site"
	for file in "$work"/packages/*.whl; do unzip -q -o "$file" -d "$work/site"; done
	echo "python$minor" >"$work/ready"
fi

rm -rf "$work/wheel"
unzip -q -o "$wheel" -d "$work/wheel"
export PYTHONPATH="$work/wheel:$work/site" PYTHONDONTWRITEBYTECODE=1 PYTHONHOME="$work/root/usr"
# The loader of the unpacked system runs Python, so that children of Python find it too.
run() { qemu-aarch64 -L "$work/root" "$work/root/usr/bin/$(cat "$work/ready")" "$@"; }
if [ "${1:-}" = --pytest ]; then
	shift
	run -m pytest "$@"
else
	run -c 'import sys; from mast3r_runtime.cli import main; sys.exit(main(["selfcheck"]))'
	run "$here/try.py" --resolution "${RESOLUTION:-128}" "$@"
fi
