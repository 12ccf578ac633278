// SPDX-License-Identifier: Apache-2.0

package gomps

import (
	"errors"
	"log/slog"

	"github.com/mast3r-runtime/mast3r-runtime/internal/backend"
	"github.com/mast3r-runtime/mast3r-runtime/internal/cpu"
)

// openBackend opens the device a Config asks for. fallback says why the CPU was
// taken where Metal would have been first choice.
func openBackend(cfg Config, log *slog.Logger) (dev backend.Backend, fallback string, err error) {
	if cfg.Backend == "metal" {
		return nil, "", &DeviceError{"open Metal", errNoMetal}
	}
	dev, err = cpu.New(cpu.Config{Threads: cfg.Threads})
	if err != nil {
		return nil, "", &DeviceError{"open the CPU", err}
	}
	return dev, "", nil
}

var errNoMetal = errors.New("Metal is only available on macOS 15 or later with an Apple GPU")
