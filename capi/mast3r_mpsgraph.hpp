/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mast3r_mpsgraph.hpp: mast3r.hpp by the names of the original mast3r-runtime, for programs
 * that were written for it.
 *
 *    using namespace mast3r::mpsgraph;
 *    MPSGraphEngine engine(config);
 *    GPUInferenceResult result = engine.infer_gpu(image1, image2);
 *    float *points = result.pts3d_1.to_cpu();
 *
 * What is new belongs to mast3r.hpp; this header adds names and no work. Errors are its
 * exceptions. On a machine without Metal the same program runs on the CPU: device() and
 * queue() are NULL there, and a buffer is its memory.
 */
#ifndef MAST3R_MPSGRAPH_HPP
#define MAST3R_MPSGRAPH_HPP

#include "mast3r.hpp"

#include <map>
#include <mutex>

namespace mast3r {
namespace mpsgraph {

/* Objective-C objects as C++ sees them: (__bridge id<MTLBuffer>)buffer in Objective-C++. */
using NativeObject = void *;

using mast3r::RuntimeConfig;

/* 8-bit RGB somebody else owns; only read, and only during the call. channels is 3. */
struct ImageView {
  const uint8_t *data = nullptr;
  int height = 0, width = 0, channels = 3;

  ImageView() = default;
  template <class Height, class Width>
  ImageView(const uint8_t *data, Height height, Width width, int channels = 3)
      : data(data), height(side(height)), width(side(width)), channels(channels) {
    if (channels != 3)
      throw ArgumentError("mast3r: a picture of " + std::to_string(channels) + " channels, want 3");
  }
  operator mast3r::ImageView() const { return {data, height, width}; }

 private:
  template <class Side>
  static int side(Side v) {
    const int n = static_cast<int>(v);
    if (static_cast<Side>(n) != v || n < 0) throw ArgumentError("mast3r: a picture of " + std::to_string(v) + " pixels");
    return n;
  }
};

/* A tensor of a result. Copies share the memory. */
class GPUTensor {
 public:
  GPUTensor() = default;
  GPUTensor(const mast3r::GPUTensor &tensor) : tensor_(tensor), host_(std::make_shared<Host>()) {} /* NOLINT */

  const std::vector<int64_t> &shape() const { return tensor_.shape(); }
  size_t numel() const { return tensor_.numel(); }
  size_t nbytes() const { return tensor_.nbytes(); }
  bool is_valid() const { return tensor_.is_valid(); }

  /* The elements, copied by the first call. The copy belongs to the tensor: it lives as long
   * as any copy of this object, and nobody frees it. */
  float *to_cpu() const {
    if (!host_) throw ShapeError("mast3r: a tensor that was left out has no values");
    std::lock_guard<std::mutex> lock(host_->mutex);
    if (host_->values.empty()) host_->values = tensor_.to_cpu();
    return host_->values.data();
  }
  /* out has room for numel() elements. */
  void copy_to(float *out) const { tensor_.copy_to(out, tensor_.numel()); }

 private:
  struct Host {
    std::mutex mutex;
    std::vector<float> values;
  };
  mast3r::GPUTensor tensor_;
  std::shared_ptr<Host> host_;
};

struct GPUInferenceResult {
  GPUTensor pts3d_1, pts3d_2; /* [H, W, 3], both in camera 1's frame */
  GPUTensor conf_1, conf_2;
  GPUTensor desc_1, desc_2;
  GPUTensor desc_conf_1, desc_conf_2;
  Timing timing{};

  GPUInferenceResult() = default;
  GPUInferenceResult(const InferenceResult &r) /* NOLINT */
      : pts3d_1(r.pts3d_1), pts3d_2(r.pts3d_2), conf_1(r.conf_1), conf_2(r.conf_2), desc_1(r.desc_1),
        desc_2(r.desc_2), desc_conf_1(r.desc_conf_1), desc_conf_2(r.desc_conf_2), timing(r.timing) {}
};

/* The buffers that a context keeps for reuse. What was acquired and not released goes back
 * with the pool's context. */
class BufferPool {
 public:
  explicit BufferPool(mast3r::BufferPool pool) : pool_(std::move(pool)) {}
  BufferPool(const BufferPool &) = delete;
  BufferPool &operator=(const BufferPool &) = delete;

  /* An MTLBuffer; on the CPU the memory itself. */
  NativeObject acquire(size_t nbytes) {
    auto buffer = pool_.acquire(nbytes);
    const NativeObject key = name(buffer);
    std::lock_guard<std::mutex> lock(mutex_);
    out_.emplace(key, std::move(buffer));
    return key;
  }
  void release(NativeObject buffer) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (out_.erase(buffer) == 0) throw ArgumentError("mast3r: release of a buffer that is not the pool's");
  }
  void *contents(NativeObject buffer) const {
    std::lock_guard<std::mutex> lock(mutex_);
    const auto found = out_.find(buffer);
    if (found == out_.end()) throw ArgumentError("mast3r: contents of a buffer that is not the pool's");
    return found->second.contents();
  }
  mast3r_pool stats() const { return pool_.stats(); }
  void clear() const { pool_.clear(); }

 private:
  friend class PooledBuffer;
  static NativeObject name(const mast3r::PooledBuffer &buffer) {
    const NativeObject native = buffer.native();
    return native != nullptr ? native : buffer.contents();
  }
  mast3r::BufferPool pool_;
  mutable std::mutex mutex_;
  std::map<NativeObject, mast3r::PooledBuffer> out_;
};

/* A device and its buffers, held by shared pointers. */
class MPSGraphContext {
 public:
  using Pointer = std::shared_ptr<MPSGraphContext>;
  /* The process's own, opened by the first call. */
  static Pointer shared() {
    static const Pointer context = std::make_shared<MPSGraphContext>(mast3r::MPSGraphContext::shared());
    return context;
  }
  /* One that shares nothing with any other. */
  static Pointer create(const RuntimeConfig &config = {}) {
    return std::make_shared<MPSGraphContext>(mast3r::MPSGraphContext::create(config));
  }
  explicit MPSGraphContext(mast3r::MPSGraphContext context)
      : context_(std::move(context)), pool_(context_.buffer_pool()) {}

  NativeObject device() const { return context_.native().first; } /* id<MTLDevice> */
  NativeObject queue() const { return context_.native().second; } /* id<MTLCommandQueue> */
  BufferPool &buffer_pool() { return pool_; }
  std::string device_name() const { return context_.device_name(); }
  uint64_t recommended_working_set_size() const { return context_.recommended_working_set_size(); }
  uint64_t max_buffer_length() const { return context_.max_buffer_length(); }
  void synchronize() const { context_.synchronize(); }
  void clear_buffer_pool() const { context_.clear_buffer_pool(); }
  const mast3r::MPSGraphContext &context() const { return context_; }

 private:
  mast3r::MPSGraphContext context_;
  BufferPool pool_;
};

/* A buffer for the length of a block. */
class PooledBuffer {
 public:
  PooledBuffer(const MPSGraphContext::Pointer &context, size_t nbytes)
      : buffer_(context->buffer_pool().pool_.acquire(nbytes)) {}
  NativeObject buffer() const { return BufferPool::name(buffer_); } /* id<MTLBuffer> */
  void *contents() const { return buffer_.contents(); }
  size_t length() const { return buffer_.length(); }

 private:
  mast3r::PooledBuffer buffer_;
};

class MPSGraphEngine {
 public:
  explicit MPSGraphEngine(const RuntimeConfig &config = {}) : engine_(config) {}
  explicit MPSGraphEngine(const MPSGraphContext::Pointer &context) : engine_(context->context()) {}

  void load(const std::string &path) { engine_.load(path); }
  void warmup(int iterations = 3) { engine_.warmup(iterations); }
  bool is_ready() const { return engine_.is_ready(); }
  std::string name() const { return engine_.name(); }
  GPUInferenceResult infer_gpu(const ImageView &image1, const ImageView &image2) {
    return engine_.infer(image1, image2);
  }
  /* Pairs (i, i+1); every picture is encoded once. */
  std::vector<GPUInferenceResult> infer_batch_pipelined(const std::vector<ImageView> &images) {
    const auto pairs = engine_.infer_batch({images.begin(), images.end()});
    return {pairs.begin(), pairs.end()};
  }
  /* Everything that the original has no name for. */
  mast3r::MPSGraphEngine &engine() { return engine_; }

 private:
  mast3r::MPSGraphEngine engine_;
};

}  // namespace mpsgraph
}  // namespace mast3r

#endif /* MAST3R_MPSGRAPH_HPP */
