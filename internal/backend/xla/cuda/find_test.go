// SPDX-License-Identifier: Apache-2.0

package cuda

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// install makes empty files below a folder of packages.
func install(t *testing.T, dir string, files ...string) {
	t.Helper()
	for _, name := range files {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// TestFind: the driver decides which plugin is taken where there are two; the variable
// comes first, LD_LIBRARY_PATH last, and what is missing is named.
func TestFind(t *testing.T) {
	t.Setenv(EnvPlugin, "")
	t.Setenv("LD_LIBRARY_PATH", "")
	both, twelve, none := t.TempDir(), t.TempDir(), t.TempDir()
	install(t, both, "jax_plugins/xla_cuda12/xla_cuda_plugin.so", "jax_plugins/xla_cuda13/xla_cuda_plugin.so")
	install(t, twelve, "jax_plugins/xla_cuda12/xla_cuda_plugin.so")
	for _, c := range []struct {
		what    string
		driver  int
		folders []string
		dir     string
		major   int // 0: nothing is found, and fault names the extra
		fault   string
	}{
		{"both, a new driver", 13000, []string{both}, both, 13, ""},
		{"both, an older driver", 12080, []string{both}, both, 12, ""},
		{"12 alone, a new driver", 13010, []string{twelve}, twelve, 12, ""},
		{"13 in the second folder", 13000, []string{twelve, both}, both, 13, ""},
		{"nothing, a new driver", 13000, []string{none}, "", 0, "cuda13"},
		{"nothing, an older driver", 12020, nil, "", 0, "cuda12"},
	} {
		f, err := find(c.driver, c.folders)
		if c.major == 0 {
			if err == nil || !strings.Contains(err.Error(), "["+c.fault+"]") || !strings.Contains(err.Error(), EnvPlugin) {
				t.Errorf("%s: %+v, %v", c.what, f, err)
			}
			continue
		}
		if want := (found{filepath.Join(c.dir, plugin(c.major)), c.dir, c.major}); err != nil || f != want {
			t.Errorf("%s: %+v, %v, want %+v", c.what, f, err, want)
		}
	}
	alone := t.TempDir()
	install(t, alone, "xla_cuda_plugin.so")
	t.Setenv("LD_LIBRARY_PATH", none+string(filepath.ListSeparator)+alone)
	if f, err := find(13000, []string{none}); err != nil || f != (found{file: filepath.Join(alone, "xla_cuda_plugin.so")}) {
		t.Errorf("LD_LIBRARY_PATH: %+v, %v", f, err)
	}
	install(t, both, "nvidia/cudnn/lib/libcudnn.so.9")
	file := filepath.Join(both, plugin(12))
	t.Setenv(EnvPlugin, file)
	if f, err := find(13000, []string{both}); err != nil || f != (found{file, both, 12}) {
		t.Errorf("%s: %+v, %v", EnvPlugin, f, err)
	}
	t.Setenv(EnvPlugin, filepath.Join(none, "missing.so"))
	if f, err := find(13000, []string{both}); err == nil || !strings.Contains(err.Error(), EnvPlugin) {
		t.Errorf("a missing file in %s: %+v, %v", EnvPlugin, f, err)
	}
}

// TestLibraries: a plugin gets NVIDIA's libraries and tools of its own version where
// those of both are installed, in the order in which they need each other.
func TestLibraries(t *testing.T) {
	dir := t.TempDir()
	install(t, dir, "nvidia/cu13/lib/libcudart.so.13", "nvidia/cu13/lib/libcublas.so.13", "nvidia/cu13/lib/libcublasLt.so.13", "nvidia/cu13/bin/ptxas",
		"nvidia/cuda_runtime/lib/libcudart.so.12", "nvidia/cublas/lib/libcublas.so.12", "nvidia/cublas/lib/libcublasLt.so.12", "nvidia/cuda_nvcc/nvvm/libdevice/x",
		"nvidia/cudnn/lib/libcudnn.so.9")
	for major, want := range map[int][]string{
		13: {"cu13/lib/libcudart.so.13", "cu13/lib/libcublasLt.so.13", "cu13/lib/libcublas.so.13", "cudnn/lib/libcudnn.so.9"},
		12: {"cuda_runtime/lib/libcudart.so.12", "cublas/lib/libcublasLt.so.12", "cublas/lib/libcublas.so.12", "cudnn/lib/libcudnn.so.9"},
	} {
		for i := range want {
			want[i] = filepath.Join(dir, "nvidia", want[i])
		}
		f := found{packages: dir, major: major}
		if got := f.wanted(); !slices.Equal(got, want) {
			t.Errorf("CUDA %d: libraries %v, want %v", major, got, want)
		}
		tools := map[int]string{12: "nvidia/cuda_nvcc", 13: "nvidia/cu13"}[major]
		if got := f.data(); got != filepath.Join(dir, tools) {
			t.Errorf("CUDA %d: tools %s, want %s", major, got, tools)
		}
	}
	t.Chdir(dir)
	if f := (found{major: 13}); len(f.wanted()) > 0 || f.data() != "" {
		t.Errorf("the working folder's libraries are taken: %v, %q", f.wanted(), f.data())
	}
	if f := (found{packages: t.TempDir(), major: 13}); len(f.wanted()) > 0 || f.data() != "" {
		t.Errorf("of nothing: %v, %q", f.wanted(), f.data())
	}
}

// TestPackageFolders reads a list of what a process has mapped.
func TestPackageFolders(t *testing.T) {
	const maps = `7f0000000000-7f0000001000 r-xp 00000000 08:01 11  /usr/lib/libc.so.6
7f0000002000-7f0000003000 r-xp 00000000 08:01 12  /home/a b/venv/lib/python3.12/site-packages/numpy/core.so
7f0000004000-7f0000005000 r-xp 00000000 08:01 13  /home/a b/venv/lib/python3.12/site-packages/mast3r_runtime/libmast3r_runtime.so
7f0000006000-7f0000007000 r-xp 00000000 08:01 14  /usr/lib/python3/dist-packages/x.so
7f0000008000-7f0000009000 rw-p 00000000 00:00 0   [heap]
`
	if got, want := packagesOf(maps), []string{"/home/a b/venv/lib/python3.12/site-packages", "/usr/lib/python3/dist-packages"}; !slices.Equal(got, want) {
		t.Errorf("folders %q, want %q", got, want)
	}
}

// TestVisible: the plugin opens the GPU that is asked for, or those of the list.
func TestVisible(t *testing.T) {
	for _, c := range []struct {
		index int
		list  string
		want  []int64 // nil: an error
	}{
		{0, "", []int64{0}}, {2, "", []int64{2}}, {1, "0,1", []int64{0, 1}}, {1, " 1 , 3", []int64{1, 3}},
		{0, "1,2", nil}, {0, "0,0", nil}, {0, "0,4", nil}, {0, "0,-1", nil}, {0, "0,", nil}, {0, "all", nil},
	} {
		got, err := Settings{Index: c.index}.visible(c.list, 4)
		if (err == nil) != (c.want != nil) || !slices.Equal(got, c.want) {
			t.Errorf("cuda:%d with %q: %v, %v, want %v", c.index, c.list, got, err, c.want)
		}
	}
}
