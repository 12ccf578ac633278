// SPDX-License-Identifier: Apache-2.0

package gomps_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/mast3r-runtime/mast3r-runtime/gomps"
)

// Two pictures in, points and matches out.
func Example() {
	ctx := context.Background()
	engine, err := gomps.Open(gomps.Config{Backend: gomps.BackendCPU, Resolution: 256})
	if err != nil {
		log.Fatal(err)
	}
	defer engine.Close()
	if err := engine.Load(ctx, modelPath); err != nil {
		log.Fatal(err)
	}
	result, err := engine.Infer(ctx, stripes(0), stripes(6), gomps.InferOptions{})
	if err != nil {
		log.Fatal(err)
	}
	defer result.Release()
	a, b := &result.View[0], &result.View[1]
	matches, err := engine.Match(ctx, gomps.MapOf(a), gomps.MapOf(b), gomps.MatchOptions{Reciprocal: true, TopK: 100})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("points", a.Points.Shape(), "matches", matches.Len())
	// Where pixel (128, 96) of the network's input lies in the picture.
	fmt.Println(a.Transform.ToOriginal(128, 96))
	// Output:
	// points [192 256 3] matches 100
	// 128 96
}

// Errors have a kind and details.
func ExampleConfigError() {
	_, err := gomps.Open(gomps.Config{Backend: "abacus"})
	fmt.Println(errors.Is(err, gomps.ErrConfig))
	var config *gomps.ConfigError
	if errors.As(err, &config) {
		fmt.Println(config.Field, "is", config.Got)
	}
	// Output:
	// true
	// Backend is abacus
}

func ExampleConvert() {
	dir, err := os.MkdirTemp("", "converted")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	files, err := gomps.Convert(context.Background(), modelPath, dir, gomps.ConvertOptions{Precision: gomps.FP16})
	if err != nil {
		log.Fatal(err)
	}
	for _, path := range files {
		fmt.Println(filepath.Base(path))
	}
	// Output:
	// unified.safetensors
}

func ExampleEngine_Profile() {
	engine, err := gomps.Open(gomps.Config{Backend: gomps.BackendCPU, Resolution: 256})
	if err != nil {
		log.Fatal(err)
	}
	defer engine.Close()
	if err := engine.Load(context.Background(), modelPath); err != nil {
		log.Fatal(err)
	}
	profile, err := engine.Profile(context.Background(), stripes(0), stripes(6), gomps.ProfileOptions{Iterations: 1})
	if err != nil {
		log.Fatal(err)
	}
	for _, stage := range profile.Stages {
		fmt.Println(stage.Name, stage.MS > 0)
	}
	// Output:
	// encoder true
	// decoder true
	// head1 true
	// head2 true
}

func ExampleSelfCheck() {
	report, err := gomps.SelfCheck(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	if !report.Metal {
		fmt.Println("no GPU to check:", report.Reason)
	}
	for _, check := range report.Checks {
		fmt.Println(check.OK, check.Name, check.Detail)
	}
}

// Pictures that look alike: an index of retrieval features.
func ExampleRetrievalIndex() {
	ctx := context.Background()
	engine, err := gomps.Open(gomps.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer engine.Close()
	if err := engine.LoadRetrievalStandalone(ctx, "mast3r.safetensors", "retrieval.safetensors"); err != nil {
		log.Fatal(err)
	}
	index, err := engine.OpenIndex(ctx, "codebook.safetensors", 300)
	if err != nil {
		log.Fatal(err)
	}
	defer index.Close()
	var last *gomps.Retrieval
	for shift := range 5 {
		if last, err = engine.EncodeRetrieval(ctx, stripes(shift), gomps.InferOptions{}); err != nil {
			log.Fatal(err)
		}
		if _, err := index.Add(last); err != nil {
			log.Fatal(err)
		}
	}
	scores, err := index.Score(last)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(scores)
}
