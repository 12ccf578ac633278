// SPDX-License-Identifier: Apache-2.0

//go:build !darwin

package metal

import (
	"fmt"

	"github.com/mast3r-runtime/mast3r-runtime/internal/backend/metal/objc"
)

// systemBuild is the version of the simulated system, which has no build.
func systemBuild(v objc.OSVersion) string { return fmt.Sprintf("%d.%d.%d", v.Major, v.Minor, v.Patch) }
