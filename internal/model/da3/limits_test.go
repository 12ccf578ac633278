// SPDX-License-Identifier: Apache-2.0

package da3

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestQuaternions: of the two quaternions of a rotation it is the one with w >= 0, of length 1.
func TestQuaternions(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 0))
	for range 500 {
		var q [4]float64
		n := 0.0
		for i := range q {
			q[i] = r.NormFloat64()
			n += q[i] * q[i]
		}
		n = math.Copysign(math.Sqrt(n), q[3])
		for i := range q {
			q[i] /= n
		}
		x, y, z, w := q[0], q[1], q[2], q[3]
		p := Pose{
			{1 - 2*(y*y+z*z), 2 * (x*y - z*w), 2 * (x*z + y*w), 0},
			{2 * (x*y + z*w), 1 - 2*(x*x+z*z), 2 * (y*z - x*w), 0},
			{2 * (x*z - y*w), 2 * (y*z + x*w), 1 - 2*(x*x+y*y), 0},
		}
		for i, v := range p.quaternion() {
			if math.Abs(v-q[i]) > 1e-9 {
				t.Fatalf("quaternion %v, want %v", p.quaternion(), q)
			}
		}
	}
}

// TestWhatANetworkHasNot: outputs and cameras that there are not are refused before a graph is begun.
func TestWhatANetworkHasNot(t *testing.T) {
	one, many := &Model{}, &Model{}
	one.Patch, many.Patch, many.Views = 14, 14, true
	for _, m := range []*Model{one, many} {
		for want := Outputs(0); want <= Depth|Conf|Rays|RayConf|Sky; want++ {
			if want != 0 && want&^m.Outputs() == 0 {
				continue
			}
			if _, err := m.Head(28, 28, want); err == nil {
				t.Errorf("views %v: outputs %#x accepted, has %#x", m.Views, want, m.Outputs())
			}
		}
	}
	if _, err := one.Camera(2); err == nil {
		t.Error("cameras of a network of one view")
	}
	if _, err := many.Tokens(2); err == nil {
		t.Error("known cameras for a network that takes none")
	}
}

// TestHooks: the blocks that the head reads ascend, and each is of the trunk's second part.
func TestHooks(t *testing.T) {
	good := Dims{Patch: 14, Dim: 64, Depth: 8, Heads: 4, Start: 2, Features: 16, Resolution: 28}
	for i := range good.Channels {
		good.Channels[i] = 16
	}
	for _, c := range []struct {
		hooks [4]int
		ok    bool
	}{
		{[4]int{2, 3, 4, 7}, true}, {[4]int{2, 3, 3, 7}, false}, {[4]int{2, 4, 3, 7}, false},
		{[4]int{1, 3, 4, 7}, false}, {[4]int{2, 3, 4, 8}, false},
	} {
		d := good
		copy(d.Hooks[:], c.hooks[:])
		if err := d.check(); (err == nil) != c.ok {
			t.Errorf("hooks %v of 8 blocks from 2: %v", c.hooks, err)
		}
	}
}
