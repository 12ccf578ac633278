// SPDX-License-Identifier: Apache-2.0

// Package bufpool keeps released buffers for reuse.
//
// Sizes are rounded up to powers of two from 64 bytes to 512 MiB, so that a
// class is found by counting bits and a buffer serves every request of its
// class; larger requests get their exact size. Released buffers wait in their
// class, the newest first to be reused, the oldest first to be evicted: when
// the pool holds more than its limit, when a class is full, or on request.
//
// A buffer that a device still uses is in flight: releasing it then only marks
// it, and it becomes free when the device is done ([Buffer.Land]). A buffer in
// flight is therefore never handed out or freed.
//
// The pool knows nothing about devices: an [Allocator] makes and frees the
// memory, host or GPU.
package bufpool
