// SPDX-License-Identifier: Apache-2.0

package pjrt

import (
	"bufio"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// structs are the types of layout.go by their names in the header.
var structs = map[string]any{
	"Error_Destroy_Args": errorDestroyArgs{}, "Error_Message_Args": errorMessageArgs{}, "Error_GetCode_Args": errorGetCodeArgs{},
	"Plugin_Initialize_Args": pluginInitializeArgs{}, "Plugin_Attributes_Args": pluginAttributesArgs{}, "NamedValue": namedValue{},
	"Event_Destroy_Args": eventArgs{}, "Event_Await_Args": eventArgs{}, "Client_Create_Args": clientCreateArgs{},
	"Client_Destroy_Args": clientArgs{}, "Client_PlatformName_Args": clientTextArgs{}, "Client_PlatformVersion_Args": clientTextArgs{},
	"Client_AddressableDevices_Args": clientDevicesArgs{}, "Program": program{}, "Client_Compile_Args": clientCompileArgs{},
	"Client_BufferFromHostBuffer_Args": fromHostArgs{}, "Device_GetDescription_Args": deviceDescriptionArgs{},
	"DeviceDescription_Kind_Args": deviceKindArgs{}, "DeviceDescription_Attributes_Args": deviceAttributesArgs{},
	"Device_LocalHardwareId_Args": deviceHardwareArgs{}, "Device_MemoryStats_Args": memoryStatsArgs{},
	"Executable_Destroy_Args": executableArgs{}, "Executable_NumOutputs_Args": numOutputsArgs{}, "Executable_Serialize_Args": serializeArgs{},
	"LoadedExecutable_Destroy_Args": executableArgs{}, "LoadedExecutable_GetExecutable_Args": getExecutableArgs{},
	"ExecuteOptions": executeOptions{}, "LoadedExecutable_Execute_Args": executeArgs{}, "Executable_DeserializeAndLoad_Args": deserializeArgs{},
	"Buffer_Destroy_Args": bufferArgs{}, "Buffer_ToHostBuffer_Args": toHostArgs{}, "Buffer_ReadyEvent_Args": bufferValueArgs{},
	"Buffer_OpaqueDeviceMemoryDataPointer_Args": bufferValueArgs{},
}

// positions are the functions of layout.go by their names in the header.
var positions = map[string]function{
	"Error_Destroy": errorDestroy, "Error_Message": errorMessage, "Error_GetCode": errorGetCode, "Plugin_Initialize": pluginInitialize,
	"Plugin_Attributes": pluginAttributes, "Event_Destroy": eventDestroy, "Event_Await": eventAwait, "Client_Create": clientCreate,
	"Client_Destroy": clientDestroy, "Client_PlatformName": clientPlatformName, "Client_PlatformVersion": clientPlatformVersion,
	"Client_AddressableDevices": clientAddressableDevices, "Client_Compile": clientCompile,
	"Client_BufferFromHostBuffer": clientBufferFromHostBuffer, "DeviceDescription_Attributes": deviceDescriptionAttributes,
	"DeviceDescription_Kind": deviceDescriptionKind, "Device_GetDescription": deviceGetDescription, "Device_LocalHardwareId": deviceLocalHardwareID,
	"Device_MemoryStats": deviceMemoryStats, "Executable_Destroy": executableDestroy, "Executable_NumOutputs": executableNumOutputs,
	"Executable_Serialize": executableSerialize, "LoadedExecutable_Destroy": loadedExecutableDestroy,
	"LoadedExecutable_GetExecutable": loadedExecutableGet, "LoadedExecutable_Execute": loadedExecutableExecute,
	"Executable_DeserializeAndLoad": executableDeserializeLoad, "Buffer_Destroy": bufferDestroy, "Buffer_ToHostBuffer": bufferToHostBuffer,
	"Buffer_ReadyEvent": bufferReadyEvent, "Buffer_OpaqueDeviceMemoryDataPointer": bufferDevicePointer,
}

// leaves are the offsets of a struct's fields, members of structs and arrays
// included, gaps left out.
func leaves(t reflect.Type, base uintptr, out []int) []int {
	switch t.Kind() {
	case reflect.Struct:
		for i := range t.NumField() {
			if f := t.Field(i); f.Name != "_" {
				out = leaves(f.Type, base+f.Offset, out)
			}
		}
	case reflect.Array:
		for i := range t.Len() {
			out = leaves(t.Elem(), base+uintptr(i)*t.Elem().Size(), out)
		}
	default:
		out = append(out, int(base))
	}
	return out
}

// TestLayout compares sizes, offsets and positions with the header's, which
// testdata/make.py wrote.
func TestLayout(t *testing.T) {
	f, err := os.Open("testdata/layout.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	seen, found := map[string]bool{}, map[string]bool{}
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		number := func(i int) int {
			n, err := strconv.Atoi(words[i])
			if err != nil {
				t.Fatalf("%s: %v", lines.Text(), err)
			}
			return n
		}
		switch words[0] {
		case "function":
			if p, ok := positions[words[1]]; ok {
				found[words[1]] = true
				if int(p) != number(2) {
					t.Errorf("%s is at %d, want %d", words[1], p, number(2))
				}
			}
		case "struct":
			seen[words[1]] = true
			v, ok := structs[words[1]]
			if !ok {
				t.Errorf("%s has no type", words[1])
				continue
			}
			typ := reflect.TypeOf(v)
			var want []int
			for _, w := range words[3:] {
				_, at, _ := strings.Cut(w, ":")
				n, _ := strconv.Atoi(at)
				want = append(want, n)
			}
			if got := leaves(typ, 0, nil); !slices.Equal(got, want) || int(typ.Size()) != number(2) {
				t.Errorf("%s: %d bytes, offsets %v, want %d and %v", words[1], typ.Size(), got, number(2), want)
			}
		}
	}
	if lines.Err() != nil || len(seen) != len(structs) || len(found) != len(positions) {
		t.Errorf("%d of %d structs and %d of %d functions are in the table (%v)", len(seen), len(structs), len(found), len(positions), lines.Err())
	}
}

// TestVersion: a table of another version, or one that is too short, is refused.
func TestVersion(t *testing.T) {
	for _, c := range []struct {
		major, minor int32
		size         uintptr
		env          string
		ok           bool
	}{
		{0, MinMinor, 1144, "", true}, {0, MaxMinor, 1144, "", true}, {0, MinMinor - 1, 1144, "", false}, {0, MinMinor - 1, 1144, "1", false},
		{0, MaxMinor + 1, 1200, "", false}, {0, MaxMinor + 1, 1200, "1", true}, {1, MinMinor, 1144, "1", false}, {0, MinMinor, 600, "", false},
	} {
		t.Setenv(EnvAny, c.env)
		p := &Plugin{api: &api{}}
		p.api.size, p.api.version.major, p.api.version.minor = c.size, c.major, c.minor
		if err := p.check(); (err == nil) != c.ok {
			t.Errorf("version %d.%d, %d bytes, %s=%q: %v", c.major, c.minor, c.size, EnvAny, c.env, err)
		}
	}
}
