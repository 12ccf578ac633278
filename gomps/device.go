// SPDX-License-Identifier: Apache-2.0

package gomps

import (
	"log/slog"

	"github.com/mast3r-runtime/mast3r-runtime/internal/backend"
	"github.com/mast3r-runtime/mast3r-runtime/internal/cpu"
	"github.com/mast3r-runtime/mast3r-runtime/internal/mps"
)

// openBackend opens the device a Config asks for. fallback says why the CPU was
// taken where Metal would have been first choice.
func openBackend(cfg Config, log *slog.Logger) (dev backend.Backend, fallback string, err error) {
	if cfg.Backend != "cpu" {
		gpu, err := mps.New(mps.Config{})
		if err == nil {
			return gpu, "", nil
		}
		if cfg.Backend == "metal" {
			return nil, "", &DeviceError{"open Metal", err}
		}
		fallback = err.Error()
		log.Debug("running on the CPU", "reason", fallback) // Info says it to who asks
	}
	dev, err = cpu.New(cpu.Config{Threads: cfg.Threads})
	if err != nil {
		return nil, "", &DeviceError{"open the CPU", err}
	}
	return dev, fallback, nil
}
