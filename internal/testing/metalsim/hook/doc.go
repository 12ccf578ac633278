// SPDX-License-Identifier: Apache-2.0

// Package hook puts the simulator of Metal that MAST3R_OBJC_SIM names in place of Apple's
// libraries, in the programs that import it: tests, and a library built with the tag
// metalsim. What is shipped has neither the package nor the variable.
package hook
