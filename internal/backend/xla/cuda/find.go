// SPDX-License-Identifier: Apache-2.0

package cuda

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/mast3r-runtime/mast3r-runtime/internal/backend/xla/dl"
)

// EnvPlugin names the environment variable with the plugin's file.
const EnvPlugin = "MAST3R_PJRT_CUDA"

// libraries are NVIDIA's, in the order in which they need each other. The plugin
// opens them by name and finds those that are loaded; some of them it does not
// need for what is compiled here, so that a missing one is no error.
var libraries = []string{
	"libcudart.so", "libnvJitLink.so", "libnvrtc.so", "libcublasLt.so", "libcublas.so", "libcupti.so", "libcusparse.so",
	"libcusolver.so", "libcufft.so", "libcudnn.so", "libnccl.so", "libnvshmem_host.so",
}

// plugin is the file to look for below a folder of Python packages, by the major
// version of CUDA.
func plugin(major int) string { return fmt.Sprintf("jax_plugins/xla_cuda%d/xla_cuda_plugin.so", major) }

// found is a plugin and the packages beside it.
type found struct {
	file     string
	packages string // the folder of Python packages; "" when the file stands alone
	major    int    // of CUDA, 0 when unknown
}

// find looks for a plugin: the variable, the folders of Python packages,
// LD_LIBRARY_PATH. The driver's version decides which of two is taken.
func find(driver int, folders []string) (found, error) {
	if file := os.Getenv(EnvPlugin); file != "" {
		if _, err := os.Stat(file); err != nil {
			return found{}, fmt.Errorf("cuda: %s: %w", EnvPlugin, err)
		}
		f := found{file: file}
		dir := filepath.Dir(filepath.Dir(filepath.Dir(file)))
		if _, err := os.Stat(filepath.Join(dir, "nvidia")); err == nil {
			f.packages = dir
		}
		for _, major := range []int{12, 13} {
			if file == filepath.Join(dir, plugin(major)) {
				f.major = major
			}
		}
		return f, nil
	}
	majors := []int{13, 12}
	if driver < 13000 {
		majors = []int{12}
	}
	for _, major := range majors {
		for _, dir := range folders {
			file := filepath.Join(dir, plugin(major))
			if _, err := os.Stat(file); err == nil {
				return found{file, dir, major}, nil
			}
		}
	}
	for _, dir := range filepath.SplitList(os.Getenv("LD_LIBRARY_PATH")) {
		file := filepath.Join(dir, "xla_cuda_plugin.so")
		if _, err := os.Stat(file); err == nil {
			return found{file: file}, nil
		}
	}
	return found{}, fmt.Errorf("cuda: no XLA plugin. pip install 'mast3r-runtime[cuda%d]', or name the file in %s", majors[0], EnvPlugin)
}

// packageFolders are the folders of Python packages that files of this process
// come from: its libraries lie there, ours or numpy's.
func packageFolders() []string {
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return nil // no Linux, no plugin
	}
	return packagesOf(string(maps))
}

// packagesOf finds the folders in a process's list of what is mapped.
func packagesOf(maps string) []string {
	var dirs []string
	for line := range strings.Lines(maps) {
		_, path, ok := strings.Cut(strings.TrimRight(line, "\n"), "/")
		if !ok {
			continue
		}
		path = "/" + path
		for _, name := range []string{"/site-packages/", "/dist-packages/"} {
			if i := strings.Index(path, name); i >= 0 {
				if dir := path[:i+len(name)-1]; !slices.Contains(dirs, dir) {
					dirs = append(dirs, dir)
				}
			}
		}
	}
	return dirs
}

// cu13 is where NVIDIA's wheels for CUDA 13 put everything but cuDNN and NCCL. Those for
// CUDA 12 have a folder for each library.
const cu13 = "nvidia/cu13"

// wanted are the files of NVIDIA's libraries in the packages, of the plugin's version.
func (f found) wanted() []string {
	if f.packages == "" {
		return nil // not what lies in the working folder
	}
	var out []string
	for _, name := range libraries {
		files, err := filepath.Glob(filepath.Join(f.packages, "nvidia/*/lib", name+".*"))
		if err != nil {
			continue // a folder's name that is a bad pattern
		}
		of13 := func(file string) bool { return strings.HasPrefix(file, filepath.Join(f.packages, cu13)+"/") }
		if f.major == 12 {
			files = slices.DeleteFunc(files, of13)
		}
		// Glob sorts.
		if i := slices.IndexFunc(files, of13); i >= 0 {
			out = append(out, files[i])
		} else if len(files) > 0 {
			out = append(out, files[0])
		}
	}
	return out
}

// preload opens NVIDIA's libraries of the packages, so that the plugin finds
// them by their names. What is loaded already, by torch for one, stays what it is.
func (f found) preload() {
	for _, file := range f.wanted() {
		_, _ = dl.Open(file, true) // the plugin says what it misses
	}
}

// data is the folder with NVIDIA's compiler tools, for XLA; "" where there is
// none.
func (f found) data() string {
	for _, name := range []string{cu13, "nvidia/cuda_nvcc"} {
		if f.packages == "" || f.major == 12 && name == cu13 {
			continue
		}
		dir := filepath.Join(f.packages, name)
		for _, inside := range []string{"bin/ptxas", "nvvm/libdevice"} {
			if _, err := os.Stat(filepath.Join(dir, inside)); err == nil {
				return dir
			}
		}
	}
	return ""
}
