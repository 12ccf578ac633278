// SPDX-License-Identifier: Apache-2.0

package metal

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/mast3r-runtime/mast3r-runtime/internal/backend/metal/objc"
)

// systemBuild is the build of the operating system, as 24A335: updates without a
// new version number change MPSGraph too.
func systemBuild(v objc.OSVersion) string {
	build, err := unix.Sysctl("kern.osversion")
	if err != nil {
		build = "unknown"
	}
	return fmt.Sprintf("%d.%d.%d %s", v.Major, v.Minor, v.Patch, build)
}
