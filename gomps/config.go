// SPDX-License-Identifier: Apache-2.0

package gomps

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/mast3r-runtime/mast3r-runtime/internal/backend"
	"github.com/mast3r-runtime/mast3r-runtime/internal/backend/open"
)

// Values of Config.Backend.
const (
	BackendAuto  = "auto"
	BackendCPU   = "cpu"
	BackendMetal = "metal"
	BackendCUDA  = "cuda" // "cuda:1" is the second GPU
)

// Values of Config.Precision.
const (
	PrecisionAuto = "auto"
	FP32          = "fp32"
	FP16          = "fp16"
	BF16          = "bf16"
	TF32          = "tf32" // CUDA only
)

// Config is the configuration of an engine. The zero value uses the best device
// of this machine.
type Config struct {
	// Variant is one of Variants, "auto" or "" for whatever the file holds. Load
	// checks it against the file; dune_vit_small_14 and dune_vit_base_14 are of either
	// resolution.
	Variant string
	// Resolution is the long side in pixels to which pictures are resized; 0
	// means the model's own. 224 is the short side of a square from the picture's
	// middle, as in the reference.
	Resolution int
	// Precision is "fp32", "fp16", "bf16", "tf32" (CUDA only), or "auto" (""):
	// fp16 on Metal, bf16 on CUDA, and on the CPU fp32 arithmetic with the weights as
	// the file stores them.
	Precision string
	// Threads is the number of CPU threads, 0 for all.
	Threads int
	// Backend is "cpu", "metal", "cuda" ("cuda:1" is the second GPU), or "auto" (""):
	// the first that is available of Metal, CUDA and the CPU, with the reason in
	// Info.
	Backend string
	// ManualAttention replaces Metal's own attention by products and a softmax in
	// float32: slower, and the first thing to try if the results of a GPU are wrong.
	// It is always used where Metal's own is known to leak (float32 on macOS 15), and
	// where Metal's own fails the comparison with the CPU.
	ManualAttention bool
	// ExecutableCache is a folder where a GPU's compiled graphs are kept for the
	// next process. They depend on the system, the device and the sizes of the
	// pictures, and nothing is ever removed. "" keeps none of Metal's, and those of
	// CUDA, which take long to compile, in the user's folder for caches.
	ExecutableCache string
	// SkipSelfCheck uses the GPU without comparing it with the CPU first. The
	// comparison takes a moment, once per process. If it fails, Backend "auto" runs
	// on the CPU and gives the reason; "metal" and "cuda" are errors.
	SkipSelfCheck bool
	// PackCache is a directory for the CPU's packed weights: the second engine, in
	// this process or another, maps what the first has packed, and all of them
	// share that memory. "" means the environment variable of EnvPackCache, and
	// without it packing at each load. The directory may be deleted at any time;
	// what is wrong with it is a warning to Logger.
	PackCache string
	// Logger gets warnings and debug records; nil discards them.
	Logger *slog.Logger
}

const maxResolution = 8192

// Environment variables that stand in for fields of Config.
const (
	// EnvBackend is "cpu", "metal" or "cuda" for Config.Backend, where that is "auto".
	EnvBackend = open.EnvBackend
	// EnvPackCache is a folder for Config.PackCache.
	EnvPackCache = open.EnvPackCache
	// EnvAttention is "manual" for Config.ManualAttention.
	EnvAttention = open.EnvAttention
	// EnvExecutableCache is a folder for Config.ExecutableCache.
	EnvExecutableCache = open.EnvExecutableCache
	// EnvSelfCheck is "off" for Config.SkipSelfCheck.
	EnvSelfCheck = open.EnvSelfCheck
)

// Variants are the names that Config.Variant may have. Files of other models are
// opened with "auto".
var Variants = []string{"auto", "mast3r_small", "mast3r_tiny", "mast3r_vit_large", "dune_vit_small_14", "dune_vit_small_336", "dune_vit_small_448",
	"dune_vit_base_14", "dune_vit_base_336", "dune_vit_base_448",
	"da3_small", "da3_base", "da3_large", "da3_giant", "da3_mono_large", metricVariant}

func (c Config) check() error {
	if c.Variant != "" && !slices.Contains(Variants, c.Variant) {
		return &ConfigError{"Variant", c.Variant, "one of " + strings.Join(Variants, ", ")}
	}
	if c.Resolution < 0 || c.Resolution > maxResolution {
		return &ConfigError{"Resolution", fmt.Sprint(c.Resolution), fmt.Sprintf("0 to %d", maxResolution)}
	}
	device := ""
	switch {
	case c.Backend == "cpu" || c.Backend == "metal":
		device = c.Backend
	case strings.HasPrefix(c.Backend, "cuda"):
		device = "cuda"
	}
	_, err := c.precision(device)
	return err
}

// open opens the device.
func (c Config) open() (dev backend.Backend, fallback string, err error) {
	dev, fallback, err = open.Device(open.Config{
		Backend: c.Backend, Threads: c.Threads, Precision: c.precision, SkipSelfCheck: c.SkipSelfCheck, ManualAttention: c.ManualAttention,
		ExecutableCache: c.ExecutableCache, PackCache: c.PackCache, Logger: c.Logger,
	})
	return dev, fallback, openError(err)
}

// openError is an error of package open as one of this package.
func openError(err error) error {
	var setting *open.SettingError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &setting):
		return &ConfigError{setting.Name, setting.Got, setting.Want}
	}
	return &DeviceError{"open a device", err}
}

// precision resolves the name for a device; "" is one that is not known yet.
func (c Config) precision(device string) (backend.Precision, error) {
	switch c.Precision {
	case "fp32":
		return backend.FP32, nil
	case "fp16":
		return backend.FP16, nil
	case "bf16":
		return backend.BF16, nil
	case "tf32":
		if device == "cpu" || device == "metal" {
			return 0, &ConfigError{"Precision", c.Precision, "auto, fp32, fp16 or bf16 on " + device + ", tf32 is for cuda"}
		}
		return backend.TF32, nil
	case "", "auto":
		switch device {
		case "metal":
			return backend.FP16, nil
		case "cuda":
			return backend.BF16, nil
		}
		return backend.FP32, nil
	}
	return 0, &ConfigError{"Precision", c.Precision, "auto, fp32, tf32, fp16 or bf16"}
}
