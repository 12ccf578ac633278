// SPDX-License-Identifier: Apache-2.0

package metal

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

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
// or used for the first time, a file in the cache folder says so, locked by the
// process. One that ends in its own time removes the file; one that was aborted
// leaves it, unlocked, and so does one that was killed at that moment: nothing tells
// the two apart afterwards. The next process therefore stays on the CPU, says so, and
// makes the file a record; a minute later the GPU is tried once more. Where that
// goes well, a user had killed the process, and the record goes; where it ends a
// process again, the CPU it stays, until the code or the system is another (both are
// in the name) or somebody asks for the GPU.
//
// The lock is what says that a process lives: numbers of processes are given again,
// after a restart of the machine too.
const (
	trialSuffix  = ".trying"
	recordSuffix = ".ended"
	tryAgain     = time.Minute
)

// trials is this process's file and how many wait for it.
var trials struct {
	sync.Mutex
	file  *os.File // locked
	open  int
	known map[string]bool // paths that are removed at exit
}

// ended is the record: how often the GPU has ended a process, and what the last one
// did.
type ended struct {
	Times   int    `json:"times"`
	What    string `json:"what"`
	Process int    `json:"process"`
}

func cacheDir() (string, error) {
	if dir := os.Getenv(EnvCacheDir); dir != "" {
		return dir, nil
	}
	dir, err := os.UserCacheDir()
	return filepath.Join(dir, "mast3r_runtime"), err
}

func trialPrefix(dir string) string { return filepath.Join(dir, "metal-"+Identity()) }

// EndedBy reports the process that the GPU ended, with ErrEndedProcess.
func EndedBy() error {
	dir, err := cacheDir()
	if err != nil {
		return nil // nowhere to look
	}
	defer lockFolder(dir)()
	record := trialPrefix(dir) + recordSuffix
	e, at := readEnded(record)
	if dead := deadTrials(dir); len(dead) > 0 { // together they are one time: several may have begun at once
		what, _ := os.ReadFile(dead[0])
		e, at = ended{e.Times + 1, strings.TrimSpace(string(what)), trialPID(dead[0])}, time.Now()
		if raw, err := json.Marshal(e); err == nil && os.WriteFile(record, raw, 0o644) == nil { // or the files stay, and say so again
			for _, path := range dead {
				_ = os.Remove(path)
			}
		}
	}
	if age := time.Since(at); e.Times == 0 || e.Times == 1 && (age > tryAgain || age < 0) {
		return nil
	}
	next := "it is tried once more in a minute"
	if e.Times > 1 {
		next = fmt.Sprintf("that was time %d", e.Times)
	}
	return fmt.Errorf("%w: %s, in process %d; %s, \"mast3r selfcheck\" or MAST3R_BACKEND=metal tries it at once",
		ErrEndedProcess, e.What, e.Process, next)
}

// readEnded is the record and when it was made; zero without one.
func readEnded(path string) (e ended, at time.Time) {
	raw, err := os.ReadFile(path)
	st, err1 := os.Stat(path)
	if err != nil || err1 != nil {
		return ended{}, at
	}
	if json.Unmarshal(raw, &e) != nil || e.Times < 1 {
		e = ended{Times: 1, What: "using it"} // cut short
	}
	return e, st.ModTime()
}

// Forgive removes what other processes left behind.
func Forgive() {
	dir, err := cacheDir()
	if err != nil {
		return
	}
	defer lockFolder(dir)()
	for _, path := range append(deadTrials(dir), trialPrefix(dir)+recordSuffix) {
		_ = os.Remove(path) // or it stays, and the next process says so again
	}
}

// deadTrials are the files of processes that are no more; the folder is locked.
func deadTrials(dir string) (dead []string) {
	paths, _ := filepath.Glob(trialPrefix(dir) + "-*" + trialSuffix) // the pattern is sound
	for _, path := range paths {
		if trialPID(path) == os.Getpid() {
			continue
		}
		if f, err := os.OpenFile(path, os.O_RDWR, 0); err == nil {
			if lockFile(f) == nil {
				dead = append(dead, path)
			}
			_ = f.Close()
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

// lockFolder keeps other processes from looking at a file that is being made. It
// gives up rather than wait for somebody who never lets go.
func lockFolder(dir string) (unlock func()) {
	f, err := os.Open(dir)
	if err != nil {
		return func() {}
	}
	for range 100 {
		if lockFile(f) == nil {
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	return func() { _ = f.Close() }
}

// Try marks the beginning of something on the GPU; done ends it. Where the file
// cannot be written there is no mark.
func Try(what string) (done func()) {
	trials.Lock()
	defer trials.Unlock()
	if trials.open == 0 {
		if trials.file = newTrial(); trials.file == nil {
			return func() {}
		}
	}
	trials.open++
	_ = trials.file.Truncate(0)
	_, _ = trials.file.WriteAt([]byte(what+"\n"), 0)
	return sync.OnceFunc(func() { tried(what) })
}

// newTrial makes this process's file and locks it.
func newTrial() *os.File {
	dir, err := cacheDir()
	if err != nil || os.MkdirAll(dir, 0o755) != nil {
		return nil
	}
	defer lockFolder(dir)()
	path := trialPrefix(dir) + "-" + strconv.Itoa(os.Getpid()) + trialSuffix
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil
	}
	if lockFile(f) != nil { // a file system without locks: nobody could tell who is alive
		_ = errors.Join(f.Close(), os.Remove(path))
		return nil
	}
	if !trials.known[path] {
		_ = objc.RemoveAtExit(path) // or an interrupted program leaves it
		if trials.known == nil {
			trials.known = map[string]bool{}
		}
		trials.known[path] = true
	}
	return f
}

// tried forgets what once ended a process and now has not.
func tried(what string) {
	trials.Lock()
	defer trials.Unlock()
	if dir, err := cacheDir(); err == nil {
		record := trialPrefix(dir) + recordSuffix
		if e, _ := readEnded(record); e.What == what {
			_ = os.Remove(record)
		}
	}
	if trials.open--; trials.open == 0 {
		_ = errors.Join(os.Remove(trials.file.Name()), trials.file.Close())
	}
}
