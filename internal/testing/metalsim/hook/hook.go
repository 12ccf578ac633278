// SPDX-License-Identifier: Apache-2.0

// Package hook puts the simulator of Metal that MAST3R_OBJC_SIM names in place of Apple's
// libraries, in the programs that import it: tests, and a library built with the tag
// metalsim. What is shipped has neither the package nor the variable.
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
