#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The cross-built library beside one that Apple's tools have built: compare.sh CROSS NATIVE
# Exports must be the same; what is imported and the load commands are shown.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
for which in cross native; do
	nm -gU "$1" | awk '{ print $3 }' | sort >"$dir/$which.exports"
	nm -u "$1" | awk '{ print $NF }' | sort >"$dir/$which.imports"
	otool -l "$1" | awk '/ cmd / { print $2 }' | sort | uniq -c >"$dir/$which.commands"
	shift
done
for what in imports commands; do
	echo "$what, cross and native:"
	diff "$dir/cross.$what" "$dir/native.$what" || true
done
diff "$dir/cross.exports" "$dir/native.exports" || { echo "the exports differ" >&2; exit 1; }
echo "the exports agree: $(wc -l <"$dir/cross.exports")"
