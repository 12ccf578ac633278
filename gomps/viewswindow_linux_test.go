// SPDX-License-Identifier: Apache-2.0

package gomps_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mast3r-runtime/mast3r-runtime/gomps"
)

// TestWindowsForLackOfMemory: a process whose address space has no room for all views at
// once looks at as many as fit, and the scene is whole.
func TestWindowsForLackOfMemory(t *testing.T) {
	const views, height, width = 24, 168, 224
	if path := os.Getenv("GOMPS_TEST_WINDOWS"); path != "" {
		lookInWindows(t, path, views, height, width)
		return
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestWindowsForLackOfMemory$", "-test.v")
	cmd.Env = append(os.Environ(), "GOMPS_TEST_WINDOWS="+microModel(t, "da3_small"))
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "windows of ") {
		t.Fatalf("%v\n%s", err, out)
	}
	_, text, _ := strings.Cut(string(out), "windows of ")
	text, _, _ = strings.Cut(text, "\n")
	t.Log("windows of " + text)
}

func lookInWindows(t *testing.T, path string, views, height, width int) {
	e, err := gomps.Open(gomps.Config{Backend: "cpu", Precision: "fp32", Threads: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	if err := e.Load(t.Context(), path); err != nil {
		t.Fatal(err)
	}
	few, err := e.InferViews(t.Context(), pictures(4, height, width), gomps.ViewsOptions{Raw: true})
	if err != nil {
		t.Fatal(err)
	}
	few.Release()
	least, all := estimate(t, path, 4, height, width), estimate(t, path, views, height, width)
	// How much the engine holds already depends on the machine, so it is asked what it lacks.
	room := int64(80 << 20) // Go's own heap grows by 64 MB at a time
	s, err := withRoom(t, e, views, height, width, room)
	if lack, ok := errors.AsType[*gomps.MemoryError](err); ok {
		room += lack.Need - lack.Free + (all.Total-least.Total)/4
		s, err = withRoom(t, e, views, height, width, room)
	}
	if err != nil {
		t.Fatal(err)
	}
	w := s.Windows[0].Count
	if len(s.View) != views || len(s.Windows) < 2 || w < 4 || w >= views {
		t.Fatalf("%d views in windows %+v", len(s.View), s.Windows)
	}
	for i, v := range s.View {
		if v.Depth.Numel() != height*width || v.Points == nil {
			t.Errorf("view %d lacks something", i)
		}
	}
	fmt.Printf("windows of %d; %d MB of room, all at once need %d MB and four %d MB\n", w, room>>20, all.Total>>20, least.Total>>20)
}

// withRoom looks at views while the address space may grow by so many bytes.
func withRoom(t *testing.T, e *gomps.Engine, views, height, width int, room int64) (*gomps.Scene, error) {
	t.Helper()
	images := pictures(views, height, width)
	used, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Fatal(err)
	}
	pages, err := strconv.ParseUint(strings.Fields(string(used))[0], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	limit := unix.Rlimit{Cur: pages*uint64(os.Getpagesize()) + uint64(room), Max: unix.RLIM_INFINITY}
	if err := unix.Setrlimit(unix.RLIMIT_AS, &limit); err != nil {
		t.Fatal(err)
	}
	return e.InferViews(t.Context(), images, gomps.ViewsOptions{Raw: true})
}

func estimate(t *testing.T, path string, views, height, width int) *gomps.Memory {
	t.Helper()
	m, err := gomps.EstimateMemory(t.Context(), gomps.MemoryOptions{Model: path, Precision: "fp32", Pictures: views, Height1: height, Width1: width, Threads: 2})
	if err != nil {
		t.Fatal(err)
	}
	return m
}
