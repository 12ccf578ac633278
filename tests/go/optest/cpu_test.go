// SPDX-License-Identifier: Apache-2.0

package optest

import (
	"testing"

	"github.com/mast3r-runtime/mast3r-runtime/internal/backend"
	"github.com/mast3r-runtime/mast3r-runtime/internal/backend/cpu"
)

func onCPU(t *testing.T) Runner {
	t.Helper()
	b, err := cpu.New(cpu.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return Backend(b, backend.Options{})
}

func TestCPUGolden(t *testing.T) { Golden(t, onCPU(t), 1) }

func TestCPUTable(t *testing.T) { Table(t, "cpu", onCPU(t), 2e-6) }

func TestCPURandom(t *testing.T) { Random(t, onCPU(t), 30, 2e-6) }

func TestCPUMaximaOfNaN(t *testing.T) { MaximaOfNaN(t, onCPU(t)) }

func TestCPUArgOfNaN(t *testing.T) { ArgOfNaN(t, onCPU(t)) }
