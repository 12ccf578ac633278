#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Compiles the C tests against a built library and runs them: tests/c/run.sh LIBRARY
set -eu
cd "$(dirname "$0")/../.."
library=$1
build=build/c
mkdir -p "$build"
cc=${CC:-cc}

# Exactly the calls of mast3r.h are visible, no other symbol of ours or of the Go runtime.
grep -o 'mast3r_[a-z_]*(' capi/mast3r.h | tr -d '(' | sort -u >"$build/declared"
case $library in
*.dylib) nm -gU "$library" | awk '{print $3}' | sed 's/^_//' ;;
*) nm -D --defined-only "$library" | awk '{print $3}' ;;
esac | sort -u >"$build/exported"
diff "$build/declared" "$build/exported" || { echo "exports differ from mast3r.h" >&2; exit 1; }

# The header stands alone, as C99 and as C++.
"$cc" -std=c99 -Wall -Wextra -Werror -pedantic -fsyntax-only -x c capi/mast3r.h
"$cc" -std=c++11 -Wall -Wextra -Werror -pedantic -fsyntax-only -x c++ capi/mast3r.h 2>/dev/null ||
	echo "c++ compiler missing: header not checked as C++" >&2

"$cc" -std=gnu11 -O1 -g -Wall -Wextra -Werror -Icapi -o "$build/capi_test" tests/c/capi_test.c \
	"$library" -lm -lpthread -Wl,-rpath,"$(cd "$(dirname "$library")" && pwd)"
"$build/capi_test" python/mast3r_runtime/models/mast3r_tiny/unified.safetensors
