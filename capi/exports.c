//go:build cgo

/* SPDX-License-Identifier: Apache-2.0 */
/* Code generated from capi/mast3r.h by go test ./tools/bindings -update. DO NOT EDIT. */
/*
 * The visible calls: each looks for a fork and then goes into Go.
 *
 * The look must come before Go is entered. In a forked child the runtime's other
 * threads are gone, and one of them may have held what an entering call waits for.
 * Go's declarations also cannot say const; these can.
 */
#include "_cgo_export.h"
#include "guard.h"

static int refused(void) {
  if (!mast3r_in_forked_child()) return 0;
  m3r_set_error("mast3r: called in a forked child; the Go runtime does not survive fork(), "
                "start processes with spawn or exec");
  return 1;
}

#define CALL(name, parameters, arguments)                                                  \
  EXPORT mast3r_status mast3r_##name parameters {                                          \
    return refused() ? MAST3R_E_FORKED : m3r_##name arguments;                             \
  }

CALL(live, (mast3r_stats *out), (out))
CALL(log_level, (int32_t level), (level))
CALL(log_next, (mast3r_log_record *out), (out))
CALL(engine_create, (const mast3r_config *config, mast3r_engine *out), ((mast3r_config *)config, out))
CALL(engine_info, (mast3r_engine engine, mast3r_info *out), (engine, out))
CALL(engine_metadata,
     (mast3r_engine engine, char *buffer, size_t capacity, size_t *needed),
     (engine, buffer, capacity, needed))
CALL(engine_native, (mast3r_engine engine, void **device, void **queue), (engine, device, queue))
CALL(engine_trim, (mast3r_engine engine), (engine))
CALL(engine_synchronize, (mast3r_engine engine), (engine))
CALL(engine_close, (mast3r_engine engine), (engine))
CALL(submit_load, (mast3r_engine engine, const char *path, mast3r_job *out), (engine, (char *)path, out))
CALL(submit_warmup, (mast3r_engine engine, int32_t iterations, mast3r_job *out), (engine, iterations, out))
CALL(submit_infer,
     (mast3r_engine engine, const mast3r_image *image1, const mast3r_image *image2,
      const mast3r_infer_options *options, mast3r_job *out),
     (engine, (mast3r_image *)image1, (mast3r_image *)image2, (mast3r_infer_options *)options, out))
CALL(submit_sequence,
     (mast3r_engine engine, const mast3r_image *images, size_t count, const mast3r_infer_options *options,
      mast3r_job *out),
     (engine, (mast3r_image *)images, count, (mast3r_infer_options *)options, out))
CALL(submit_batch,
     (mast3r_engine engine, const mast3r_image *images, size_t count, const mast3r_infer_options *options,
      mast3r_job *out),
     (engine, (mast3r_image *)images, count, (mast3r_infer_options *)options, out))
CALL(submit_symmetric,
     (mast3r_engine engine, const mast3r_image *image1, const mast3r_image *image2,
      const mast3r_infer_options *options, mast3r_job *out),
     (engine, (mast3r_image *)image1, (mast3r_image *)image2, (mast3r_infer_options *)options, out))
CALL(submit_match,
     (mast3r_engine engine, const mast3r_map *map1, const mast3r_map *map2,
      const mast3r_match_options *options, mast3r_job *out),
     (engine, (mast3r_map *)map1, (mast3r_map *)map2, (mast3r_match_options *)options, out))
CALL(submit_refine,
     (mast3r_engine engine, const mast3r_image *image1, const mast3r_image *image2,
      const mast3r_places *places, const mast3r_refine_options *options, mast3r_job *out),
     (engine, (mast3r_image *)image1, (mast3r_image *)image2, (mast3r_places *)places,
      (mast3r_refine_options *)options, out))
CALL(focal,
     (const float *points, int32_t height, int32_t width, double cx, double cy, double *focal),
     ((float *)points, height, width, cx, cy, focal))
CALL(submit_pose,
     (const mast3r_places *places, const mast3r_pose_options *options, mast3r_job *out),
     ((mast3r_places *)places, (mast3r_pose_options *)options, out))
CALL(submit_encode,
     (mast3r_engine engine, const mast3r_image *images, size_t count, const mast3r_infer_options *options,
      mast3r_job *out),
     (engine, (mast3r_image *)images, count, (mast3r_infer_options *)options, out))
CALL(submit_decode,
     (mast3r_engine engine, const mast3r_features *picture1, const mast3r_features *picture2,
      const mast3r_infer_options *options, mast3r_job *out),
     (engine, (mast3r_features *)picture1, (mast3r_features *)picture2, (mast3r_infer_options *)options, out))
CALL(submit_views,
     (mast3r_engine engine, const mast3r_image *images, size_t count, const mast3r_views_options *options,
      mast3r_job *out),
     (engine, (mast3r_image *)images, count, (mast3r_views_options *)options, out))
CALL(submit_load_retrieval,
     (mast3r_engine engine, const char *model, const char *retrieval, mast3r_job *out),
     (engine, (char *)model, (char *)retrieval, out))
CALL(engine_retrieval, (mast3r_engine engine, int32_t *ready, int32_t *standalone), (engine, ready, standalone))
CALL(submit_retrieval,
     (mast3r_engine engine, const mast3r_image *images, size_t count, const mast3r_infer_options *options,
      mast3r_job *out),
     (engine, (mast3r_image *)images, count, (mast3r_infer_options *)options, out))
CALL(submit_export,
     (mast3r_engine engine, const char *path, const mast3r_export_options *options, mast3r_job *out),
     (engine, (char *)path, (mast3r_export_options *)options, out))
CALL(submit_convert,
     (const char *in, const char *out, const char *precision, mast3r_job *job),
     ((char *)in, (char *)out, (char *)precision, job))
CALL(submit_selfcheck, (mast3r_job *out), (out))
CALL(submit_profile,
     (mast3r_engine engine, const mast3r_image *image1, const mast3r_image *image2,
      const mast3r_infer_options *options, int32_t iterations, int32_t wait, mast3r_job *out),
     (engine, (mast3r_image *)image1, (mast3r_image *)image2, (mast3r_infer_options *)options, iterations,
      wait, out))
CALL(submit_cost, (const mast3r_cost_options *options, mast3r_job *out), ((mast3r_cost_options *)options, out))
CALL(submit_memory, (const mast3r_memory_options *options, mast3r_job *out), ((mast3r_memory_options *)options, out))
CALL(job_memory, (mast3r_job job, mast3r_memory *out), (job, out))
CALL(job_report, (mast3r_job job, char *buffer, size_t capacity, size_t *needed), (job, buffer, capacity, needed))
CALL(job_progress, (mast3r_job job, mast3r_progress *out), (job, out))
CALL(job_files, (mast3r_job job, char *buffer, size_t capacity, size_t *needed), (job, buffer, capacity, needed))
CALL(job_wait, (mast3r_job job, int32_t milliseconds), (job, milliseconds))
CALL(job_cancel, (mast3r_job job), (job))
CALL(job_free, (mast3r_job job), (job))
CALL(job_results, (mast3r_job job, size_t *count), (job, count))
CALL(job_take_result, (mast3r_job job, size_t index, mast3r_result *out), (job, index, out))
CALL(job_take_view, (mast3r_job job, size_t index, mast3r_scene_view *out), (job, index, out))
CALL(job_windows,
     (mast3r_job job, mast3r_window *out, size_t capacity, size_t *count, mast3r_timing *timing),
     (job, out, capacity, count, timing))
CALL(job_take_matches, (mast3r_job job, mast3r_matches *out), (job, out))
CALL(job_take_refined, (mast3r_job job, mast3r_refined *out), (job, out))
CALL(job_take_pose, (mast3r_job job, mast3r_pose *out), (job, out))
CALL(job_take_encoded, (mast3r_job job, size_t index, mast3r_encoded *out), (job, index, out))
CALL(job_take_retrieval, (mast3r_job job, size_t index, mast3r_retrieval *out), (job, index, out))
CALL(job_take_index, (mast3r_job job, mast3r_index *out), (job, out))
CALL(job_take_scores, (mast3r_job job, mast3r_tensor *out), (job, out))
CALL(submit_index_open,
     (mast3r_engine engine, const char *codebook, double nfeat, mast3r_job *out),
     (engine, (char *)codebook, nfeat, out))
CALL(submit_index_add,
     (mast3r_index index, const mast3r_local_features *pictures, size_t count, mast3r_job *out),
     (index, (mast3r_local_features *)pictures, count, out))
CALL(submit_index_score,
     (mast3r_index index, const mast3r_local_features *pictures, size_t count, mast3r_job *out),
     (index, (mast3r_local_features *)pictures, count, out))
CALL(submit_index_write,
     (mast3r_index index, uint64_t first, const char *path, mast3r_job *out),
     (index, first, (char *)path, out))
CALL(submit_index_merge, (mast3r_index index, const char *path, mast3r_job *out), (index, (char *)path, out))
CALL(index_length, (mast3r_index index, uint64_t *out), (index, out))
CALL(index_close, (mast3r_index index), (index))
CALL(scene_pairs,
     (int32_t n, const char *graph, const mast3r_scene_options *options, mast3r_tensor *out),
     (n, (char *)graph, (mast3r_scene_options *)options, out))
CALL(tensor_describe, (mast3r_tensor tensor, mast3r_tensor_desc *out), (tensor, out))
CALL(tensor_data, (mast3r_tensor tensor, void **out), (tensor, out))
CALL(tensors_data, (const mast3r_tensor *tensors, size_t count, void **out), ((mast3r_tensor *)tensors, count, out))
CALL(tensor_copy, (mast3r_tensor tensor, void *destination, size_t nbytes), (tensor, destination, nbytes))
CALL(tensor_device,
     (mast3r_tensor tensor, int32_t *kind, int32_t *device, void **address),
     (tensor, kind, device, address))
CALL(tensor_release, (mast3r_tensor tensor), (tensor))
CALL(tensor_open,
     (const mast3r_tensor_config *config, mast3r_tensor_context *out),
     ((mast3r_tensor_config *)config, out))
CALL(tensor_close, (mast3r_tensor_context context), (context))
CALL(tensor_info, (mast3r_tensor_context context, mast3r_tensor_stats *out), (context, out))
CALL(tensor_commit, (mast3r_tensor_context context), (context))
CALL(tensor_sync, (mast3r_tensor_context context), (context))
CALL(tensor_cleanup, (mast3r_tensor_context context), (context))
CALL(commands_begin, (mast3r_tensor_context context, mast3r_commands *out), (context, out))
CALL(commands_commit, (mast3r_commands commands), (commands))
CALL(commands_wait, (mast3r_commands commands), (commands))
CALL(commands_release, (mast3r_commands commands), (commands))
CALL(tensor_pool_info, (mast3r_tensor_context context, mast3r_pool *out), (context, out))
CALL(tensor_pool_configure,
     (mast3r_tensor_context context, int32_t per_size, uint64_t limit_bytes),
     (context, per_size, limit_bytes))
CALL(tensor_pool_pressure,
     (mast3r_tensor_context context, int32_t critical, uint64_t *freed),
     (context, critical, freed))
CALL(tensor_from_host,
     (mast3r_tensor_context context, int32_t dtype, int32_t ndim, const int64_t *shape, const void *data,
      size_t nbytes, mast3r_tensor *out),
     (context, dtype, ndim, (int64_t *)shape, (void *)data, nbytes, out))
CALL(tensor_empty,
     (mast3r_tensor_context context, int32_t dtype, int32_t ndim, const int64_t *shape, mast3r_tensor *out),
     (context, dtype, ndim, (int64_t *)shape, out))
CALL(tensor_operations, (char *buffer, size_t capacity, size_t *needed), (buffer, capacity, needed))
CALL(tensor_apply, (mast3r_tensor_call *call), (call))
CALL(executor_open, (int32_t threads, mast3r_executor *out), (threads, out))
CALL(executor_close, (mast3r_executor executor), (executor))
CALL(executor_run,
     (mast3r_executor executor, const char *graph, const mast3r_input *inputs, size_t count,
      mast3r_tensor *results, size_t capacity, size_t *produced),
     (executor, (char *)graph, (mast3r_input *)inputs, count, results, capacity, produced))
CALL(executor_info,
     (mast3r_executor executor, char *buffer, size_t capacity, size_t *needed),
     (executor, buffer, capacity, needed))
CALL(executor_configure, (mast3r_executor executor, const char *thresholds), (executor, (char *)thresholds))
CALL(executor_calibrate, (mast3r_executor executor), (executor))
CALL(buffer_acquire, (mast3r_engine engine, uint64_t nbytes, mast3r_buffer *out), (engine, nbytes, out))
CALL(buffer_contents, (mast3r_buffer buffer, void **out, uint64_t *length), (buffer, out, length))
CALL(buffer_native, (mast3r_buffer buffer, void **out), (buffer, out))
CALL(buffer_release, (mast3r_buffer buffer), (buffer))
CALL(pool_warmup, (mast3r_engine engine, const uint64_t *sizes, size_t count), (engine, (uint64_t *)sizes, count))
CALL(pool_info, (mast3r_engine engine, mast3r_pool *out), (engine, out))
CALL(pool_configure, (mast3r_engine engine, int32_t per_size, uint64_t limit_bytes), (engine, per_size, limit_bytes))
CALL(pool_pressure, (mast3r_engine engine, int32_t critical, uint64_t *freed), (engine, critical, freed))
