// SPDX-License-Identifier: Apache-2.0

package weights

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mast3r-runtime/mast3r-runtime/internal/tensor"
)

// small makes F32 tensors of one element; the value tells them apart.
func small(names ...string) []Tensor {
	var list []Tensor
	for i, n := range names {
		list = append(list, Tensor{Name: n, DType: tensor.U8, Shape: tensor.Shape{1}, Data: []byte{byte(i)}})
	}
	return list
}

func TestCanonicalNames(t *testing.T) {
	const block = "blocks.0.3.norm1.weight"
	for _, c := range []struct {
		what string
		file [][2]string // name in the file, canonical name
	}{
		{"MASt3R", [][2]string{
			{"enc_blocks.0.norm1.weight", "enc_blocks.0.norm1.weight"},
			{"decoder_embed.weight", "decoder_embed.weight"},
			{"downstream_head1.dpt.scratch.layer_rn.0.weight", "downstream_head1.dpt.scratch.layer1_rn.weight"},
			{"downstream_head1.dpt.scratch.layer4_rn.weight", "downstream_head1.dpt.scratch.layer4_rn.weight"},
		}},
		{"MASt3R, wrapped", [][2]string{
			{"module._orig_mod.enc_norm.weight", "enc_norm.weight"},
			{"_orig_mod.module.dec_norm.weight", "dec_norm.weight"},
			{"encoder.patch_embed.proj.weight", "patch_embed.proj.weight"},
		}},
		{"DUNE encoder", [][2]string{
			{"encoder.cls_token", "encoder.cls_token"},
			{"encoder." + block, "encoder." + block},
			{"encoder.norm.weight", "encoder.norm.weight"},
			{"projectors.dino2reg_vitlarge_14.linear.bias", "projectors.dino2reg_vitlarge_14.linear.bias"},
			{"teacher_norms.x.normalizers.cls.mean", "teacher_norms.x.normalizers.cls.mean"},
		}},
		{"DUNE encoder, bare", [][2]string{
			{"cls_token", "encoder.cls_token"},
			{block, "encoder." + block},
			{"norm.weight", "encoder.norm.weight"},
		}},
		{"DUNE encoder, twice prefixed", [][2]string{
			{"encoder.encoder.cls_token", "encoder.cls_token"},
			{"encoder.encoder." + block, "encoder." + block},
			{"encoder.projectors.a.linear.bias", "projectors.a.linear.bias"},
		}},
		{"DUNE encoder, wrapped", [][2]string{
			{"module.encoder." + block, "encoder." + block},
			{"module._orig_mod.encoder.pos_embed", "encoder.pos_embed"},
		}},
		{"DUNE decoder", [][2]string{
			{"norm.weight", "norm.weight"},
			{"mast3r.dec_norm.weight", "mast3r.dec_norm.weight"},
			{"mast3r.downstream_head2.dpt.scratch.layer_rn.3.weight", "mast3r.downstream_head2.dpt.scratch.layer4_rn.weight"},
			{"dune_backbone." + block, "encoder." + block},
		}},
		{"DUNE in one file", [][2]string{
			{"encoder." + block, "encoder." + block},
			{"encoder.norm.weight", "encoder.norm.weight"},
			{"decoder.norm.weight", "norm.weight"},
			{"decoder.mast3r.dec_norm.weight", "mast3r.dec_norm.weight"},
		}},
		{"retrieval", [][2]string{{"prewhiten.m", "prewhiten.m"}, {"projector.0.weight", "projector.0.weight"}}},
	} {
		var names, want []string
		for _, p := range c.file {
			names = append(names, p[0])
			want = append(want, p[1])
		}
		n := newNamer(names)
		for i, name := range names {
			if got := n.canonical(name); got != want[i] {
				t.Errorf("%s: %s became %s, want %s", c.what, name, got, want[i])
			}
		}
	}
}

func TestSetAccounts(t *testing.T) {
	s := NewSetTensors(small("enc_norm.weight", "mask_token", "surplus",
		"downstream_head1.dpt.scratch.refinenet4.resConfUnit1.conv1.bias"), nil)
	if _, err := s.Need("enc_norm.weight", tensor.Shape{1}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Need("enc_norm.weight", tensor.Shape{-1}); err != nil {
		t.Errorf("-1 matches any dimension, got %v", err)
	}
	if err := s.Report().Err(); err != nil {
		t.Errorf("nothing is wrong yet, got %v", err)
	}
	_, err := s.Need("dec_norm.weight", tensor.Shape{768})
	if !errors.Is(err, ErrMissing) || !strings.Contains(err.Error(), `"dec_norm.weight"`) || !strings.Contains(err.Error(), "[768]") {
		t.Errorf("missing: got %v", err)
	}
	_, err = s.Need("surplus", tensor.Shape{1, 2})
	if !errors.Is(err, ErrMismatch) || !strings.Contains(err.Error(), "got [1], want [1,2]") {
		t.Errorf("misshapen: got %v", err)
	}
	r := s.Report()
	if !slices.Equal(r.Missing, []string{"dec_norm.weight"}) || !slices.Equal(r.Misshapen, []string{"surplus"}) ||
		len(r.Extra) != 0 || len(r.KnownExtra) != 2 {
		t.Errorf("report %+v", r)
	}
	if err := r.Err(); !errors.Is(err, ErrMissing) || !errors.Is(err, ErrMismatch) {
		t.Errorf("joined error %v", err)
	}
}

func TestReportShortensALongList(t *testing.T) {
	s := NewSetTensors(small("a", "b"), nil)
	for _, r := range "abcdefghijklmnop" {
		s.Need("x"+string(r), tensor.Shape{1})
	}
	if err := s.Report().Err(); !strings.Contains(err.Error(), "and 6 more") {
		t.Errorf("got %v", err)
	}
	if got := s.Report().Extra; !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("extra %q", got)
	}
}

func TestAliasesMustAgree(t *testing.T) {
	const a, b = "h.scratch.layer1_rn.weight", "h.scratch.layer_rn.0.weight"
	list := small(a, b)
	if _, err := NewSetTensors(list, nil).Need(a, tensor.Shape{1}); !errors.Is(err, ErrConflict) {
		t.Errorf("different contents: got %v", err)
	}
	list[1].Data = list[0].Data
	s := NewSetTensors(list, nil)
	if _, err := s.Need(a, tensor.Shape{1}); err != nil {
		t.Error(err)
	}
	if r := s.Report(); len(r.Extra) != 0 {
		t.Errorf("the alias is reported as extra: %q", r.Extra)
	}
}

func TestOpenSetLayouts(t *testing.T) {
	write := func(dir, name string, list []Tensor) {
		t.Helper()
		if err := Write(filepath.Join(dir, name), list, map[string]string{"from": name}, 0); err != nil {
			t.Fatal(err)
		}
	}
	both, one, half := t.TempDir(), t.TempDir(), t.TempDir()
	write(both, "encoder.safetensors", small("encoder.cls_token", "encoder.blocks.0.0.ls1.gamma"))
	write(both, "decoder.safetensors", small("norm.weight", "mast3r.dec_norm.weight"))
	write(both, "retrieval.safetensors", small("prewhiten.m"))
	write(one, "model.safetensors", small("enc_norm.weight"))
	write(half, "encoder.safetensors", small("encoder.cls_token"))

	s, err := OpenSet(both, filepath.Join(both, "retrieval.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	want := []string{"encoder.blocks.0.0.ls1.gamma", "encoder.cls_token", "mast3r.dec_norm.weight", "norm.weight", "prewhiten.m"}
	if got := s.Names(); !slices.Equal(got, want) {
		t.Errorf("names %q, want %q", got, want)
	}
	if got := s.Metadata()["from"]; got != "encoder.safetensors" {
		t.Errorf("metadata of %q, want the first file's", got)
	}
	m, err := OpenSet(one)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if !m.Has("enc_norm.weight") || m.Has("none") || m.Shape("none") != nil {
		t.Error("model.safetensors was not read right")
	}
	_, err = OpenSet(half)
	if !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "no decoder.safetensors") {
		t.Errorf("half a model: got %v", err)
	}
	if _, err = OpenSet(); err == nil {
		t.Error("no path: no error")
	}
	bad := filepath.Join(both, "bad.safetensors")
	if err := os.WriteFile(bad, []byte("version https://git-lfs.github.com/spec/v1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err = OpenSet(both, bad); !errors.Is(err, ErrLFSPointer) || !strings.Contains(err.Error(), bad) {
		t.Errorf("LFS pointer: got %v", err)
	}
}

func TestWriterLeavesNothingHalfWritten(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "m.safetensors")
	specs := []Spec{{"a", tensor.U8, tensor.Shape{4}}}
	w, err := Create(path, specs, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, bad := range []struct {
		n   int
		off int64
	}{{5, 0}, {1, 4}, {1, -1}} {
		if err := w.WriteAt(0, make([]byte, bad.n), bad.off); err == nil {
			t.Errorf("%d bytes at %d were accepted", bad.n, bad.off)
		}
	}
	if err := w.WriteAt(0, []byte{1, 2}, 2); err != nil {
		t.Fatal(err)
	}
	if err := w.Commit(); err == nil {
		t.Error("half a tensor was committed")
	}
	if left, _ := os.ReadDir(dir); len(left) != 0 {
		t.Errorf("files left: %v", left)
	}
}

func TestWriterRefusesBadSpecs(t *testing.T) {
	path := filepath.Join(t.TempDir(), "m.safetensors")
	u8 := func(name string) Spec { return Spec{name, tensor.U8, tensor.Shape{1}} }
	for _, c := range []struct {
		specs []Spec
		want  error
	}{
		{[]Spec{u8("a"), u8("a")}, ErrDuplicate},
		{[]Spec{u8(metadataKey)}, ErrDuplicate},
		{[]Spec{u8(paddingPrefix + "0")}, ErrDuplicate},
		{[]Spec{{"a", tensor.Invalid, nil}}, ErrDType},
		{[]Spec{{"a", tensor.U8, tensor.Shape{-1}}}, ErrShape},
	} {
		if _, err := Create(path, c.specs, nil, 0); !errors.Is(err, c.want) {
			t.Errorf("%v: got %v, want %v", c.specs, err, c.want)
		}
	}
	if err := Write(path, []Tensor{{Name: "a", DType: tensor.U8, Shape: tensor.Shape{2}, Data: []byte{1}}}, nil, 0); !errors.Is(err, ErrSize) {
		t.Errorf("short data: got %v", err)
	}
}
