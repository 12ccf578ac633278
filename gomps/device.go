// SPDX-License-Identifier: Apache-2.0

package gomps

import (
	"errors"
	"fmt"
	"log/slog"
	"os"

	"github.com/mast3r-runtime/mast3r-runtime/internal/backend"
	"github.com/mast3r-runtime/mast3r-runtime/internal/backend/cpu"
	"github.com/mast3r-runtime/mast3r-runtime/internal/backend/metal"
	"github.com/mast3r-runtime/mast3r-runtime/internal/backend/selfcheck"
)

// openBackend opens the device a Config asks for. fallback says why the CPU was
// taken where Metal would have been first choice. A device that fails later
// gives errors and no other device: results of one engine come from one.
func openBackend(cfg Config, log *slog.Logger) (dev backend.Backend, fallback string, err error) {
	if cfg.Backend != "cpu" {
		gpu, err := openMetal(cfg)
		if err == nil {
			return gpu, "", nil
		}
		if cfg.Backend == "metal" {
			return nil, "", &DeviceError{"open Metal", err}
		}
		fallback = err.Error()
		if errors.Is(err, selfcheck.ErrDisagree) {
			log.Warn("the GPU computes something else than the CPU: running on the CPU", "reason", fallback)
		} else {
			log.Debug("running on the CPU", "reason", fallback) // Info reports it too
		}
	}
	cache := cfg.PackCache
	if cache == "" {
		cache = os.Getenv(EnvPackCache)
	}
	dev, err = cpu.New(cpu.Config{Threads: cfg.Threads, PackCache: cache, Logger: log})
	if err != nil {
		return nil, "", &DeviceError{"open the CPU", err}
	}
	return dev, fallback, nil
}

// EnvPackCache names the environment variable that stands in for Config.PackCache,
// for callers who cannot reach Config.
const EnvPackCache = "MAST3R_PACK_CACHE"

// openMetal opens the GPU and compares it with the CPU.
func openMetal(cfg Config) (*metal.Backend, error) {
	settings, err := cfg.metal()
	if err != nil {
		return nil, err
	}
	gpu, err := metal.New(settings)
	if err != nil {
		return nil, err
	}
	p, err := cfg.precision("metal")
	if err == nil && !cfg.SkipSelfCheck {
		err = selfcheck.Once(gpu, reference, p, fmt.Sprint(settings.ManualAttention))
	}
	if err != nil {
		return nil, errors.Join(err, gpu.Close())
	}
	return gpu, nil
}

// Environment variables of the Metal path, for callers who cannot reach Config.
const (
	// EnvAttention is "manual" for Config.ManualAttention.
	EnvAttention = "MAST3R_ATTENTION"
	// EnvExecutableCache is a folder for Config.ExecutableCache.
	EnvExecutableCache = "MAST3R_EXECUTABLE_CACHE"
	// EnvSelfCheck is "off" for Config.SkipSelfCheck.
	EnvSelfCheck = selfcheck.Env
)

// metal are the settings of the Metal path, from the Config or the environment.
func (c Config) metal() (metal.Config, error) {
	m := metal.Config{ManualAttention: c.ManualAttention, ExecutableCache: c.ExecutableCache, Logger: c.Logger}
	if dir := os.Getenv(EnvExecutableCache); dir != "" && m.ExecutableCache == "" {
		m.ExecutableCache = dir
	}
	switch v := os.Getenv(EnvAttention); v {
	case "", "native":
	case "manual":
		m.ManualAttention = true
	default:
		return m, &ConfigError{EnvAttention, v, "native or manual"}
	}
	return m, nil
}

// reference is what a GPU is compared with.
func reference() (backend.Backend, error) { return cpu.New(cpu.Config{Threads: 1}) }
