// SPDX-License-Identifier: Apache-2.0

//go:build amd64 || arm64

package par

// pause tells the processor that this is a waiting loop: the core's other thread
// gets its share.
func pause()
