#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A C compiler for darwin/arm64 on Linux: Debian's clang and lld with the headers and
# library stubs beside this file. LLVM picks another version than 19. deployment_target is the
# oldest macOS that may load what is built: Go's own floor. Metal needs 15; below it the CPU runs.
here=$(cd "$(dirname "$0")" && pwd)
exec "clang-${LLVM:-19}" "--target=arm64-apple-macos$(cat "$here/deployment_target")" -isysroot "$here/sysroot" -fuse-ld=lld \
	"-B/usr/lib/llvm-${LLVM:-19}/bin" -Wno-unused-command-line-argument "$@"
