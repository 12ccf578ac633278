// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"bufio"
	"bytes"
	"math"
	"os"
	"path"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Total is what this process may use at most: the memory of the machine, or less
// where its control group says so. 0 means that nobody knows.
func Total() uint64 {
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		return 0
	}
	total := uint64(info.Totalram) * uint64(info.Unit)
	for _, g := range groups(root) {
		if n, ok := g.limit(); ok {
			total = min(total, n)
		}
	}
	return total
}

// Now is what may still be used.
func Now() Room { return now(root) }

const root = "/"

func now(root string) Room {
	var r Room
	if m := fields(path.Join(root, "proc/meminfo"), 1<<10); m["MemAvailable"] > 0 {
		r.less(m["MemAvailable"]+m["SwapFree"], "the machine")
	}
	for _, g := range groups(root) {
		if free, _, ok := g.room(); ok {
			r.less(free, "the control group "+g.name)
		}
	}
	var as unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_AS, &as) == nil && as.Cur < math.MaxInt64 {
		if text, err := os.ReadFile(path.Join(root, "proc/self/statm")); err == nil {
			pages, _, _ := strings.Cut(string(text), " ")
			n, _ := strconv.ParseUint(pages, 10, 64)
			r.less(as.Cur-min(as.Cur, n*uint64(os.Getpagesize())), "the limit of the address space (ulimit -v)")
		}
	}
	return r
}

// group is a control group with the memory controller.
type group struct{ name, dir, max, usage string }

func (g group) limit() (uint64, bool) { return number(path.Join(g.dir, g.max)) }

// room is what the group may still use, and its limit.
func (g group) room() (free, limit uint64, ok bool) {
	limit, ok = g.limit()
	if !ok {
		return 0, 0, false
	}
	used, _ := number(path.Join(g.dir, g.usage))
	// Pages of files count, and go when they must.
	stat := fields(path.Join(g.dir, "memory.stat"), 1)
	used -= min(used, stat["inactive_file"]+stat["active_file"])
	return limit - min(limit, used), limit, true
}

// groups are those that the process is in, the innermost first: each of them limits.
// In a container that sees its own group as the root, the path of /proc/self/cgroup
// need not exist, and the root is looked at all the same.
func groups(root string) (all []group) {
	text, err := os.ReadFile(path.Join(root, "proc/self/cgroup"))
	if err != nil {
		return nil
	}
	for line := range strings.Lines(string(text)) {
		f := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(f) != 3 {
			continue
		}
		base, limit, usage := "sys/fs/cgroup", "memory.max", "memory.current" // version 2
		if f[1] != "" {
			if f[1] != "memory" {
				continue
			}
			base, limit, usage = "sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes"
		}
		for name := path.Clean("/" + f[2]); ; name = path.Dir(name) {
			all = append(all, group{name, path.Join(root, base, name), limit, usage})
			if name == "/" {
				break
			}
		}
	}
	return all
}

// number reads a file that holds one; "max" is none, and no limit.
func number(file string) (uint64, bool) {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0, false
	}
	n, err := strconv.ParseUint(string(bytes.TrimSpace(text)), 10, 64)
	return n, err == nil
}

// fields reads a file of lines with a name and a number, in units of so many bytes.
func fields(file string, unit uint64) map[string]uint64 {
	all := map[string]uint64{}
	text, err := os.ReadFile(file)
	if err != nil {
		return all
	}
	for s := bufio.NewScanner(bytes.NewReader(text)); s.Scan(); {
		f := strings.Fields(s.Text())
		if len(f) < 2 {
			continue
		}
		if n, err := strconv.ParseUint(f[1], 10, 64); err == nil {
			all[strings.TrimSuffix(f[0], ":")] = n * unit
		}
	}
	return all
}
