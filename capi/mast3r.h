/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mast3r.h: the C interface of mast3r-runtime.
 *
 * Rules that hold for every call:
 *
 *  - Handles are numbers, not pointers. A stale, foreign or made-up handle is an
 *    error (MAST3R_E_HANDLE), never a crash. 0 is never a valid handle.
 *  - Every call returns a status. The text of the calling thread's last failure is
 *    mast3r_last_error(); it says what was given and what was expected.
 *  - Every struct starts with its size in bytes, set by the caller. An unknown size
 *    is an error (MAST3R_E_ABI).
 *  - Work that takes time is a job: submit, wait (with a time limit), cancel. If the
 *    last pair or match of the same sizes took less than 5 ms, the job may be finished
 *    when submit returns; wait for it all the same. The memory given to a submit call
 *    (pictures, descriptor maps, masks) must stay valid and unchanged until a wait
 *    returns something other than MAST3R_PENDING.
 *  - Calls may come from any thread, several at a time.
 *  - The library holds a Go runtime, which does not survive fork(). In a forked
 *    child every call fails with MAST3R_E_FORKED; start processes with exec (spawn).
 *  - Signal handlers of the process need SA_ONSTACK (sigaction, not signal): the
 *    threads of a Go runtime have small stacks. pthread_exit from main does not end
 *    the process, because those threads stay. Where ulimit -v leaves less than about
 *    1.5 GB the runtime cannot start and ends the process; limit memory with a cgroup.
 *  - The library prints nothing. Its log is read with mast3r_log_next().
 *
 * A pair, without the error checks:
 *
 *    mast3r_config config = {.size = sizeof config};
 *    mast3r_engine engine;
 *    mast3r_job job;
 *    mast3r_engine_create(&config, &engine);
 *    mast3r_submit_load(engine, "unified.safetensors", &job);
 *    mast3r_job_wait(job, -1);
 *    mast3r_job_free(job);
 *    mast3r_submit_infer(engine, &left, &right, NULL, &job);
 *    mast3r_job_wait(job, -1);
 *    mast3r_result result = {.size = sizeof result};
 *    mast3r_job_take_result(job, 0, &result);
 *    mast3r_job_free(job);
 *    float *points;
 *    mast3r_tensor_data(result.view[0].points, (void **)&points);
 */
#ifndef MAST3R_H
#define MAST3R_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define MAST3R_VERSION "0.1.0"   /* of the library and its packages */
#define MAST3R_ABI_VERSION 2     /* of the calls and structs below */
#define MAST3R_MAX_DIMS 8        /* of a tensor */
#define MAST3R_MAX_THREADS 1024  /* in a config */

typedef int32_t mast3r_status;
enum {
  MAST3R_OK = 0,
  MAST3R_PENDING = 1,      /* the job is still running; or there is no log record */
  MAST3R_E_ARGUMENT = 2,   /* a null pointer, a number out of range */
  MAST3R_E_ABI = 3,        /* a struct of unknown size */
  MAST3R_E_HANDLE = 4,     /* no such handle, released, or of another kind */
  MAST3R_E_CLOSED = 5,     /* the engine is closed */
  MAST3R_E_NOT_LOADED = 6, /* no model is loaded */
  MAST3R_E_CANCELLED = 7,  /* mast3r_job_cancel, or the engine was closed */
  MAST3R_E_WEIGHTS = 8,    /* a model file that cannot be used */
  MAST3R_E_IMAGE = 9,      /* a picture that cannot be used */
  MAST3R_E_SHAPE = 10,     /* sizes do not fit each other */
  MAST3R_E_DEVICE = 11,    /* the backend is not available, or it failed */
  MAST3R_E_NOT_FOUND = 12, /* no such file */
  MAST3R_E_FORKED = 13,    /* called in a forked child */
  MAST3R_E_INTERNAL = 14,  /* a bug in this library that was caught */
  MAST3R_E_FILE = 15,      /* the system refused to read or write a file */
  MAST3R_E_MEMORY = 16,    /* the work does not fit into the memory that is left */
  MAST3R_E_UNSUPPORTED = 17 /* the loaded network cannot do this; the text says what can */
};

typedef uint64_t mast3r_engine;
typedef uint64_t mast3r_job;
typedef uint64_t mast3r_tensor;
typedef uint64_t mast3r_tensor_context;
typedef uint64_t mast3r_commands; /* a command buffer: operations that go to the device together */
typedef uint64_t mast3r_executor; /* runs small graphs on a CPU and a GPU */
typedef uint64_t mast3r_buffer;
typedef uint64_t mast3r_index; /* pictures that can be searched by their retrieval features */

/* ---- structs ---------------------------------------------------------- */

typedef struct {
  uint32_t size;
  uint32_t reserved;
  uint64_t engines, jobs, tensors; /* handles alive */
  uint64_t indexes, buffers;
} mast3r_stats;

/* Levels as in Go's slog: -4 debug, 0 info, 4 warning, 8 error. */
typedef struct {
  uint32_t size;
  int32_t level;
  int64_t unix_nanoseconds;
  char text[512]; /* cut to fit, always terminated */
} mast3r_log_record;

typedef struct {
  uint32_t size;
  int32_t resolution;    /* long side in pixels (224: short side, a square), 0: the model's own */
  int32_t threads;       /* 0: every core */
  int32_t reserved;
  const char *variant;   /* NULL or "auto": any model */
  const char *precision; /* NULL or "auto", "fp32", "fp16", "bf16", "tf32" (CUDA only) */
  const char *backend;   /* NULL or "auto", "cpu", "metal", "cuda", "cuda:1", ... */
} mast3r_config;

typedef struct {
  uint32_t size;
  int32_t ready;                    /* a model is loaded */
  char name[128];                   /* "mast3r_tiny on cpu (avx512)" */
  char backend[32], device[128], isa[32], os[64];
  char products[128];               /* instructions used for products in each precision, and why; "" on a GPU */
  char fallback_reason[256];        /* why "auto" did not take a GPU; else "" */
  int32_t threads, unified_memory;
  uint64_t working_set, max_buffer; /* bytes */
  uint64_t pool_buffers, pool_bytes;
  /* the model; zero and empty until one is loaded */
  char variant[64], precision[16];
  int32_t patch, enc_dim, enc_depth, enc_heads, dec_dim, dec_depth, dec_heads, desc_dim;
  int32_t resolution, reserved;
  int64_t parameters;
  /* outputs of the model, separated by spaces: of a pair "pts3d conf desc desc_conf", of a scene
   * "depth poses intrinsics rays ray_conf sky" */
  char outputs[128];
} mast3r_info;

/* 8-bit RGB, height x width x 3; stride in bytes between rows, 0: 3 * width. */
typedef struct {
  uint32_t size;
  int32_t height, width, stride;
  const uint8_t *pixels;
} mast3r_image;

typedef struct {
  uint32_t size;
  int32_t raw;          /* the pictures have the network's size: do not resize or crop them */
  int32_t rectangle_43; /* cut square pictures to 4:3, as the reference does */
  int32_t resolution;   /* long side in pixels for this call; 0: the engine's */
  int32_t only;         /* outputs to compute, MAST3R_POINTS | ...; 0: all. The other tensors are 0 */
} mast3r_infer_options;

/* One branch of a head computes points and their confidence, the other descriptors and their
 * confidence. A branch without a requested output is not run. */
enum { MAST3R_POINTS = 1, MAST3R_CONF = 2, MAST3R_DESC = 4, MAST3R_DESC_CONF = 8 };

/* The maps of one picture, for matching. points, weight and mask may be NULL. */
typedef struct {
  uint32_t size;
  int32_t height, width, dim;
  const float *descriptors; /* [height, width, dim] */
  const float *points;      /* [height, width, 3] */
  const float *weight;      /* [height, width]: confidence of each descriptor */
  const uint8_t *mask;      /* [height, width]: match only where it is not 0 */
  /* not 0: a result's descriptors, in the place of a pointer to them. On a GPU they stay there
   * as far as it finds the matches. It must not be released before the job has ended. */
  mast3r_tensor tensor;
} mast3r_map;

/* Converts a pixel (x, y) of the network's map to the picture as given. Pixel centres have
 * integer coordinates: x' = (x + crop_x + 0.5) * original_width / resized_width - 0.5. */
typedef struct {
  int32_t original_height, original_width;
  int32_t resized_height, resized_width;
  int32_t crop_y, crop_x, height, width; /* the window of the resized picture that was used */
} mast3r_transform;

typedef struct {
  uint32_t size;
  int32_t top_k;      /* 0: all */
  int32_t reciprocal; /* keep only pairs that are each other's nearest */
  int32_t subsample;  /* start from every n-th pixel; 0 or 1: every pixel */
  int32_t border;     /* leave out matches within this many pixels of an edge */
  int32_t weighted;     /* multiply the confidence by the geometric mean of both weights; needs weights */
  float min_confidence; /* leave out matches with a lower confidence */
  float min_weight;     /* leave out pixels with a lower weight; above 0 it needs weights */
  int32_t both_ways; /* with subsample: start from pixels of map2 too */
  int32_t spread;    /* top_k takes matches from all parts of map1 instead of the best */
  int32_t subpixel;  /* pixel2 is the subpixel position of greatest similarity */
  int32_t judge;     /* judge whether the pictures overlap; set min_weight to about 1 */
  /* The full pictures, and how they were cut for the network. If both are given, matches are
   * refined as by mast3r_submit_refine. Otherwise NULL. */
  const mast3r_image *image1, *image2;
  mast3r_transform transform1, transform2;
} mast3r_match_options;

/* Matching positions in two pictures: double [count, 2], x and y in pixels of the pictures as
 * given. Pixel centres have integer coordinates. */
typedef struct {
  uint32_t size;
  int32_t reserved;
  uint64_t count;
  const double *pixel1, *pixel2;
  const float *covariance; /* [count, 2, 2] of pixel2, with pixel1 exact; may be NULL */
} mast3r_places;

enum { MAST3R_OVERLAP_NO = 0, MAST3R_OVERLAP_YES = 1, MAST3R_OVERLAP_UNSURE = 2 };

/* Whether two pictures show the same part of a scene. */
typedef struct {
  int32_t verdict; /* MAST3R_OVERLAP_NO, ... */
  int32_t reserved;
  double score;      /* 1: equal to the threshold */
  double matched;    /* fraction of the starting pixels with a match */
  double consistent; /* fraction of these that fit one epipolar geometry */
  double fundamental[9]; /* in network pixels, pixel2' F pixel1 = 0; zeros: none */
  char reason[192];
} mast3r_overlap;

/* In pixels of picture 2. */
typedef struct {
  uint32_t size;
  int32_t reserved;
  double reach; /* largest error of a match before refining; about two network pixels */
  double sigma; /* standard deviation of matches that are not refined; 0: reach / 4 */
} mast3r_refine_options;

typedef struct {
  mast3r_tensor points;    /* [H, W, 3], in the first camera's frame */
  mast3r_tensor conf;      /* [H, W] */
  mast3r_tensor desc;      /* [H, W, D] */
  mast3r_tensor desc_conf; /* [H, W] */
  mast3r_transform transform;
} mast3r_view;

typedef struct {
  double preprocess_ms, encoder_ms, decoder_ms, heads_ms, copy_ms, inference_ms, total_ms;
} mast3r_timing;

typedef struct {
  uint32_t size;
  int32_t views; /* 2, or 4 for symmetric */
  mast3r_view view[4];
  mast3r_timing timing;
} mast3r_result;

typedef struct {
  uint32_t size;
  int32_t seeds; /* pixels of map1 where the search started */
  uint64_t count;
  mast3r_tensor index1, index2;   /* int64 [N]: y * W + x */
  mast3r_tensor pixel1, pixel2;   /* f32 [N, 2]: x, y; integers, except pixel2 with subpixel */
  mast3r_tensor points1, points2; /* f32 [N, 3]; NaN if the map has no points */
  mast3r_tensor confidence;       /* f32 [N], descending */
  mast3r_tensor covariance; /* f32 [N, 2, 2] of pixel2, in full pixels; 0 without full pictures */
  mast3r_tensor refined;    /* i32 [N]: 1 or 0; 0 without full pictures */
  mast3r_tensor consistent; /* i32 [N]: 1 where a match fits overlap.fundamental; 0 without judge */
  mast3r_overlap overlap;   /* of all matches, before top_k */
  double match_ms;
} mast3r_matches;

/* Results for the given positions, in the same order. */
typedef struct {
  uint32_t size;
  int32_t reserved;
  uint64_t count;
  mast3r_tensor pixel2;      /* f64 [N, 2]: as given where not refined */
  mast3r_tensor covariance;  /* f32 [N, 2, 2] of pixel2 */
  mast3r_tensor correlation; /* f32 [N] of the patches around both ends; 0: not compared */
  mast3r_tensor refined;     /* i32 [N]: 1 or 0 */
  double refine_ms;
} mast3r_refined;

/* Camera matrices are row-major, in pixels of the pictures as given. */
typedef struct {
  uint32_t size;
  int32_t shared_focal; /* one camera took both: the focal lengths are changed by the same factor */
  double intrinsics1[9], intrinsics2[9];
  double focal_sigma1, focal_sigma2; /* standard deviation of the focal lengths' logarithms; 0: known */
  double tolerance; /* largest distance of an inlier from the epipolar geometry, pixels; 0: 1.5 */
  double sigma;     /* standard deviation of a coordinate if there is no covariance; 0: 0.5 */
  double dependence; /* how many matches count as one independent measurement; 0: 1 */
  const double *start; /* [4, 4] camera 2 to camera 1: a pose to refine instead of searching; or NULL */
  const double *depth; /* [count] depths in camera 1, for the length of the baseline; or NULL */
} mast3r_pose_options;

typedef struct {
  uint32_t size;
  int32_t found;     /* 0: no pose, see reason */
  int32_t turn_only; /* the matches show a rotation only: no translation */
  int32_t reserved;
  char reason[64];
  double pose[16]; /* camera 2 to camera 1, X1 = R X2 + t, |t| = 1 */
  double covariance[36]; /* of (w, d): the pose exp(w) R, t + d with w in radians */
  double intrinsics1[9], intrinsics2[9];
  double focal_sigma1, focal_sigma2;
  double rms;   /* of the inliers from the epipolar geometry, pixels */
  double angle; /* median angle between the two rays of an inlier, degrees */
  double length, length_spread; /* of the baseline, from depth; 0: not known */
  uint64_t count;
  mast3r_tensor inliers; /* i64 [count] */
  mast3r_tensor points;  /* f64 [count, 3] in camera 1's frame, |t| = 1; empty with turn_only */
} mast3r_pose;

typedef struct {
  uint32_t size;
  int32_t reserved;
  uint64_t done, total; /* bytes; total 0: not known yet */
} mast3r_progress;

/* What mast3r_submit_cost counts: a model file, or if model is NULL, a published variant. */
typedef struct {
  uint32_t size;
  int32_t height1, width1, height2, width2; /* network sizes; 0: the model's own at 4:3 */
  int32_t reserved;
  const char *model, *variant;
  const char *precision;   /* "fp32", "fp16"; NULL: "fp16" */
  double tflops, gb_per_s; /* what the machine can do; 0: an M4 Pro */
} mast3r_cost_options;

/* What mast3r_submit_memory estimates: a model file, or if model is NULL, a published variant. */
typedef struct {
  uint32_t size;
  int32_t height1, width1, height2, width2; /* network sizes; 0: the model's own at 4:3 */
  int32_t pictures;        /* of one call: 0 and 2 are a pair, more are a sequence */
  int32_t symmetric;
  int32_t threads;         /* as in mast3r_config */
  int32_t only;            /* as in mast3r_infer_options */
  int32_t batch;           /* pairs of one mast3r_submit_batch; 0: another call */
  const char *model, *variant;
  const char *backend;     /* "cpu", "metal", "cuda"; NULL: "cpu" */
  const char *precision;   /* as in mast3r_config; NULL: "auto" */
} mast3r_memory_options;

/* Bytes at the peak of a call, the loaded model included. On the CPU the peak of the process was
 * measured between 77 % and 100 % of total. */
typedef struct {
  uint32_t size;
  int32_t reserved;
  int64_t weights, activations, buffers, results;
  int64_t runtime;  /* other memory of a process with an engine */
  int64_t total;    /* the sum */
  int64_t free;     /* memory that this process may still use; 0: not known */
  char limit[128];  /* what sets that limit: the machine, a control group, the address space */
} mast3r_memory;

/* One encoded picture. */
typedef struct {
  uint32_t size;
  int32_t reserved;
  mast3r_tensor tokens; /* [N, D] */
  mast3r_transform transform;
} mast3r_encoded;

/* The same as an input: count numbers, N * D. */
typedef struct {
  uint32_t size;
  int32_t reserved;
  const float *tokens;
  uint64_t count;
  mast3r_transform transform;
} mast3r_features;

typedef struct {
  uint32_t size;
  int32_t raw;        /* as in mast3r_infer_options */
  int32_t resolution; /* long side in pixels for this call; 0: the engine's */
  int32_t rays;       /* rays of each view too */
  int32_t window;     /* views processed together; 0: all, or as many as fit into memory */
  int32_t overlap;    /* views that a window shares with the one before; 0: a third */
  const char *reference; /* NULL or "saddle_balanced", "first", "middle", "saddle_sim_range" */
  /* Known cameras, or both NULL: world from camera [count, 4, 4], and camera matrices
   * [count, 3, 3] in pixels of the pictures as given. */
  const double *poses, *intrinsics;
} mast3r_views_options;

/* One view of a scene. A tensor that was not requested, or that the network does not compute, is 0. */
typedef struct {
  uint32_t size;
  int32_t reserved;
  mast3r_tensor depth;    /* [H, W] along the camera's axis */
  mast3r_tensor conf;     /* [H, W], at least 1 */
  mast3r_tensor points;   /* [H, W, 3] in the world, which is the first view's camera */
  mast3r_tensor rays;     /* [h, w, 6]: direction and centre, for each cell of 8/14 of H and W */
  mast3r_tensor ray_conf; /* [h, w] */
  mast3r_tensor sky;      /* [H, W]: sky where at least 0.3 */
  double pose[16];        /* world from camera */
  double intrinsics[9];   /* in network pixels */
  mast3r_transform transform;
} mast3r_scene_view;

/* Views processed together, and their alignment with the window before. scale: their unit of
 * length in units of the scene. residual: root mean square distance between the points of the
 * shared views in both windows, relative to their distance from the camera. */
typedef struct {
  uint32_t size;
  int32_t first, count, reference, overlap, points;
  double scale, residual;
} mast3r_window;

/* Retrieval features of one picture; whitened, not normalised. */
typedef struct {
  uint32_t size;
  int32_t reserved;
  mast3r_tensor features;  /* [N, D] */
  mast3r_tensor attention; /* [N]: length of each feature */
  mast3r_tensor global;    /* [D]: one unit vector for the picture */
  double total_ms;
} mast3r_retrieval;

/* The same as an input. */
typedef struct {
  uint32_t size;
  int32_t n, dim, reserved;
  const float *features;  /* [n, dim] */
  const float *attention; /* [n] */
} mast3r_local_features;

typedef struct {
  uint32_t size;
  int32_t symmetrize;       /* append every pair in reverse order too */
  int32_t anchor;           /* first anchor of a retrieval graph */
  int32_t reserved;
  const char *prefilter;    /* NULL or "", "seqT", "cycT": at most T apart in their order */
  const double *similarity; /* [n, n] for a retrieval graph, else NULL */
} mast3r_scene_options;

typedef struct {
  uint32_t size;
  int32_t half;             /* 1: weights as float16; 2: the factors of products too */
  int32_t height1, width1;  /* network size of the first picture; 0, 0: the model's own at 4:3 */
  int32_t height2, width2;  /* 0, 0: as the first */
  int32_t opset;            /* 0 or 20, or 23, which has an operator for attention */
} mast3r_export_options;

/* The memory of an engine or of tensors: kept for reuse ("pooled") and in use. Bytes count whole
 * buffers; overhead_bytes is the part of the buffers in use that nobody requested. cleanup sets
 * the counters to 0. */
typedef struct {
  uint32_t size;
  int32_t per_size;     /* free buffers of one size to keep */
  uint64_t limit_bytes; /* of pooled and used memory together; 0: none */
  uint64_t pooled_buffers, pooled_bytes, in_use_buffers, in_use_bytes;
  uint64_t allocations, reuses, evictions, peak_bytes, overhead_bytes;
} mast3r_pool;

enum { MAST3R_F32 = 1, MAST3R_I64 = 2, MAST3R_F16 = 3, MAST3R_I32 = 4, MAST3R_F64 = 5 };

typedef struct {
  uint32_t size;
  int32_t dtype; /* MAST3R_F32, ... */
  int32_t ndim, valid;
  int64_t shape[MAST3R_MAX_DIMS];
  uint64_t numel, nbytes;
} mast3r_tensor_desc;

typedef struct {
  uint32_t size;
  int32_t threads;    /* of the CPU; 0: every core */
  int32_t batch_size; /* operations collected before they go to the device; 0: 100 */
  int32_t cache_size; /* compiled operations kept; 0: 512 */
  const char *backend; /* NULL or "auto", "cpu", "metal", "cuda", "cuda:1", ... */
  int32_t pool_per_size; /* free buffers of one size to keep, at least batch_size; 0: batch_size or 50 */
  int32_t reserved;
  uint64_t pool_limit_bytes; /* of pooled and used memory together; 0: the device's own limit */
} mast3r_tensor_config;

/* One operation of tensors; see mast3r_tensor_apply. */
typedef struct {
  uint32_t size;
  uint32_t reserved;
  mast3r_tensor_context context;
  const char *operation;         /* its name */
  const char *attributes;        /* NULL or a JSON object */
  const mast3r_tensor *operands; /* 0 for an optional operand that is not given, or for a number */
  const double *numbers;         /* NULL, or one for each operand, which counts where that is 0: a tensor of one
                                    element, of the type of the first operand that is a tensor, f32 or f16 */
  size_t count;                  /* of operands, at most 1024 */
  mast3r_tensor *results;        /* out: new tensors */
  size_t capacity;               /* of results, at most 2^20 */
  size_t produced;               /* out: how many, 0 for an operation that changes an operand in place */
} mast3r_tensor_call;

typedef struct {
  uint32_t size;
  int32_t pending; /* operations not sent to the device yet */
  uint64_t operations, cache_hits, cache_misses, programs, commits, live_tensors;
  uint64_t pool_buffers, pool_bytes;
  char backend[32], device[128];
  char fallback_reason[256]; /* why "auto" did not take a GPU; else "" */
} mast3r_tensor_stats;

/* ---- library ---------------------------------------------------------- */

uint32_t mast3r_abi_version(void);
const char *mast3r_version(void);                     /* static text */
const char *mast3r_status_name(mast3r_status status); /* static text */
/* Message of the calling thread's last failed call; "" if none. Valid until the
 * thread's next failing call. Works in a forked child. */
const char *mast3r_last_error(void);
/* 1 if this process was forked after the library was loaded. Never blocks. */
int32_t mast3r_in_forked_child(void);

mast3r_status mast3r_live(mast3r_stats *out);

/* Sets the lowest level of records to keep (0 at the start). The newest 1024 records are kept. */
mast3r_status mast3r_log_level(int32_t level);
mast3r_status mast3r_log_next(mast3r_log_record *out); /* MAST3R_PENDING: none */

/* ---- engine ----------------------------------------------------------- */

/* An engine without a model is a context: a device and its buffers. Engines are isolated
 * from each other; to share one within a process, keep its handle. */

mast3r_status mast3r_engine_create(const mast3r_config *config, mast3r_engine *out);
mast3r_status mast3r_engine_info(mast3r_engine engine, mast3r_info *out);
/* The model file's metadata as a JSON object of strings. *needed is the length with
 * the final 0; nothing is written when it is larger than capacity. */
mast3r_status mast3r_engine_metadata(mast3r_engine engine, char *buffer, size_t capacity, size_t *needed);
/* The MTLDevice and the MTLCommandQueue, or NULL if the device is not Metal. They are valid until
 * the engine is closed. Either pointer may be NULL. */
mast3r_status mast3r_engine_native(mast3r_engine engine, void **device, void **queue);
/* Frees the memory that is kept for reuse. */
mast3r_status mast3r_engine_trim(mast3r_engine engine);
/* Waits for the jobs that were submitted to the engine before this call. */
mast3r_status mast3r_engine_synchronize(mast3r_engine engine);
/* Cancels the engine's jobs, waits for them and frees its memory. Tensors taken
 * from it stay valid. */
mast3r_status mast3r_engine_close(mast3r_engine engine);

/* ---- jobs ------------------------------------------------------------- */

mast3r_status mast3r_submit_load(mast3r_engine engine, const char *path, mast3r_job *out);
mast3r_status mast3r_submit_warmup(mast3r_engine engine, int32_t iterations, mast3r_job *out);
/* options may be NULL: all zero. */
mast3r_status mast3r_submit_infer(mast3r_engine engine, const mast3r_image *image1, const mast3r_image *image2,
                                  const mast3r_infer_options *options, mast3r_job *out);
/* Pairs (i, i+1) of count >= 2 pictures; each is encoded once. images: an array of structs. */
mast3r_status mast3r_submit_sequence(mast3r_engine engine, const mast3r_image *images, size_t count,
                                     const mast3r_infer_options *options, mast3r_job *out);
/* Independent pairs (0, 1), (2, 3), ... of an even number of pictures. Each result is that of
 * mast3r_submit_infer. CUDA computes eight pairs of equal sizes at once, a CPU small ones side by
 * side, one a thread. */
mast3r_status mast3r_submit_batch(mast3r_engine engine, const mast3r_image *images, size_t count,
                                  const mast3r_infer_options *options, mast3r_job *out);
/* Both directions of a pair. The four views are picture 1 in camera 1's frame, 2 in 1, 2 in 2
 * and 1 in 2. */
mast3r_status mast3r_submit_symmetric(mast3r_engine engine, const mast3r_image *image1, const mast3r_image *image2,
                                      const mast3r_infer_options *options, mast3r_job *out);
/* Matches two maps. options may be NULL: every reciprocal match. */
mast3r_status mast3r_submit_match(mast3r_engine engine, const mast3r_map *map1, const mast3r_map *map2,
                                  const mast3r_match_options *options, mast3r_job *out);
/* Moves positions in picture 2 until patches of the full pictures agree. Covariances are not
 * read. The result does not depend on the number of threads. */
mast3r_status mast3r_submit_refine(mast3r_engine engine, const mast3r_image *image1, const mast3r_image *image2,
                                   const mast3r_places *places, const mast3r_refine_options *options,
                                   mast3r_job *out);
/* Estimates the focal length of a camera, in pixels of the map, from its own points
 * [height, width, 3] and the principal point (cx, cy). */
mast3r_status mast3r_focal(const float *points, int32_t height, int32_t width, double cx, double cy, double *focal);
/* Computes the relative pose of two cameras from matching positions. Needs no engine. */
mast3r_status mast3r_submit_pose(const mast3r_places *places, const mast3r_pose_options *options, mast3r_job *out);

/* Runs the encoder only. An encoded picture can be kept, saved, and decoded with any other. */
mast3r_status mast3r_submit_encode(mast3r_engine engine, const mast3r_image *images, size_t count,
                                   const mast3r_infer_options *options, mast3r_job *out);
/* Decodes two encoded pictures into the same result as infer. Of the options, only the field
 * only is used. */
mast3r_status mast3r_submit_decode(mast3r_engine engine, const mast3r_features *picture1,
                                   const mast3r_features *picture2, const mast3r_infer_options *options,
                                   mast3r_job *out);

/* Computes depth, points, pose and intrinsics of count >= 1 pictures. Needs a network for many
 * views; with any other the job fails with MAST3R_E_UNSUPPORTED. images: an array of structs.
 * options may be NULL: all zero. */
mast3r_status mast3r_submit_views(mast3r_engine engine, const mast3r_image *images, size_t count,
                                  const mast3r_views_options *options, mast3r_job *out);

/* Loads a retrieval head. model NULL: the head shares the encoder of the loaded model;
 * otherwise the encoder is read from model. */
mast3r_status mast3r_submit_load_retrieval(mast3r_engine engine, const char *model, const char *retrieval,
                                           mast3r_job *out);
/* Whether a retrieval head is loaded, and whether it has its own encoder. Either pointer may be NULL. */
mast3r_status mast3r_engine_retrieval(mast3r_engine engine, int32_t *ready, int32_t *standalone);
mast3r_status mast3r_submit_retrieval(mast3r_engine engine, const mast3r_image *images, size_t count,
                                      const mast3r_infer_options *options, mast3r_job *out);

/* Writes the network for one pair as an ONNX model to path, its weights to path + ".data".
 * options may be NULL: all zero. */
mast3r_status mast3r_submit_export(mast3r_engine engine, const char *path, const mast3r_export_options *options,
                                   mast3r_job *out);

/* Writes a model (.pth, .safetensors, .pkl, or a directory) as safetensors aligned to
 * 16 KiB. out: a file, or a directory, where the files get the names that load looks for.
 * precision: "fp32", "fp16", "bf16", NULL or "keep". Needs no engine. */
mast3r_status mast3r_submit_convert(const char *in, const char *out, const char *precision, mast3r_job *job);

/* Compares this machine's GPU with the CPU. Read the result with mast3r_job_report. */
mast3r_status mast3r_submit_selfcheck(mast3r_job *out);
/* Times a pair by stage and operation. If wait is not 0, it waits for the device after every
 * stage, so that on a GPU each stage has its own time. Read the result with mast3r_job_report. */
mast3r_status mast3r_submit_profile(mast3r_engine engine, const mast3r_image *image1, const mast3r_image *image2,
                                    const mast3r_infer_options *options, int32_t iterations, int32_t wait,
                                    mast3r_job *out);
/* Counts the work of a pair from its shapes; runs nothing. Read the result with
 * mast3r_job_report. */
mast3r_status mast3r_submit_cost(const mast3r_cost_options *options, mast3r_job *out);
/* Estimates the memory that a call needs; runs nothing. On the CPU a call that does not fit is
 * refused with MAST3R_E_MEMORY before anything is allocated for it. */
mast3r_status mast3r_submit_memory(const mast3r_memory_options *options, mast3r_job *out);
mast3r_status mast3r_job_memory(mast3r_job job, mast3r_memory *out);
/* The report of a finished job as a JSON object; see mast3r_engine_metadata. */
mast3r_status mast3r_job_report(mast3r_job job, char *buffer, size_t capacity, size_t *needed);

/* Progress in bytes. total is 0 for jobs that do not report progress. */
mast3r_status mast3r_job_progress(mast3r_job job, mast3r_progress *out);
/* The files that a finished job wrote, as a JSON array of paths; see mast3r_engine_metadata. */
mast3r_status mast3r_job_files(mast3r_job job, char *buffer, size_t capacity, size_t *needed);
/* Waits at most this many milliseconds (negative: without limit). Returns MAST3R_PENDING, or
 * the status of the finished job. */
mast3r_status mast3r_job_wait(mast3r_job job, int32_t milliseconds);
mast3r_status mast3r_job_cancel(mast3r_job job);
/* Cancels the job if it is running, waits for it, and frees results that were not taken. */
mast3r_status mast3r_job_free(mast3r_job job);

/* ---- results ---------------------------------------------------------- */

/* The number of results of a finished job: 1 for a pair, count - 1 for a sequence, count / 2 for
 * a batch, count for encode and retrieval. */
mast3r_status mast3r_job_results(mast3r_job job, size_t *count);
/* Takes a result. Its tensors belong to the caller and must each be released. */
mast3r_status mast3r_job_take_result(mast3r_job job, size_t index, mast3r_result *out);
/* Takes a view of mast3r_submit_views. */
mast3r_status mast3r_job_take_view(mast3r_job job, size_t index, mast3r_scene_view *out);
/* Writes at most capacity windows of mast3r_submit_views; *count is their number. timing may be NULL. */
mast3r_status mast3r_job_windows(mast3r_job job, mast3r_window *out, size_t capacity, size_t *count,
                                 mast3r_timing *timing);
mast3r_status mast3r_job_take_matches(mast3r_job job, mast3r_matches *out);
mast3r_status mast3r_job_take_refined(mast3r_job job, mast3r_refined *out);
mast3r_status mast3r_job_take_pose(mast3r_job job, mast3r_pose *out);
mast3r_status mast3r_job_take_encoded(mast3r_job job, size_t index, mast3r_encoded *out);
mast3r_status mast3r_job_take_retrieval(mast3r_job job, size_t index, mast3r_retrieval *out);
/* Takes the index of mast3r_submit_index_open. */
mast3r_status mast3r_job_take_index(mast3r_job job, mast3r_index *out);
/* Takes the scores of mast3r_submit_index_score: f32 [pictures, length of the index]. */
mast3r_status mast3r_job_take_scores(mast3r_job job, mast3r_tensor *out);

/* ---- indexes ---------------------------------------------------------- */

/* Opens an empty index over a codebook. It uses the nfeat features of each picture that have the
 * largest attention; a negative nfeat is a fraction of all features, -1 is all. */
mast3r_status mast3r_submit_index_open(mast3r_engine engine, const char *codebook, double nfeat, mast3r_job *out);
mast3r_status mast3r_submit_index_add(mast3r_index index, const mast3r_local_features *pictures, size_t count,
                                      mast3r_job *out);
mast3r_status mast3r_submit_index_score(mast3r_index index, const mast3r_local_features *pictures, size_t count,
                                        mast3r_job *out);
/* The pictures of an index from number first on as a safetensors file, a thirtieth of their features in
 * size; and those of such a file behind the ones that are there, as if they had been added one by one.
 * Both indexes must be of the same codebook and nfeat. */
mast3r_status mast3r_submit_index_write(mast3r_index index, uint64_t first, const char *path, mast3r_job *out);
mast3r_status mast3r_submit_index_merge(mast3r_index index, const char *path, mast3r_job *out);
mast3r_status mast3r_index_length(mast3r_index index, uint64_t *out);
/* Closing the engine makes its indexes unusable; each must still be closed once. */
mast3r_status mast3r_index_close(mast3r_index index);

/* The pairs of n pictures in a scene graph, as i64 [pairs, 2]. Graphs: complete,
 * swin[-w][-noncyclic], logwin[-w][-noncyclic], oneref[-r], retrieval-Na-k.
 * options may be NULL. */
mast3r_status mast3r_scene_pairs(int32_t n, const char *graph, const mast3r_scene_options *options,
                                 mast3r_tensor *out);

/* ---- tensors ---------------------------------------------------------- */

mast3r_status mast3r_tensor_describe(mast3r_tensor tensor, mast3r_tensor_desc *out);
/* Host memory, owned by the tensor until it is released; NULL for an empty tensor.
 * A tensor in device memory is brought to the host by the first call. */
mast3r_status mast3r_tensor_data(mast3r_tensor tensor, void **out);
/* The same for several tensors. A handle of 0, an output that was not computed, gives NULL. */
mast3r_status mast3r_tensors_data(const mast3r_tensor *tensors, size_t count, void **out);
/* nbytes must be the size of the tensor. */
mast3r_status mast3r_tensor_copy(mast3r_tensor tensor, void *destination, size_t nbytes);
/* The memory where a result was computed, without a copy to the host. kind is DLPack's number:
 * 1 host, 2 CUDA. device is the number of the GPU. The address is valid until the tensor is
 * released, and NULL for an empty tensor. */
mast3r_status mast3r_tensor_device(mast3r_tensor tensor, int32_t *kind, int32_t *device, void **address);
mast3r_status mast3r_tensor_release(mast3r_tensor tensor);

/* ---- eager tensors ----------------------------------------------------- */

/* Matrices, layers and their gradients on a GPU or the CPU. The calls above describe, copy
 * and release the tensors of a context. They have no host memory: mast3r_tensor_data is an
 * error for them. */
mast3r_status mast3r_tensor_open(const mast3r_tensor_config *config, mast3r_tensor_context *out);
/* Closes a context. Its tensors can still be copied to the host until they are released. */
mast3r_status mast3r_tensor_close(mast3r_tensor_context context);
mast3r_status mast3r_tensor_info(mast3r_tensor_context context, mast3r_tensor_stats *out);
/* commit sends the collected operations to the device. sync also waits for them, as does a
 * copy to the host. cleanup also frees compiled operations and pooled memory. */
mast3r_status mast3r_tensor_commit(mast3r_tensor_context context);
mast3r_status mast3r_tensor_sync(mast3r_tensor_context context);
mast3r_status mast3r_tensor_cleanup(mast3r_tensor_context context);
/* A command buffer holds the operations of a context between begin and commit. A context has one
 * at a time; begin first sends the operations collected before. commit does not wait. wait waits
 * for these operations, not for later ones; a second wait returns the same status, and a wait
 * before commit is an error. Each must be released once; release commits it if nothing else did. */
mast3r_status mast3r_commands_begin(mast3r_tensor_context context, mast3r_commands *out);
mast3r_status mast3r_commands_commit(mast3r_commands commands);
mast3r_status mast3r_commands_wait(mast3r_commands commands);
mast3r_status mast3r_commands_release(mast3r_commands commands);
/* The same as mast3r_pool_info, mast3r_pool_configure and mast3r_pool_pressure, for tensors. */
mast3r_status mast3r_tensor_pool_info(mast3r_tensor_context context, mast3r_pool *out);
mast3r_status mast3r_tensor_pool_configure(mast3r_tensor_context context, int32_t per_size, uint64_t limit_bytes);
mast3r_status mast3r_tensor_pool_pressure(mast3r_tensor_context context, int32_t critical, uint64_t *freed);
/* Copies nbytes of f32, f16 or i32 elements; data NULL: zeros. */
mast3r_status mast3r_tensor_from_host(mast3r_tensor_context context, int32_t dtype, int32_t ndim, const int64_t *shape,
                                      const void *data, size_t nbytes, mast3r_tensor *out);
/* Makes a tensor whose elements are unspecified until an operation writes them. */
mast3r_status mast3r_tensor_empty(mast3r_tensor_context context, int32_t dtype, int32_t ndim, const int64_t *shape,
                                  mast3r_tensor *out);
/* The signatures of all operations, as a JSON array of strings; see mast3r_engine_metadata. */
mast3r_status mast3r_tensor_operations(char *buffer, size_t capacity, size_t *needed);
/* Runs an operation by name. It is the call that is made most often and takes one argument: whoever
 * calls often keeps the struct and changes what differs. */
mast3r_status mast3r_tensor_apply(mast3r_tensor_call *call);

/* ---- executor ---------------------------------------------------------- */

/* One input by its name: float32 on the host, row-major. */
typedef struct {
  uint32_t size;
  int32_t ndim;
  const char *name;
  const float *data;
  int64_t shape[MAST3R_MAX_DIMS];
} mast3r_input;

/* Runs graphs of a few operations. An operation runs on the GPU if there is one and its operands
 * are large enough, otherwise on the CPU. Calls on one executor run one at a time. */
mast3r_status mast3r_executor_open(int32_t threads, mast3r_executor *out);
mast3r_status mast3r_executor_close(mast3r_executor executor);
/* graph is JSON:
 *   {"nodes": [{"name": "h", "op": "MatMul", "operands": ["x", "w"]},
 *              {"name": "y", "op": "LayerNorm", "operands": ["h", "g", "b"], "eps": 1e-5}],
 *    "outputs": ["y"], "optimize": true}
 * docs/tensor.md has the operations. An operand that names no node is an input. optimize
 * joins a product with the operation after it. The results are float32 on the host, in the order of outputs. */
mast3r_status mast3r_executor_run(mast3r_executor executor, const char *graph, const mast3r_input *inputs, size_t count,
                                  mast3r_tensor *results, size_t capacity, size_t *produced);
/* A JSON object: "cpu" and "gpu" count the operations that ran there, "fallbacks" counts by reason
 * the operations for the GPU that ran on the CPU, "thresholds" are those of configure. See
 * mast3r_engine_metadata. */
mast3r_status mast3r_executor_info(mast3r_executor executor, char *buffer, size_t capacity, size_t *needed);
/* thresholds is a JSON object: an operation runs on the GPU if its operands have at least so many
 * elements. It replaces all thresholds; an operation that is not in it stays on the CPU. */
mast3r_status mast3r_executor_configure(mast3r_executor executor, const char *thresholds);
/* Measures products on both devices and sets their thresholds; without a GPU it changes nothing. */
mast3r_status mast3r_executor_calibrate(mast3r_executor executor);

/* ---- buffers ---------------------------------------------------------- */

/* Memory from the engine's pool, visible to host and device. Its contents are unspecified.
 * It stays valid when the engine is closed. */
mast3r_status mast3r_buffer_acquire(mast3r_engine engine, uint64_t nbytes, mast3r_buffer *out);
/* Either pointer may be NULL. */
mast3r_status mast3r_buffer_contents(mast3r_buffer buffer, void **out, uint64_t *length);
/* The MTLBuffer, or NULL if the device is not Metal. It is valid until the buffer is released. */
mast3r_status mast3r_buffer_native(mast3r_buffer buffer, void **out);
mast3r_status mast3r_buffer_release(mast3r_buffer buffer); /* back to the pool */
/* Puts buffers of these sizes into the pool. */
mast3r_status mast3r_pool_warmup(mast3r_engine engine, const uint64_t *sizes, size_t count);
mast3r_status mast3r_pool_info(mast3r_engine engine, mast3r_pool *out);
/* per_size 0: the usual number; limit_bytes 0: no limit. Free buffers beyond them are freed at once. */
mast3r_status mast3r_pool_configure(mast3r_engine engine, int32_t per_size, uint64_t limit_bytes);
/* For a program that is told to save memory: frees half of the pooled memory, or all of it if
 * critical is not 0. freed is the number of buffers; it may be NULL. */
mast3r_status mast3r_pool_pressure(mast3r_engine engine, int32_t critical, uint64_t *freed);

#ifdef __cplusplus
}
#endif

#endif /* MAST3R_H */
