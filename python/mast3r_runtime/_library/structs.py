# Code generated from capi/mast3r.h by go test ./tools/bindings -update. DO NOT EDIT.
# SPDX-License-Identifier: Apache-2.0
"""The structs of ``capi/mast3r.h``, as ctypes lays them out.

Each carries its size, which the library checks, and a test compares sizes and offsets with
the C compiler's.
"""

from __future__ import annotations

import ctypes as C
from typing import Any, TypeVar

Handle = C.c_uint64
Int32 = C.c_int32
Int64 = C.c_int64
Double = C.c_double
UInt64 = C.c_uint64
Size = C.c_size_t
Pointer = C.c_void_p
address = C.addressof


class _Sized(C.Structure):
    """A struct whose first field is its own size."""


SizedT = TypeVar("SizedT", bound=_Sized)


def struct(kind: type[SizedT], **fields: Any) -> SizedT:
    """Return a struct with its size filled in."""
    return kind(size=C.sizeof(kind), **fields)


class Stats(_Sized):
    _fields_ = [
        ("size", C.c_uint32),
        ("reserved", C.c_uint32),
        ("engines", C.c_uint64),
        ("jobs", C.c_uint64),
        ("tensors", C.c_uint64),
        ("indexes", C.c_uint64),
        ("buffers", C.c_uint64),
    ]


class LogRecord(_Sized):
    _fields_ = [
        ("size", C.c_uint32),
        ("level", C.c_int32),
        ("unix_nanoseconds", C.c_int64),
        ("text", C.c_char * 512),
    ]


class Config(_Sized):
    _fields_ = [
        ("size", C.c_uint32),
        ("resolution", C.c_int32),
        ("threads", C.c_int32),
        ("reserved", C.c_int32),
        ("variant", C.c_char_p),
        ("precision", C.c_char_p),
        ("backend", C.c_char_p),
    ]


class Info(_Sized):
    _fields_ = [
        ("size", C.c_uint32),
        ("ready", C.c_int32),
        ("name", C.c_char * 128),
        ("backend", C.c_char * 32),
        ("device", C.c_char * 128),
        ("isa", C.c_char * 32),
        ("os", C.c_char * 64),
        ("products", C.c_char * 128),
        ("fallback_reason", C.c_char * 256),
        ("threads", C.c_int32),
        ("unified_memory", C.c_int32),
        ("working_set", C.c_uint64),
        ("max_buffer", C.c_uint64),
        ("pool_buffers", C.c_uint64),
        ("pool_bytes", C.c_uint64),
        ("variant", C.c_char * 64),
        ("precision", C.c_char * 16),
        ("patch", C.c_int32),
        ("enc_dim", C.c_int32),
        ("enc_depth", C.c_int32),
        ("enc_heads", C.c_int32),
        ("dec_dim", C.c_int32),
        ("dec_depth", C.c_int32),
        ("dec_heads", C.c_int32),
        ("desc_dim", C.c_int32),
        ("resolution", C.c_int32),
        ("reserved", C.c_int32),
        ("parameters", C.c_int64),
        ("outputs", C.c_char * 128),
    ]


class Image(_Sized):
    _fields_ = [
        ("size", C.c_uint32),
        ("height", C.c_int32),
        ("width", C.c_int32),
        ("stride", C.c_int32),
        ("pixels", C.c_void_p),
    ]


class InferOptions(_Sized):
    _fields_ = [
        ("size", C.c_uint32),
        ("raw", C.c_int32),
        ("rectangle_43", C.c_int32),
        ("resolution", C.c_int32),
        ("only", C.c_int32),
    ]


class Map(_Sized):
    _fields_ = [
        ("size", C.c_uint32),
        ("height", C.c_int32),
        ("width", C.c_int32),
        ("dim", C.c_int32),
        ("descriptors", C.c_void_p),
        ("points", C.c_void_p),
        ("weight", C.c_void_p),
        ("mask", C.c_void_p),
        ("tensor", Handle),
    ]


class Transform(C.Structure):
    _fields_ = [
        ("original_height", C.c_int32),
        ("original_width", C.c_int32),
        ("resized_height", C.c_int32),
        ("resized_width", C.c_int32),
        ("crop_y", C.c_int32),
        ("crop_x", C.c_int32),
        ("height", C.c_int32),
        ("width", C.c_int32),
    ]


class MatchOptions(_Sized):
    _fields_ = [
        ("size", C.c_uint32),
        ("top_k", C.c_int32),
        ("reciprocal", C.c_int32),
        ("subsample", C.c_int32),
        ("border", C.c_int32),
        ("weighted", C.c_int32),
        ("min_confidence", C.c_float),
        ("min_weight", C.c_float),
        ("both_ways", C.c_int32),
        ("spread", C.c_int32),
        ("subpixel", C.c_int32),
        ("judge", C.c_int32),
        ("image1", C.c_void_p),
        ("image2", C.c_void_p),
        ("transform1", Transform),
        ("transform2", Transform),
    ]


class Places(_Sized):
    _fields_ = [
        ("size", C.c_uint32),
        ("reserved", C.c_int32),
        ("count", C.c_uint64),
        ("pixel1", C.c_void_p),
        ("pixel2", C.c_void_p),
        ("covariance", C.c_void_p),
    ]


class Overlap(C.Structure):
    _fields_ = [
        ("verdict", C.c_int32),
        ("reserved", C.c_int32),
        ("score", C.c_double),
        ("matched", C.c_double),
        ("consistent", C.c_double),
        ("fundamental", C.c_double * 9),
        ("reason", C.c_char * 192),
    ]


class RefineOptions(_Sized):
    _fields_ = [
        ("size", C.c_uint32),
        ("reserved", C.c_int32),
        ("reach", C.c_double),
        ("sigma", C.c_double),
    ]


class View(C.Structure):
    _fields_ = [
        ("points", Handle),
        ("conf", Handle),
        ("desc", Handle),
        ("desc_conf", Handle),
        ("transform", Transform),
    ]


class Timing(C.Structure):
    _fields_ = [
        ("preprocess_ms", C.c_double),
        ("encoder_ms", C.c_double),
        ("decoder_ms", C.c_double),
        ("heads_ms", C.c_double),
        ("copy_ms", C.c_double),
        ("inference_ms", C.c_double),
        ("total_ms", C.c_double),
    ]


class Result(_Sized):
    _fields_ = [
        ("size", C.c_uint32),
        ("views", C.c_int32),
        ("view", View * 4),
        ("timing", Timing),
    ]


class Matches(_Sized):
    _fields_ = [
        ("size", C.c_uint32),
        ("seeds", C.c_int32),
        ("count", C.c_uint64),
        ("index1", Handle),
        ("index2", Handle),
        ("pixel1", Handle),
        ("pixel2", Handle),
        ("points1", Handle),
        ("points2", Handle),
        ("confidence", Handle),
        ("covariance", Handle),
        ("refined", Handle),
        ("consistent", Handle),
        ("overlap", Overlap),
        ("match_ms", C.c_double),
    ]


class Refined(_Sized):
    _fields_ = [
        ("size", C.c_uint32),
        ("reserved", C.c_int32),
        ("count", C.c_uint64),
        ("pixel2", Handle),
        ("covariance", Handle),
        ("correlation", Handle),
        ("refined", Handle),
        ("refine_ms", C.c_double),
    ]


class PoseOptions(_Sized):
    _fields_ = [
        ("size", C.c_uint32),
        ("shared_focal", C.c_int32),
        ("intrinsics1", C.c_double * 9),
        ("intrinsics2", C.c_double * 9),
        ("focal_sigma1", C.c_double),
        ("focal_sigma2", C.c_double),
        ("tolerance", C.c_double),
        ("sigma", C.c_double),
        ("dependence", C.c_double),
        ("start", C.c_void_p),
        ("depth", C.c_void_p),
    ]


class Pose(_Sized):
    _fields_ = [
        ("size", C.c_uint32),
        ("found", C.c_int32),
        ("turn_only", C.c_int32),
        ("reserved", C.c_int32),
        ("reason", C.c_char * 64),
        ("pose", C.c_double * 16),
        ("covariance", C.c_double * 36),
        ("intrinsics1", C.c_double * 9),
        ("intrinsics2", C.c_double * 9),
        ("focal_sigma1", C.c_double),
        ("focal_sigma2", C.c_double),
        ("rms", C.c_double),
        ("angle", C.c_double),
        ("length", C.c_double),
        ("length_spread", C.c_double),
        ("count", C.c_uint64),
        ("inliers", Handle),
        ("points", Handle),
    ]


class Progress(_Sized):
    _fields_ = [
        ("size", C.c_uint32),
        ("reserved", C.c_int32),
        ("done", C.c_uint64),
        ("total", C.c_uint64),
    ]


class CostOptions(_Sized):
    _fields_ = [
        ("size", C.c_uint32),
        ("height1", C.c_int32),
        ("width1", C.c_int32),
        ("height2", C.c_int32),
        ("width2", C.c_int32),
        ("reserved", C.c_int32),
        ("model", C.c_char_p),
        ("variant", C.c_char_p),
        ("precision", C.c_char_p),
        ("tflops", C.c_double),
        ("gb_per_s", C.c_double),
    ]


class MemoryOptions(_Sized):
    _fields_ = [
        ("size", C.c_uint32),
        ("height1", C.c_int32),
        ("width1", C.c_int32),
        ("height2", C.c_int32),
        ("width2", C.c_int32),
        ("pictures", C.c_int32),
        ("symmetric", C.c_int32),
        ("threads", C.c_int32),
        ("only", C.c_int32),
        ("batch", C.c_int32),
        ("model", C.c_char_p),
        ("variant", C.c_char_p),
        ("backend", C.c_char_p),
        ("precision", C.c_char_p),
    ]


class Memory(_Sized):
    _fields_ = [
        ("size", C.c_uint32),
        ("reserved", C.c_int32),
        ("weights", C.c_int64),
        ("activations", C.c_int64),
        ("buffers", C.c_int64),
        ("results", C.c_int64),
        ("runtime", C.c_int64),
        ("total", C.c_int64),
        ("free", C.c_int64),
        ("limit", C.c_char * 128),
    ]


class Encoded(_Sized):
    _fields_ = [
        ("size", C.c_uint32),
        ("reserved", C.c_int32),
        ("tokens", Handle),
        ("transform", Transform),
    ]


class Features(_Sized):
    _fields_ = [
        ("size", C.c_uint32),
        ("reserved", C.c_int32),
        ("tokens", C.c_void_p),
        ("count", C.c_uint64),
        ("transform", Transform),
    ]


class ViewsOptions(_Sized):
    _fields_ = [
        ("size", C.c_uint32),
        ("raw", C.c_int32),
        ("resolution", C.c_int32),
        ("rays", C.c_int32),
        ("window", C.c_int32),
        ("overlap", C.c_int32),
        ("reference", C.c_char_p),
        ("poses", C.c_void_p),
        ("intrinsics", C.c_void_p),
    ]


class SceneView(_Sized):
    _fields_ = [
        ("size", C.c_uint32),
        ("reserved", C.c_int32),
        ("depth", Handle),
        ("conf", Handle),
        ("points", Handle),
        ("rays", Handle),
        ("ray_conf", Handle),
        ("sky", Handle),
        ("pose", C.c_double * 16),
        ("intrinsics", C.c_double * 9),
        ("transform", Transform),
    ]


class Window(_Sized):
    _fields_ = [
        ("size", C.c_uint32),
        ("first", C.c_int32),
        ("count", C.c_int32),
        ("reference", C.c_int32),
        ("overlap", C.c_int32),
        ("points", C.c_int32),
        ("scale", C.c_double),
        ("residual", C.c_double),
    ]


class Retrieval(_Sized):
    _fields_ = [
        ("size", C.c_uint32),
        ("reserved", C.c_int32),
        ("features", Handle),
        ("attention", Handle),
        ("global", Handle),
        ("total_ms", C.c_double),
    ]


class LocalFeatures(_Sized):
    _fields_ = [
        ("size", C.c_uint32),
        ("n", C.c_int32),
        ("dim", C.c_int32),
        ("reserved", C.c_int32),
        ("features", C.c_void_p),
        ("attention", C.c_void_p),
    ]


class SceneOptions(_Sized):
    _fields_ = [
        ("size", C.c_uint32),
        ("symmetrize", C.c_int32),
        ("anchor", C.c_int32),
        ("reserved", C.c_int32),
        ("prefilter", C.c_char_p),
        ("similarity", C.c_void_p),
    ]


class ExportOptions(_Sized):
    _fields_ = [
        ("size", C.c_uint32),
        ("half", C.c_int32),
        ("height1", C.c_int32),
        ("width1", C.c_int32),
        ("height2", C.c_int32),
        ("width2", C.c_int32),
        ("opset", C.c_int32),
    ]


class Pool(_Sized):
    _fields_ = [
        ("size", C.c_uint32),
        ("per_size", C.c_int32),
        ("limit_bytes", C.c_uint64),
        ("pooled_buffers", C.c_uint64),
        ("pooled_bytes", C.c_uint64),
        ("in_use_buffers", C.c_uint64),
        ("in_use_bytes", C.c_uint64),
        ("allocations", C.c_uint64),
        ("reuses", C.c_uint64),
        ("evictions", C.c_uint64),
        ("peak_bytes", C.c_uint64),
        ("overhead_bytes", C.c_uint64),
    ]


class TensorDesc(_Sized):
    _fields_ = [
        ("size", C.c_uint32),
        ("dtype", C.c_int32),
        ("ndim", C.c_int32),
        ("valid", C.c_int32),
        ("shape", C.c_int64 * 8),
        ("numel", C.c_uint64),
        ("nbytes", C.c_uint64),
    ]


class TensorConfig(_Sized):
    _fields_ = [
        ("size", C.c_uint32),
        ("threads", C.c_int32),
        ("batch_size", C.c_int32),
        ("cache_size", C.c_int32),
        ("backend", C.c_char_p),
        ("pool_per_size", C.c_int32),
        ("reserved", C.c_int32),
        ("pool_limit_bytes", C.c_uint64),
    ]


class TensorCall(_Sized):
    _fields_ = [
        ("size", C.c_uint32),
        ("reserved", C.c_uint32),
        ("context", Handle),
        ("operation", C.c_char_p),
        ("attributes", C.c_char_p),
        ("operands", C.c_void_p),
        ("numbers", C.c_void_p),
        ("count", C.c_size_t),
        ("results", C.c_void_p),
        ("capacity", C.c_size_t),
        ("produced", C.c_size_t),
    ]


class TensorStats(_Sized):
    _fields_ = [
        ("size", C.c_uint32),
        ("pending", C.c_int32),
        ("operations", C.c_uint64),
        ("cache_hits", C.c_uint64),
        ("cache_misses", C.c_uint64),
        ("programs", C.c_uint64),
        ("commits", C.c_uint64),
        ("live_tensors", C.c_uint64),
        ("pool_buffers", C.c_uint64),
        ("pool_bytes", C.c_uint64),
        ("backend", C.c_char * 32),
        ("device", C.c_char * 128),
        ("fallback_reason", C.c_char * 256),
    ]


class Input(_Sized):
    _fields_ = [
        ("size", C.c_uint32),
        ("ndim", C.c_int32),
        ("name", C.c_char_p),
        ("data", C.c_void_p),
        ("shape", C.c_int64 * 8),
    ]
