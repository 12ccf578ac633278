// SPDX-License-Identifier: Apache-2.0

package objc_test

import (
	"testing"

	"github.com/mast3r-runtime/mast3r-runtime/internal/backend/metal/objc"
	"github.com/mast3r-runtime/mast3r-runtime/internal/testing/metalsim"
)

// BenchmarkSend compares the ways a message can go: integers through SyscallN,
// others through one registered function per signature. On the simulator its
// checks are most of the time.
func BenchmarkSend(b *testing.B) {
	metalsim.Open(b)
	objc.WithPool(func() {
		array := objc.Integers([]int{1, 2, 3})
		number := withDouble.Send(numberClass.ID, 1.5)
		b.Run("integers", func(b *testing.B) {
			for b.Loop() {
				objc.GoIntegers(array)
			}
		})
		b.Run("double", func(b *testing.B) {
			for b.Loop() {
				numberDouble.Send(number)
			}
		})
		b.Run("retain-release", func(b *testing.B) {
			for b.Loop() {
				objc.Release(objc.Retain(array))
			}
		})
	})
	b.Run("pool", func(b *testing.B) {
		for b.Loop() {
			objc.WithPool(func() {})
		}
	})
}
