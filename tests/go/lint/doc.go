// SPDX-License-Identifier: Apache-2.0

// Package lint holds the rules of the repository that a compiler does not
// check, as tests: which package may import which, where goroutines start, that
// nothing prints, how long files are.
package lint
