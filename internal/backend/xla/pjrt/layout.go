// SPDX-License-Identifier: Apache-2.0

package pjrt

import "unsafe"

// The versions of the C API that this package was written and tested for. New
// minor versions add functions and fields at the end.
const (
	Major    = 0
	MinMinor = 100
	MaxMinor = 119
)

// function is a position in the table of functions.
type function int

// The functions that are used, by their position in PJRT_Api.
const (
	errorDestroy                function = 0
	errorMessage                function = 1
	errorGetCode                function = 2
	pluginInitialize            function = 3
	pluginAttributes            function = 4
	eventDestroy                function = 5
	eventAwait                  function = 8
	clientCreate                function = 10
	clientDestroy               function = 11
	clientPlatformName          function = 12
	clientPlatformVersion       function = 14
	clientAddressableDevices    function = 16
	clientCompile               function = 20
	clientBufferFromHostBuffer  function = 22
	deviceDescriptionAttributes function = 25
	deviceDescriptionKind       function = 26
	deviceGetDescription        function = 29
	deviceLocalHardwareID       function = 31
	deviceMemoryStats           function = 34
	executableDestroy           function = 40
	executableNumOutputs        function = 44
	executableSerialize         function = 49
	loadedExecutableDestroy     function = 50
	loadedExecutableGet         function = 51
	loadedExecutableExecute     function = 55
	executableDeserializeLoad   function = 56
	bufferDestroy               function = 58
	bufferToHostBuffer          function = 70
	bufferReadyEvent            function = 72
	bufferDevicePointer         function = 76
	functions                            = 133 // of version 0.100; newer ones have more
)

// head begins every struct.
type head struct {
	size      uintptr
	extension unsafe.Pointer
}

// api is PJRT_Api up to the functions that are used.
type api struct {
	head
	version struct {
		head
		major, minor int32
	}
	functions [functions]uintptr
}

type errorDestroyArgs struct {
	head
	err uintptr
}

type errorMessageArgs struct {
	head
	err     uintptr
	message *byte
	length  uintptr
}

type errorGetCodeArgs struct {
	head
	err  uintptr
	code int32
	_    int32
}

type pluginInitializeArgs struct{ head }

type pluginAttributesArgs struct {
	head
	attributes unsafe.Pointer
	count      uintptr
}

// namedValue is PJRT_NamedValue. value is a pointer to text or to int64s, or
// the number itself.
type namedValue struct {
	head
	name   *byte
	length uintptr
	kind   int32
	_      int32
	value  uint64
	count  uintptr
}

type eventArgs struct {
	head
	event uintptr
}

type clientCreateArgs struct {
	head
	options                unsafe.Pointer
	count                  uintptr
	get, getArg            uintptr
	put, putArg            uintptr
	client                 uintptr
	tryGet, tryGetArgument uintptr
}

type clientArgs struct {
	head
	client uintptr
}

// clientTextArgs are those of PlatformName and PlatformVersion.
type clientTextArgs struct {
	head
	client uintptr
	text   *byte
	length uintptr
}

type clientDevicesArgs struct {
	head
	client  uintptr
	devices *uintptr
	count   uintptr
}

type program struct {
	head
	code         *byte
	size         uintptr
	format       *byte
	formatLength uintptr
}

type clientCompileArgs struct {
	head
	client      uintptr
	program     *program
	options     *byte
	optionsSize uintptr
	executable  uintptr
}

type fromHostArgs struct {
	head
	client       uintptr
	data         unsafe.Pointer
	kind         int32
	_            int32
	dims         *int64
	numDims      uintptr
	strides      uintptr
	numStrides   uintptr
	semantics    int32
	_            int32
	device       uintptr
	memory       uintptr
	layout       uintptr
	doneWithHost uintptr
	buffer       uintptr
}

type deviceDescriptionArgs struct {
	head
	device      uintptr
	description uintptr
}

type deviceKindArgs struct {
	head
	description uintptr
	kind        *byte
	length      uintptr
}

type deviceAttributesArgs struct {
	head
	description uintptr
	count       uintptr
	attributes  unsafe.Pointer
}

type deviceHardwareArgs struct {
	head
	device uintptr
	id     int32
	_      int32
}

// memoryStatsArgs are PJRT_Device_MemoryStats_Args: each optional number has a
// flag behind it that says whether it is set.
type memoryStatsArgs struct {
	head
	device     uintptr
	bytesInUse int64
	optional   [11]struct {
		value int64
		set   bool
		_     [7]byte
	}
}

// Positions in memoryStatsArgs.optional.
const (
	statPeak  = 0
	statLimit = 3
)

type executableArgs struct {
	head
	executable uintptr
}

type numOutputsArgs struct {
	head
	executable uintptr
	count      uintptr
}

type serializeArgs struct {
	head
	executable uintptr
	bytes      *byte
	size       uintptr
	owner      uintptr
	deleter    uintptr
}

type getExecutableArgs struct {
	head
	loaded     uintptr
	executable uintptr
}

type executeOptions struct {
	head
	send, receive           uintptr
	numSend, numReceive     uintptr
	launchID                int32
	_                       int32
	keep                    *int64 // inputs that must not be donated
	numKeep                 uintptr
	context                 uintptr
	location                uintptr
	numTasks                uintptr
	tasks, incarnations     uintptr
	multiSlice              uintptr
	majorToMinor            bool
	_                       [7]byte
	callbacks, numCallbacks uintptr
}

type executeArgs struct {
	head
	executable uintptr
	options    *executeOptions
	arguments  **uintptr
	numDevices uintptr
	numArgs    uintptr
	outputs    **uintptr
	complete   *uintptr
	device     uintptr
}

type deserializeArgs struct {
	head
	client      uintptr
	bytes       *byte
	size        uintptr
	loaded      uintptr
	options     *byte
	optionsSize uintptr
	loadOptions uintptr
}

type bufferArgs struct {
	head
	buffer uintptr
}

type toHostArgs struct {
	head
	buffer uintptr
	layout uintptr
	dst    unsafe.Pointer
	size   uintptr
	event  uintptr
}

// bufferValueArgs are those of ReadyEvent and OpaqueDeviceMemoryDataPointer.
type bufferValueArgs struct {
	head
	buffer uintptr
	value  uintptr
}
