// SPDX-License-Identifier: Apache-2.0

package match

import "math"

// Correspondences are pairs with a confidence each.
type Correspondences struct {
	Pairs
	Conf []float32
}

// CorrespondencesNonsym matches the two maps of one asymmetric run in both
// directions, seeded by a grid of every s-th pixel on either side, and returns
// the distinct pairs with the smaller of the two confidences. tol > 0 makes
// each direction one round with FastOptions.PixelTol (used on crops, where the
// exact pixel matters less than having a match near every seed).
func (m *Matcher) CorrespondencesNonsym(a, b Map, confA, confB []float32, s int, tol float64) (Correspondences, error) {
	if err := checkRun(a, b, confA, confB, s, tol); err != nil {
		return Correspondences{}, err
	}
	idx1, idx2, err := m.bothWays(nil, nil, a, b, s, tol)
	if err != nil {
		return Correspondences{}, err
	}
	p, _, err := Merge(idx1, idx2)
	if err != nil {
		return Correspondences{}, err
	}
	conf := make([]float32, len(p.Idx1))
	for k := range conf {
		conf[k] = min(confA[p.Idx1[k]], confB[p.Idx2[k]])
	}
	return Correspondences{p, conf}, nil
}

// CorrespondencesSym matches the four maps of a symmetric pair, as alignment
// wants them. maps and confs hold the views 11, 21, 22, 12: the first digit is
// the picture, the second the picture whose frame the run used. The runs
// (11, 21) and (12, 22) are each matched both ways; pairs found by several
// keep the confidence sqrt(q1*q2) of the first.
func (m *Matcher) CorrespondencesSym(maps [4]Map, confs [4][]float32, s int) (Correspondences, error) {
	runs := [2][2]int{{0, 1}, {3, 2}}
	for _, r := range runs {
		if err := checkRun(maps[r[0]], maps[r[1]], confs[r[0]], confs[r[1]], s, 0); err != nil {
			return Correspondences{}, err
		}
	}
	for _, same := range [2][2]int{{0, 3}, {1, 2}} {
		u, v := maps[same[0]], maps[same[1]]
		if u.Height != v.Height || u.Width != v.Width {
			return Correspondences{}, shapeError("second view of a picture", [2]int{v.Height, v.Width}, [2]int{u.Height, u.Width})
		}
	}
	var idx1, idx2 []int32
	var conf []float32
	for _, r := range runs {
		var err error
		if idx1, idx2, err = m.bothWays(idx1, idx2, maps[r[0]], maps[r[1]], s, 0); err != nil {
			return Correspondences{}, err
		}
		for k := len(conf); k < len(idx1); k++ {
			q := confs[r[0]][idx1[k]] * confs[r[1]][idx2[k]]
			conf = append(conf, float32(math.Sqrt(float64(q))))
		}
	}
	p, first, err := Merge(idx1, idx2)
	if err != nil {
		return Correspondences{}, err
	}
	out := Correspondences{p, make([]float32, len(first))}
	for k, i := range first {
		out.Conf[k] = conf[i]
	}
	return out, nil
}

func checkRun(a, b Map, confA, confB []float32, s int, tol float64) error {
	if err := checkPair(a, b); err != nil {
		return err
	}
	if err := checkLen("confidence 1", len(confA), a); err != nil {
		return err
	}
	if err := checkLen("confidence 2", len(confB), b); err != nil {
		return err
	}
	if s < 1 {
		return optionError("subsample", s, ">= 1")
	}
	if !(tol >= 0) {
		return optionError("pixel tolerance", tol, ">= 0")
	}
	return nil
}

// bothWays appends the pairs of a run from a to b, then those from b to a with
// the sides exchanged.
func (m *Matcher) bothWays(idx1, idx2 []int32, a, b Map, s int, tol float64) ([]int32, []int32, error) {
	m.prepare(&m.a, a, nil)
	m.prepare(&m.b, b, nil)
	options := func(d Map) FastOptions {
		if tol > 0 {
			return FastOptions{Seeds: grid([]int32{}, d, s), PixelTol: tol}
		}
		return FastOptions{Subsample: s}
	}
	forth, err := m.fast(&m.a, &m.b, a, options(a))
	if err != nil {
		return nil, nil, err
	}
	back, err := m.fast(&m.b, &m.a, b, options(b))
	if err != nil {
		return nil, nil, err
	}
	idx1 = append(append(idx1, forth.Idx1...), back.Idx2...)
	idx2 = append(append(idx2, forth.Idx2...), back.Idx1...)
	return idx1, idx2, nil
}
