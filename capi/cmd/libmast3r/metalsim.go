// SPDX-License-Identifier: Apache-2.0

//go:build metalsim

package main

import _ "github.com/mast3r-runtime/mast3r-runtime/internal/testing/metalsim/hook" // for tests of C and Python
