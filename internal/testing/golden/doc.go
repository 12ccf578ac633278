// SPDX-License-Identifier: Apache-2.0

// Package golden is test support: it finds the folder of golden data beside
// the repository, loads its cases, and compares tensors with them under the
// limits that the data's own checker uses (golden.md 10).
//
// A test that uses it is skipped, with the reason, where the folder is not
// there.
package golden
