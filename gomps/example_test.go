// SPDX-License-Identifier: Apache-2.0

package gomps_test

import (
	"context"
	"fmt"
	"log"

	"github.com/mast3r-runtime/mast3r-runtime/gomps"
)

// modelPath is the small model that ships in the wheel.
const modelPath = "../python/mast3r_runtime/models/mast3r_tiny/unified.safetensors"

// stripes is a picture to try with.
func stripes(shift int) gomps.Image {
	const h, w = 192, 256
	img := gomps.Image{Pix: make([]byte, 3*h*w), Height: h, Width: w}
	for i := range img.Pix {
		x, y := i/3%w+shift, i/3/w
		img.Pix[i] = byte(x*x/7 + 3*y + 40*(i%3))
	}
	return img
}

func ExampleEngine_Infer() {
	engine, err := gomps.Open(gomps.Config{Backend: "cpu", Resolution: 256})
	if err != nil {
		log.Fatal(err)
	}
	defer engine.Close()
	if err := engine.Load(context.Background(), modelPath); err != nil {
		log.Fatal(err)
	}
	result, err := engine.Infer(context.Background(), stripes(0), stripes(6), gomps.InferOptions{})
	if err != nil {
		log.Fatal(err)
	}
	defer result.Release()
	for i, v := range result.View {
		fmt.Println("view", i+1, "points", v.Points.Shape(), "descriptors", v.Desc.Shape())
	}
	// Output:
	// view 1 points [192 256 3] descriptors [192 256 24]
	// view 2 points [192 256 3] descriptors [192 256 24]
}

func ExampleEngine_Match() {
	engine, err := gomps.Open(gomps.Config{Backend: "cpu"})
	if err != nil {
		log.Fatal(err)
	}
	defer engine.Close()
	// Two maps of one row: the pixels of the second are those of the first,
	// the other way round.
	a := gomps.Map{Desc: []float32{1, 0, 0, 1}, Height: 1, Width: 2, Dim: 2}
	b := gomps.Map{Desc: []float32{0, 1, 1, 0}, Height: 1, Width: 2, Dim: 2}
	m, err := engine.Match(context.Background(), a, b, gomps.MatchOptions{Reciprocal: true})
	if err != nil {
		log.Fatal(err)
	}
	for i := range m.Len() {
		fmt.Println(m.Idx1[i], "-", m.Idx2[i], "confidence", m.Confidence[i])
	}
	// Output:
	// 0 - 1 confidence 1
	// 1 - 0 confidence 1
}

func ExampleEngine_Encode() {
	engine, err := gomps.Open(gomps.Config{Backend: "cpu", Resolution: 256})
	if err != nil {
		log.Fatal(err)
	}
	defer engine.Close()
	if err := engine.Load(context.Background(), modelPath); err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	var features []*gomps.Features
	for shift := range 3 {
		f, err := engine.Encode(ctx, stripes(5*shift), gomps.InferOptions{})
		if err != nil {
			log.Fatal(err)
		}
		defer f.Release()
		features = append(features, f)
	}
	for _, pair := range [][2]int{{0, 1}, {0, 2}, {2, 1}} {
		r, err := engine.Decode(ctx, features[pair[0]], features[pair[1]], gomps.InferOptions{Only: gomps.OutputPoints})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(pair, r.View[1].Points.Shape())
		r.Release()
	}
	fmt.Println("pictures encoded:", engine.Info().Encodes)
	// Output:
	// [0 1] [192 256 3]
	// [0 2] [192 256 3]
	// [2 1] [192 256 3]
	// pictures encoded: 3
}

func ExampleScenePairs() {
	pairs, err := gomps.ScenePairs(4, "swin-1-noncyclic", gomps.SceneOptions{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(pairs)
	// Output:
	// [{0 1} {1 2} {2 3}]
}
