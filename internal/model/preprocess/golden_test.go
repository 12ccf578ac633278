// SPDX-License-Identifier: Apache-2.0

package preprocess_test

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mast3r-runtime/mast3r-runtime/internal/model/preprocess"
	"github.com/mast3r-runtime/mast3r-runtime/internal/model/weights/synth"
	"github.com/mast3r-runtime/mast3r-runtime/internal/par"
	"github.com/mast3r-runtime/mast3r-runtime/internal/testing/golden"
)

type geometry struct {
	Configs map[string]struct {
		Size     int  `json:"size"`
		Patch    int  `json:"patch_size"`
		SquareOK bool `json:"square_ok"`
	} `json:"configs"`
	Images map[string]struct {
		RGBSize [2]int `json:"rgb_size"`
		RGBSHA  string `json:"rgb_sha256"`
		Configs map[string]struct {
			To       [2]int    `json:"resize_to"`
			Box      [4]int    `json:"crop_box_int"`
			Final    [2]int    `json:"final_size"`
			FinalSHA string    `json:"final_rgb_sha256"`
			Mean     []float64 `json:"mean"`
		} `json:"configs"`
	} `json:"images"`
}

func sha(b []byte) string {
	s := sha256.Sum256(b)
	return hex.EncodeToString(s[:])
}

// TestGoldenPictures resizes every golden picture in every configuration and
// compares whole pictures by their hashes. JPEGs start from decoded pixels:
// this is a test of the resampler, not of a decoder.
func TestGoldenPictures(t *testing.T) {
	dir := golden.Path(t, "golden", "preprocess")
	var geo geometry
	golden.ReadJSON(t, filepath.Join(dir, "geometry.json"), &geo)
	pool := par.New(0)
	defer pool.Close()
	z := preprocess.NewResizer(pool)
	compared := 0
	for name, img := range geo.Images {
		pix, w, h := picture(t, pool, dir, name)
		if w != img.RGBSize[0] || h != img.RGBSize[1] || sha(pix) != img.RGBSHA {
			t.Errorf("%s: decoded to other pixels than the golden ones (%dx%d)", name, w, h)
			continue
		}
		for config, want := range img.Configs {
			c := geo.Configs[config]
			if c.Patch == 0 {
				c.Patch = 16
			}
			tr, err := preprocess.Plan(w, h, c.Size, c.Patch, !c.SquareOK)
			if err != nil {
				t.Errorf("%s@%s: %v", name, config, err)
				continue
			}
			wt := preprocess.Transform{OriginalW: w, OriginalH: h, ResizedW: want.To[0], ResizedH: want.To[1],
				CropX: want.Box[0], CropY: want.Box[1], Width: want.Final[0], Height: want.Final[1]}
			if tr != wt {
				t.Errorf("%s@%s: transform %+v, want %+v", name, config, tr, wt)
				continue
			}
			out := make([]byte, 3*tr.Width*tr.Height)
			if err := z.Apply(out, preprocess.Image{Pix: pix, W: w, H: h, Stride: 3 * w}, tr); err != nil {
				t.Fatal(err)
			}
			if got := sha(out); got != want.FinalSHA {
				t.Errorf("%s@%s: sha256 %s, want %s", name, config, got, want.FinalSHA)
			}
			compared++
		}
	}
	if compared < 60 {
		t.Errorf("only %d pictures compared", compared)
	}
}

func picture(t *testing.T, pool *par.Pool, dir, name string) (pix []byte, w, h int) {
	t.Helper()
	if name == "big_4000x3000.png" {
		return synth.Picture(pool, "big_4000x3000", 4000, 3000, 0, 0), 4000, 3000
	}
	path := filepath.Join(dir, "images", name)
	if strings.HasSuffix(name, ".jpg") {
		path += ".rgb.png"
	}
	if _, err := os.Stat(path); err != nil {
		t.Fatal(err)
	}
	return golden.Picture(t, path)
}
