// SPDX-License-Identifier: Apache-2.0

package isa

import (
	"testing"
)

func TestPick(t *testing.T) {
	usable := Usable()
	if usable[0] != Portable {
		t.Fatalf("usable sets %v, want Portable first", usable)
	}
	best := usable[len(usable)-1]
	if best == AVX512BF16 && !VectorBF16Pays() {
		best = AVX512
	}
	all := make([]Set, Count)
	for i := range all {
		all[i] = Set(i)
	}
	for _, pays := range []bool{true, false} {
		want := best
		if best == NEONMMLA && !pays {
			want = NEON
		}
		for _, name := range []string{"", "nonsense", "AVX2", best.String()} {
			if name == best.String() {
				want = best
			}
			if got := pick(all, usable, name, func() bool { return pays }); got != want {
				t.Errorf("%q of all: %v, want the best, %v", name, got, want)
			}
		}
	}
	for i, s := range usable {
		if got := pick(all, usable, s.String(), nil); got != s {
			t.Errorf("%v of all: %v", s, got)
		}
		// A package without kernels for the set takes its next best.
		want := Portable
		if i > 0 {
			want = usable[i-1]
		}
		if got := pick(append([]Set{Portable}, usable[:i]...), usable, s.String(), nil); got != want {
			t.Errorf("%v of %v: %v, want %v", s, usable[:i], got, want)
		}
	}
	if Set(99).String() != "isa(99)" {
		t.Error(Set(99).String())
	}
}

func TestEnvironment(t *testing.T) {
	t.Setenv(Env, "portable")
	if got := Pick(Usable(), nil); got != Portable {
		t.Errorf("%s=portable picks %v", Env, got)
	}
}
