#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Installs library, headers, pkg-config file and CMake package: capi/install.sh PREFIX
# DESTDIR is put before every path that is written, as packagers expect.
set -eu
[ $# -eq 1 ] || { echo "usage: [DESTDIR=DIR] capi/install.sh PREFIX" >&2; exit 2; }
here=$(cd "$(dirname "$0")" && pwd)
prefix=$1
root=${DESTDIR:-}$prefix
version=$(sed -n 's/^#define MAST3R_VERSION "\(.*\)".*/\1/p' "$here/mast3r.h")
abi=$(sed -n 's/^#define MAST3R_ABI_VERSION \([0-9]*\).*/\1/p' "$here/mast3r.h")
[ -n "$version" ] && [ -n "$abi" ] || { echo "install.sh: no version found" >&2; exit 1; }
mkdir -p "$root/lib/pkgconfig" "$root/lib/cmake/mast3r-runtime" "$root/include"

if [ "$("${GO:-go}" env GOOS)" = darwin ]; then
	file=libmast3r_runtime.$abi.dylib link=libmast3r_runtime.dylib
	sh "$here/build.sh" "$root/lib/$file"
else
	file=libmast3r_runtime.so.$abi link=libmast3r_runtime.so
	sh "$here/build.sh" "$root/lib/$file" "$file"
fi
ln -sf "$file" "$root/lib/$link"
cp "$here"/mast3r.h "$here"/mast3r.hpp "$here"/mast3r_retrieval.hpp "$here"/mast3r_executor.hpp "$here"/mast3r_mpsgraph.hpp "$root/include/"

cat >"$root/lib/pkgconfig/mast3r-runtime.pc" <<PC
prefix=$prefix
libdir=\${prefix}/lib
includedir=\${prefix}/include

Name: mast3r-runtime
Description: Two pictures in, 3D points, descriptors and matches out
Version: $version
Libs: -L\${libdir} -lmast3r_runtime
Cflags: -I\${includedir}
PC

cat >"$root/lib/cmake/mast3r-runtime/mast3r-runtime-config.cmake" <<CMAKE
# find_package(mast3r-runtime) gives the target mast3r::runtime.
get_filename_component(_mast3r_prefix "\${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
if(NOT TARGET mast3r::runtime)
  add_library(mast3r::runtime SHARED IMPORTED)
  set_target_properties(mast3r::runtime PROPERTIES
    IMPORTED_LOCATION "\${_mast3r_prefix}/lib/$file"
    IMPORTED_SONAME "$file"
    INTERFACE_INCLUDE_DIRECTORIES "\${_mast3r_prefix}/include"
    INTERFACE_COMPILE_FEATURES cxx_std_17)
endif()
CMAKE

cat >"$root/lib/cmake/mast3r-runtime/mast3r-runtime-config-version.cmake" <<CMAKE
# Before 1.0 a minor version may break; the C interface changes with its ABI number only.
set(PACKAGE_VERSION "$version")
if(PACKAGE_FIND_VERSION VERSION_GREATER PACKAGE_VERSION)
  set(PACKAGE_VERSION_COMPATIBLE FALSE)
else()
  set(PACKAGE_VERSION_COMPATIBLE TRUE)
  if(PACKAGE_FIND_VERSION VERSION_EQUAL PACKAGE_VERSION)
    set(PACKAGE_VERSION_EXACT TRUE)
  endif()
endif()
CMAKE
echo "installed $file $version in $root"
