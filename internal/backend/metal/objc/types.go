// SPDX-License-Identifier: Apache-2.0

package objc

import "fmt"

type (
	// ID is a pointer to an object; 0 is nil, and nil swallows messages.
	ID uintptr
	// Class is a pointer to a class object.
	Class uintptr
	// SEL is a registered selector.
	SEL uintptr
	// Block is a pointer to a block literal. This module passes only nil:
	// waiting and polling replace completion blocks, whose callbacks purego
	// could never free.
	Block uintptr
)

// Version is a macOS version, major and minor.
type Version struct{ Major, Minor int }

// V is shorthand for a Version in declarations.
func V(major, minor int) Version { return Version{major, minor} }

// MinimumMacOS is the oldest system this module claims to run on: the first
// with scaledDotProductAttention, packed MPSNDArrays and buffer offsets.
var MinimumMacOS = V(15, 0)

// AtLeast reports whether v is o or newer.
func (v Version) AtLeast(o Version) bool {
	return v.Major > o.Major || v.Major == o.Major && v.Minor >= o.Minor
}

func (v Version) String() string { return fmt.Sprintf("%d.%d", v.Major, v.Minor) }
