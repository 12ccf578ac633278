// SPDX-License-Identifier: Apache-2.0

package weights

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// The names of the published checkpoints (network.md 1).
const (
	mast3rName    = "MASt3R_ViTLarge_BaseDecoder_512_catmlpdpt_metric"
	duneSmallName = "dunemast3r_cvpr25_vitsmall.pth"
	duneBaseName  = "dunemast3r_cvpr25_vitbase.pth"
)

// layouts are the file names a model directory may hold, best first: those of
// converted models, of the Hugging Face hub, and of the published checkpoints. A
// DUNE decoder alone leads to its encoder.
var layouts = [][]string{
	{"unified.safetensors"},
	{"model.safetensors"},
	{"encoder.safetensors", "decoder.safetensors"},
	{"unified.pth"},
	{"encoder.pth", "decoder.pth"},
	{mast3rName + ".pth"},
	{duneSmallName},
	{duneBaseName},
}

// published is the first of the layouts that do not say which model it is: a
// folder of downloads may hold several.
const published = 5

// retrievalNames and codebookNames are what the retrieval head and its codebook
// are called in a directory, best first.
var (
	retrievalNames = []string{"retrieval.safetensors", "retrieval.pth", mast3rName + "_retrieval_trainingfree.pth"}
	codebookNames  = []string{"codebook.safetensors", "codebook.pkl", mast3rName + "_retrieval_codebook.pkl"}
)

// Files lists the files that make up a model: those of the first layout that a
// directory holds, or a file itself. A half of a published DUNE model brings the
// other half that lies beside it. A directory in the cache of the Hugging Face hub
// stands for its current snapshot.
func Files(path string) ([]string, error) {
	st, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("weights: %w", err)
	}
	if !st.IsDir() {
		if strings.HasSuffix(path, indexSuffix) {
			return shards(path)
		}
		return halves(path)
	}
	if path, err = snapshot(path); err != nil {
		return nil, err
	}
	var found, absent []string
	for i, layout := range layouts {
		list, miss, err := present(path, layout)
		switch {
		case err != nil:
			return nil, err
		case len(miss) > 0:
			absent = append(absent, strings.Join(miss, " + "))
		case i < published:
			return list, nil
		default:
			found = append(found, list...)
		}
	}
	switch len(found) {
	case 0:
		return single(path, absent)
	case 1:
		return halves(found[0])
	}
	return nil, fmt.Errorf("weights: %s holds %d models, want one, or the path of a file: %s", path, len(found), strings.Join(found, ", "))
}

// indexSuffix is how the index of a sharded model ends.
const indexSuffix = ".safetensors.index.json"

// modelSuffixes are how files that may be models end.
var modelSuffixes = []string{".safetensors", ".pth", ".pt", ".bin", ".ckpt"}

// single is the one model in a directory, whatever its name: the shards of its one
// index, or its one file.
func single(dir string, absent []string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("weights: %w", err)
	}
	var indexes, models []string
	for _, e := range entries {
		name := e.Name()
		switch {
		case strings.HasPrefix(name, ".") || slices.Contains(retrievalNames, name) || slices.Contains(codebookNames, name):
		case strings.HasSuffix(name, indexSuffix):
			indexes = append(indexes, name)
		case slices.ContainsFunc(layouts, func(l []string) bool { return len(l) > 1 && slices.Contains(l, name) }): // a half
		case slices.Contains(modelSuffixes, strings.ToLower(filepath.Ext(name))):
			models = append(models, name)
		}
	}
	switch {
	case len(indexes) == 1:
		return shards(filepath.Join(dir, indexes[0]))
	case len(indexes) == 0 && len(models) == 1:
		return halves(filepath.Join(dir, models[0]))
	case len(indexes)+len(models) > 0:
		const some = 10
		list := append(indexes, models...)
		return nil, fmt.Errorf("weights: %s: several files that may be models: %.200q; give the path of one: %w", dir, list[:min(some, len(list))], fs.ErrNotExist)
	}
	return nil, fmt.Errorf("weights: %s: no %s: %w", dir, strings.Join(absent, ", no "), fs.ErrNotExist)
}

// maxIndex bounds the index of a sharded model: a name of a tensor and of a file each.
const maxIndex = 64 << 20

// shards lists the files of a sharded model.
func shards(index string) ([]string, error) {
	bad := func(got, want string) error {
		return &FormatError{Kind: KindHeader, Path: index, Got: got, Want: want}
	}
	st, err := os.Stat(index)
	if err != nil {
		return nil, fmt.Errorf("weights: %w", err)
	}
	if !st.Mode().IsRegular() || st.Size() > maxIndex {
		return nil, bad(fmt.Sprintf("%v of %d bytes", st.Mode().Type(), st.Size()), fmt.Sprintf("a regular file of at most %d", maxIndex))
	}
	text, err := os.ReadFile(index)
	if err != nil {
		return nil, fmt.Errorf("weights: %w", err)
	}
	var content struct {
		WeightMap map[string]string `json:"weight_map"`
	}
	if err := json.Unmarshal(text, &content); err != nil {
		return nil, bad(err.Error(), "JSON with a weight_map")
	}
	var names []string
	for tensor, name := range content.WeightMap {
		if !filepath.IsLocal(name) || strings.HasPrefix(name, ".") || strings.ContainsAny(name, `/\`) {
			return nil, bad(fmt.Sprintf("tensor %s in %s", Quoted(tensor), Quoted(name)), "the name of a file beside the index")
		}
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	if len(names) == 0 || len(names) > maxShards {
		return nil, bad(fmt.Sprintf("%d files", len(names)), fmt.Sprintf("1 to %d", maxShards))
	}
	slices.Sort(names)
	list, miss, err := present(filepath.Dir(index), names)
	if err != nil {
		return nil, err
	}
	if len(miss) > 0 {
		return nil, fmt.Errorf("weights: %s: of %d shards %d are missing: %s: %w", index, len(names), len(miss), strings.Join(miss[:min(10, len(miss))], ", "), fs.ErrNotExist)
	}
	return list, nil
}

const maxShards = 1000

// present sorts the names of a layout into paths that are there and names that
// are not.
func present(dir string, layout []string) (list, miss []string, err error) {
	for _, name := range layout {
		p := filepath.Join(dir, name)
		switch _, err := os.Stat(p); {
		case err == nil:
			list = append(list, p)
		case errors.Is(err, fs.ErrNotExist):
			miss = append(miss, name)
		default:
			return nil, nil, fmt.Errorf("weights: %w", err)
		}
	}
	return list, miss, nil
}

// snapshot resolves models--OWNER--NAME of the hub's cache: refs/main holds the
// name of a folder in snapshots.
func snapshot(dir string) (string, error) {
	ref, err := os.ReadFile(filepath.Join(dir, "refs", "main"))
	if errors.Is(err, fs.ErrNotExist) {
		return dir, nil
	}
	if err != nil {
		return "", fmt.Errorf("weights: %w", err)
	}
	name := strings.TrimSpace(string(ref))
	if name == "" || strings.ContainsAny(name, `/\`) || strings.HasPrefix(name, ".") {
		return "", fmt.Errorf("weights: %s: refs/main is %s, want the name of a snapshot", dir, Quoted(name))
	}
	return filepath.Join(dir, "snapshots", name), nil
}

// duneEncoderName matches the published encoder files.
var duneEncoderName = regexp.MustCompile(`^dune_vit(small|base)14_\w+\.pth$`)

// halves completes a published half of a DUNE model with the other half in the
// same directory. Any other file, and a half whose other half is not there, stays
// as it is: the model code then says which tensors are missing.
func halves(path string) ([]string, error) {
	dir, base := filepath.Split(path)
	if m := duneEncoderName.FindStringSubmatch(base); m != nil {
		decoder := filepath.Join(dir, "dunemast3r_cvpr25_vit"+m[1]+".pth")
		if _, err := os.Stat(decoder); err != nil {
			return []string{path}, nil
		}
		return []string{path, decoder}, nil
	}
	if base != duneSmallName && base != duneBaseName {
		return []string{path}, nil
	}
	size := strings.TrimSuffix(strings.TrimPrefix(base, "dunemast3r_cvpr25_vit"), ".pth")
	entries, err := os.ReadDir(filepath.Join(dir, "."))
	if err != nil {
		return nil, fmt.Errorf("weights: %w", err)
	}
	var encoders []string
	for _, e := range entries {
		if m := duneEncoderName.FindStringSubmatch(e.Name()); m != nil && m[1] == size {
			encoders = append(encoders, filepath.Join(dir, e.Name()))
		}
	}
	f, err := Open(path)
	if err != nil {
		return nil, err
	}
	// "dune_vitsmall_14_448_encoder" is what lies in dune_vitsmall14_448.pth.
	name := strings.TrimSuffix(strings.TrimPrefix(f.meta["dune_backbone"], "dune_"), "_encoder")
	want := filepath.Join(dir, "dune_"+strings.Replace(name, "_14_", "14_", 1)+".pth")
	if err := f.Close(); err != nil {
		return nil, err
	}
	switch {
	case slices.Contains(encoders, want):
		return []string{want, path}, nil
	case len(encoders) == 1:
		return []string{encoders[0], path}, nil
	case len(encoders) > 1:
		return nil, fmt.Errorf("weights: %s: several encoders beside it and none is %s; give the path of one of %s", path, want, strings.Join(encoders, ", "))
	}
	return []string{path}, nil
}

// maxBeside bounds a small file beside a model.
const maxBeside = 1 << 20

// besideModel reads a small file in the folder of a model; nil if it is not there.
func besideModel(model, name string) ([]byte, error) {
	path := filepath.Join(filepath.Dir(model), name)
	st, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("weights: %w", err)
	}
	if !st.Mode().IsRegular() || st.Size() > maxBeside {
		return nil, &FormatError{Kind: KindHeader, Path: path, Got: fmt.Sprintf("%v of %d bytes", st.Mode().Type(), st.Size()),
			Want: fmt.Sprintf("a regular file of at most %d", maxBeside)}
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("weights: %w", err)
	}
	return text, nil
}

// RetrievalFile is path itself, or the retrieval head in the directory path.
func RetrievalFile(path string) (string, error) { return oneOf(path, retrievalNames) }

// CodebookFile is path itself, or the retrieval codebook in the directory path.
func CodebookFile(path string) (string, error) { return oneOf(path, codebookNames) }

func oneOf(path string, names []string) (string, error) {
	st, err := os.Stat(path)
	if err != nil {
		return "", fmt.Errorf("weights: %w", err)
	}
	if !st.IsDir() {
		return path, nil
	}
	if path, err = snapshot(path); err != nil {
		return "", err
	}
	for _, name := range names {
		list, _, err := present(path, []string{name})
		if err != nil || len(list) == 1 {
			return filepath.Join(path, name), err
		}
	}
	return "", fmt.Errorf("weights: %s: no %s: %w", path, strings.Join(names, ", no "), fs.ErrNotExist)
}
