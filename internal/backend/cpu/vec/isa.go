// SPDX-License-Identifier: Apache-2.0

package vec

import (
	"fmt"
	"os"
	"strings"
)

// ISA names an instruction set.
type ISA uint8

// The instruction sets, in rising order of preference on one architecture.
const (
	Portable ISA = iota
	NEON
	AVX2
	AVX512
)

var isaNames = [...]string{"portable", "neon", "avx2", "avx512"}

// String is the lower-case name.
func (i ISA) String() string {
	if int(i) < len(isaNames) {
		return isaNames[i]
	}
	return fmt.Sprintf("isa(%d)", uint8(i))
}

// active is written before main starts and by Force, which only tests call.
var active = best()

// Supported lists what this machine can run, Portable first.
func Supported() []ISA {
	l := []ISA{Portable}
	for _, i := range []ISA{NEON, AVX2, AVX512} {
		if supported(i) {
			l = append(l, i)
		}
	}
	return l
}

// isaEnv is the variable that picks an instruction set for a whole process, the
// one package gemm reads too; a value this machine cannot run is ignored.
const isaEnv = "MAST3R_CPU_ISA"

func best() ISA { return choose(os.Getenv(isaEnv), Supported()) }

// choose takes the named set if it is in the list, else the last. Products have
// a set for bfloat16 beyond AVX-512; rows have nothing to gain from it.
func choose(name string, have []ISA) ISA {
	for _, i := range have {
		if i.String() == strings.TrimSuffix(name, "bf16") {
			return i
		}
	}
	return have[len(have)-1]
}

// Force switches to an instruction set of Supported and returns the function
// that switches back. It is for tests: no kernel may be running meanwhile.
func Force(i ISA) (restore func(), err error) {
	if i != Portable && !supported(i) {
		return nil, fmt.Errorf("vec: this machine has no %v", i)
	}
	old := active
	active = i
	return func() { active = old }, nil
}
