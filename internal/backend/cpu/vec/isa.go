// SPDX-License-Identifier: Apache-2.0

package vec

import (
	"fmt"
	"slices"

	"github.com/mast3r-runtime/mast3r-runtime/internal/isa"
)

// ISA names an instruction set.
type ISA = isa.Set

// The instruction sets that have kernels here. Products have one for bfloat16
// beyond AVX-512; rows have nothing to gain from it.
const (
	Portable = isa.Portable
	NEON     = isa.NEON
	AVX2     = isa.AVX2
	AVX512   = isa.AVX512
)

// active is written before main starts and by Force, which only tests call.
var active = isa.Pick(Supported(), nil)

// Supported lists the sets with kernels that this machine can run, Portable first.
func Supported() []ISA {
	var list []ISA
	for _, i := range []ISA{Portable, NEON, AVX2, AVX512} {
		if i.Usable() {
			list = append(list, i)
		}
	}
	return list
}

// Force switches to an instruction set of Supported and returns the function
// that switches back. It is for tests: no kernel may be running meanwhile.
func Force(i ISA) (restore func(), err error) {
	if !slices.Contains(Supported(), i) {
		return nil, fmt.Errorf("vec: this machine has no %v", i)
	}
	old := active
	active = i
	return func() { active = old }, nil
}
