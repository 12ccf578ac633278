// SPDX-License-Identifier: Apache-2.0

//go:build !darwin

package metal

// systemBuild is empty: the simulated system has a version only.
func systemBuild() string { return "" }
