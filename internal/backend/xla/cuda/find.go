// SPDX-License-Identifier: Apache-2.0

package cuda

import (
	"bufio"
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

// plugins are the files to look for below a folder of Python packages, by the
// major version of CUDA.
func plugins(major int) []string {
	return []string{fmt.Sprintf("jax_plugins/xla_cuda%d/xla_cuda_plugin.so", major)}
}

// found is a plugin and the packages beside it.
type found struct {
	file     string
	packages string // the folder of Python packages; "" when the file stands alone
	major    int    // of CUDA, 0 when unknown
}

// find looks for a plugin: the variable, the folders of Python packages that
// this process has files of, LD_LIBRARY_PATH. The driver's version decides which
// of two is taken.
func find(driver int) (found, error) {
	if file := os.Getenv(EnvPlugin); file != "" {
		if _, err := os.Stat(file); err != nil {
			return found{}, fmt.Errorf("cuda: %s: %w", EnvPlugin, err)
		}
		f := found{file: file}
		dir := filepath.Dir(filepath.Dir(filepath.Dir(file)))
		if _, err := os.Stat(filepath.Join(dir, "nvidia")); err == nil {
			f.packages = dir
		}
		return f, nil
	}
	majors := []int{13, 12}
	if driver < 13000 {
		majors = []int{12}
	}
	dirs := packageFolders()
	for _, major := range majors {
		for _, dir := range dirs {
			for _, name := range plugins(major) {
				file := filepath.Join(dir, name)
				if _, err := os.Stat(file); err == nil {
					return found{file, dir, major}, nil
				}
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
	f, err := os.Open("/proc/self/maps")
	if err != nil {
		return nil // no Linux, no plugin
	}
	defer f.Close()
	var dirs []string
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		_, path, ok := strings.Cut(lines.Text(), "/")
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

// preload opens NVIDIA's libraries of the packages, so that the plugin finds
// them by their names, and returns the files. What is loaded already, by torch
// for one, stays what it is.
func (f found) preload() []string {
	var opened []string
	for _, name := range libraries {
		for _, folder := range []string{"nvidia/cu13/lib", "nvidia/*/lib"} {
			if folder == "nvidia/cu13/lib" && f.major == 12 {
				continue
			}
			files, err := filepath.Glob(filepath.Join(f.packages, folder, name+".*"))
			if err != nil || len(files) == 0 {
				continue
			}
			slices.Sort(files)
			if _, err := dl.Open(files[0], true); err == nil {
				opened = append(opened, files[0])
			}
			break
		}
	}
	return opened
}

// data is the folder with NVIDIA's compiler tools, for XLA; "" where there is
// none.
func (f found) data() string {
	for _, name := range []string{"nvidia/cu13", "nvidia/cuda_nvcc"} {
		dir := filepath.Join(f.packages, name)
		for _, inside := range []string{"bin/ptxas", "nvvm/libdevice"} {
			if _, err := os.Stat(filepath.Join(dir, inside)); err == nil {
				return dir
			}
		}
	}
	return ""
}
