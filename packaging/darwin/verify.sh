#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What macOS itself says of the library, before anything loads it: verify.sh LIBRARY
set -eu
codesign --verify --strict --verbose=4 "$1"
dyld_info -platform -validate_only "$1"
dyld_info -fixups "$1" | wc -l
otool -L "$1"
# Architecture and oldest system, as the wheel's tag says.
lipo -archs "$1" | grep -qx arm64
otool -l "$1" | awk '/LC_BUILD_VERSION/ { found = 1 } found && /minos/ { print $2; exit }' |
	grep -qx "$(cat "$(dirname "$0")/deployment_target")"
