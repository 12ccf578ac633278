// SPDX-License-Identifier: Apache-2.0

package device

// Native is the MTLDevice, which lives as long as d.
func (d *Device) Native() uintptr { return uintptr(d.id) }

// Native is the MTLCommandQueue, which lives as long as q.
func (q *Queue) Native() uintptr { return uintptr(q.id) }

// Native is the MTLBuffer, which lives as long as b.
func (b *Buffer) Native() uintptr { return uintptr(b.id) }
