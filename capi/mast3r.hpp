/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mast3r.hpp: C++17 classes over mast3r.h. Nothing to compile but your own program;
 * link it with libmast3r_runtime.
 *
 *    mast3r::MPSGraphEngine engine;
 *    engine.load("unified.safetensors");
 *    auto result = engine.infer(left, right);         // mast3r::ImageView each
 *    std::vector<float> points = result.pts3d_1.to_cpu();
 *    auto matches = engine.match(result);
 *
 * Every failure is an exception below mast3r::Error, with the status and the text of
 * the library. Objects are handles that share what they stand for: copies are cheap,
 * and the last one gives it back. A result outlives its engine. Calls may come from
 * any thread; those of one engine take turns.
 */
#ifndef MAST3R_HPP
#define MAST3R_HPP

#include "mast3r.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace mast3r {

/* ---- errors ----------------------------------------------------------- */

class Error : public std::runtime_error {
 public:
  Error(mast3r_status code, const std::string &text) : std::runtime_error(text), code_(code) {}
  mast3r_status code() const noexcept { return code_; }

 private:
  mast3r_status code_;
};

/* One class a status, so that a catch can be as narrow as it likes. */
template <mast3r_status Status>
class StatusError : public Error {
 public:
  explicit StatusError(const std::string &text) : Error(Status, text) {}
};
/* begin: Code generated from capi/mast3r.h by go test ./tools/bindings -update. DO NOT EDIT. */
using ArgumentError = StatusError<MAST3R_E_ARGUMENT>;
using AbiError = StatusError<MAST3R_E_ABI>;
using HandleError = StatusError<MAST3R_E_HANDLE>;
using ClosedError = StatusError<MAST3R_E_CLOSED>;
using NotLoadedError = StatusError<MAST3R_E_NOT_LOADED>;
using CancelledError = StatusError<MAST3R_E_CANCELLED>;
using WeightsError = StatusError<MAST3R_E_WEIGHTS>;
using ImageError = StatusError<MAST3R_E_IMAGE>;
using ShapeError = StatusError<MAST3R_E_SHAPE>;
using DeviceError = StatusError<MAST3R_E_DEVICE>;
using NotFoundError = StatusError<MAST3R_E_NOT_FOUND>;
using ForkError = StatusError<MAST3R_E_FORKED>;
using InternalError = StatusError<MAST3R_E_INTERNAL>;
using FileError = StatusError<MAST3R_E_FILE>;
using MemoryError = StatusError<MAST3R_E_MEMORY>;
using UnsupportedError = StatusError<MAST3R_E_UNSUPPORTED>;

/* Throws what belongs to a status; MAST3R_OK and MAST3R_PENDING pass. */
inline mast3r_status check(mast3r_status status) {
  if (status == MAST3R_OK || status == MAST3R_PENDING) return status;
  const std::string text = mast3r_last_error();
  switch (status) {
  case MAST3R_E_ARGUMENT: throw ArgumentError(text);
  case MAST3R_E_ABI: throw AbiError(text);
  case MAST3R_E_HANDLE: throw HandleError(text);
  case MAST3R_E_CLOSED: throw ClosedError(text);
  case MAST3R_E_NOT_LOADED: throw NotLoadedError(text);
  case MAST3R_E_CANCELLED: throw CancelledError(text);
  case MAST3R_E_WEIGHTS: throw WeightsError(text);
  case MAST3R_E_IMAGE: throw ImageError(text);
  case MAST3R_E_SHAPE: throw ShapeError(text);
  case MAST3R_E_DEVICE: throw DeviceError(text);
  case MAST3R_E_NOT_FOUND: throw NotFoundError(text);
  case MAST3R_E_FORKED: throw ForkError(text);
  case MAST3R_E_INTERNAL: throw InternalError(text);
  case MAST3R_E_FILE: throw FileError(text);
  case MAST3R_E_MEMORY: throw MemoryError(text);
  case MAST3R_E_UNSUPPORTED: throw UnsupportedError(text);
  default: throw Error(status, text.empty() ? mast3r_status_name(status) : text);
  }
}
/* end of the generated part */

/* The time of a Limit was up. */
class TimeLimitError : public Error {
 public:
  explicit TimeLimitError(const std::string &text) : Error(MAST3R_E_CANCELLED, text) {}
};

/* Ends the calls of the Limits that were given it, from any thread. Copies are one token. */
class CancelToken {
 public:
  void cancel() noexcept { flag_->store(true); }
  bool cancelled() const noexcept { return flag_->load(); }

 private:
  std::shared_ptr<std::atomic<bool>> flag_ = std::make_shared<std::atomic<bool>>(false);
};

/*
 * Bounds the calls of this thread while it lives:
 *
 *    mast3r::Limit limit(std::chrono::seconds(5), token);
 *    auto result = engine.infer(left, right);   // or TimeLimitError, or CancelledError
 *
 * Of several, all count. An engine stays usable after a call was ended.
 */
class Limit {
 public:
  using Clock = std::chrono::steady_clock;
  explicit Limit(Clock::duration timeout) : end_(Clock::now() + timeout) { enter(); }
  explicit Limit(CancelToken token) : token_(std::move(token)), has_token_(true) { enter(); }
  Limit(Clock::duration timeout, CancelToken token)
      : end_(Clock::now() + timeout), token_(std::move(token)), has_token_(true) {
    enter();
  }
  Limit(const Limit &) = delete;
  Limit &operator=(const Limit &) = delete;
  ~Limit() { innermost() = outer_; }

  /* Throws what this thread's limits ask for. */
  static void check() {
    for (const Limit *l = innermost(); l != nullptr; l = l->outer_) {
      if (l->has_token_ && l->token_.cancelled()) throw CancelledError("mast3r: cancelled by its CancelToken");
      if (Clock::now() >= l->end_) throw TimeLimitError("mast3r: the time of a Limit is up");
    }
  }
  static bool any() { return innermost() != nullptr; }

 private:
  static const Limit *&innermost() {
    static thread_local const Limit *limit = nullptr;
    return limit;
  }
  void enter() {
    outer_ = innermost();
    innermost() = this;
  }
  Clock::time_point end_ = Clock::time_point::max();
  CancelToken token_;
  bool has_token_ = false;
  const Limit *outer_ = nullptr;
};

namespace detail {

/* A handle and the call that frees it. An error while freeing is ignored. */
class Handle {
 public:
  using Release = mast3r_status (*)(uint64_t);
  Handle(uint64_t value, Release release) : value_(value), release_(release) {}
  Handle(const Handle &) = delete;
  Handle &operator=(const Handle &) = delete;
  ~Handle() { close(); }
  uint64_t get() const noexcept { return value_; }
  void close() noexcept {
    if (value_ != 0) release_(value_);
    value_ = 0;
  }

 private:
  uint64_t value_;
  Release release_;
};

using Shared = std::shared_ptr<Handle>;

template <class Struct>
Struct sized() {
  Struct s{};
  s.size = sizeof s;
  return s;
}

/* A job from its submit to the results that are taken from it. */
class Job {
 public:
  Job() = default;
  Job(const Job &) = delete;
  Job &operator=(const Job &) = delete;
  ~Job() {
    if (job_ != 0) mast3r_job_free(job_); /* cancels and waits: the caller's memory is free again */
  }
  mast3r_job *out() { return &job_; }
  void wait() {
    if (!Limit::any()) {
      check(mast3r_job_wait(job_, -1));
      return;
    }
    while (check(mast3r_job_wait(job_, 20)) == MAST3R_PENDING) Limit::check(); /* the destructor cancels */
  }
  size_t results() {
    size_t n = 0;
    check(mast3r_job_results(job_, &n));
    return n;
  }
  mast3r_job get() const { return job_; }

 private:
  mast3r_job job_ = 0;
};

template <class... Arguments, class... Given>
std::unique_ptr<Job> run(mast3r_status (*submit)(Arguments...), Given... given) {
  auto job = std::make_unique<Job>();
  check(submit(given..., job->out()));
  job->wait();
  return job;
}

}  // namespace detail

/* ---- values ----------------------------------------------------------- */

struct RuntimeConfig {
  std::string variant = "auto";   /* checked against the file; "auto": whatever it holds */
  int resolution = 0;             /* long side in pixels, 0: the model's own */
  std::string precision = "auto"; /* "fp32", "fp16", "bf16" */
  int num_threads = 0;            /* 0: every core */
  std::string backend = "auto";   /* "cpu", "metal" */
};

/* 8-bit RGB somebody else owns; only read, and only during the call. */
struct ImageView {
  const uint8_t *data = nullptr;
  int height = 0, width = 0;
  int stride = 0; /* bytes between rows, 0: 3 * width */

  ImageView() = default;
  ImageView(const uint8_t *data, int height, int width, int stride = 0)
      : data(data), height(height), width(width), stride(stride) {}

  mast3r_image c() const {
    auto image = detail::sized<mast3r_image>();
    image.height = height, image.width = width, image.stride = stride, image.pixels = data;
    return image;
  }
};

/* A tensor of a result. Copies share the memory. */
class GPUTensor {
 public:
  GPUTensor() = default; /* not valid: an output that was left out */
  explicit GPUTensor(mast3r_tensor handle) {
    if (handle == 0) return;
    handle_ = std::make_shared<detail::Handle>(handle, mast3r_tensor_release);
    auto desc = detail::sized<mast3r_tensor_desc>();
    check(mast3r_tensor_describe(handle, &desc));
    shape_.assign(desc.shape, desc.shape + desc.ndim);
    numel_ = static_cast<size_t>(desc.numel);
    nbytes_ = static_cast<size_t>(desc.nbytes);
    dtype_ = desc.dtype;
  }

  const std::vector<int64_t> &shape() const { return shape_; }
  size_t ndim() const { return shape_.size(); }
  size_t numel() const { return numel_; }
  size_t nbytes() const { return nbytes_; }
  int32_t dtype() const { return dtype_; } /* MAST3R_F32, MAST3R_I64 */
  bool is_valid() const {
    if (!handle_) return false;
    auto desc = detail::sized<mast3r_tensor_desc>();
    check(mast3r_tensor_describe(handle_->get(), &desc));
    return desc.valid != 0;
  }

  mast3r_tensor handle() const { return handle_ ? handle_->get() : 0; } /* stays this object's */
  /* The tensor's own memory on the host, as long as a copy of this object lives. */
  template <class T = float>
  const T *data() const {
    need<T>();
    void *out = nullptr;
    check(mast3r_tensor_data(handle_->get(), &out));
    return static_cast<const T *>(out);
  }
  template <class T = float>
  std::vector<T> to_cpu() const {
    need<T>();
    std::vector<T> out(numel_);
    check(mast3r_tensor_copy(handle_->get(), out.data(), nbytes_));
    return out;
  }
  /* Without an allocation; count must be numel(). */
  template <class T>
  void copy_to(T *out, size_t count) const {
    need<T>();
    check(mast3r_tensor_copy(handle_->get(), out, count * sizeof(T)));
  }

 private:
  static const char *word(int32_t dtype) {
    return dtype == MAST3R_F32   ? "float"
           : dtype == MAST3R_I64 ? "int64_t"
           : dtype == MAST3R_I32 ? "int32_t"
           : dtype == MAST3R_F64 ? "double"
                                 : "of another type";
  }
  template <class T>
  void need() const {
    constexpr int32_t want = std::is_same_v<T, float>     ? MAST3R_F32
                             : std::is_same_v<T, int64_t> ? MAST3R_I64
                             : std::is_same_v<T, int32_t> ? MAST3R_I32
                             : std::is_same_v<T, double>  ? MAST3R_F64
                                                          : 0;
    static_assert(want != 0, "tensors are float, double, int32_t or int64_t");
    if (!handle_) throw ShapeError("mast3r: a tensor that was left out has no values");
    if (dtype_ != want)
      throw ShapeError(std::string("mast3r: the tensor's elements are ") + word(dtype_) + ", want " + word(want));
  }

  detail::Shared handle_;
  std::vector<int64_t> shape_;
  size_t numel_ = 0, nbytes_ = 0;
  int32_t dtype_ = MAST3R_F32;
};

using Transform = mast3r_transform;
using Timing = mast3r_timing;

struct InferenceResult {
  GPUTensor pts3d_1, pts3d_2; /* [H, W, 3], both in camera 1's frame */
  GPUTensor conf_1, conf_2;
  GPUTensor desc_1, desc_2;
  GPUTensor desc_conf_1, desc_conf_2;
  Transform transform_1{}, transform_2{};
  Timing timing{};
};

struct View {
  GPUTensor pts3d, conf, desc, desc_conf;
  Transform transform{};
};

/* view_ij: picture i seen from camera j. */
struct SymmetricResult {
  View view_11, view_21, view_22, view_12;
  Timing timing{};
};

struct MatchResult {
  std::vector<int64_t> idx_1, idx_2; /* y * W + x */
  std::vector<float> pts2d_1, pts2d_2;
  std::vector<float> pts3d_1, pts3d_2;
  std::vector<float> confidence;
  /* With full pictures: [N, 2, 2] of pts2d_2 in squared full pixels; what was moved on them. */
  std::vector<float> covariance;
  std::vector<int32_t> refined;
  /* With judge: whether the pictures overlap, and which matches fit its geometry. */
  mast3r_overlap overlap{};
  std::vector<int32_t> consistent;
  double match_ms = 0;
  size_t size() const { return idx_1.size(); }
};

/* Two cameras, from matched pixels of the pictures as given: X1 = R X2 + t, |t| = 1. */
struct RelativePose {
  bool found = false, turn_only = false;
  std::string reason; /* why there is none */
  std::array<double, 16> pose{};
  std::array<double, 36> covariance{}; /* of a turn after it, radians, and of t */
  std::array<double, 9> intrinsics_1{}, intrinsics_2{};
  double focal_sigma_1 = 0, focal_sigma_2 = 0, rms = 0, angle = 0;
  double length = 0, length_spread = 0; /* of the baseline by depth; 0: not known */
  std::vector<int64_t> inliers;
  std::vector<double> points; /* [inliers, 3] */
};

/* What the encoder made of one picture: to keep, and to decode against any other's. */
struct Features {
  GPUTensor tokens; /* [N, D] */
  Transform transform{};
};

/* One view of a scene, whose world is the first view's camera. Tensors that were not asked for,
 * or that the network has not, are empty. */
struct SceneView {
  GPUTensor depth, conf, points;  /* [H, W], [H, W], [H, W, 3] */
  GPUTensor rays, ray_conf, sky;  /* [h, w, 6], [h, w], [H, W] */
  std::array<double, 16> pose{};  /* world from camera */
  std::array<double, 9> intrinsics{}; /* in network pixels */
  Transform transform{};
};

struct Scene {
  std::vector<SceneView> views;
  std::vector<mast3r_window> windows; /* how the views were looked at */
  Timing timing{};
};

struct ViewsOptions {
  bool preprocess = true;
  int resolution = 0;              /* 0: the engine's */
  bool rays = false;
  int window = 0, overlap = 0;     /* 0: all views at once, or as many as fit; a third */
  std::string reference;           /* "": "saddle_balanced" */
  std::vector<double> poses, intrinsics; /* known cameras, [N, 4, 4] and [N, 3, 3], or none */
};

struct RetrievalResult {
  GPUTensor features, attention, global;
  double total_ms = 0;
};

struct InferOptions {
  bool preprocess = true; /* false: the pictures have the network's size already */
  bool square_ok = true;  /* false: squares are cut to 4:3 */
  int resolution = 0;     /* 0: the engine's */
  int only = 0;           /* MAST3R_POINTS | ...; 0: all */

  mast3r_infer_options c() const {
    auto o = detail::sized<mast3r_infer_options>();
    o.raw = !preprocess, o.rectangle_43 = !square_ok, o.resolution = resolution, o.only = only;
    return o;
  }
};

struct MatchOptions {
  int top_k = 0; /* 0: all */
  bool reciprocal = true;
  float confidence_threshold = 0;
  int subsample = 1, border = 0;
  bool both_ways = false, spread = false, subpixel = false, judge = false;
  float min_weight = 0; /* leave out pixels of less desc_conf */
  const ImageView *image_1 = nullptr, *image_2 = nullptr; /* the full pictures: refine */

  /* What serves most: from every 8th pixel of both pictures at a long side of 512, sure, all over
   * the picture, between pixels, refined where the pictures are given, judged. */
  static MatchOptions best(const InferenceResult &result, const ImageView *one = nullptr,
                           const ImageView *two = nullptr) {
    MatchOptions o;
    o.top_k = 512, o.confidence_threshold = 0.5f, o.min_weight = 1.001f;
    o.subsample = std::max(1, std::max(result.transform_1.height, result.transform_1.width) / 64);
    o.both_ways = o.spread = o.subpixel = o.judge = true;
    o.image_1 = one, o.image_2 = two;
    return o;
  }
};

/* ---- buffers ---------------------------------------------------------- */

/* Memory from a pool, given back to it at the end of its life. Moves, never copies. */
class PooledBuffer {
 public:
  explicit PooledBuffer(mast3r_buffer handle)
      : handle_(std::make_unique<detail::Handle>(handle, mast3r_buffer_release)) {}
  void *contents() const {
    void *out = nullptr;
    check(mast3r_buffer_contents(handle_->get(), &out, nullptr));
    return out;
  }
  size_t length() const {
    uint64_t n = 0;
    check(mast3r_buffer_contents(handle_->get(), nullptr, &n));
    return static_cast<size_t>(n);
  }
  /* The MTLBuffer, NULL where the device is not Metal. */
  void *native() const {
    void *out = nullptr;
    check(mast3r_buffer_native(handle_->get(), &out));
    return out;
  }
  void release() { handle_->close(); }

 private:
  std::unique_ptr<detail::Handle> handle_;
};

/* The buffers that a context keeps for reuse. */
class BufferPool {
 public:
  explicit BufferPool(detail::Shared engine) : engine_(std::move(engine)) {}
  PooledBuffer acquire(size_t nbytes) const {
    mast3r_buffer out = 0;
    check(mast3r_buffer_acquire(engine_->get(), nbytes, &out));
    return PooledBuffer(out);
  }
  void warmup(const std::vector<uint64_t> &sizes) const {
    check(mast3r_pool_warmup(engine_->get(), sizes.data(), sizes.size()));
  }
  mast3r_pool stats() const {
    auto out = detail::sized<mast3r_pool>();
    check(mast3r_pool_info(engine_->get(), &out));
    return out;
  }
  size_t count() const { return static_cast<size_t>(stats().pooled_buffers); }
  size_t bytes() const { return static_cast<size_t>(stats().pooled_bytes); }
  /* per_size 0: the usual number of free buffers of one size; limit_bytes 0: no limit. */
  void configure(int per_size, uint64_t limit_bytes) const {
    check(mast3r_pool_configure(engine_->get(), per_size, limit_bytes));
  }
  /* Half of the kept memory goes back, all of it when the need is critical. */
  size_t memory_pressure(bool critical = false) const {
    uint64_t freed = 0;
    check(mast3r_pool_pressure(engine_->get(), critical, &freed));
    return static_cast<size_t>(freed);
  }
  void clear() const { check(mast3r_engine_trim(engine_->get())); }

 private:
  detail::Shared engine_;
};

/* ---- context ---------------------------------------------------------- */

/* A device and its buffers. Copies are the same context. */
class MPSGraphContext {
 public:
  /* The process's own, opened by the first call. */
  static MPSGraphContext shared() {
    static const MPSGraphContext context = create();
    return context;
  }
  /* One that shares nothing with any other. */
  static MPSGraphContext create(const RuntimeConfig &config = {}) {
    auto c = detail::sized<mast3r_config>();
    c.resolution = config.resolution, c.threads = config.num_threads;
    c.variant = config.variant.c_str(), c.precision = config.precision.c_str();
    c.backend = config.backend.c_str();
    mast3r_engine out = 0;
    check(mast3r_engine_create(&c, &out));
    return MPSGraphContext(std::make_shared<detail::Handle>(out, mast3r_engine_close));
  }

  mast3r_info info() const {
    auto out = detail::sized<mast3r_info>();
    check(mast3r_engine_info(engine_->get(), &out));
    return out;
  }
  std::string device_name() const { return info().device; }
  std::string backend() const { return info().backend; }
  uint64_t recommended_working_set_size() const { return info().working_set; }
  uint64_t max_buffer_length() const { return info().max_buffer; }
  /* The MTLDevice and the MTLCommandQueue, NULL where the device is not Metal. */
  std::pair<void *, void *> native() const {
    std::pair<void *, void *> out{};
    check(mast3r_engine_native(engine_->get(), &out.first, &out.second));
    return out;
  }
  BufferPool buffer_pool() const { return BufferPool(engine_); }
  void synchronize() const { check(mast3r_engine_synchronize(engine_->get())); }
  void clear_buffer_pool() const { buffer_pool().clear(); }
  mast3r_engine c() const { return engine_->get(); }

 private:
  friend class MPSGraphEngine;
  explicit MPSGraphContext(detail::Shared engine) : engine_(std::move(engine)) {}
  detail::Shared engine_;
};

/* ---- engine ----------------------------------------------------------- */

class MPSGraphEngine {
 public:
  /* A context of its own. */
  explicit MPSGraphEngine(const RuntimeConfig &config = {}) : context_(MPSGraphContext::create(config)) {}
  /* In a context; its model is the context's. */
  explicit MPSGraphEngine(MPSGraphContext context) : context_(std::move(context)) {}

  const MPSGraphContext &context() const { return context_; }
  std::string name() const { return context_.info().name; }
  bool is_ready() const { return context_.info().ready != 0; }
  void load(const std::string &path) { detail::run(mast3r_submit_load, c(), path.c_str()); }
  void warmup(int iterations = 3) { detail::run(mast3r_submit_warmup, c(), static_cast<int32_t>(iterations)); }
  /* Frees the model and the device memory; results stay valid. */
  void close() { context_.engine_->close(); }

  InferenceResult infer(const ImageView &image1, const ImageView &image2, const InferOptions &options = {}) {
    const auto a = image1.c(), b = image2.c();
    const auto o = options.c();
    auto job = detail::run(mast3r_submit_infer, c(), &a, &b, &o);
    return pair(job->get(), 0);
  }
  /* Pairs (i, i+1); every picture is encoded once. */
  std::vector<InferenceResult> infer_batch(const std::vector<ImageView> &images, const InferOptions &options = {}) {
    const auto list = array(images);
    const auto o = options.c();
    auto job = detail::run(mast3r_submit_sequence, c(), list.data(), list.size(), &o);
    std::vector<InferenceResult> out;
    for (size_t i = 0, n = job->results(); i < n; i++) out.push_back(pair(job->get(), i));
    return out;
  }
  /* The pairs (0, 1), (2, 3), ... of an even number of pictures, each as infer gives it. */
  std::vector<InferenceResult> infer_pairs(const std::vector<ImageView> &images, const InferOptions &options = {}) {
    const auto list = array(images);
    const auto o = options.c();
    auto job = detail::run(mast3r_submit_batch, c(), list.data(), list.size(), &o);
    std::vector<InferenceResult> out;
    for (size_t i = 0, n = job->results(); i < n; i++) out.push_back(pair(job->get(), i));
    return out;
  }
  SymmetricResult infer_symmetric(const ImageView &image1, const ImageView &image2, const InferOptions &options = {}) {
    const auto a = image1.c(), b = image2.c();
    const auto o = options.c();
    auto job = detail::run(mast3r_submit_symmetric, c(), &a, &b, &o);
    auto r = detail::sized<mast3r_result>();
    check(mast3r_job_take_result(job->get(), 0, &r));
    SymmetricResult out;
    out.view_11 = view(r.view[0]), out.view_21 = view(r.view[1]);
    out.view_22 = view(r.view[2]), out.view_12 = view(r.view[3]);
    out.timing = r.timing;
    return out;
  }

  /* Depth, points and cameras of one to many pictures, with a network of many views. */
  Scene infer_views(const std::vector<ImageView> &images, const ViewsOptions &options = {}) {
    const auto list = array(images);
    auto o = detail::sized<mast3r_views_options>();
    o.raw = !options.preprocess, o.resolution = options.resolution, o.rays = options.rays;
    o.window = options.window, o.overlap = options.overlap;
    if (!options.reference.empty()) o.reference = options.reference.c_str();
    if (!options.poses.empty() || !options.intrinsics.empty()) {
      if (options.poses.size() != 16 * list.size() || options.intrinsics.size() != 9 * list.size())
        throw ShapeError("mast3r: poses and intrinsics, want 16 and 9 numbers for each picture");
      o.poses = options.poses.data(), o.intrinsics = options.intrinsics.data();
    }
    auto job = detail::run(mast3r_submit_views, c(), list.data(), list.size(), &o);
    Scene out;
    for (size_t i = 0; i < list.size(); i++) {
      auto v = detail::sized<mast3r_scene_view>();
      check(mast3r_job_take_view(job->get(), i, &v));
      SceneView s{GPUTensor(v.depth), GPUTensor(v.conf), GPUTensor(v.points), GPUTensor(v.rays), GPUTensor(v.ray_conf),
                  GPUTensor(v.sky), {}, {}, v.transform};
      std::copy(v.pose, v.pose + 16, s.pose.begin());
      std::copy(v.intrinsics, v.intrinsics + 9, s.intrinsics.begin());
      out.views.push_back(std::move(s));
    }
    size_t count = 0;
    check(mast3r_job_windows(job->get(), nullptr, 0, &count, nullptr));
    out.windows.assign(count, detail::sized<mast3r_window>());
    check(mast3r_job_windows(job->get(), out.windows.data(), count, &count, &out.timing));
    return out;
  }

  Features encode(const ImageView &image, const InferOptions &options = {}) {
    const auto a = image.c();
    const auto o = options.c();
    auto job = detail::run(mast3r_submit_encode, c(), &a, size_t{1}, &o);
    auto e = detail::sized<mast3r_encoded>();
    check(mast3r_job_take_encoded(job->get(), 0, &e));
    return {GPUTensor(e.tokens), e.transform};
  }
  InferenceResult decode(const Features &first, const Features &second, const InferOptions &options = {}) {
    mast3r_features in[2] = {detail::sized<mast3r_features>(), detail::sized<mast3r_features>()};
    const Features *given[2] = {&first, &second};
    for (int i = 0; i < 2; i++) {
      in[i].tokens = given[i]->tokens.data(), in[i].count = given[i]->tokens.numel();
      in[i].transform = given[i]->transform;
    }
    const auto o = options.c();
    auto job = detail::run(mast3r_submit_decode, c(), &in[0], &in[1], &o);
    return pair(job->get(), 0);
  }

  MatchResult match(const InferenceResult &result, const MatchOptions &options = {}) {
    auto one = map(result.desc_1, result.pts3d_1), two = map(result.desc_2, result.pts3d_2);
    if (options.min_weight > 0) one.weight = result.desc_conf_1.data(), two.weight = result.desc_conf_2.data();
    auto o = detail::sized<mast3r_match_options>();
    o.top_k = options.top_k, o.reciprocal = options.reciprocal;
    o.min_confidence = options.confidence_threshold;
    o.subsample = options.subsample, o.border = options.border;
    o.both_ways = options.both_ways, o.spread = options.spread, o.subpixel = options.subpixel;
    o.judge = options.judge, o.min_weight = options.min_weight;
    mast3r_image full[2];
    if (options.image_1 && options.image_2) {
      full[0] = options.image_1->c(), full[1] = options.image_2->c();
      o.image1 = &full[0], o.image2 = &full[1];
      o.transform1 = result.transform_1, o.transform2 = result.transform_2;
    }
    auto job = detail::run(mast3r_submit_match, c(), &one, &two, &o);
    auto m = detail::sized<mast3r_matches>();
    check(mast3r_job_take_matches(job->get(), &m));
    /* each is a tensor before any can throw */
    const GPUTensor i1(m.index1), i2(m.index2), p1(m.pixel1), p2(m.pixel2), x1(m.points1), x2(m.points2),
        conf(m.confidence);
    MatchResult out;
    out.idx_1 = i1.to_cpu<int64_t>(), out.idx_2 = i2.to_cpu<int64_t>();
    out.pts2d_1 = p1.to_cpu(), out.pts2d_2 = p2.to_cpu();
    out.pts3d_1 = x1.to_cpu(), out.pts3d_2 = x2.to_cpu();
    out.confidence = conf.to_cpu();
    const GPUTensor covariance(m.covariance), refined(m.refined), consistent(m.consistent);
    if (m.refined) out.covariance = covariance.to_cpu(), out.refined = refined.to_cpu<int32_t>();
    if (m.consistent) out.consistent = consistent.to_cpu<int32_t>(), out.overlap = m.overlap;
    out.match_ms = m.match_ms;
    return out;
  }

  void load_retrieval(const std::string &path) {
    detail::run(mast3r_submit_load_retrieval, c(), static_cast<const char *>(nullptr), path.c_str());
  }
  void load_retrieval_standalone(const std::string &model, const std::string &path) {
    detail::run(mast3r_submit_load_retrieval, c(), model.c_str(), path.c_str());
  }
  bool is_retrieval_ready() const { return retrieval_state().first; }
  bool is_retrieval_standalone() const { return retrieval_state().second; }
  RetrievalResult encode_retrieval(const ImageView &image, const InferOptions &options = {}) {
    return encode_retrieval_batch({image}, options).front();
  }
  std::vector<RetrievalResult> encode_retrieval_batch(const std::vector<ImageView> &images,
                                                      const InferOptions &options = {}) {
    const auto list = array(images);
    const auto o = options.c();
    auto job = detail::run(mast3r_submit_retrieval, c(), list.data(), list.size(), &o);
    std::vector<RetrievalResult> out;
    for (size_t i = 0, n = job->results(); i < n; i++) {
      auto r = detail::sized<mast3r_retrieval>();
      check(mast3r_job_take_retrieval(job->get(), i, &r));
      RetrievalResult one;
      one.features = GPUTensor(r.features), one.attention = GPUTensor(r.attention);
      one.global = GPUTensor(r.global), one.total_ms = r.total_ms;
      out.push_back(std::move(one));
    }
    return out;
  }

  /* half: 1 stores the weights as float16, 2 rounds the factors of products too. */
  void export_onnx(const std::string &path, int height = 0, int width = 0, int half = 0, int opset = 20) {
    auto o = detail::sized<mast3r_export_options>();
    o.height1 = height, o.width1 = width, o.half = half, o.opset = opset;
    detail::run(mast3r_submit_export, c(), path.c_str(), &o);
  }

  mast3r_engine c() const { return context_.c(); }

 private:
  std::pair<bool, bool> retrieval_state() const {
    int32_t ready = 0, standalone = 0;
    check(mast3r_engine_retrieval(c(), &ready, &standalone));
    return {ready != 0, standalone != 0};
  }
  static std::vector<mast3r_image> array(const std::vector<ImageView> &images) {
    std::vector<mast3r_image> out;
    for (const auto &image : images) out.push_back(image.c());
    return out;
  }
  static View view(const mast3r_view &v) {
    View out;
    out.pts3d = GPUTensor(v.points), out.conf = GPUTensor(v.conf);
    out.desc = GPUTensor(v.desc), out.desc_conf = GPUTensor(v.desc_conf);
    out.transform = v.transform;
    return out;
  }
  static InferenceResult pair(mast3r_job job, size_t index) {
    auto r = detail::sized<mast3r_result>();
    check(mast3r_job_take_result(job, index, &r));
    const View one = view(r.view[0]), two = view(r.view[1]);
    InferenceResult out;
    out.pts3d_1 = one.pts3d, out.pts3d_2 = two.pts3d;
    out.conf_1 = one.conf, out.conf_2 = two.conf;
    out.desc_1 = one.desc, out.desc_2 = two.desc;
    out.desc_conf_1 = one.desc_conf, out.desc_conf_2 = two.desc_conf;
    out.transform_1 = one.transform, out.transform_2 = two.transform;
    out.timing = r.timing;
    return out;
  }
  static mast3r_map map(const GPUTensor &desc, const GPUTensor &points) {
    if (desc.ndim() != 3) throw ShapeError("mast3r: match needs a result with descriptors");
    auto m = detail::sized<mast3r_map>();
    m.height = static_cast<int32_t>(desc.shape()[0]);
    m.width = static_cast<int32_t>(desc.shape()[1]);
    m.dim = static_cast<int32_t>(desc.shape()[2]);
    m.tensor = desc.handle();
    if (points.ndim() != 0) m.points = points.data();
    return m;
  }

  MPSGraphContext context_;
};

/* What a call needs at its peak; options: its size is set here. */
inline mast3r_memory estimate_memory(mast3r_memory_options options) {
  options.size = sizeof options;
  auto job = detail::run(mast3r_submit_memory, &options);
  auto out = detail::sized<mast3r_memory>();
  check(mast3r_job_memory(job->get(), &out));
  return out;
}

/* The cameras of matched pixels [N, 2], x and y; options: its size and places are set here. */
inline RelativePose relative_pose(const std::vector<double> &xy_1, const std::vector<double> &xy_2,
                                  mast3r_pose_options options) {
  if (xy_1.size() != xy_2.size() || xy_1.size() % 2) throw ShapeError("mast3r: relative_pose wants two of [N, 2]");
  options.size = sizeof options;
  auto places = detail::sized<mast3r_places>();
  places.count = xy_1.size() / 2, places.pixel1 = xy_1.data(), places.pixel2 = xy_2.data();
  auto job = detail::run(mast3r_submit_pose, &places, &options);
  auto p = detail::sized<mast3r_pose>();
  check(mast3r_job_take_pose(job->get(), &p));
  const GPUTensor inliers(p.inliers), points(p.points);
  RelativePose out;
  out.found = p.found, out.turn_only = p.turn_only, out.reason = p.reason;
  std::copy(p.pose, p.pose + 16, out.pose.begin());
  std::copy(p.covariance, p.covariance + 36, out.covariance.begin());
  std::copy(p.intrinsics1, p.intrinsics1 + 9, out.intrinsics_1.begin());
  std::copy(p.intrinsics2, p.intrinsics2 + 9, out.intrinsics_2.begin());
  out.focal_sigma_1 = p.focal_sigma1, out.focal_sigma_2 = p.focal_sigma2;
  out.rms = p.rms, out.angle = p.angle, out.length = p.length, out.length_spread = p.length_spread;
  out.inliers = inliers.to_cpu<int64_t>(), out.points = points.to_cpu<double>();
  return out;
}

}  // namespace mast3r

#endif /* MAST3R_HPP */
