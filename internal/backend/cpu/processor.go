// SPDX-License-Identifier: Apache-2.0

package cpu

import (
	"bufio"
	"os"
	"runtime"
	"strings"
	"sync"
)

// processorName is the model name that Linux reports, or the architecture.
var processorName = sync.OnceValue(func() string {
	f, err := os.Open("/proc/cpuinfo")
	if err != nil {
		return runtime.GOARCH
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		key, value, ok := strings.Cut(s.Text(), ":")
		if ok && strings.TrimSpace(key) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return runtime.GOARCH
})
