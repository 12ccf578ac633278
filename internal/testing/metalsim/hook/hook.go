// SPDX-License-Identifier: Apache-2.0

package hook

import (
	"os"

	"github.com/mast3r-runtime/mast3r-runtime/internal/backend/metal/objc"
)

// Env names the environment variable that holds the path of the simulator.
const Env = "MAST3R_OBJC_SIM"

func init() {
	if path := os.Getenv(Env); path != "" {
		objc.UseSimulator(path)
	}
}
