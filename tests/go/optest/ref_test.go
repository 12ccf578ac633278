// SPDX-License-Identifier: Apache-2.0

package optest

import "testing"

// The reference is held against PyTorch before anything is held against the
// reference.
func TestReferenceGolden(t *testing.T) { Golden(t, Reference, 1) }

// TestReferenceTable: the reference knows every operation.
func TestReferenceTable(t *testing.T) { Table(t, "ref", Reference, 0) }

// Random against the reference itself shows that the drawn graphs build, and
// that Simplify keeps their meaning.
func TestSimplifyKeepsMeaning(t *testing.T) { Random(t, Reference, 20, 1e-6) }

func TestReferenceArgOfNaN(t *testing.T) { ArgOfNaN(t, Reference) }

func TestReferenceMaximaOfNaN(t *testing.T) { MaximaOfNaN(t, Reference) }
