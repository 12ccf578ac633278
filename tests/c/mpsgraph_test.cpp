/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The original's C++ by its own names: mpsgraph_test MODEL.safetensors, on the device that
 * MAST3R_BACKEND names. One line a failed check, exit 1.
 */
#include "mast3r_mpsgraph.hpp"

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>

using namespace mast3r::mpsgraph;

static int passed, failed;
#define CHECK(...) \
  ((__VA_ARGS__) ? (void)passed++ : (void)(failed++, std::printf("line %d: %s\n", __LINE__, #__VA_ARGS__)))

static const char *backend() {
  const char *name = std::getenv("MAST3R_BACKEND");
  return name != nullptr ? name : "auto";
}
static const bool metal = std::strcmp(backend(), "metal") == 0;

static void test_engine(const char *model, const RuntimeConfig &config) {
  const size_t height = 48, width = 64;
  std::vector<uint8_t> left(height * width * 3), right(left.size());
  for (size_t i = 0; i < left.size(); i++) left[i] = uint8_t(i * 31 % 251), right[i] = uint8_t(i * 17 % 241);
  MPSGraphEngine engine(config);
  engine.load(model);
  engine.warmup(1);
  ImageView one{left.data(), height, width, 3};
  ImageView two{right.data(), 48, 64, 3};
  GPUInferenceResult result = engine.infer_gpu(one, two);
  CHECK(result.pts3d_1.shape() == std::vector<int64_t>({48, 64, 3}) && result.pts3d_1.is_valid());
  CHECK(result.conf_2.numel() == 48 * 64 && result.desc_1.nbytes() == 48 * 64 * 24 * 4);
  float *points = result.pts3d_1.to_cpu();
  std::vector<float> copy(result.pts3d_1.numel());
  result.pts3d_1.copy_to(copy.data());
  CHECK(std::memcmp(points, copy.data(), result.pts3d_1.nbytes()) == 0 && std::isfinite(points[0]));
  CHECK(result.pts3d_1.to_cpu() == points && result.timing.total_ms > 0);
  const GPUTensor other = result.pts3d_1;
  result = {}; /* the copy keeps the memory */
  CHECK(other.to_cpu() == points && points[5] == copy[5]);
  CHECK(engine.infer_batch_pipelined({one, two, one}).size() == 2);
  const auto plain = engine.engine().infer({left.data(), 48, 64}, {right.data(), 48, 64});
  CHECK(plain.pts3d_1.to_cpu() == copy);
  try {
    (void)ImageView(left.data(), 48, 64, 4);
    CHECK(!"four channels are no picture");
  } catch (const mast3r::ArgumentError &error) {
    CHECK(std::strstr(error.what(), "4 channels") != nullptr);
  }
}

static void test_context(const RuntimeConfig &config) {
  CHECK(MPSGraphContext::shared() == MPSGraphContext::shared());
  auto ctx = MPSGraphContext::create(config);
  CHECK(ctx != MPSGraphContext::shared() && !ctx->device_name().empty());
  CHECK((ctx->device() != nullptr) == metal && (ctx->queue() != nullptr) == metal);
  CHECK(ctx->recommended_working_set_size() > 0 && ctx->max_buffer_length() > 0);
  auto &pool = ctx->buffer_pool();
  void *first = pool.acquire(5000);
  std::memset(pool.contents(first), 7, 5000);
  CHECK((first != pool.contents(first)) == metal && pool.stats().in_use_buffers == 1);
  pool.release(first);
  CHECK(pool.stats().in_use_buffers == 0 && pool.acquire(5000) == first);
  pool.release(first);
  for (int known = 0; known < 2; known++) {
    try {
      pool.release(known ? first : &pool);
      CHECK(!"not the pool's");
    } catch (const mast3r::ArgumentError &) {
      passed++;
    }
  }
  {
    PooledBuffer buffer(ctx, 6000);
    CHECK(buffer.buffer() == first && buffer.length() == 6000 && pool.stats().in_use_buffers == 1);
    static_cast<uint8_t *>(buffer.contents())[5999] = 1;
  }
  CHECK(pool.stats().in_use_buffers == 0 && pool.stats().overhead_bytes == 0);
  mast3r::MPSGraphContext plain = mast3r::MPSGraphContext::create(config);
  plain.buffer_pool().configure(2, 1 << 20);
  plain.buffer_pool().warmup({4096, 4096, 4096});
  CHECK(plain.buffer_pool().stats().pooled_buffers == 2 && plain.buffer_pool().stats().limit_bytes == 1 << 20);
  CHECK(plain.buffer_pool().memory_pressure() == 1 && plain.buffer_pool().memory_pressure(true) == 1);
}

int main(int argc, char **argv) {
  if (argc != 2) return 2;
  RuntimeConfig config;
  config.variant = "mast3r_tiny";
  config.resolution = 64;
  config.precision = "fp32";
  config.backend = backend();
  try {
    test_context(config);
    test_engine(argv[1], config);
  } catch (const std::exception &error) {
    std::printf("%s\n", error.what());
    failed++;
  }
  std::printf("%d passed, %d failed on %s\n", passed, failed, backend());
  return failed == 0 ? 0 : 1;
}
