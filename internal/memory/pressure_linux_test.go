// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"fmt"
	"testing"
)

// TestPressure: a tenth is low, a twentieth is critical, exactly that much is not yet; of
// the machine without its swap, and of a control group.
func TestPressure(t *testing.T) {
	for _, c := range []struct {
		free          int
		low, critical bool
	}{{1000, false, false}, {100, false, false}, {99, true, false}, {50, true, false}, {49, true, true}, {0, true, true}} {
		meminfo := fmt.Sprintf("MemTotal: 1000 kB\nMemAvailable: %d kB\nSwapTotal: 9000 kB\nSwapFree: 9000 kB\n", c.free)
		for name, files := range map[string]map[string]string{
			"machine": {"proc/meminfo": meminfo},
			"group": {"proc/meminfo": machine, "proc/self/cgroup": "0::/a\n", "sys/fs/cgroup/a/memory.max": "1000\n",
				"sys/fs/cgroup/a/memory.current": fmt.Sprint(1000 - c.free)},
		} {
			if low, critical := pressure(tree(t, files)); low != c.low || critical != c.critical {
				t.Errorf("%s: %d of 1000 free: low %v, critical %v, want %v, %v", name, c.free, low, critical, c.low, c.critical)
			}
		}
	}
	if low, critical := pressure(tree(t, nil)); low || critical {
		t.Errorf("nothing known: low %v, critical %v", low, critical)
	}
}
