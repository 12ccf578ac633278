// SPDX-License-Identifier: Apache-2.0

package cuda

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/mast3r-runtime/mast3r-runtime/internal/backend/xla"
)

// EnvAttention names the environment variable that is "fused" for cuDNN's
// attention, the default, or "unfused" for products and a softmax.
const EnvAttention = "MAST3R_CUDA_ATTENTION"

// EnvStandIn names the environment variable with a plugin that stands in for the
// GPU's, in tests: XLA on the CPU.
const EnvStandIn = "MAST3R_PJRT_CPU"

// EnvDevices names the environment variable with the numbers of the GPUs that a process
// uses, "0,1", where it is to use more than the first that it opens.
const EnvDevices = "MAST3R_CUDA_DEVICES"

// Settings of a device.
type Settings struct {
	// Index is the number of the GPU.
	Index int
	// Cache is the folder for compiled programs, "off" for none; "" is
	// mast3r_runtime/xla in the user's folder for caches.
	Cache string
	// MemoryFraction bounds what XLA takes of the GPU's memory, 0 to 1; 0 leaves the
	// plugin's own bound. Memory is taken when it is needed.
	MemoryFraction float32
	// Flags are more of XLA's.
	Flags  map[string]any
	Logger *slog.Logger
}

// oldest is the least compute capability: bfloat16 and TF32 came with it.
const oldest = 8

var preloaded sync.Once

// Open opens a GPU.
func Open(s Settings) (*xla.Backend, error) {
	if file := os.Getenv(EnvStandIn); file != "" {
		return xla.New(xla.Config{Name: "cuda", Plugin: file, Device: s.Index, Cache: s.cacheFolder(), Flags: s.Flags, Logger: s.Logger})
	}
	if runtime.GOOS != "linux" {
		return nil, fmt.Errorf("%w: XLA's CUDA plugin is for Linux; on Windows use WSL 2", ErrNoDriver)
	}
	driver, err := ask()
	if err != nil {
		return nil, err
	}
	if s.Index < 0 || s.Index >= len(driver.Devices) {
		return nil, fmt.Errorf("%w: cuda:%d of %d GPUs", xla.ErrNoDevice, s.Index, len(driver.Devices))
	}
	visible, err := s.visible(os.Getenv(EnvDevices), len(driver.Devices))
	if err != nil {
		return nil, err
	}
	gpu := driver.Devices[s.Index]
	if gpu.Major < oldest {
		return nil, fmt.Errorf("cuda: %s has compute capability %d.%d, want at least %d.0", gpu.Name, gpu.Major, gpu.Minor, oldest)
	}
	f, err := find(driver.Version, packageFolders())
	if err != nil {
		return nil, err
	}
	if f.major == 12 && driver.Version < 12000 || f.major == 13 && driver.Version < 13000 {
		return nil, fmt.Errorf("cuda: the driver serves CUDA %d.%d, the plugin wants %d", driver.Version/1000, driver.Version%1000/10, f.major)
	}
	preloaded.Do(f.preload)
	defer quiet()()
	cfg := xla.Config{
		Name: "cuda", Plugin: f.file, Cache: s.cacheFolder(), Key: fmt.Sprintf("driver %d, capability %d.%d", driver.Version, gpu.Major, gpu.Minor),
		Options: map[string]any{"preallocate": false, "visible_devices": visible}, Device: s.Index,
		// Products are the library's: XLA's own kernels for them take as long to try out
		// as everything else together, minutes in float32, and lost on an H200 (encoder of
		// two pictures in bf16 3.49 ms with them, 3.26 without).
		Flags:  map[string]any{"xla_gpu_enable_triton_gemm": false},
		Logger: s.Logger, Attention: xla.Fused,
	}
	if s.MemoryFraction > 0 {
		cfg.Options["memory_fraction"] = s.MemoryFraction
	}
	if dir := f.data(); dir != "" {
		cfg.Flags["xla_gpu_cuda_data_dir"] = dir
	}
	for name, v := range s.Flags {
		cfg.Flags[name] = v
	}
	switch v := os.Getenv(EnvAttention); v {
	case "", "fused":
	case "unfused":
		cfg.Attention = xla.Unfused
	default:
		return nil, fmt.Errorf("cuda: %s is %q, want fused or unfused", EnvAttention, v)
	}
	b, err := xla.New(cfg)
	if err != nil && errors.Is(err, xla.ErrNoDevice) {
		return nil, fmt.Errorf("%w (the driver serves CUDA %d.%d and sees %d GPUs; a process has the GPU that it opens first, or those of %s=0,1)",
			err, driver.Version/1000, driver.Version%1000/10, len(driver.Devices), EnvDevices)
	}
	return b, err
}

// visible are the numbers of the GPUs that the plugin opens: the one that is asked for, or
// all that a list names. XLA opens no other later in a process, and each that it opens costs
// memory and time.
func (s Settings) visible(list string, count int) ([]int64, error) {
	if list == "" {
		return []int64{int64(s.Index)}, nil
	}
	var all []int64
	for part := range strings.SplitSeq(list, ",") {
		n, err := strconv.ParseInt(strings.TrimSpace(part), 10, 64)
		if err != nil || n < 0 || n >= int64(count) || slices.Contains(all, n) {
			return nil, fmt.Errorf("cuda: %s is %q, want different numbers below %d, with commas", EnvDevices, list, count)
		}
		all = append(all, n)
	}
	if !slices.Contains(all, int64(s.Index)) {
		return nil, fmt.Errorf("%w: cuda:%d is not among those of %s, %s", xla.ErrNoDevice, s.Index, EnvDevices, list)
	}
	return all, nil
}

// EnvLog is XLA's own variable for what it writes to standard error: 0 is all, 2
// is errors.
const EnvLog = "TF_CPP_MIN_LOG_LEVEL"

// quiet has XLA write errors only, unless the user has said otherwise. It reads
// its variable when it is loaded.
func quiet() (restore func()) {
	if _, ok := os.LookupEnv(EnvLog); ok {
		return func() {}
	}
	if err := os.Setenv(EnvLog, "2"); err != nil {
		return func() {}
	}
	return func() { _ = os.Unsetenv(EnvLog) }
}

// cacheFolder is where compiled programs are kept.
func (s Settings) cacheFolder() string {
	switch s.Cache {
	case "off":
		return ""
	case "":
	default:
		return s.Cache
	}
	home, err := os.UserCacheDir()
	if err != nil {
		return "" // no home, no cache
	}
	return filepath.Join(home, "mast3r_runtime", "xla")
}
