// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"sort"
	"strings"
)

// wanted lists the classes and protocols that the engine can name; their superclasses and
// protocols must be here too, since a message is looked up along them.
var wanted = strings.Fields(`
NSObject NSArray NSMutableArray NSDictionary NSMutableDictionary NSString NSValue NSNumber NSData
NSMutableData NSURL NSError NSNull NSProcessInfo NSException NSAutoreleasePool NSBundle
MTLAllocation MTLArchitecture MTLBlitCommandEncoder MTLBuffer MTLCommandBuffer MTLCommandBufferDescriptor
MTLCommandEncoder MTLCommandQueue MTLCompileOptions MTLComputeCommandEncoder MTLComputePipelineDescriptor
MTLComputePipelineState MTLDevice MTLEvent MTLFence MTLFunction MTLHeap MTLLibrary MTLResource
MTLResidencySet MTLSharedEvent MTLSharedEventHandle MTLSharedEventListener
MPSCommandBuffer MPSKernel MPSNDArray MPSNDArrayDescriptor MPSTemporaryNDArray
MPSGraph MPSGraphCompilationDescriptor MPSGraphConvolution2DOpDescriptor
MPSGraphDepthwiseConvolution2DOpDescriptor MPSGraphDevice MPSGraphExecutable
MPSGraphExecutableExecutionDescriptor MPSGraphExecutableSerializationDescriptor MPSGraphExecutionDescriptor
MPSGraphObject MPSGraphOperation MPSGraphPooling2DOpDescriptor MPSGraphPooling4DOpDescriptor
MPSGraphRandomOpDescriptor MPSGraphShapedType MPSGraphTensor MPSGraphTensorData MPSGraphType MPSGraphVariableOp`)

// privateWanted is the one property outside the headers that the engine sets, after asking
// for it: it keeps MPSGraph from committing a command buffer in the middle of an encode.
var privateWanted = []string{"setEnableCommitAndContinue:", "enableCommitAndContinue"}

// missing holds methods that the full file lists only under MTL4ComputeCommandEncoder (its
// selectors were deduplicated by name) and that MTLComputeCommandEncoder.h declares as well,
// and the getter of a property of whose two classes it lists one.
var missing = []Method{
	{Class: "MTLComputeCommandEncoder", Sel: "-dispatchThreadgroups:threadsPerThreadgroup:", Enc: "v64@0:8{?=QQQ}16{?=QQQ}40"},
	{Class: "MTLComputeCommandEncoder", Sel: "-dispatchThreads:threadsPerThreadgroup:", Enc: "v64@0:8{?=QQQ}16{?=QQQ}40"},
	{Class: "MPSGraphExecutableExecutionDescriptor", Sel: "-enableCommitAndContinue", Enc: "B16@0:8", Private: true},
}

// full is the part of apple/selectors.json that is read here.
type full struct {
	Selectors []struct {
		Class, Selector, Kind, Return string
		Args                          []string
		ArgTypes                      []string `json:"arg_types"`
		Since                         string   `json:"since_macos"`
		Ownership                     string
		Encoding                      string `json:"objc_encoding_arm64"`
		NullableArgs                  []int  `json:"nullable_args"`
	}
	Private []struct {
		Class, Selector, Kind, Return string
		Args                          []string
		FirstSeen                     string `json:"runtime_first_seen"`
	} `json:"private_spi"`
	Classes []struct {
		Name       string
		DeclaredAs string `json:"declared_as"`
		Superclass string
		Protocols  []string
		FirstSeen  string `json:"runtime_first_seen"`
	}
}

// Data is data/selectors.json.
type Data struct {
	Source  string
	Classes []Class
	Methods []Method
}

// Class is a class or protocol of Data.
type Class struct {
	Name      string   `json:"name"`
	Protocol  bool     `json:"protocol,omitempty"`
	Super     string   `json:"super,omitempty"`
	Protocols []string `json:"protocols,omitempty"`
	Since     string   `json:"since,omitempty"`
}

// Method is one selector of a class; Sel starts with '+' (class) or '-' (instance).
type Method struct {
	Class    string   `json:"class"`
	Sel      string   `json:"sel"`
	Enc      string   `json:"enc"`             // arm64 type encoding
	Args     []string `json:"args,omitempty"`  // expected class per argument, "" = any
	Nullable []int    `json:"null,omitempty"`  // arguments that may be nil
	Own      string   `json:"own,omitempty"`   // "+0", "+1", "alloc", "init", "self"
	Since    string   `json:"since,omitempty"` // first macOS, empty = 12.1 or earlier
	// Private is not in Apple's headers, only in the class dumps: a system may lack it.
	Private bool `json:"private,omitempty"`
}

const sourceNote = "Trimmed by tests/metalsim/gen -trim from apple/selectors.json: Apple SDK headers read by clang, " +
	"objc2-generated (Xcode 26.5 SDK) and class dumps of macOS 12.1 to 26.4; see docs for the keys."

// Trim reduces apple/selectors.json to the wanted classes, one entry a line.
func Trim(raw []byte) ([]byte, error) {
	var in full
	if err := json.Unmarshal(raw, &in); err != nil {
		return nil, fmt.Errorf("gen: selectors.json: %w", err)
	}
	keep := map[string]bool{}
	for _, n := range wanted {
		keep[n] = true
	}
	out := Data{Source: sourceNote, Methods: missing}
	for _, c := range in.Classes {
		if !keep[c.Name] {
			continue
		}
		k := Class{Name: c.Name, Protocol: c.DeclaredAs == "protocol", Super: c.Superclass, Since: since(c.FirstSeen)}
		for _, p := range c.Protocols {
			// NSObject the protocol is merged into NSObject the class; protocols outside
			// the list (NSCopying, NSSecureCoding) declare nothing that is sent.
			if keep[p] && p != "NSObject" {
				k.Protocols = append(k.Protocols, p)
			}
		}
		if k.Name == "MTLResource" {
			k.Protocols = append(k.Protocols, "MTLAllocation") // since 15.0; the method carries its own date
		}
		out.Classes = append(out.Classes, k)
	}
	seen := map[string]bool{}
	for _, s := range in.Selectors {
		sign := "-"
		if s.Kind == "class" {
			sign = "+"
		}
		if key := s.Class + sign + s.Selector; !keep[s.Class] || seen[key] || strings.Contains(s.Return, "1") {
			continue // "1" marks a SIMD vector return (dimensionOrder), which no encoding can express
		} else {
			seen[key] = true
		}
		m := Method{Class: s.Class, Sel: sign + s.Selector, Enc: s.Encoding, Nullable: s.NullableArgs,
			Own: ownership(s.Ownership), Since: since(s.Since)}
		if m.Enc == "" {
			m.Enc = encode(s.Return, s.Args)
		}
		some := false
		for i, a := range s.Args {
			e := ""
			if a == "@" && i < len(s.ArgTypes) {
				e = expect(s.ArgTypes[i])
			}
			some = some || e != ""
			m.Args = append(m.Args, e)
		}
		if !some {
			m.Args = nil
		}
		out.Methods = append(out.Methods, m)
	}
	for _, s := range in.Private {
		if slices.Contains(privateWanted, s.Selector) && keep[s.Class] {
			out.Methods = append(out.Methods, Method{Class: s.Class, Sel: "-" + s.Selector, Enc: encode(s.Return, s.Args),
				Since: since(s.FirstSeen), Private: true})
		}
	}
	return marshal(out)
}

func marshal(d Data) ([]byte, error) {
	sort.Slice(d.Classes, func(i, j int) bool { return d.Classes[i].Name < d.Classes[j].Name })
	sort.Slice(d.Methods, func(i, j int) bool {
		a, b := d.Methods[i], d.Methods[j]
		if a.Class != b.Class {
			return a.Class < b.Class
		}
		return a.Sel < b.Sel
	})
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	line := func(prefix string, v any) error {
		b.WriteString(prefix)
		err := enc.Encode(v)
		b.Truncate(b.Len() - 1)
		return err
	}
	if err := line(`{"source":`, d.Source); err != nil {
		return nil, err
	}
	b.WriteString(",\n\"classes\":[\n")
	for i, c := range d.Classes {
		if err := line(comma(i), c); err != nil {
			return nil, err
		}
	}
	b.WriteString("],\n\"methods\":[\n")
	for i, m := range d.Methods {
		if err := line(comma(i), m); err != nil {
			return nil, err
		}
	}
	b.WriteString("]}\n")
	return b.Bytes(), nil
}

func comma(i int) string {
	if i == 0 {
		return ""
	}
	return ",\n"
}

// since drops dates that every supported system satisfies.
func since(s string) string {
	if s == "<=12.1" || strings.HasPrefix(s, "10.") || strings.HasPrefix(s, "11.") || s == "12.0" || s == "12.1" {
		return ""
	}
	return s
}

func ownership(s string) string {
	switch {
	case strings.HasPrefix(s, "+1 owned; consumes"):
		return "init"
	case strings.HasPrefix(s, "+1 owned (uninit"):
		return "alloc"
	case strings.HasPrefix(s, "+1"):
		return "+1"
	case strings.HasPrefix(s, "+0 net"):
		return "self"
	case strings.HasPrefix(s, "+0"):
		return "+0"
	}
	return ""
}

// expect turns a header type into the class to check: "NSString", "<MTLBuffer>" for a
// protocol, "NSArray/NSNumber" for a collection of known members.
func expect(t string) string {
	t = strings.NewReplacer("_Nullable", "", "_Nonnull", "", "__kindof", "", " ", "", "*", "", "&", "").Replace(t)
	if r, ok := strings.CutPrefix(t, "Option<"); ok {
		t = strings.TrimSuffix(r, ">")
	}
	switch t {
	case "MPSShape":
		return "NSArray/NSNumber"
	case "MPSGraphTensorDataDictionary":
		return "NSDictionary/MPSGraphTensor/MPSGraphTensorData"
	case "MPSGraphTensorShapedTypeDictionary":
		return "NSDictionary/MPSGraphTensor/MPSGraphShapedType"
	}
	for _, p := range []string{"id<", "ProtocolObject<dyn"} {
		if r, ok := strings.CutPrefix(t, p); ok {
			return known("<" + strings.TrimSuffix(r, ">") + ">")
		}
	}
	base, inner, _ := strings.Cut(strings.TrimSuffix(t, ">"), "<")
	if base == "NSArray" && known(inner) != "" {
		return "NSArray/" + inner
	}
	return known(base)
}

func known(t string) string {
	for _, n := range wanted {
		if strings.Trim(t, "<>") == n {
			return t
		}
	}
	return ""
}

// encode writes the encoding as clang does: sizes rounded up to an int, offsets in a row.
func encode(ret string, args []string) string {
	var b strings.Builder
	off := 16
	for _, a := range args {
		fmt.Fprintf(&b, "%s%d", a, off)
		off += size(a)
	}
	return fmt.Sprintf("%s%d@0:8%s", ret, off, b.String())
}

func size(a string) int {
	a = strings.TrimLeft(a, "rnNoORV")
	switch a[0] {
	case 'B', 'c', 'C', 's', 'S', 'i', 'I', 'f':
		return 4
	case '{':
		return 8 * (strings.Count(a, "Q") + strings.Count(a, "q"))
	}
	return 8
}
