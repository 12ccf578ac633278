// SPDX-License-Identifier: Apache-2.0

package bindings

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// Header is what mast3r.h declares, in its order.
type Header struct {
	Version   string            // MAST3R_VERSION
	Defines   []Constant        // MAST3R_ABI_VERSION, ...
	Constants []Constant        // of the enums
	Handles   []string          // typedefs of uint64_t
	Scalars   map[string]string // other typedefs: mast3r_status is int32_t
	Structs   []Struct
	Calls     []Call
}

// Constant is a number with a name.
type Constant struct {
	Name  string
	Value int
}

// Struct is one typedef struct.
type Struct struct {
	Name   string
	Fields []Field
}

// Field is one field of a struct; Array is the text between its brackets.
type Field struct {
	Type  string // without const and stars
	Stars int
	Name  string
	Array string
}

// Call is one function.
type Call struct {
	Result string
	Name   string
	Params []Param
}

// Param is one parameter of a call.
type Param struct {
	Const bool
	Type  string
	Stars int
	Name  string
}

// C is the parameter as C writes it.
func (p Param) C() string {
	text := p.Type + " " + strings.Repeat("*", p.Stars) + p.Name
	if p.Const {
		return "const " + text
	}
	return text
}

var (
	commentPattern   = regexp.MustCompile(`(?s)/\*.*?\*/`)
	cplusplusPattern = regexp.MustCompile(`(?s)#ifdef __cplusplus\n.*?#endif\n`)
	definePattern    = regexp.MustCompile(`^#define (\w+) (.+)$`)
	structPattern    = regexp.MustCompile(`(?s)^typedef struct \{(.*)\} (\w+)$`)
	typedefPattern   = regexp.MustCompile(`^typedef (\w+) (\w+)$`)
	enumPattern      = regexp.MustCompile(`(?s)^enum \{(.*)\}$`)
	callPattern      = regexp.MustCompile(`(?s)^((?:const )?\w+) (\*?)(mast3r_\w+)\((.*)\)$`)
	fieldPattern     = regexp.MustCompile(`^(\**)(\w+)(?:\[(\w+)\])?$`)
	paramPattern     = regexp.MustCompile(`^(const )?(\w+) (\**)(\w+)$`)
)

// Parse reads a header. Text that it does not understand is an error: nothing is left out
// silently.
func Parse(text string) (*Header, error) {
	h := &Header{Scalars: map[string]string{}}
	text = cplusplusPattern.ReplaceAllString(commentPattern.ReplaceAllString(text, ""), "")
	var code strings.Builder
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "#") {
			code.WriteString(line)
		} else if err := h.directive(strings.TrimSpace(line)); err != nil {
			return nil, err
		}
	}
	for _, statement := range statements(code.String()) {
		if err := h.statement(statement); err != nil {
			return nil, err
		}
	}
	if h.Version == "" || len(h.Structs) == 0 || len(h.Calls) == 0 {
		return nil, fmt.Errorf("mast3r.h: version %q, %d structs, %d calls: this is not the header", h.Version, len(h.Structs), len(h.Calls))
	}
	return h, nil
}

// statements cuts C at the semicolons that are in no braces, and brings white space to single
// spaces.
func statements(code string) []string {
	var out []string
	depth, start := 0, 0
	for i, c := range code {
		switch c {
		case '{':
			depth++
		case '}':
			depth--
		case ';':
			if depth == 0 {
				out = append(out, strings.Join(strings.Fields(code[start:i]), " "))
				start = i + 1
			}
		}
	}
	if rest := strings.TrimSpace(code[start:]); rest != "" {
		out = append(out, rest)
	}
	return out
}

func (h *Header) directive(line string) error {
	m := definePattern.FindStringSubmatch(line)
	if m == nil {
		return nil // #include, #ifndef, #endif, and the guard, which has no value
	}
	if m[1] == "MAST3R_VERSION" {
		version, err := strconv.Unquote(m[2])
		h.Version = version
		return err
	}
	value, err := strconv.Atoi(m[2])
	if err != nil {
		return fmt.Errorf("mast3r.h: %q: want a number", line)
	}
	h.Defines = append(h.Defines, Constant{m[1], value})
	return nil
}

func (h *Header) statement(s string) error {
	if m := structPattern.FindStringSubmatch(s); m != nil {
		fields, err := fieldsOf(m[1])
		h.Structs = append(h.Structs, Struct{m[2], fields})
		return err
	}
	if m := enumPattern.FindStringSubmatch(s); m != nil {
		return h.enum(m[1])
	}
	if m := typedefPattern.FindStringSubmatch(s); m != nil {
		if m[1] == "uint64_t" {
			h.Handles = append(h.Handles, m[2])
		} else {
			h.Scalars[m[2]] = m[1]
		}
		return nil
	}
	m := callPattern.FindStringSubmatch(s)
	if m == nil {
		return fmt.Errorf("mast3r.h: cannot read %q", s)
	}
	call := Call{Result: m[1] + m[2], Name: m[3]}
	for _, text := range strings.Split(m[4], ", ") {
		if text == "void" {
			continue
		}
		p := paramPattern.FindStringSubmatch(text)
		if p == nil {
			return fmt.Errorf("mast3r.h: %s: cannot read the parameter %q", call.Name, text)
		}
		call.Params = append(call.Params, Param{p[1] != "", p[2], len(p[3]), p[4]})
	}
	h.Calls = append(h.Calls, call)
	return nil
}

func (h *Header) enum(body string) error {
	for _, item := range strings.Split(body, ",") {
		name, text, _ := strings.Cut(strings.TrimSpace(item), " = ")
		value, err := strconv.Atoi(text)
		if err != nil {
			return fmt.Errorf("mast3r.h: enum: %q: want NAME = NUMBER", item)
		}
		h.Constants = append(h.Constants, Constant{name, value})
	}
	return nil
}

// fieldsOf reads the declarations of a struct, as in "const char *model, *variant; int32_t n;".
func fieldsOf(body string) ([]Field, error) {
	var out []Field
	for _, declaration := range strings.Split(body, ";") {
		declaration = strings.TrimPrefix(strings.TrimSpace(declaration), "const ")
		if declaration == "" {
			continue
		}
		kind, names, _ := strings.Cut(declaration, " ")
		for _, name := range strings.Split(names, ",") {
			m := fieldPattern.FindStringSubmatch(strings.TrimSpace(name))
			if m == nil {
				return nil, fmt.Errorf("mast3r.h: cannot read the field %q", declaration)
			}
			out = append(out, Field{kind, len(m[1]), m[2], m[3]})
		}
	}
	return out, nil
}
