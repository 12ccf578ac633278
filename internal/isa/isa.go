// SPDX-License-Identifier: Apache-2.0

package isa

import (
	"fmt"
	"os"
)

// Set is an instruction set.
type Set uint8

// The instruction sets, each better than the ones before it on its machine.
const (
	Portable   Set = iota // plain Go
	NEON                  // arm64
	NEONMMLA              // NEON, and products of 2 x 2 sums of bfloat16 and of bytes: FEAT_BF16, FEAT_I8MM
	AVX2                  // AVX2, FMA and F16C
	AVX512                // AVX-512 F, BW, DQ, VL
	AVX512BF16            // AVX512 and native bfloat16 products
	AVX512AMX             // AVX512BF16 and matrix tiles with bfloat16 products
	Count
)

var names = [Count]string{"portable", "neon", "neonmmla", "avx2", "avx512", "avx512bf16", "avx512amx"}

// String is the lower-case name.
func (s Set) String() string {
	if s >= Count {
		return fmt.Sprintf("isa(%d)", uint8(s))
	}
	return names[s]
}

// Env names the environment variable that picks the instruction set, by its
// String, for a whole process. An unknown or unusable value is ignored: a
// library must not fail to start over it.
const Env = "MAST3R_CPU_ISA"

// Usable lists the sets that this machine runs, the slowest first; Portable is
// always there.
func Usable() []Set {
	var list []Set
	for s := range Count {
		if s.Usable() {
			list = append(list, s)
		}
	}
	return list
}

// Pick is the set that a package with kernels for those in have, ascending,
// should use: the best of them that is not better than the set that Env names, or
// than the best that this machine runs.
//
// VDPBF16PS counts only where it pays, unless Env asks for it. Of BFMMLA and SMMLA
// nobody has measured that for us: pays, which has the package's own kernels, finds
// out.
func Pick(have []Set, pays func() bool) Set { return pick(have, Usable(), os.Getenv(Env), pays) }

func pick(have, usable []Set, name string, pays func() bool) Set {
	wanted := usable[len(usable)-1]
	if wanted == AVX512BF16 && !VectorBF16Pays() {
		wanted = AVX512
	}
	asked := false
	for _, s := range usable {
		if s.String() == name {
			wanted, asked = s, true
		}
	}
	best := Portable
	for _, s := range have {
		if s > wanted || !s.Usable() || s == NEONMMLA && !asked && !pays() {
			continue
		}
		best = s
	}
	return best
}
