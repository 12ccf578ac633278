# Code generated from capi/mast3r.h by go test ./tools/bindings -update. DO NOT EDIT.
# SPDX-License-Identifier: Apache-2.0
"""The constants and calls of ``capi/mast3r.h``. A call that is not listed returns no status."""

from __future__ import annotations

import ctypes as C
from typing import Any

from . import structs as S

ABI_VERSION = 2
MAX_DIMS = 8
MAX_THREADS = 1024
OK = 0
PENDING = 1
E_ARGUMENT = 2
E_ABI = 3
E_HANDLE = 4
E_CLOSED = 5
E_NOT_LOADED = 6
E_CANCELLED = 7
E_WEIGHTS = 8
E_IMAGE = 9
E_SHAPE = 10
E_DEVICE = 11
E_NOT_FOUND = 12
E_FORKED = 13
E_INTERNAL = 14
E_FILE = 15
E_MEMORY = 16
E_UNSUPPORTED = 17
POINTS = 1
CONF = 2
DESC = 4
DESC_CONF = 8
OVERLAP_NO = 0
OVERLAP_YES = 1
OVERLAP_UNSURE = 2
F32 = 1
I64 = 2
F16 = 3
I32 = 4
F64 = 5

SIGNATURES: dict[str, list[Any]] = {
    "mast3r_live": [C.POINTER(S.Stats)],
    "mast3r_log_level": [C.c_int32],
    "mast3r_log_next": [C.POINTER(S.LogRecord)],
    "mast3r_engine_create": [C.POINTER(S.Config), C.POINTER(S.Handle)],
    "mast3r_engine_info": [S.Handle, C.POINTER(S.Info)],
    "mast3r_engine_metadata": [S.Handle, C.c_char_p, C.c_size_t, C.POINTER(C.c_size_t)],
    "mast3r_engine_native": [S.Handle, C.POINTER(C.c_void_p), C.POINTER(C.c_void_p)],
    "mast3r_engine_trim": [S.Handle],
    "mast3r_engine_synchronize": [S.Handle],
    "mast3r_engine_close": [S.Handle],
    "mast3r_submit_load": [S.Handle, C.c_char_p, C.POINTER(S.Handle)],
    "mast3r_submit_warmup": [S.Handle, C.c_int32, C.POINTER(S.Handle)],
    "mast3r_submit_infer": [
        S.Handle,
        C.POINTER(S.Image),
        C.POINTER(S.Image),
        C.POINTER(S.InferOptions),
        C.POINTER(S.Handle),
    ],
    "mast3r_submit_sequence": [
        S.Handle,
        C.POINTER(S.Image),
        C.c_size_t,
        C.POINTER(S.InferOptions),
        C.POINTER(S.Handle),
    ],
    "mast3r_submit_batch": [
        S.Handle,
        C.POINTER(S.Image),
        C.c_size_t,
        C.POINTER(S.InferOptions),
        C.POINTER(S.Handle),
    ],
    "mast3r_submit_symmetric": [
        S.Handle,
        C.POINTER(S.Image),
        C.POINTER(S.Image),
        C.POINTER(S.InferOptions),
        C.POINTER(S.Handle),
    ],
    "mast3r_submit_match": [
        S.Handle,
        C.POINTER(S.Map),
        C.POINTER(S.Map),
        C.POINTER(S.MatchOptions),
        C.POINTER(S.Handle),
    ],
    "mast3r_submit_refine": [
        S.Handle,
        C.POINTER(S.Image),
        C.POINTER(S.Image),
        C.POINTER(S.Places),
        C.POINTER(S.RefineOptions),
        C.POINTER(S.Handle),
    ],
    "mast3r_focal": [
        C.POINTER(C.c_float),
        C.c_int32,
        C.c_int32,
        C.c_double,
        C.c_double,
        C.POINTER(C.c_double),
    ],
    "mast3r_submit_pose": [C.POINTER(S.Places), C.POINTER(S.PoseOptions), C.POINTER(S.Handle)],
    "mast3r_submit_encode": [
        S.Handle,
        C.POINTER(S.Image),
        C.c_size_t,
        C.POINTER(S.InferOptions),
        C.POINTER(S.Handle),
    ],
    "mast3r_submit_decode": [
        S.Handle,
        C.POINTER(S.Features),
        C.POINTER(S.Features),
        C.POINTER(S.InferOptions),
        C.POINTER(S.Handle),
    ],
    "mast3r_submit_views": [
        S.Handle,
        C.POINTER(S.Image),
        C.c_size_t,
        C.POINTER(S.ViewsOptions),
        C.POINTER(S.Handle),
    ],
    "mast3r_submit_load_retrieval": [S.Handle, C.c_char_p, C.c_char_p, C.POINTER(S.Handle)],
    "mast3r_engine_retrieval": [S.Handle, C.POINTER(C.c_int32), C.POINTER(C.c_int32)],
    "mast3r_submit_retrieval": [
        S.Handle,
        C.POINTER(S.Image),
        C.c_size_t,
        C.POINTER(S.InferOptions),
        C.POINTER(S.Handle),
    ],
    "mast3r_submit_export": [S.Handle, C.c_char_p, C.POINTER(S.ExportOptions), C.POINTER(S.Handle)],
    "mast3r_submit_convert": [C.c_char_p, C.c_char_p, C.c_char_p, C.POINTER(S.Handle)],
    "mast3r_submit_selfcheck": [C.POINTER(S.Handle)],
    "mast3r_submit_profile": [
        S.Handle,
        C.POINTER(S.Image),
        C.POINTER(S.Image),
        C.POINTER(S.InferOptions),
        C.c_int32,
        C.c_int32,
        C.POINTER(S.Handle),
    ],
    "mast3r_submit_cost": [C.POINTER(S.CostOptions), C.POINTER(S.Handle)],
    "mast3r_submit_memory": [C.POINTER(S.MemoryOptions), C.POINTER(S.Handle)],
    "mast3r_job_memory": [S.Handle, C.POINTER(S.Memory)],
    "mast3r_job_report": [S.Handle, C.c_char_p, C.c_size_t, C.POINTER(C.c_size_t)],
    "mast3r_job_progress": [S.Handle, C.POINTER(S.Progress)],
    "mast3r_job_files": [S.Handle, C.c_char_p, C.c_size_t, C.POINTER(C.c_size_t)],
    "mast3r_job_wait": [S.Handle, C.c_int32],
    "mast3r_job_cancel": [S.Handle],
    "mast3r_job_free": [S.Handle],
    "mast3r_job_results": [S.Handle, C.POINTER(C.c_size_t)],
    "mast3r_job_take_result": [S.Handle, C.c_size_t, C.POINTER(S.Result)],
    "mast3r_job_take_view": [S.Handle, C.c_size_t, C.POINTER(S.SceneView)],
    "mast3r_job_windows": [
        S.Handle,
        C.POINTER(S.Window),
        C.c_size_t,
        C.POINTER(C.c_size_t),
        C.POINTER(S.Timing),
    ],
    "mast3r_job_take_matches": [S.Handle, C.POINTER(S.Matches)],
    "mast3r_job_take_refined": [S.Handle, C.POINTER(S.Refined)],
    "mast3r_job_take_pose": [S.Handle, C.POINTER(S.Pose)],
    "mast3r_job_take_encoded": [S.Handle, C.c_size_t, C.POINTER(S.Encoded)],
    "mast3r_job_take_retrieval": [S.Handle, C.c_size_t, C.POINTER(S.Retrieval)],
    "mast3r_job_take_index": [S.Handle, C.POINTER(S.Handle)],
    "mast3r_job_take_scores": [S.Handle, C.POINTER(S.Handle)],
    "mast3r_submit_index_open": [S.Handle, C.c_char_p, C.c_double, C.POINTER(S.Handle)],
    "mast3r_submit_index_add": [S.Handle, C.POINTER(S.LocalFeatures), C.c_size_t, C.POINTER(S.Handle)],
    "mast3r_submit_index_score": [S.Handle, C.POINTER(S.LocalFeatures), C.c_size_t, C.POINTER(S.Handle)],
    "mast3r_submit_index_write": [S.Handle, C.c_uint64, C.c_char_p, C.POINTER(S.Handle)],
    "mast3r_submit_index_merge": [S.Handle, C.c_char_p, C.POINTER(S.Handle)],
    "mast3r_index_length": [S.Handle, C.POINTER(C.c_uint64)],
    "mast3r_index_close": [S.Handle],
    "mast3r_scene_pairs": [C.c_int32, C.c_char_p, C.POINTER(S.SceneOptions), C.POINTER(S.Handle)],
    "mast3r_tensor_describe": [S.Handle, C.POINTER(S.TensorDesc)],
    "mast3r_tensor_data": [S.Handle, C.POINTER(C.c_void_p)],
    "mast3r_tensors_data": [C.POINTER(S.Handle), C.c_size_t, C.POINTER(C.c_void_p)],
    "mast3r_tensor_copy": [S.Handle, C.c_void_p, C.c_size_t],
    "mast3r_tensor_device": [S.Handle, C.POINTER(C.c_int32), C.POINTER(C.c_int32), C.POINTER(C.c_void_p)],
    "mast3r_tensor_release": [S.Handle],
    "mast3r_tensor_open": [C.POINTER(S.TensorConfig), C.POINTER(S.Handle)],
    "mast3r_tensor_close": [S.Handle],
    "mast3r_tensor_info": [S.Handle, C.POINTER(S.TensorStats)],
    "mast3r_tensor_commit": [S.Handle],
    "mast3r_tensor_sync": [S.Handle],
    "mast3r_tensor_cleanup": [S.Handle],
    "mast3r_commands_begin": [S.Handle, C.POINTER(S.Handle)],
    "mast3r_commands_commit": [S.Handle],
    "mast3r_commands_wait": [S.Handle],
    "mast3r_commands_release": [S.Handle],
    "mast3r_tensor_pool_info": [S.Handle, C.POINTER(S.Pool)],
    "mast3r_tensor_pool_configure": [S.Handle, C.c_int32, C.c_uint64],
    "mast3r_tensor_pool_pressure": [S.Handle, C.c_int32, C.POINTER(C.c_uint64)],
    "mast3r_tensor_from_host": [
        S.Handle,
        C.c_int32,
        C.c_int32,
        C.POINTER(C.c_int64),
        C.c_void_p,
        C.c_size_t,
        C.POINTER(S.Handle),
    ],
    "mast3r_tensor_empty": [S.Handle, C.c_int32, C.c_int32, C.POINTER(C.c_int64), C.POINTER(S.Handle)],
    "mast3r_tensor_operations": [C.c_char_p, C.c_size_t, C.POINTER(C.c_size_t)],
    "mast3r_tensor_apply": [C.POINTER(S.TensorCall)],
    "mast3r_executor_open": [C.c_int32, C.POINTER(S.Handle)],
    "mast3r_executor_close": [S.Handle],
    "mast3r_executor_run": [
        S.Handle,
        C.c_char_p,
        C.POINTER(S.Input),
        C.c_size_t,
        C.POINTER(S.Handle),
        C.c_size_t,
        C.POINTER(C.c_size_t),
    ],
    "mast3r_executor_info": [S.Handle, C.c_char_p, C.c_size_t, C.POINTER(C.c_size_t)],
    "mast3r_executor_configure": [S.Handle, C.c_char_p],
    "mast3r_executor_calibrate": [S.Handle],
    "mast3r_buffer_acquire": [S.Handle, C.c_uint64, C.POINTER(S.Handle)],
    "mast3r_buffer_contents": [S.Handle, C.POINTER(C.c_void_p), C.POINTER(C.c_uint64)],
    "mast3r_buffer_native": [S.Handle, C.POINTER(C.c_void_p)],
    "mast3r_buffer_release": [S.Handle],
    "mast3r_pool_warmup": [S.Handle, C.POINTER(C.c_uint64), C.c_size_t],
    "mast3r_pool_info": [S.Handle, C.POINTER(S.Pool)],
    "mast3r_pool_configure": [S.Handle, C.c_int32, C.c_uint64],
    "mast3r_pool_pressure": [S.Handle, C.c_int32, C.POINTER(C.c_uint64)],
}
