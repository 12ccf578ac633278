// SPDX-License-Identifier: Apache-2.0

// Command libmast3r is the shared library: go build -buildmode=c-shared. It adds
// nothing to the exports of package capi; see capi/build.sh for the link flags.
package main

import _ "github.com/mast3r-runtime/mast3r-runtime/capi"

func main() {}
