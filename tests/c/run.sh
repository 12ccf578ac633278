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
many=internal/model/da3/testdata/tiny.safetensors # a network of many views, random weights
"$build/capi_test" python/mast3r_runtime/models/mast3r_tiny/unified.safetensors "$many"

# The Metal path on the simulator, with threads of 512 KiB as macOS gives them.
if [ "$(uname)" = Linux ] && [ -e tests/metalsim/Makefile ]; then
	make -s -C tests/metalsim build/libmetalsim.so
	simulated=$PWD/tests/metalsim/build # the shipped library knows no simulator
	TAGS=metalsim sh capi/build.sh "$simulated/libmast3r_runtime.so"
	"$cc" -std=gnu11 -O1 -g -Wall -Wextra -Werror -Icapi -o "$build/stack_test" tests/c/stack_test.c \
		"$simulated/libmast3r_runtime.so" -lpthread -Wl,-rpath,"$simulated"
	(
		ulimit -s 512
		MAST3R_OBJC_SIM=$simulated/libmetalsim.so METALSIM_REPORT=1 "$build/stack_test"
	) >"$build/stack.log" 2>&1 || { cat "$build/stack.log" >&2; exit 1; }
	grep -q 'metalsim: 0 violations' "$build/stack.log" || { cat "$build/stack.log" >&2; exit 1; }
fi

# The C++ classes, and the example of the documentation on the pictures in the wheel.
cxx=${CXX:-c++}
if command -v "$cxx" >/dev/null; then
	here=$(cd "$(dirname "$library")" && pwd)
	"$cxx" -std=c++17 -O1 -g -Wall -Wextra -Werror -pedantic -Icapi -o "$build/cpp_test" tests/c/cpp_test.cpp \
		"$library" -lpthread -Wl,-rpath,"$here"
	"$build/cpp_test" python/mast3r_runtime/models/mast3r_tiny/unified.safetensors "$many"

	# By the names of the original, on the CPU and on the simulator, and its document's own code.
	model=python/mast3r_runtime/models/mast3r_tiny/unified.safetensors
	"$cxx" -std=c++17 -O1 -g -Wall -Wextra -Werror -pedantic -Icapi -o "$build/mpsgraph_test" tests/c/mpsgraph_test.cpp \
		"$library" -lpthread -Wl,-rpath,"$here"
	MAST3R_BACKEND=cpu "$build/mpsgraph_test" "$model"
	if [ -e tests/metalsim/build/libmetalsim.so ]; then
		"$cxx" -std=c++17 -O1 -g -Icapi -o "$build/mpsgraph_sim" tests/c/mpsgraph_test.cpp \
			"$simulated/libmast3r_runtime.so" -lpthread -Wl,-rpath,"$simulated"
		MAST3R_BACKEND=metal MAST3R_SELFCHECK=off MAST3R_OBJC_SIM=$PWD/tests/metalsim/build/libmetalsim.so METALSIM_REPORT=1 \
			"$build/mpsgraph_sim" "$model" >"$build/mpsgraph.log" 2>&1 || { cat "$build/mpsgraph.log" >&2; exit 1; }
		grep -q 'metalsim: 0 violations' "$build/mpsgraph.log" || { cat "$build/mpsgraph.log" >&2; exit 1; }
	fi
	document=$(ls ../shared/documents/003_*.txt 2>/dev/null | head -1)
	if [ -n "$document" ]; then
		python3 tests/c/original.py "$document" >"$build/original.cpp"
		"$cxx" -std=c++17 -O1 -Wall -Icapi -o "$build/original" "$build/original.cpp" "$library" -Wl,-rpath,"$here"
		MAST3R_BACKEND=cpu "$build/original" "$model"
	else
		echo "no ../shared/documents: the code of the original's document is not compiled" >&2
	fi
	"$cxx" -std=c++17 -O1 -Wall -Wextra -Werror -pedantic -Icapi -o "$build/pair" docs/examples/pair.cpp \
		"$library" -Wl,-rpath,"$here"
	sh tests/c/pictures.sh "$build"
	"$build/pair" python/mast3r_runtime/models/mast3r_tiny/unified.safetensors "$build/1.ppm" "$build/2.ppm" >"$build/points.xyz"
	awk 'NF != 3 { exit 1 }' "$build/points.xyz" || { echo "pair: not points" >&2; exit 1; }
	! "$build/pair" none.safetensors "$build/1.ppm" "$build/2.ppm" 2>/dev/null || { echo "pair: took no model" >&2; exit 1; }
else
	echo "no C++ compiler: mast3r.hpp not tested" >&2
fi
