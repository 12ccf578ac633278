#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# usage: build.sh TARGET.js   Bundles what the page uses of three.js, with its licence, from the lock file.
set -eu
target=$(realpath -m "$1")
cd "$(dirname "$0")"
npm ci --no-audit --no-fund --silent
version=$(node -p 'require("./package.json").dependencies.three')
{
	printf '/*! three.js %s\n\n' "$version"
	cat node_modules/three/LICENSE
	printf '\n*/\n'
	npm run --silent build
} >"$target"
