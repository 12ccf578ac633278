#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Two clones in two folders give the same bytes: reproducible.sh [NAME of packaging/wheels/build.py]
# Builds the wheel of this commit twice, in fresh clones, and compares the checksums.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
name=${1:-linux-x86_64}
python=${WHEELS_PYTHON:-$root/.venv-wheels/bin/python}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for folder in one another/deeper; do
	mkdir -p "$work/$folder"
	git clone --quiet "$root" "$work/$folder/clone"
	"$python" "$work/$folder/clone/packaging/wheels/build.py" "$name" --out "$work/$folder/dist"
done
one=$(cd "$work/one/dist" && sha256sum ./*)
two=$(cd "$work/another/deeper/dist" && sha256sum ./*)
echo "$one"
[ "$one" = "$two" ] || { echo "another folder gives: $two" >&2; exit 1; }
echo "two folders, the same bytes"
