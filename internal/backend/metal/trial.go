// SPDX-License-Identifier: Apache-2.0

package metal

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"github.com/mast3r-runtime/mast3r-runtime/internal/backend/metal/objc"
)

// EnvCacheDir is the folder where a process says that it is trying the GPU; by
// default mast3r_runtime in the user's cache folder.
const EnvCacheDir = "MAST3R_CACHE_DIR"

// ErrEndedProcess means that trying the GPU has ended a process.
var ErrEndedProcess = errors.New("using the GPU ended a process")

// Available loads Apple's frameworks; an error says why there are none.
func Available() error { return objc.Load() }

// Apple's frameworks end the process when they dislike something, by an assertion
// or an exception that Go cannot catch. So while the GPU is opened, compiled for
// or used for the first time, a file in the cache folder says so, in the process's
// name. A process that ends in its own time removes it; one that was aborted
// leaves it, and the next one stays on the CPU. The name has the code's and the
// system's identity: an update of either is worth another try.
//
// trials is this process's file and how many wait for it.
var trials struct {
	sync.Mutex
	path  string // of the first that is open
	open  int
	known map[string]bool // paths that are removed at exit
}

const trialSuffix = ".trying"

func cacheDir() (string, error) {
	if dir := os.Getenv(EnvCacheDir); dir != "" {
		return dir, nil
	}
	dir, err := os.UserCacheDir()
	return filepath.Join(dir, "mast3r_runtime"), err
}

func trialPrefix(dir string) string { return filepath.Join(dir, "metal-"+Identity()+"-") }

// EndedBy reports the process that the GPU ended, with ErrEndedProcess.
func EndedBy() error {
	dir, err := cacheDir()
	if err != nil {
		return nil // nowhere to look
	}
	for _, path := range deadTrials(dir) {
		what, _ := os.ReadFile(path)
		return fmt.Errorf("%w: %s, in process %d; \"mast3r selfcheck\" or MAST3R_BACKEND=metal tries it again",
			ErrEndedProcess, strings.TrimSpace(string(what)), trialPID(path))
	}
	return nil
}

// Forgive removes what other processes left behind.
func Forgive() {
	dir, err := cacheDir()
	if err != nil {
		return
	}
	for _, path := range deadTrials(dir) {
		_ = os.Remove(path) // or it stays, and the next process says so again
	}
}

// deadTrials are the files of processes that are no more.
func deadTrials(dir string) (dead []string) {
	paths, _ := filepath.Glob(trialPrefix(dir) + "*" + trialSuffix) // the pattern is sound
	for _, path := range paths {
		if pid := trialPID(path); pid > 0 && !alive(pid) {
			dead = append(dead, path)
		}
	}
	return dead
}

func trialPID(path string) int {
	name := strings.TrimSuffix(path, trialSuffix)
	pid, err := strconv.Atoi(name[strings.LastIndexByte(name, '-')+1:])
	if err != nil {
		return 0
	}
	return pid
}

// Try marks the beginning of something on the GPU; done ends it. Where the file
// cannot be written there is no mark.
func Try(what string) (done func()) {
	trials.Lock()
	defer trials.Unlock()
	if trials.open == 0 {
		dir, err := cacheDir()
		if err != nil || os.MkdirAll(dir, 0o755) != nil {
			return func() {}
		}
		trials.path = trialPrefix(dir) + strconv.Itoa(os.Getpid()) + trialSuffix
		if !trials.known[trials.path] {
			_ = objc.RemoveAtExit(trials.path) // or an interrupted program leaves it
			if trials.known == nil {
				trials.known = map[string]bool{}
			}
			trials.known[trials.path] = true
		}
	}
	trials.open++
	_ = os.WriteFile(trials.path, []byte(what+"\n"), 0o644)
	return sync.OnceFunc(tried)
}

func tried() {
	trials.Lock()
	defer trials.Unlock()
	if trials.open--; trials.open == 0 {
		_ = os.Remove(trials.path)
	}
}
