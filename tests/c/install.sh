#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Installs into an empty folder and builds the example of the documentation against it, once by
# pkg-config and once by CMake: tests/c/install.sh
set -eu
cd "$(dirname "$0")/../.."
prefix=$PWD/build/install
rm -rf "$prefix" build/cmake
sh capi/install.sh "$prefix"
model=python/mast3r_runtime/models/mast3r_tiny/unified.safetensors
mkdir -p build/cmake
sh tests/c/pictures.sh build/cmake

# run PROGRAM: the example gives points, with the installed library and no other.
run() {
	"$1" "$model" build/cmake/1.ppm build/cmake/2.ppm >build/cmake/points.xyz
	awk 'NF != 3 { exit 1 } END { exit NR == 0 }' build/cmake/points.xyz || { echo "$1: not points" >&2; exit 1; }
	echo "$1: $(wc -l <build/cmake/points.xyz) points"
}

if command -v pkg-config >/dev/null; then
	export PKG_CONFIG_PATH="$prefix/lib/pkgconfig"
	flags=$(pkg-config --cflags --libs mast3r-runtime)
	# shellcheck disable=SC2086
	"${CXX:-c++}" -std=c++17 -o build/cmake/pair-pkg docs/examples/pair.cpp $flags -Wl,-rpath,"$prefix/lib"
	run build/cmake/pair-pkg
else
	echo "SKIPPED: pkg-config is not here: the .pc file is not tested" >&2
fi

if command -v cmake >/dev/null; then
	cat >build/cmake/CMakeLists.txt <<CMAKE
cmake_minimum_required(VERSION 3.16)
project(pair CXX)
find_package(mast3r-runtime REQUIRED)
add_executable(pair-cmake "$PWD/docs/examples/pair.cpp")
target_link_libraries(pair-cmake mast3r::runtime)
CMAKE
	cmake -S build/cmake -B build/cmake/out -DCMAKE_PREFIX_PATH="$prefix" >build/cmake/log
	cmake --build build/cmake/out >>build/cmake/log || { cat build/cmake/log >&2; exit 1; }
	run build/cmake/out/pair-cmake
else
	echo "SKIPPED: cmake is not here: the CMake package is not tested" >&2
fi
