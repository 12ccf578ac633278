// SPDX-License-Identifier: Apache-2.0

package pjrt

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"unsafe"

	"github.com/ebitengine/purego"

	"github.com/mast3r-runtime/mast3r-runtime/internal/backend/bufpool"
	"github.com/mast3r-runtime/mast3r-runtime/internal/backend/xla/dl"
)

// EnvAny names the environment variable that, when it is "1", lets plugins of
// untested versions of the C API be used.
const EnvAny = "MAST3R_PJRT_ANY"

// ErrVersion is in the chain of the error about a plugin of another version.
var ErrVersion = errors.New("pjrt: version of the C API")

// Plugin is a loaded plugin. Libraries stay loaded: XLA cannot be unloaded.
type Plugin struct {
	path         string
	api          *api
	major, minor int
	attributes   map[string]any
	// compiling is held while the plugin compiles: CUDA's was seen to hang when several
	// threads asked it to at once.
	compiling sync.Mutex
}

var loaded struct {
	sync.Mutex
	plugins map[string]*Plugin
}

// Load opens the plugin at path, once in a process, checks its version and
// initialises it.
func Load(path string) (*Plugin, error) {
	loaded.Lock()
	defer loaded.Unlock()
	if p, ok := loaded.plugins[path]; ok {
		return p, nil
	}
	p, err := load(path)
	if err != nil {
		return nil, fmt.Errorf("pjrt: %s: %w", path, err)
	}
	if loaded.plugins == nil {
		loaded.plugins = map[string]*Plugin{}
	}
	loaded.plugins[path] = p
	return p, nil
}

func load(path string) (*Plugin, error) {
	lib, err := dl.Open(path, false)
	if err != nil {
		return nil, err
	}
	get, err := dl.Symbol(lib, "GetPjrtApi")
	if err != nil {
		return nil, fmt.Errorf("this is no PJRT plugin: %w", err)
	}
	table, _, _ := purego.SyscallN(get)
	if table == 0 {
		return nil, errors.New("GetPjrtApi gave no table of functions")
	}
	p := &Plugin{path: path, api: *(**api)(unsafe.Pointer(&table))}
	if err := p.check(); err != nil {
		return nil, err
	}
	if err := call(p, pluginInitialize, &pluginInitializeArgs{}); err != nil {
		return nil, fmt.Errorf("initialise: %w", err)
	}
	return p, p.readAttributes()
}

// check refuses a table that is too short for the functions used here, and
// versions that nobody has tried.
func (p *Plugin) check() error {
	p.major, p.minor = int(p.api.version.major), int(p.api.version.minor)
	if p.major != Major || p.minor < MinMinor || p.minor > MaxMinor {
		if p.major != Major || p.minor < MinMinor || os.Getenv(EnvAny) != "1" {
			return fmt.Errorf("%w: the plugin has %d.%d, tested are %d.%d to %d.%d (%s=1 tries newer ones)",
				ErrVersion, p.major, p.minor, Major, MinMinor, Major, MaxMinor, EnvAny)
		}
	}
	if want := unsafe.Sizeof(api{}); p.api.size < want {
		return fmt.Errorf("%w: a table of %d bytes, want at least %d", ErrVersion, p.api.size, want)
	}
	return nil
}

// Path is where the plugin was loaded from.
func (p *Plugin) Path() string { return p.path }

// Version is the version of the C API, "0.116".
func (p *Plugin) Version() string { return fmt.Sprintf("%d.%d", p.major, p.minor) }

// Attributes are what the plugin says of itself: numbers (int64), texts, lists
// ([]int64).
func (p *Plugin) Attributes() map[string]any { return p.attributes }

func (p *Plugin) readAttributes() error {
	args := &pluginAttributesArgs{}
	if err := call(p, pluginAttributes, args); err != nil {
		return fmt.Errorf("attributes: %w", err)
	}
	p.attributes = readValues(args.attributes, args.count)
	return nil
}

// readValues copies a list of PJRT_NamedValue.
func readValues(list unsafe.Pointer, count uintptr) map[string]any {
	out := make(map[string]any, count)
	for i := range count {
		v := (*namedValue)(unsafe.Add(list, i*unsafe.Sizeof(namedValue{})))
		name := text(v.name, v.length)
		switch v.kind {
		case kindString:
			out[name] = text(*(**byte)(unsafe.Pointer(&v.value)), v.count)
		case kindInt64:
			out[name] = int64(v.value)
		case kindInt64List:
			list := unsafe.Slice(*(**int64)(unsafe.Pointer(&v.value)), v.count)
			out[name] = append([]int64(nil), list...)
		}
	}
	return out
}

// The kinds of a namedValue.
const (
	kindString    = 0
	kindInt64     = 1
	kindInt64List = 2
	kindFloat     = 3
	kindBool      = 4
)

// text copies characters of the plugin.
func text(p *byte, n uintptr) string {
	if p == nil || n == 0 {
		return ""
	}
	return string(unsafe.Slice(p, n))
}

// size is the number of bytes of the struct that args points to.
func size[T any](*T) uintptr {
	var v T
	return unsafe.Sizeof(v)
}

// call runs a function of the table. The struct is on Go's heap: nothing of it
// moves while the plugin reads it.
func call[T any](p *Plugin, f function, args *T) error {
	h := (*head)(unsafe.Pointer(args))
	h.size = size(args)
	e, _, _ := purego.SyscallN(p.api.functions[f], uintptr(unsafe.Pointer(args)))
	runtime.KeepAlive(args)
	return p.failure(e)
}

// failure copies and frees an error of the plugin; 0 is none.
func (p *Plugin) failure(e uintptr) error {
	if e == 0 {
		return nil
	}
	m := &errorMessageArgs{err: e}
	m.size = size(m)
	purego.SyscallN(p.api.functions[errorMessage], uintptr(unsafe.Pointer(m)))
	c := &errorGetCodeArgs{err: e}
	c.size = size(c)
	// The one function whose own failure nobody can report.
	purego.SyscallN(p.api.functions[errorGetCode], uintptr(unsafe.Pointer(c)))
	out := &Error{Code: Code(c.code), Text: text(m.message, m.length)}
	d := &errorDestroyArgs{err: e}
	d.size = size(d)
	purego.SyscallN(p.api.functions[errorDestroy], uintptr(unsafe.Pointer(d)))
	return out
}

// Code is the kind of an Error.
type Code int32

// The codes that callers look at.
const (
	InvalidArgument   Code = 3
	ResourceExhausted Code = 8
	Unimplemented     Code = 12
	Internal          Code = 13
)

// Error is what the plugin said.
type Error struct {
	Code Code
	Text string
}

func (e *Error) Error() string { return fmt.Sprintf("%s (code %d)", e.Text, e.Code) }

// Is makes errors.Is find ErrOutOfMemory.
func (e *Error) Is(target error) bool {
	return target == bufpool.ErrOutOfMemory && e.Code == ResourceExhausted
}
