// SPDX-License-Identifier: Apache-2.0

// Package darwin inspects what is cross-built for macOS: the library's Mach-O
// headers, its exports against the C header, what it needs from the system, its
// signature.
package darwin
