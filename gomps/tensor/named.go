// SPDX-License-Identifier: Apache-2.0

package tensor

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
)

// Attributes are the settings of an operation that is called by name, with the types of a
// JSON object: numbers are float64, lists []any.
type Attributes map[string]any

// Do runs an operation by its name. It is meant for bindings to other languages, which
// would otherwise need a function for each operation. Operands that are left out are nil.
// Operations that change an operand in place return nothing.
//
// A name, an operand count or an attribute that the operation's signature (see
// Operations) does not have is an error.
func (c *Context) Do(name string, attributes Attributes, in ...*Tensor) ([]*Tensor, error) {
	op, err := find(name)
	if err != nil {
		return nil, err
	}
	a, err := op.sig.arguments(attributes)
	if err != nil {
		return nil, err
	}
	return op.do(c, a, in)
}

// DoText is Do with the attributes as the text of a JSON object, or "".
func (c *Context) DoText(name, attributes string, in ...*Tensor) ([]*Tensor, error) {
	op, err := find(name)
	if err != nil {
		return nil, err
	}
	a, err := c.texts.arguments(&op.sig, attributes)
	if err != nil {
		return nil, err
	}
	return op.do(c, a, in)
}

func find(name string) (*operation, error) {
	op := named[name]
	if op == nil {
		return nil, refuse(ErrOption, "operation %q", name)
	}
	return op, nil
}

func (op *operation) do(c *Context, a arguments, in []*Tensor) ([]*Tensor, error) {
	if err := op.sig.checkOperands(in); err != nil {
		return nil, err
	}
	if !op.sig.list {
		for len(in) < len(op.sig.operands) {
			in = append(in, nil)
		}
	}
	return op.run(c, in, a)
}

// Operation describes an operation that Do knows.
type Operation struct {
	Name string
	// Signature is name(operands; attributes) -> results. A ? marks an operand that
	// may be left out, ... a list, ! one that is changed in place; an attribute has
	// its type (int, float, string, ints) and, unless it must be given, its value.
	Signature string
	// Doc is one sentence that says what it does.
	Doc string
	// Gradient says how the gradient is computed; "" where there is none.
	Gradient string
}

// Operations lists what Do knows, in the order of their names.
func Operations() []Operation {
	list := make([]Operation, 0, len(named))
	for name, op := range named {
		list = append(list, Operation{name, op.sig.text, op.doc, op.gradient})
	}
	slices.SortFunc(list, func(a, b Operation) int { return strings.Compare(a.Name, b.Name) })
	return list
}

// operation is one entry of named.
type operation struct {
	sig           signature
	doc, gradient string
	run           runner
}

// signature is a parsed Operation.Signature.
type signature struct {
	text, name string
	operands   []operand
	list       bool // one operand, any number of times
	attributes []attribute
}

type operand struct {
	name     string
	optional bool
}

// attribute has no value when it must be given.
type attribute struct {
	name, kind string
	text       string // of the value
	value      any
}

// parseSignature reads a signature of this package; one that it cannot read is a
// fault of the table, which every test would meet.
func parseSignature(text string) signature {
	s := signature{text: text}
	head, _, _ := strings.Cut(text, " -> ")
	name, rest, ok := strings.Cut(strings.TrimSuffix(head, ")"), "(")
	if !ok {
		panic("tensor: signature " + text)
	}
	s.name = name
	operands, attributes, _ := strings.Cut(rest, "; ")
	for _, f := range strings.Split(operands, ", ") {
		f = strings.TrimSuffix(f, "!")
		s.list = s.list || strings.HasSuffix(f, "...")
		s.operands = append(s.operands, operand{strings.TrimRight(f, "?."), strings.HasSuffix(f, "?")})
	}
	if attributes == "" {
		return s
	}
	for _, f := range strings.Split(attributes, ", ") {
		w := strings.Fields(f) // name kind [= value]
		a := attribute{name: w[0], kind: w[1]}
		if len(w) == 4 {
			a.text = w[3]
			var err error
			if a.value, err = defaultValue(a.kind, w[3]); err != nil {
				panic(fmt.Sprintf("tensor: signature %s: %v", text, err))
			}
		}
		s.attributes = append(s.attributes, a)
	}
	return s
}

func defaultValue(kind, text string) (any, error) {
	switch kind {
	case "string":
		return text, nil
	case "ints":
		return []int{}, nil // written []
	}
	var v float64
	if _, err := fmt.Sscan(text, &v); err != nil {
		return nil, err
	}
	return convert(kind, v)
}

func (s *signature) checkOperands(in []*Tensor) error {
	least := 0
	for i, o := range s.operands {
		if !o.optional {
			least = i + 1
		}
	}
	if len(in) < least || len(in) > len(s.operands) && !s.list {
		return refuse(ErrOption, "%s of %d tensors, want %s", s.name, len(in), s.text)
	}
	return nil // the operation itself asks for the operands' memory
}

// arguments are the checked attributes, by name.
type arguments map[string]any

// texts keeps the arguments of texts that were read before, since programs use few texts again
// and again. Nobody changes arguments.
type texts struct {
	mu   sync.Mutex
	read map[text]arguments
}

type text struct{ operation, attributes string }

// What is kept: so many texts of at most so many bytes.
const maxTexts, maxText = 1024, 256

func (k *texts) arguments(s *signature, attributes string) (arguments, error) {
	if attributes == "" && len(s.attributes) == 0 {
		return nil, nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	key := text{s.name, attributes}
	if a, ok := k.read[key]; ok {
		return a, nil
	}
	var given Attributes
	if attributes != "" {
		if err := json.Unmarshal([]byte(attributes), &given); err != nil {
			return nil, refuse(ErrOption, "attributes %q: %w", attributes, err)
		}
	}
	a, err := s.arguments(given)
	if err != nil || len(attributes) > maxText {
		return a, err
	}
	if k.read == nil || len(k.read) == maxTexts {
		k.read = map[text]arguments{}
	}
	k.read[key] = a
	return a, nil
}

func (a arguments) int(name string) int       { return a[name].(int) }
func (a arguments) ints(name string) []int    { return a[name].([]int) }
func (a arguments) size(name string) [2]int   { return a[name].([2]int) }
func (a arguments) float(name string) float32 { return a[name].(float32) }
func (a arguments) text(name string) string   { return a[name].(string) }
func (a arguments) activation() Activation    { return Activation(a.text("activation")) }
func (a arguments) convolution() ConvOptions {
	return ConvOptions{Stride: a.int("stride"), Pad: a.int("padding"), Dilation: a.int("dilation"), Groups: a.int("groups")}
}

func (s *signature) arguments(given Attributes) (arguments, error) {
	if len(s.attributes)+len(given) == 0 {
		return nil, nil
	}
	a := arguments{}
	for _, d := range s.attributes {
		v, ok := given[d.name]
		if !ok {
			if d.value == nil {
				return nil, refuse(ErrOption, "attribute %q is missing: %s", d.name, s.text)
			}
			a[d.name] = d.value
			continue
		}
		c, err := convert(d.kind, v)
		if err != nil {
			return nil, refuse(ErrOption, "attribute %q of %s: %w", d.name, s.name, err)
		}
		a[d.name] = c
	}
	for name := range given {
		if _, ok := a[name]; !ok {
			return nil, refuse(ErrOption, "attribute %q: %s has none of that name", name, s.text)
		}
	}
	return a, nil
}

// convert checks a value as JSON has it.
func convert(kind string, v any) (any, error) {
	switch kind {
	case "string":
		if s, ok := v.(string); ok {
			return s, nil
		}
	case "float":
		if f, ok := v.(float64); ok {
			return float32(f), nil
		}
	case "int":
		// 2^53 is where float64 stops counting.
		if f, ok := v.(float64); ok && f == math.Trunc(f) && math.Abs(f) <= 1<<53 {
			return int(f), nil
		}
	case "size": // height and width, or one number for both
		if n, err := convert("int", v); err == nil {
			return [2]int{n.(int), n.(int)}, nil
		}
		if list, err := convert("ints", v); err == nil && len(list.([]int)) == 2 {
			return [2]int(list.([]int)), nil
		}
	case "ints":
		list, ok := v.([]any)
		if !ok {
			break
		}
		out := make([]int, len(list))
		for i, x := range list {
			n, err := convert("int", x)
			if err != nil {
				return nil, fmt.Errorf("element %d: %w", i, err)
			}
			out[i] = n.(int)
		}
		return out, nil
	}
	return nil, fmt.Errorf("got %v (%T), want %s", v, v, kind)
}

func parseDType(name string) (DType, error) {
	for _, d := range []DType{F32, F16, I32} {
		if d.String() == name {
			return d, nil
		}
	}
	return 0, refuse(ErrDType, "element type %q, want f32, f16 or i32", name)
}
