#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Builds the shared library: capi/build.sh OUTPUT [SONAME]
#
# The one place that knows the link flags; setup.py, the Makefile and the C tests
# call it. Only mast3r_* stays visible, so that the library can live beside another
# one with a Go runtime. GOOS, GOARCH and CC are obeyed for a cross build, and TAGS: metalsim makes the
# library that tests run on the simulator of Metal. SONAME is
# what programs that link with an installed library look for (make install).
#
# The build id is empty, C code has no debugging information, and a DLL has no symbols (with them come
# a stamp and a GUID of the build): two clones give the same file.
set -eu
[ $# -eq 1 ] || [ $# -eq 2 ] || { echo "usage: capi/build.sh OUTPUT [SONAME]" >&2; exit 2; }
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$(dirname "$1")"
out=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
go=${GO:-go}
case "$("$go" env GOOS)" in
darwin) link="-Wl,-exported_symbol,_mast3r_* -Wl,-install_name,@rpath/$(basename "$out") -Wl,-dead_strip" ;;
windows) link="-Wl,-s -Wl,--out-implib,${out%.dll}.lib" ;;
*) link="-Wl,--version-script=$here/mast3r.map -Wl,--build-id=none -Wl,-s${2:+ -Wl,-soname,$2}" ;;
esac
cd "$here"
CGO_ENABLED=1 CGO_CFLAGS="${CGO_CFLAGS:--O2 -g0}" "$go" build -trimpath -buildvcs=false -buildmode=c-shared ${TAGS:+-tags "$TAGS"} \
	-ldflags="-s -w -buildid= '-extldflags=$link'" -o "$out" ./cmd/libmast3r
rm -f "${out%.*}.h" # cgo's header for package main holds no declaration; mast3r.h is the interface
