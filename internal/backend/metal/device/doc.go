// SPDX-License-Identifier: Apache-2.0

// Package device is the part of Apple's Metal that the engine needs: a device,
// queues, shared buffers, command buffers and events.
//
// # Threads
//
// A [Device] owns one OS thread. Everything that encodes runs there, inside
// [Device.Do], one job after the other, each in an autorelease pool of its own:
// command buffers and encoders are not thread-safe, and pools may neither
// overlap nor move between threads. Allocating buffers, waiting and reading
// results may happen on any goroutine.
//
// # Memory
//
// Every buffer is in shared storage: on Apple silicon the host reads and writes
// the same bytes as the GPU, so nothing is copied in or out. A buffer can also
// be laid over memory that is already mapped, such as a file of weights.
//
// # Errors
//
// After an error of the GPU the contents of the results are garbage although
// no call failed; [CommandBuffer.Wait] therefore looks at the status of every
// command buffer and returns a [CommandError]. Messages that would raise an
// Objective-C exception end the process: arguments are checked before.
package device
