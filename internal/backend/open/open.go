// SPDX-License-Identifier: Apache-2.0

package open

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/mast3r-runtime/mast3r-runtime/internal/backend"
	"github.com/mast3r-runtime/mast3r-runtime/internal/backend/cpu"
	"github.com/mast3r-runtime/mast3r-runtime/internal/backend/metal"
	"github.com/mast3r-runtime/mast3r-runtime/internal/backend/selfcheck"
	"github.com/mast3r-runtime/mast3r-runtime/internal/backend/xla/cuda"
	"github.com/mast3r-runtime/mast3r-runtime/internal/par"
)

// Config says what to open. The zero value is the best this machine has.
type Config struct {
	// Backend is "cpu", "metal", "cuda" (or "cuda:1" for the second GPU), or "auto"
	// (""): what EnvBackend names, or else Metal, then CUDA, where there is one.
	Backend string
	// Threads is the number of CPU threads, 0 for all.
	Threads int
	// Precision is that in which a GPU, "metal" or "cuda", is compared with the CPU;
	// nil compares in float32.
	Precision func(device string) (backend.Precision, error)
	// SkipSelfCheck takes the GPU without that comparison.
	SkipSelfCheck bool
	// ManualAttention is a setting of the Metal path, PackCache one of the CPU;
	// ExecutableCache is for compiled graphs of Metal or CUDA. The variables below
	// stand in for them.
	ManualAttention            bool
	ExecutableCache, PackCache string
	// Logger gets the reason when the CPU stands in for a GPU; nil discards it.
	Logger *slog.Logger
}

// Environment variables, for callers who cannot reach Config.
const (
	// EnvBackend is "cpu", "metal" or "cuda" for Config.Backend, where that is "auto".
	EnvBackend = "MAST3R_BACKEND"
	// EnvPackCache is a folder for Config.PackCache.
	EnvPackCache = "MAST3R_PACK_CACHE"
	// EnvAttention is "manual" for Config.ManualAttention, or "native" for Metal's own
	// attention even where it is known to leak.
	EnvAttention = "MAST3R_ATTENTION"
	// EnvExecutableCache is a folder for Config.ExecutableCache, or "off".
	EnvExecutableCache = "MAST3R_EXECUTABLE_CACHE"
	// EnvSelfCheck is "off" for Config.SkipSelfCheck.
	EnvSelfCheck = selfcheck.Env
)

// SettingError says which setting, a field of Config or a variable, cannot be used.
type SettingError struct{ Name, Got, Want string }

func (e *SettingError) Error() string {
	return fmt.Sprintf("open: %s is %q, want %s", e.Name, e.Got, e.Want)
}

// Backends are the names that Config.Backend may have.
var Backends = []string{"auto", "cpu", "metal", "cuda"}

// wanted is the backend to open: a name of Backends.
func (c Config) wanted() (string, error) {
	want := "one of " + strings.Join(Backends, ", ") + ", cuda:N"
	name := c.Backend
	if name == "" {
		name = "auto"
	}
	if !known(name) {
		return "", &SettingError{"Backend", name, want}
	}
	if name != "auto" {
		return name, nil
	}
	env := strings.ToLower(strings.TrimSpace(os.Getenv(EnvBackend)))
	if env == "" {
		return "auto", nil
	}
	if !known(env) {
		return "", &SettingError{EnvBackend, env, want}
	}
	return env, nil
}

// known says whether a name is that of a backend.
func known(name string) bool {
	_, ok := gpuIndex(name)
	return ok || slices.Contains(Backends, name)
}

// gpuIndex is the number of the GPU in "cuda" and "cuda:1".
func gpuIndex(name string) (int, bool) {
	if name == "cuda" {
		return 0, true
	}
	digits, ok := strings.CutPrefix(name, "cuda:")
	i, err := strconv.ParseUint(digits, 10, 8)
	return int(i), ok && err == nil
}

// Check refuses settings that no machine could follow.
func (c Config) Check() error {
	if c.Threads < 0 || c.Threads > par.MaxThreads {
		return &SettingError{"Threads", fmt.Sprint(c.Threads), fmt.Sprintf("0 to %d", par.MaxThreads)}
	}
	_, err := c.wanted()
	return err
}

// Device opens the device that a Config asks for. fallback says why the CPU was
// taken where a GPU would have been first choice. A device that fails later gives
// errors and no other device: results of one engine come from one.
func Device(cfg Config) (dev backend.Backend, fallback string, err error) {
	if err := cfg.Check(); err != nil {
		return nil, "", err
	}
	want, err := cfg.wanted()
	if err != nil {
		return nil, "", err
	}
	if want == "metal" || want == "auto" {
		if want == "metal" {
			metal.Forgive()
		}
		gpu, err := openMetal(cfg, want == "metal")
		if err == nil {
			return gpu, "", nil
		}
		if want == "metal" {
			return nil, "", fmt.Errorf("open Metal: %w", err)
		}
		fallback = err.Error()
		cfg.report(err)
	}
	if index, ok := gpuIndex(want); ok || want == "auto" {
		gpu, err := openCUDA(cfg, index)
		if err == nil {
			return gpu, "", nil
		}
		if want != "auto" {
			return nil, "", fmt.Errorf("open CUDA: %w", err)
		}
		fallback += "; " + err.Error()
		cfg.report(err)
	}
	dev, err = CPU(cfg)
	return dev, fallback, err
}

// report logs why the CPU is taken: loudly only where a GPU computes something
// else, since a machine without one is nothing to warn of.
func (c Config) report(reason error) {
	if c.Logger == nil {
		return
	}
	level, text := slog.LevelDebug, "running on the CPU"
	switch {
	case errors.Is(reason, selfcheck.ErrDisagree):
		level, text = slog.LevelWarn, "the GPU computes something else than the CPU: running on the CPU"
	case errors.Is(reason, metal.ErrEndedProcess):
		level = slog.LevelWarn
	}
	c.Logger.Log(context.Background(), level, text, "reason", reason)
}

// CPU opens the CPU.
func CPU(cfg Config) (backend.Backend, error) {
	cache := cfg.PackCache
	if cache == "" {
		cache = os.Getenv(EnvPackCache)
	}
	dev, err := cpu.New(cpu.Config{Threads: cfg.Threads, PackCache: cache, Logger: cfg.Logger})
	if err != nil {
		return nil, fmt.Errorf("open the CPU: %w", err)
	}
	return dev, nil
}

// openMetal opens the GPU and compares it with the CPU. Attention of Metal's own
// has been the part that is wrong: where the two disagree, the GPU is tried once
// more with attention from products.
func openMetal(cfg Config, forced bool) (backend.Backend, error) {
	if err := metal.Available(); err != nil { // nothing here to try
		return nil, err
	}
	if err := metal.EndedBy(); err != nil {
		return nil, err
	}
	settings, err := cfg.metal()
	if err != nil {
		return nil, err
	}
	settings.AnyGPU = forced
	defer metal.Try("opening it")()
	gpu, err := checkedMetal(cfg, settings)
	if settings.Attention != metal.AttentionDefault || !errors.Is(err, selfcheck.ErrDisagree) {
		return gpu, err
	}
	settings.Attention = metal.AttentionByHand
	gpu, again := checkedMetal(cfg, settings)
	if again != nil {
		return nil, err
	}
	if cfg.Logger != nil {
		cfg.Logger.Warn("attention is computed from products: Metal's own computes something else than the CPU", "reason", err)
	}
	return gpu, nil
}

// checkedMetal opens the GPU with the given settings and compares it.
func checkedMetal(cfg Config, settings metal.Config) (backend.Backend, error) {
	gpu, err := metal.New(settings)
	if err != nil {
		return nil, err
	}
	if !cfg.SkipSelfCheck {
		err = cfg.compare(gpu, fmt.Sprint(settings.Attention))
	}
	if err != nil {
		return nil, errors.Join(err, gpu.Close())
	}
	return gpu, nil
}

// compare holds a GPU against the CPU, in the precision that it is opened for.
func (c Config) compare(gpu backend.Backend, variant string) error {
	p := backend.FP32
	if c.Precision != nil {
		var err error
		if p, err = c.Precision(gpu.Device().Backend); err != nil {
			return err
		}
	}
	return selfcheck.Once(gpu, reference, p, variant)
}

// openCUDA opens an NVIDIA GPU and compares it with the CPU.
func openCUDA(cfg Config, index int) (backend.Backend, error) {
	gpu, err := CUDA(cfg, index)
	if err != nil {
		return nil, err
	}
	if !cfg.SkipSelfCheck {
		err = cfg.compare(gpu, fmt.Sprintf("GPU %d", index)) // each of several of one name
	}
	if err != nil {
		return nil, errors.Join(err, gpu.Close())
	}
	return gpu, nil
}

// CUDA opens an NVIDIA GPU without comparing it.
func CUDA(cfg Config, index int) (backend.Backend, error) {
	cache := cfg.ExecutableCache
	if cache == "" {
		cache = os.Getenv(EnvExecutableCache)
	}
	gpu, err := cuda.Open(cuda.Settings{Index: index, Cache: cache, Logger: cfg.Logger})
	if err != nil {
		return nil, err
	}
	return gpu, nil
}

// Metal opens any GPU, without comparing it, whatever it has done before.
func Metal(cfg Config) (backend.Backend, error) {
	if err := metal.Available(); err != nil {
		return nil, err
	}
	metal.Forgive()
	defer metal.Try("opening it")()
	settings, err := cfg.metal()
	if err != nil {
		return nil, err
	}
	settings.AnyGPU = true
	gpu, err := metal.New(settings)
	if err != nil {
		return nil, err
	}
	return gpu, nil
}

// metal are the settings of the Metal path, from the Config or the environment.
func (c Config) metal() (metal.Config, error) {
	m := metal.Config{Guard: metal.Try, ExecutableCache: c.ExecutableCache, Logger: c.Logger}
	if dir := os.Getenv(EnvExecutableCache); dir != "" && dir != "off" && m.ExecutableCache == "" {
		m.ExecutableCache = dir
	}
	switch v := os.Getenv(EnvAttention); v {
	case "":
	case "native":
		m.Attention = metal.AttentionNative
	case "manual":
		m.Attention = metal.AttentionByHand
	default:
		return m, &SettingError{EnvAttention, v, "native or manual"}
	}
	if c.ManualAttention {
		m.Attention = metal.AttentionByHand
	}
	return m, nil
}

// reference is what a GPU is compared with.
func reference() (backend.Backend, error) { return cpu.New(cpu.Config{Threads: 1}) }
