// SPDX-License-Identifier: Apache-2.0

package weights

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/mast3r-runtime/mast3r-runtime/internal/model/weights/pickle"
)

// A checkpoint says in its own way what a converted file has in its metadata:
// MASt3R's in args.model, the source text of the constructor's call; the decoder
// file of DUNE-MASt3R in mast3r_model_str and dune_backbone_name; DUNE's encoder
// file in args.image_size; the retrieval head in args.

// torchMetadata translates what the model code asks for, and refuses what it
// could only compute wrongly.
func torchMetadata(top, model *pickle.Dict) (map[string]string, error) {
	meta := map[string]string{}
	args := attributes(top)
	source, isMASt3R := text(args, "model")
	if s, ok := text(top, "mast3r_model_str"); ok {
		source, isMASt3R = s, true
	}
	if isMASt3R {
		if err := constructor(source, meta); err != nil {
			return nil, err
		}
	}
	if s, ok := text(top, "dune_backbone_name"); ok {
		meta["dune_backbone"] = s
		// The constructor is that of a MASt3R whose own encoder was left out
		// (enc_depth=0): its size and heads say nothing about DUNE's encoder.
		delete(meta, "resolution")
		delete(meta, "enc_heads")
	}
	if n, ok := number(args, "image_size"); ok {
		meta["resolution"] = n
	}
	if _, ok := model.Get("prewhiten.m"); ok {
		return meta, retrieval(args, meta)
	}
	return meta, nil
}

// attributes are the training script's arguments, an empty dict when there are
// none.
func attributes(top *pickle.Dict) *pickle.Dict {
	v, _ := top.Get("args")
	switch v := v.(type) {
	case *pickle.Object:
		return v.Attrs
	case *pickle.Dict:
		return v
	}
	return &pickle.Dict{}
}

func text(d *pickle.Dict, key string) (string, bool) {
	v, _ := d.Get(key)
	s, ok := v.(string)
	return s, ok
}

func number(d *pickle.Dict, key string) (string, bool) {
	v, _ := d.Get(key)
	n, ok := v.(int64)
	return strconv.FormatInt(n, 10), ok
}

// retrieval keeps the arguments that a retrieval head depends on.
func retrieval(args *pickle.Dict, meta map[string]string) error {
	for _, key := range []string{"nfeat", "imsize", "nclusters"} {
		if n, ok := number(args, key); ok {
			meta[key] = n
		}
	}
	if s, ok := text(args, "hdims"); ok {
		meta["hdims"] = s
	}
	for _, key := range []string{"residual", "postwhiten"} {
		v, _ := args.Get(key)
		switch v := v.(type) {
		case bool:
			meta[key] = map[bool]string{false: "False", true: "True"}[v]
		case string:
			meta[key] = v
		}
	}
	if s, ok := text(args, "featweights"); ok && s != "l2norm" {
		return unsupported("featweights", s, "l2norm")
	}
	return nil
}

func unsupported(key, got, want string) error {
	return &FormatError{Kind: KindUnsupported, Got: key + "=" + Quoted(got), Want: want}
}

// constructor reads the keyword arguments of a model's constructor. Names that
// say nothing about inference, or what the shapes say too, are passed over.
func constructor(source string, meta map[string]string) error {
	args, err := keywords(source)
	if err != nil {
		return &FormatError{Kind: KindUnsupported, Got: "constructor " + Quoted(source) + ": " + err.Error(), Want: "Class(name=value, ...)"}
	}
	if v, ok := args["head_type"]; ok && v != "catmlp+dpt" {
		return unsupported("head_type", v, "catmlp+dpt")
	}
	if v, ok := args["two_confs"]; ok && v != "True" {
		return unsupported("two_confs", v, "True: a confidence of its own for the descriptors")
	}
	if v, ok := args["output_mode"]; ok && !strings.HasPrefix(v, "pts3d+desc") {
		return unsupported("output_mode", v, "pts3d+desc24, points and descriptors")
	}
	if v, ok := args["pos_embed"]; ok {
		base, ok := strings.CutPrefix(v, "RoPE")
		if !ok {
			return unsupported("pos_embed", v, "RoPE100, rotary embedding")
		}
		meta["rope_base"] = base
	}
	for from, to := range map[string]string{"enc_num_heads": "enc_heads", "dec_num_heads": "dec_heads"} {
		if v, ok := args[from]; ok {
			meta[to] = v
		}
	}
	// The model code judges the modes; here only their form changes.
	for _, key := range []string{"depth_mode", "conf_mode", "desc_conf_mode"} {
		if v, ok := args[key]; ok {
			meta[key] = strings.Join(items(v), ",")
		}
	}
	long := 0
	for _, v := range items(args["img_size"]) {
		if n, err := strconv.Atoi(v); err == nil {
			long = max(long, n)
		}
	}
	if long > 0 {
		meta["resolution"] = strconv.Itoa(long)
	}
	return nil
}

// maxSource bounds the text of a constructor; the published ones have 500 bytes.
const maxSource = 1 << 16

// keywords splits "Class(a=1, b=(2, 3))" into its keyword arguments. The values
// stay texts, strings without their quotes: this is a reader of lists and no
// interpreter of Python.
func keywords(source string) (map[string]string, error) {
	if len(source) > maxSource {
		return nil, fmt.Errorf("%d bytes", len(source))
	}
	source = strings.TrimSpace(source)
	open := strings.IndexByte(source, '(')
	if open < 0 || !strings.HasSuffix(source, ")") {
		return nil, fmt.Errorf("no call")
	}
	parts, err := split(source[open+1 : len(source)-1])
	if err != nil {
		return nil, err
	}
	args := map[string]string{}
	for _, part := range parts {
		name, value, ok := strings.Cut(part, "=")
		if !ok {
			continue // a positional argument
		}
		name = strings.TrimSpace(name)
		if _, twice := args[name]; twice {
			return nil, fmt.Errorf("%s twice", Quoted(name))
		}
		args[name] = unquote(value)
	}
	return args, nil
}

func unquote(s string) string {
	s = strings.TrimSpace(s)
	if n := len(s); n >= 2 && (s[0] == '\'' || s[0] == '"') && s[n-1] == s[0] {
		return s[1 : n-1]
	}
	return s
}

// items are the elements of a tuple or list as texts; of anything else, the thing
// itself. Python spells infinity in several ways.
func items(value string) []string {
	value = strings.TrimSpace(value)
	if n := len(value); n >= 2 && (value[0] == '(' && value[n-1] == ')' || value[0] == '[' && value[n-1] == ']') {
		value = value[1 : n-1]
	}
	parts, err := split(value)
	if err != nil {
		return []string{value}
	}
	for i, p := range parts {
		p = unquote(p)
		sign := ""
		if rest, ok := strings.CutPrefix(p, "-"); ok {
			sign, p = "-", strings.TrimSpace(rest)
		}
		switch strings.ReplaceAll(p, `"`, "'") {
		case "float('inf')", "np.inf", "numpy.inf", "torch.inf", "math.inf":
			p = "inf"
		case "float('-inf')":
			p = "-inf"
		}
		parts[i] = sign + p
	}
	return parts
}

// split cuts at the commas that are in no bracket and no string.
func split(s string) ([]string, error) {
	var parts []string
	depth, start := 0, 0
	var quote byte
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c == '\'' || c == '"':
			quote = c
		case c == '(' || c == '[' || c == '{':
			depth++
		case c == ')' || c == ']' || c == '}':
			depth--
		case c == ',' && depth == 0:
			parts = append(parts, s[start:i])
			start = i + 1
		}
		if depth < 0 {
			return nil, fmt.Errorf("a bracket too many")
		}
	}
	if depth != 0 || quote != 0 {
		return nil, fmt.Errorf("an open bracket or string")
	}
	if strings.TrimSpace(s[start:]) != "" {
		parts = append(parts, s[start:])
	}
	return parts, nil
}
