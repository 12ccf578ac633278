// SPDX-License-Identifier: Apache-2.0

//go:build noasm || !amd64

package kernel

// native is empty where no assembly exists or the noasm tag turned it off.
func native() []*Kernel { return nil }
