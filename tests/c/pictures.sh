#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Two pictures of 64 x 48 with something to see: tests/c/pictures.sh FOLDER writes 1.ppm and 2.ppm
set -eu
for i in 1 2; do
	{ printf 'P6 64 48 255\n'; head -c 9216 "$(dirname "$0")/capi_test.c"; } >"$1/$i.ppm"
done
