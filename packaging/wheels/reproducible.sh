#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Two folders give the same bytes: reproducible.sh DIST
# Builds what `make wheels` left in DIST once more, from a clone of this commit in another folder,
# and compares the checksums.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
dist=$(cd "$1" && pwd)
python=${WHEELS_PYTHON:-$root/.venv-wheels/bin/python}
[ -z "$(git -C "$root" status --porcelain)" ] || { echo "reproducible.sh: the tree has changes that a clone would not have" >&2; exit 1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
git clone --quiet "$root" "$work/another/folder"
"$python" "$work/another/folder/packaging/wheels/build.py" --out "$work/dist" >/dev/null
sums() { (cd "$1" && sha256sum ./*); }
one=$(sums "$dist")
two=$(sums "$work/dist")
echo "$one"
[ "$one" = "$two" ] || { echo "another folder gives:" "$two" >&2; exit 1; }
echo "two folders, the same bytes"
