// SPDX-License-Identifier: Apache-2.0

package metalcost

import (
	"fmt"
	"strconv"
	"strings"
)

// program is a compiled MPSGraph as the simulator wrote it down.
type program struct {
	values  map[int]*value
	nodes   []*node
	targets map[int]bool
}

// value is a tensor of the graph.
type value struct {
	placeholder, constant bool
	shape                 []int
	bytes                 int64
	readers               []*node
	maker                 *node // nil for placeholders and constants
}

// node is an operation.
type node struct {
	index   int
	kind    string // the selector up to its first "Tensor", "With" or "Of"
	flops   float64
	in, out []int
}

// sizes of the MPSDataTypes by the simulator's names.
var sizes = map[string]int64{"Float32": 4, "Float16": 2, "BFloat16": 2, "Int8": 1, "Int16": 2, "Int32": 4, "Int64": 8,
	"UInt8": 1, "UInt16": 2, "UInt32": 4, "UInt64": 8, "Bool": 1}

// parse reads the text of record.c. An unknown line, type or value is an error:
// a count that silently misses a node would look like an improvement.
func parse(text string) (*program, error) {
	p := &program{values: map[int]*value{}, targets: map[int]bool{}}
	for _, line := range strings.Split(strings.TrimSpace(text), "\n") {
		f := strings.Fields(line)
		bad := fmt.Errorf("metalcost: line %q of the recorded graph", line)
		switch {
		case len(f) == 5 && f[0] == "v":
			id, err := strconv.Atoi(f[1])
			shape, err1 := numbers(strings.Trim(f[4], "[]"))
			n := sizes[f[3]]
			for _, d := range shape {
				n *= int64(d)
			}
			if err != nil || err1 != nil || n == 0 {
				return nil, bad
			}
			p.values[id] = &value{placeholder: f[2] == "p", constant: f[2] == "c", shape: shape, bytes: n}
		case len(f) == 5 && f[0] == "n":
			flops, err := strconv.ParseFloat(f[2], 64)
			in, err1 := ids(f[3], "i")
			out, err2 := ids(f[4], "o")
			if err != nil || err1 != nil || err2 != nil {
				return nil, bad
			}
			p.nodes = append(p.nodes, &node{len(p.nodes), kindOf(f[1]), flops, in, out})
		case len(f) == 2 && f[0] == "t":
			list, err := ids(f[1], "i")
			if err != nil {
				return nil, bad
			}
			for _, v := range list {
				p.targets[v] = true
			}
		default:
			return nil, bad
		}
	}
	return p, p.connect()
}

func ids(s, tag string) ([]int, error) {
	s, ok := strings.CutPrefix(s, tag)
	if !ok {
		return nil, fmt.Errorf("metalcost: %q, want %s", s, tag)
	}
	if s == "" {
		return nil, nil
	}
	return numbers(s)
}

func numbers(s string) ([]int, error) {
	var list []int
	for _, x := range strings.Split(s, ",") {
		n, err := strconv.Atoi(x)
		if err != nil {
			return nil, err
		}
		list = append(list, n)
	}
	return list, nil
}

// kindOf shortens "additionWithPrimaryTensor:secondaryTensor:name:" to "addition".
func kindOf(selector string) string {
	selector, _, _ = strings.Cut(selector, ":")
	at := len(selector)
	for _, end := range []string{"Tensor", "With", "OfTensor"} {
		if i := strings.Index(selector, end); i > 0 {
			at = min(at, i)
		}
	}
	return selector[:at]
}

func (p *program) connect() error {
	for _, n := range p.nodes {
		for _, id := range n.in {
			v := p.values[id]
			if v == nil {
				return fmt.Errorf("metalcost: node %d reads value %d, which is not recorded", n.index, id)
			}
			v.readers = append(v.readers, n)
		}
		for _, id := range n.out {
			if p.values[id] == nil {
				return fmt.Errorf("metalcost: node %d makes value %d, which is not recorded", n.index, id)
			}
			p.values[id].maker = n
		}
	}
	return nil
}
