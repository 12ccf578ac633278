// SPDX-License-Identifier: Apache-2.0

// Package memory says how much memory this process may still use, and what sets the
// limit: the machine, the control groups that the process is in, or its address space.
package memory
