// SPDX-License-Identifier: Apache-2.0

package metal

import "golang.org/x/sys/unix"

// systemBuild is the build of the operating system, as 24A335: updates without a
// new version number change MPSGraph too, and to programs linked with an older
// SDK the version of macOS 26 is 16.
func systemBuild() string {
	build, err := unix.Sysctl("kern.osversion")
	if err != nil {
		return "unknown"
	}
	return build
}
