// SPDX-License-Identifier: Apache-2.0

package pjrt

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"runtime"
	"slices"
	"unsafe"

	"github.com/ebitengine/purego"
)

// Executable is a compiled and loaded program.
type Executable struct {
	p       *Plugin
	handle  uintptr
	outputs int
}

// Compile compiles StableHLO text for one device, after whatever else the plugin
// compiles in this process. flags are XLA's flags by name
// (xla_gpu_...): bool, int64, float64 or string.
func (d *Device) Compile(code string, flags map[string]any) (*Executable, error) {
	// MLIR's lexer looks for a NUL behind the text.
	text, format := append([]byte(code), 0), []byte("mlir")
	options, err := compileOptions(d.Index(), flags)
	if err != nil {
		return nil, err
	}
	prog := &program{code: unsafe.SliceData(text), size: uintptr(len(code)), format: unsafe.SliceData(format), formatLength: uintptr(len(format))}
	prog.head.size = size(prog)
	args := &clientCompileArgs{client: d.c.handle, program: prog, options: unsafe.SliceData(options), optionsSize: uintptr(len(options))}
	if err := d.c.p.compile(args); err != nil {
		return nil, fmt.Errorf("pjrt: compile: %w", err)
	}
	return d.loaded(args.executable)
}

// compile lets one compile at a time.
func (p *Plugin) compile(args *clientCompileArgs) error {
	p.compiling.Lock()
	defer p.compiling.Unlock()
	return call(p, clientCompile, args)
}

// Load makes an executable of what Serialize gave.
func (d *Device) Load(serialized []byte) (*Executable, error) {
	args := &deserializeArgs{client: d.c.handle, bytes: unsafe.SliceData(serialized), size: uintptr(len(serialized))}
	err := call(d.c.p, executableDeserializeLoad, args)
	runtime.KeepAlive(serialized)
	if err != nil {
		return nil, fmt.Errorf("pjrt: load an executable: %w", err)
	}
	return d.loaded(args.loaded)
}

// Index is the device's place among the client's, for which its executables are made.
func (d *Device) Index() int { return slices.Index(d.c.devices, d) }

func (d *Device) loaded(handle uintptr) (*Executable, error) {
	x := &Executable{p: d.c.p, handle: handle}
	err := x.with(func(e uintptr) error {
		n := &numOutputsArgs{executable: e}
		err := call(x.p, executableNumOutputs, n)
		x.outputs = int(n.count)
		return err
	})
	if err != nil {
		x.Close()
		return nil, fmt.Errorf("pjrt: %w", err)
	}
	return x, nil
}

// with gives f the executable's other handle, the one that is not loaded.
func (x *Executable) with(f func(e uintptr) error) error {
	g := &getExecutableArgs{loaded: x.handle}
	if err := call(x.p, loadedExecutableGet, g); err != nil {
		return err
	}
	err := f(g.executable)
	_ = call(x.p, executableDestroy, &executableArgs{executable: g.executable})
	return err
}

// Outputs is the number of results.
func (x *Executable) Outputs() int { return x.outputs }

// Serialize gives bytes from which Load makes the executable again, with the
// same plugin on the same kind of device.
func (x *Executable) Serialize() (out []byte, err error) {
	err = x.with(func(e uintptr) error {
		s := &serializeArgs{executable: e}
		if err := call(x.p, executableSerialize, s); err != nil {
			return err
		}
		out = slices.Clone(unsafe.Slice(s.bytes, s.size))
		purego.SyscallN(s.deleter, s.owner)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("pjrt: serialize: %w", err)
	}
	return out, nil
}

// Execute starts a run. The results are arrays to come; done happens when all of
// them are there, and carries what went wrong.
func (x *Executable) Execute(in []*Buffer) (out []*Buffer, done *Event, err error) {
	handles := make([]uintptr, len(in))
	keep := make([]int64, len(in)) // no input is given up
	for i, b := range in {
		handles[i], keep[i] = b.handle, int64(i)
	}
	results := make([]uintptr, max(x.outputs, 1))
	inList, outList := unsafe.SliceData(handles), unsafe.SliceData(results)
	complete := new(uintptr)
	options := &executeOptions{keep: unsafe.SliceData(keep), numKeep: uintptr(len(keep))}
	options.head.size = size(options)
	args := &executeArgs{
		executable: x.handle, options: options, arguments: &inList, numDevices: 1, numArgs: uintptr(len(in)),
		outputs: &outList, complete: complete,
	}
	err = call(x.p, loadedExecutableExecute, args)
	runtime.KeepAlive(in)
	if err != nil {
		return nil, nil, fmt.Errorf("pjrt: run: %w", err)
	}
	out = make([]*Buffer, x.outputs)
	for i := range out {
		out[i] = &Buffer{x.p, results[i]}
	}
	return out, &Event{x.p, *complete}, nil
}

// Close frees the executable.
func (x *Executable) Close() {
	if x != nil && x.handle != 0 {
		_ = call(x.p, loadedExecutableDestroy, &executableArgs{executable: x.handle})
		x.handle = 0
	}
}

// compileOptions is a CompileOptionsProto for one replica and one partition on
// a device. Flags go through its env_option_overrides: the environment is the
// user's.
func compileOptions(device int, flags map[string]any) ([]byte, error) {
	const (
		fieldBuild, fieldOverrides             = 3, 7
		buildDevice, buildReplicas, buildParts = 1, 4, 5
		buildAssignment                        = 9
	)
	// DeviceAssignmentProto: replica_count, computation_count, computation_devices.
	var one, assignment, build message
	one.packed(1, uint64(device))
	assignment.number(1, 1)
	assignment.number(2, 1)
	assignment.bytes(3, one)
	build.number(buildDevice, uint64(device))
	build.number(buildReplicas, 1)
	build.number(buildParts, 1)
	build.bytes(buildAssignment, assignment)
	var out message
	out.bytes(fieldBuild, build)
	for _, name := range slices.Sorted(maps.Keys(flags)) {
		// OptionOverrideProto: string_field, bool_field, int_field, double_field.
		var value, entry message
		switch v := flags[name].(type) {
		case string:
			value.bytes(1, []byte(v))
		case bool:
			n := uint64(0)
			if v {
				n = 1
			}
			value.number(2, n)
		case int64:
			value.number(3, uint64(v))
		case float64:
			value = binary.AppendUvarint(value, 4<<3|1)
			value = binary.LittleEndian.AppendUint64(value, math.Float64bits(v))
		default:
			return nil, fmt.Errorf("pjrt: flag %s is a %T, want string, bool, int64 or float64", name, v)
		}
		entry.bytes(1, []byte(name))
		entry.bytes(2, value)
		out.bytes(fieldOverrides, entry)
	}
	return out, nil
}

// message is a protocol buffer being written.
type message []byte

func (m *message) number(field int, v uint64) {
	*m = binary.AppendUvarint(*m, uint64(field)<<3)
	*m = binary.AppendUvarint(*m, v)
}

func (m *message) bytes(field int, b []byte) {
	*m = binary.AppendUvarint(*m, uint64(field)<<3|2)
	*m = binary.AppendUvarint(*m, uint64(len(b)))
	*m = append(*m, b...)
}

// packed is a list of numbers.
func (m *message) packed(field int, list ...uint64) {
	var b []byte
	for _, v := range list {
		b = binary.AppendUvarint(b, v)
	}
	m.bytes(field, b)
}
