// SPDX-License-Identifier: Apache-2.0

// Package hide keeps all symbols but the C interface and Python's entry point
// inside the extension: another extension with a Go runtime must not meet ours.
// It acts under the build tag gopy only, because the linker takes the flag just
// once and Go wants CGO_LDFLAGS_ALLOW for it.
package hide
