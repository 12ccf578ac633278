// SPDX-License-Identifier: Apache-2.0

package pickle

import "strings"

// Opaque stands for an object of a class that is not known here: what a training
// framework keeps beside the weights (dates, sets, settings, callbacks). Nothing of
// it is called or kept, and no tensor comes out of it.
type Opaque struct{ Class string }

// dangerous are modules whose functions a pickle names only in order to have them
// called. None would be; but a file that asks for it is told so.
var dangerous = map[string]bool{}

func init() {
	for _, name := range strings.Fields(`os posix nt subprocess sys shutil socket runpy importlib pty commands
		webbrowser operator ctypes code codeop timeit pdb bdb pickle _pickle cloudpickle marshal shelve tempfile
		multiprocessing threading _thread asyncio http urllib ftplib smtplib requests pip setuptools platform signal
		torch.hub torch.jit torch.serialization torch.storage numpy.lib numpy.load linecache inspect gc atexit`) {
		dangerous[name] = true
	}
}

// builtinValues are the builtins that are values and no functions.
var builtinValues = map[string]bool{
	"set": true, "frozenset": true, "complex": true, "slice": true, "range": true, "bytearray": true, "bytes": true,
	"object": true, "int": true, "float": true, "bool": true, "str": true, "list": true, "dict": true, "tuple": true,
	"type": true, "Ellipsis": true, "NotImplemented": true,
}

// maxClassName is far above the longest name of a class.
const maxClassName = 1000

// unknown says whether a class that is not in the table may stand in a file.
func unknown(module, name string) bool {
	if len(module)+len(name) > maxClassName || name == "" {
		return false
	}
	switch module {
	case "builtins", "__builtin__":
		return builtinValues[name]
	}
	for part := module; ; {
		if dangerous[part] {
			return false
		}
		i := strings.LastIndexByte(part, '.')
		if i < 0 {
			return true
		}
		part = part[:i]
	}
}

func makeOpaque(name string) func(*machine, Tuple) (Value, error) {
	return func(*machine, Tuple) (Value, error) { return &Opaque{name}, nil }
}

// makeDefaultDict is defaultdict(factory), a dict here.
func makeDefaultDict(*machine, Tuple) (Value, error) { return &Dict{}, nil }
