// SPDX-License-Identifier: Apache-2.0

package refine

import (
	"math"
	"slices"
)

// linear is a 2x2 matrix: (x, y) goes to (a x + b y, c x + d y).
type linear struct{ a, b, c, d float64 }

func (l linear) at(x, y float64) (float64, float64) { return l.a*x + l.b*y, l.c*x + l.d*y }
func (l linear) det() float64                       { return l.a*l.d - l.b*l.c }
func (l linear) scaled(s float64) linear            { return linear{s * l.a, s * l.b, s * l.c, s * l.d} }

func (l linear) inverse() linear {
	k := 1 / l.det()
	return linear{k * l.d, -k * l.b, -k * l.c, k * l.a}
}

// singular are the singular values, the greater first.
func (l linear) singular() (s1, s2 float64) {
	// The sum and the difference of the two are the lengths of the map's parts
	// that keep and that turn over the orientation.
	p := math.Hypot(l.a+l.d, l.b-l.c)
	q := math.Hypot(l.a-l.d, l.b+l.c)
	return (p + q) / 2, math.Abs(p-q) / 2
}

// near is how many neighbours give a match its map.
const near = 12

// neighbours lists, for every match, the good matches nearest to it in picture 1, by
// distance, ties by number. Where there are hardly any good ones, all are.
func neighbours(xy []float64, good []bool, run func(n int, work func(i int))) []int32 {
	var list []int32
	for i, ok := range good {
		if ok {
			list = append(list, int32(i))
		}
	}
	if len(list) <= near {
		list = list[:0]
		for i := range good {
			list = append(list, int32(i))
		}
	}
	grid := newGrid(xy, list)
	out := make([]int32, len(good)*near)
	run(len(good), func(i int) { grid.nearest(i, out[i*near:(i+1)*near]) })
	return out
}

// bucketGrid sorts some of the points into square cells of about four points each.
type bucketGrid struct {
	xy         []float64
	x0, y0     float64
	cell       float64
	cols, rows int
	start      []int32 // of each cell in order
	order      []int32
}

func newGrid(xy []float64, list []int32) *bucketGrid {
	g := &bucketGrid{xy: xy, x0: math.Inf(1), y0: math.Inf(1)}
	x1, y1 := math.Inf(-1), math.Inf(-1)
	for _, i := range list {
		g.x0, x1 = min(g.x0, xy[2*i]), max(x1, xy[2*i])
		g.y0, y1 = min(g.y0, xy[2*i+1]), max(y1, xy[2*i+1])
	}
	w, h := x1-g.x0+1, y1-g.y0+1
	g.cell = math.Sqrt(w * h * 4 / float64(len(list)))
	g.cols, g.rows = int(w/g.cell)+1, int(h/g.cell)+1
	g.start = make([]int32, g.cols*g.rows+1)
	for _, i := range list {
		g.start[g.at(int(i))+1]++
	}
	for c := range g.cols * g.rows {
		g.start[c+1] += g.start[c]
	}
	g.order = make([]int32, len(list))
	fill := slices.Clone(g.start)
	for _, i := range list {
		c := g.at(int(i))
		g.order[fill[c]] = i
		fill[c]++
	}
	return g
}

func (g *bucketGrid) at(i int) int {
	return int((g.xy[2*i+1]-g.y0)/g.cell)*g.cols + int((g.xy[2*i]-g.x0)/g.cell)
}

type candidate struct {
	distance float64
	index    int32
}

// nearest looks in ever wider squares of cells, until no cell outside can hold
// anything nearer.
func (g *bucketGrid) nearest(i int, out []int32) {
	x, y := g.xy[2*i], g.xy[2*i+1]
	// A point outside the grid looks from the cell beside it, and a circle as far.
	cx := clamp(int((x-g.x0)/g.cell), g.cols)
	cy := clamp(int((y-g.y0)/g.cell), g.rows)
	outside := max(g.x0-x, x-g.x0-float64(g.cols)*g.cell, g.y0-y, y-g.y0-float64(g.rows)*g.cell, 0)
	var best [near]candidate
	for ring := 1; ; ring *= 2 {
		found := best[:0]
		limit := max(0, float64(ring)*g.cell-outside)
		for r := max(0, cy-ring); r <= min(g.rows-1, cy+ring); r++ {
			// The cells of a row lie one after the other.
			first, last := r*g.cols+max(0, cx-ring), r*g.cols+min(g.cols-1, cx+ring)
			for _, j := range g.order[g.start[first]:g.start[last+1]] {
				if dx, dy := g.xy[2*j]-x, g.xy[2*j+1]-y; int(j) != i {
					found = insert(found, candidate{dx*dx + dy*dy, j})
				}
			}
		}
		whole := ring >= max(g.cols, g.rows)
		if len(found) == near && (whole || found[near-1].distance <= limit*limit) {
			break
		}
	}
	for k := range out {
		out[k] = best[k].index
	}
}

// insert keeps the nearest candidates, ties by number, in their order; where there is
// no more room the last one goes.
func insert(list []candidate, c candidate) []candidate {
	before := func(a, b candidate) bool {
		return a.distance < b.distance || a.distance == b.distance && a.index < b.index
	}
	k := len(list)
	if k < cap(list) {
		list = list[:k+1]
	} else if k--; !before(c, list[k]) {
		return list
	}
	for ; k > 0 && before(c, list[k-1]); k-- {
		list[k] = list[k-1]
	}
	list[k] = c
	return list
}

// localMap is the linear map, from picture 1 to picture 2, of a match and its
// neighbours: least squares with the weights of a Cauchy distribution whose
// width is the median residual, so that wrong neighbours lose their say.
func localMap(xy1, xy2 []float64, i int, neighbour []int32) linear {
	var p, q [near + 1][2]float64
	p[near], q[near] = [2]float64{xy1[2*i], xy1[2*i+1]}, [2]float64{xy2[2*i], xy2[2*i+1]}
	for k, j := range neighbour {
		p[k], q[k] = [2]float64{xy1[2*j], xy1[2*j+1]}, [2]float64{xy2[2*j], xy2[2*j+1]}
	}
	weight := [near + 1]float64{}
	for k := range weight {
		weight[k] = 1
	}
	var l linear
	for range 6 {
		var sum, px, py, qx, qy float64
		for k, w := range weight {
			sum += w
			px, py = px+w*p[k][0], py+w*p[k][1]
			qx, qy = qx+w*q[k][0], qy+w*q[k][1]
		}
		px, py, qx, qy = px/sum, py/sum, qx/sum, qy/sum
		xx, xy, yy := 1e-3, 0.0, 1e-3
		var ux, uy, vx, vy float64
		for k, w := range weight {
			x, y := p[k][0]-px, p[k][1]-py
			u, v := q[k][0]-qx, q[k][1]-qy
			xx, xy, yy = xx+w*x*x, xy+w*x*y, yy+w*y*y
			ux, uy, vx, vy = ux+w*u*x, uy+w*u*y, vx+w*v*x, vy+w*v*y
		}
		det := xx*yy - xy*xy
		l = linear{(ux*yy - uy*xy) / det, (uy*xx - ux*xy) / det, (vx*yy - vy*xy) / det, (vy*xx - vx*xy) / det}
		var off, sorted [near + 1]float64
		for k := range off {
			x, y := l.at(p[k][0]-px, p[k][1]-py)
			off[k] = math.Hypot(q[k][0]-qx-x, q[k][1]-qy-y)
		}
		sorted = off
		slices.Sort(sorted[:])
		width := max(sorted[near/2], 0.5)
		for k, o := range off {
			weight[k] = 1 / (1 + (o/width)*(o/width))
		}
	}
	return l
}
