# SPDX-License-Identifier: Apache-2.0
"""Writes layout.txt: positions of functions, sizes of structs and offsets of their fields in pjrt_c_api.h, from the package
pypjrt, which has them of libclang. Usage: python make.py >layout.txt"""
import ctypes
import importlib
import pkgutil

import pypjrt._abi

STRUCTS = ["Error_Destroy_Args", "Error_Message_Args", "Error_GetCode_Args", "Plugin_Initialize_Args", "Plugin_Attributes_Args", "NamedValue", "Event_Destroy_Args", "Event_Await_Args", "Client_Create_Args", "Client_Destroy_Args", "Client_PlatformName_Args", "Client_PlatformVersion_Args", "Client_AddressableDevices_Args", "Program", "Client_Compile_Args", "Client_BufferFromHostBuffer_Args", "Device_GetDescription_Args", "DeviceDescription_Kind_Args", "DeviceDescription_Attributes_Args", "Device_LocalHardwareId_Args", "Device_MemoryStats_Args", "Executable_Destroy_Args", "Executable_NumOutputs_Args", "Executable_Serialize_Args", "LoadedExecutable_Destroy_Args", "LoadedExecutable_GetExecutable_Args", "ExecuteOptions", "LoadedExecutable_Execute_Args", "Executable_DeserializeAndLoad_Args", "Buffer_Destroy_Args", "Buffer_ToHostBuffer_Args", "Buffer_ReadyEvent_Args", "Buffer_OpaqueDeviceMemoryDataPointer_Args"]

name = max(m.name for m in pkgutil.iter_modules(pypjrt._abi.__path__) if m.name.startswith("pjrt_"))
abi = importlib.import_module(f"pypjrt._abi.{name}")
print(f"version {abi.PJRT_API_MAJOR}.{abi.PJRT_API_MINOR}")
for function, at in abi.SLOT.items():
    print(f"function {function.removeprefix('PJRT_')} {at}")
for struct in STRUCTS:
    c = getattr(abi, "PJRT_" + struct)
    fields = " ".join(f"{f[0]}:{getattr(c, f[0]).offset}" for f in c._fields_)
    print(f"struct {struct} {ctypes.sizeof(c)} {fields}")
