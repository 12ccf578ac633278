#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A C compiler for another system: zig, from the package ziglang of PyPI, in the Python that
# ZIG_PYTHON names. ZIG_TARGET is zig's name of the system, for example
# aarch64-linux-gnu.2.28: processor, system, and the oldest glibc that must do.
exec "${ZIG_PYTHON:-python3}" -m ziglang cc -target "$ZIG_TARGET" "$@"
