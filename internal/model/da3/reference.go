// SPDX-License-Identifier: Apache-2.0

package da3

import (
	"fmt"
	"math"
	"strings"
)

// Rules by which the reference view is chosen (da3.md 4).
const (
	// Saddle takes the view in the middle of three measures, the default.
	Saddle = "saddle_balanced"
	// First takes the first view.
	First = "first"
	// Middle takes the view in the middle of the order.
	Middle = "middle"
	// Range takes the view that is both very like and very unlike others.
	Range = "saddle_sim_range"
)

// Rules are the rules there are.
var Rules = []string{Saddle, First, Middle, Range}

// least is the number of views from which on there is a choice.
const least = 3

// Reference is the view that the others refer to, by one of Rules. class are the
// views' class tokens: the first row of each one's features.
func Reference(class [][]float32, rule string) (int, error) {
	n := len(class)
	choice := func() int { return 0 }
	switch rule {
	case Saddle:
		choice = func() int { return saddle(class) }
	case First:
	case Middle:
		choice = func() int { return n / 2 }
	case Range:
		choice = func() int { return widest(class) }
	default:
		return 0, fmt.Errorf("model: reference view by rule %.40q, want one of %s", rule, strings.Join(Rules, ", "))
	}
	if n < least {
		return 0, nil
	}
	return choice(), nil
}

// Similar are the cosines of the class tokens of every two views: how far pictures
// belong together, 1 for a view and itself.
func Similar(class [][]float32) [][]float64 {
	length := make([]float64, len(class))
	for i, z := range class {
		length[i] = math.Sqrt(dot(z, z))
	}
	out := make([][]float64, len(class))
	for i, a := range class {
		out[i] = make([]float64, len(class))
		for j, b := range class {
			out[i][j] = dot(a, b) / (length[i] * length[j])
		}
	}
	return out
}

// saddle takes the view whose mean similarity, length and variance are nearest the
// middle of what the views have.
func saddle(class [][]float32) int {
	var measure [3][]float64
	for i, row := range Similar(class) {
		sum := -1.0
		for _, c := range row {
			sum += c
		}
		length := math.Sqrt(dot(class[i], class[i]))
		measure[0] = append(measure[0], sum/float64(len(class)-1))
		measure[1] = append(measure[1], length)
		measure[2] = append(measure[2], variance(class[i], length))
	}
	distance := make([]float64, len(class))
	for _, m := range measure {
		low, high := m[0], m[0]
		for _, v := range m {
			low, high = min(low, v), max(high, v)
		}
		for i, v := range m {
			distance[i] += math.Abs((v-low)/(high-low+1e-8) - 0.5)
		}
	}
	best := 0
	for i, d := range distance {
		if d < distance[best] {
			best = i
		}
	}
	return best
}

// widest takes the view with the largest range of similarities. A view's own counts
// as 0.
func widest(class [][]float32) int {
	best, span := 0, math.Inf(-1)
	for i, row := range Similar(class) {
		row[i] -= 1
		low, high := row[0], row[0]
		for _, v := range row {
			low, high = min(low, v), max(high, v)
		}
		if high-low > span {
			best, span = i, high-low
		}
	}
	return best
}

func dot(a, b []float32) float64 {
	sum := 0.0
	for i, x := range a {
		sum += float64(x) * float64(b[i])
	}
	return sum
}

// variance is that of the components of z, divided by length, with the divisor n-1.
func variance(z []float32, length float64) float64 {
	mean := 0.0
	for _, x := range z {
		mean += float64(x) / length
	}
	mean /= float64(len(z))
	sum := 0.0
	for _, x := range z {
		d := float64(x)/length - mean
		sum += d * d
	}
	return sum / float64(len(z)-1)
}
