// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// tree writes files below a folder that stands for the root.
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

const machine = "MemTotal:  8000 kB\nMemFree:  10 kB\nMemAvailable:   4000 kB\nSwapFree:  1000 kB\n"

// TestNow: the smallest of all limits counts, in each version of control groups and at
// each level.
func TestNow(t *testing.T) {
	for name, c := range map[string]struct {
		files map[string]string
		free  uint64
		by    string
	}{
		"machine": {map[string]string{"proc/meminfo": machine}, 5000 << 10, "the machine"},
		"no limit in the group": {map[string]string{"proc/meminfo": machine, "proc/self/cgroup": "0::/a\n",
			"sys/fs/cgroup/a/memory.max": "max\n", "sys/fs/cgroup/a/memory.current": "1000\n"}, 5000 << 10, "the machine"},
		"group": {map[string]string{"proc/meminfo": machine, "proc/self/cgroup": "0::/a/b\n",
			"sys/fs/cgroup/a/b/memory.max": "1000000\n", "sys/fs/cgroup/a/b/memory.current": "300000\n"}, 700000, "/a/b"},
		"pages of files go": {map[string]string{"proc/meminfo": machine, "proc/self/cgroup": "0::/a\n",
			"sys/fs/cgroup/a/memory.max": "1000000\n", "sys/fs/cgroup/a/memory.current": "300000\n",
			"sys/fs/cgroup/a/memory.stat": "anon 50000\ninactive_file 150000\nactive_file 100000\n"}, 950000, "/a"},
		"group above": {map[string]string{"proc/meminfo": machine, "proc/self/cgroup": "0::/a/b\n",
			"sys/fs/cgroup/a/memory.max": "500000\n", "sys/fs/cgroup/a/memory.current": "100000\n",
			"sys/fs/cgroup/a/b/memory.max": "1000000\n", "sys/fs/cgroup/a/b/memory.current": "0\n"}, 400000, "/a"},
		"root of a container": {map[string]string{"proc/meminfo": machine, "proc/self/cgroup": "0::/docker/1234\n",
			"sys/fs/cgroup/memory.max": "600000\n", "sys/fs/cgroup/memory.current": "700000\n"}, 0, "/"},
		"version 1": {map[string]string{"proc/meminfo": machine, "proc/self/cgroup": "5:cpu:/x\n4:memory:/m\n",
			"sys/fs/cgroup/memory/m/memory.limit_in_bytes": "800000\n", "sys/fs/cgroup/memory/m/memory.usage_in_bytes": "100000\n"}, 700000, "/m"},
		"nothing known": {nil, 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := now(tree(t, c.files))
			if r.Free != c.free || !strings.HasSuffix(r.By, c.by) || (c.by == "") != (r.By == "") {
				t.Errorf("got %d by %q, want %d by %q", r.Free, r.By, c.free, c.by)
			}
		})
	}
}

// TestThisMachine: the true files can be read, and what is free is not more than all.
func TestThisMachine(t *testing.T) {
	if _, err := os.Stat("/proc/meminfo"); err != nil {
		t.Skip(err)
	}
	r, all := Now(), Total()
	if r.By == "" || r.Free == 0 || all == 0 {
		t.Errorf("%+v of %d", r, all)
	}
	for n, want := range map[int64]string{3 << 30: "3.0 GB", 5 << 20: "5 MB", 40 << 30: "40 GB"} {
		if got := Size(n); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
