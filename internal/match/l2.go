// SPDX-License-Identifier: Apache-2.0

package match

// NearestL2 is Nearest with the smallest Euclidean distance instead of the
// largest dot product, for points and for descriptors that are not unit
// vectors. It is a plain loop: squared distances in float32, summed in the
// order of the components, without fusing.
func (m *Matcher) NearestL2(a, b Map, nnA, nnB []int32) error {
	if err := m.prepareNearest(a, b, nnA, nnB); err != nil {
		return err
	}
	if m.a.n == 0 || m.b.n == 0 {
		return nil
	}
	m.nearestL2(nnA, &m.a, &m.b)
	m.nearestL2(nnB, &m.b, &m.a)
	return nil
}

func (m *Matcher) nearestL2(nn []int32, x, y *side) {
	const chunk = 64
	m.pool.Run(ceilDiv(x.n, chunk), func(_, tile int) {
		for i := tile * chunk; i < min(x.n, (tile+1)*chunk); i++ {
			row := x.row(i)
			best, at := float32(0), -1
			for j := range y.n {
				if d := distance(row, y.row(j), best, at >= 0); at < 0 || d < best {
					best, at = d, j
				}
			}
			nn[x.index[i]] = y.index[at]
		}
	})
}

// distance returns the squared distance, or, once it has reached stop, any
// value not below it: partial sums only grow.
func distance(a, b []float32, stop float32, bounded bool) float32 {
	var s float32
	for k, v := range a {
		d := v - b[k]
		s += float32(d * d) // the conversion forbids fusing, which some compilers do
		if bounded && s >= stop {
			break
		}
	}
	return s
}
