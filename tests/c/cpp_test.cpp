/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The C++ classes as a program meets them: cpp_test MODEL.safetensors MANY_VIEWS.safetensors
 *
 * One line a failed check, exit 1; nothing else is printed but the closing count.
 */
#include "mast3r_executor.hpp"
#include "mast3r_retrieval.hpp"

#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <thread>

static int passed, failed;
static std::string model, many;

static void check_(bool ok, int line, const char *text) {
  ok ? passed++ : failed++;
  if (!ok) std::printf("line %d: %s\n", line, text);
}
#define CHECK(...) check_((__VA_ARGS__), __LINE__, #__VA_ARGS__)

/* The call throws just this, with a word in its text and the status of its class. */
template <class Kind, class Call>
static bool throws(const char *word, mast3r_status code, Call call) {
  try {
    call();
  } catch (const Kind &error) {
    return std::strstr(error.what(), word) != nullptr && error.code() == code;
  } catch (...) {
  }
  return false;
}

static std::vector<uint8_t> noise(int height, int width, uint32_t seed) {
  std::vector<uint8_t> out(size_t(3) * height * width);
  for (auto &v : out) v = uint8_t((seed = seed * 1664525u + 1013904223u) >> 24);
  return out;
}

static const auto left = noise(48, 64, 1), right = noise(48, 64, 2);
static const mast3r::ImageView one(left.data(), 48, 64), two(right.data(), 48, 64);

static mast3r::RuntimeConfig config() {
  mast3r::RuntimeConfig c;
  c.backend = "cpu", c.num_threads = 2, c.resolution = 64;
  return c;
}

static mast3r_stats live() {
  auto stats = mast3r::detail::sized<mast3r_stats>();
  mast3r::check(mast3r_live(&stats));
  return stats;
}

static void test_context() {
  auto shared = mast3r::MPSGraphContext::shared();
  CHECK(shared.c() == mast3r::MPSGraphContext::shared().c());
  auto own = mast3r::MPSGraphContext::create(config());
  CHECK(own.c() != shared.c());
  CHECK(own.backend() == "cpu" && !own.device_name().empty());
  CHECK(own.info().threads == 2 && own.max_buffer_length() == own.info().max_buffer);
  CHECK(own.recommended_working_set_size() == own.info().working_set);
  own.synchronize();
  auto bad = config();
  bad.backend = "abacus";
  CHECK(throws<mast3r::ArgumentError>("abacus", MAST3R_E_ARGUMENT, [&] { mast3r::MPSGraphContext::create(bad); }));
}

static void test_pool() {
  auto context = mast3r::MPSGraphContext::create(config());
  auto pool = context.buffer_pool();
  const auto before = live().buffers;
  {
    auto buffer = pool.acquire(4096);
    CHECK(buffer.length() == 4096 && live().buffers == before + 1 && pool.stats().in_use_buffers == 1);
    std::memset(buffer.contents(), 7, buffer.length());
    auto moved = std::move(buffer);
    CHECK(static_cast<uint8_t *>(moved.contents())[4095] == 7);
    moved.release();
    CHECK(throws<mast3r::HandleError>("handle", MAST3R_E_HANDLE, [&] { moved.contents(); }));
  }
  CHECK(live().buffers == before && pool.stats().in_use_buffers == 0);
  pool.warmup({1 << 20, 1 << 20});
  CHECK(pool.count() >= 2 && pool.bytes() >= 2u << 20);
  context.clear_buffer_pool();
  CHECK(pool.count() == 0 && pool.bytes() == 0);
  CHECK(throws<mast3r::ArgumentError>("bytes", MAST3R_E_ARGUMENT, [&] { pool.acquire(0); }));
  CHECK(throws<mast3r::ArgumentError>("bytes", MAST3R_E_ARGUMENT, [&] { pool.warmup({UINT64_MAX}); }));
}

static void test_engine() {
  mast3r::InferenceResult kept;
  {
    mast3r::MPSGraphEngine engine(config());
    CHECK(!engine.is_ready());
    CHECK(throws<mast3r::NotLoadedError>("no model", MAST3R_E_NOT_LOADED, [&] { engine.infer(one, two); }));
    CHECK(throws<mast3r::NotFoundError>("none", MAST3R_E_NOT_FOUND, [&] { engine.load("none.safetensors"); }));
    engine.load(model);
    engine.warmup(1);
    CHECK(engine.is_ready() && engine.name().find("on cpu") != std::string::npos);
    kept = engine.infer(one, two);
    CHECK(kept.pts3d_1.shape() == std::vector<int64_t>({48, 64, 3}) && kept.pts3d_1.ndim() == 3);
    CHECK(kept.conf_2.numel() == 48 * 64 && kept.conf_2.nbytes() == 4 * 48 * 64 && kept.conf_2.is_valid());
    CHECK(kept.timing.total_ms > 0 && kept.transform_1.width == 64);

    const auto sequence = engine.infer_batch({one, two, one});
    CHECK(sequence.size() == 2 && sequence[0].pts3d_2.to_cpu() == kept.pts3d_2.to_cpu());
    const auto both = engine.infer_symmetric(one, two);
    CHECK(both.view_11.pts3d.to_cpu() == kept.pts3d_1.to_cpu());
    CHECK(both.view_22.desc.to_cpu() == sequence[1].desc_1.to_cpu());

    const auto matches = engine.match(kept);
    CHECK(matches.size() > 0 && matches.pts2d_1.size() == 2 * matches.size());
    CHECK(matches.idx_1[0] == int64_t(matches.pts2d_1[1]) * 64 + int64_t(matches.pts2d_1[0]));
    for (size_t i = 1; i < matches.size(); i++) CHECK(matches.confidence[i] <= matches.confidence[i - 1]);
    const auto points = kept.pts3d_1.to_cpu();
    CHECK(matches.pts3d_1[2] == points[3 * size_t(matches.idx_1[0]) + 2]);
    {
      auto all = mast3r::MatchOptions::best(kept);
      all.min_weight = 0, all.confidence_threshold = -1;
      const auto judged = engine.match(kept, all);
      CHECK(judged.consistent.size() == judged.size() && judged.overlap.reason[0] != 0);
      CHECK(judged.refined.empty());
    }
    {
      std::vector<double> a, b;
      for (int i = 0; i < 60; i++) { /* x = X/Z: camera 2 one to the right, depth 4 to 8 */
        const double x = (i % 10 - 4.5) * 50, y = (i / 10 - 2.5) * 60, z = 4 + (i * 7 % 5);
        a.insert(a.end(), {320 + x, 240 + y});
        b.insert(b.end(), {320 + x - 500 / z, 240 + y});
      }
      mast3r_pose_options o{};
      const double k[9] = {500, 0, 320, 0, 500, 240, 0, 0, 1};
      std::copy(k, k + 9, o.intrinsics1), std::copy(k, k + 9, o.intrinsics2);
      const auto pose = mast3r::relative_pose(a, b, o);
      CHECK(pose.found && !pose.turn_only && pose.inliers.size() == 60 && pose.points.size() == 180);
      CHECK(std::abs(pose.pose[3] - 1) < 1e-4 && std::abs(pose.pose[0] - 1) < 1e-5);
      try {
        mast3r::relative_pose({1, 2, 3, 4}, {1, 2}, o);
        CHECK(false);
      } catch (const mast3r::ShapeError &) {
        CHECK(true);
      }
      const auto none = mast3r::relative_pose({}, {}, o);
      CHECK(!none.found && none.reason == "too few matches");
    }
    mast3r::MatchOptions few;
    few.top_k = 3;
    CHECK(engine.match(kept, few).size() == 3);

    mast3r::InferOptions options;
    options.only = MAST3R_POINTS;
    const auto partial = engine.infer(one, two, options);
    CHECK(partial.pts3d_1.to_cpu() == points && !partial.desc_1.is_valid());
    CHECK(throws<mast3r::ShapeError>("descriptors", MAST3R_E_SHAPE, [&] { engine.match(partial); }));
    CHECK(throws<mast3r::ShapeError>("left out", MAST3R_E_SHAPE, [&] { partial.conf_1.to_cpu(); }));
    options.preprocess = false;
    const mast3r::ImageView odd(left.data(), 47, 64);
    CHECK(throws<mast3r::ImageError>("47", MAST3R_E_IMAGE, [&] { engine.infer(odd, two, options); }));
    CHECK(throws<mast3r::ArgumentError>("NULL", MAST3R_E_ARGUMENT, [&] { engine.infer({nullptr, 4, 4}, two); }));
    CHECK(!engine.is_retrieval_ready() && !engine.is_retrieval_standalone());
    CHECK(throws<mast3r::NotLoadedError>("retrieval", MAST3R_E_NOT_LOADED, [&] { engine.encode_retrieval(one); }));
    CHECK(throws<mast3r::NotFoundError>("none", MAST3R_E_NOT_FOUND, [&] { engine.load_retrieval("none"); }));
    CHECK(throws<mast3r::NotFoundError>("none", MAST3R_E_NOT_FOUND,
                                        [&] { engine.load_retrieval_standalone(model, "none"); }));
    CHECK(throws<mast3r::Error>("none", MAST3R_E_NOT_FOUND, [&] { engine.export_onnx("none/m.onnx", 48, 64); }));
    engine.close();
    CHECK(throws<mast3r::HandleError>("handle", MAST3R_E_HANDLE, [&] { engine.infer(one, two); }));
  }
  std::vector<float> out(kept.conf_1.numel()); /* after close and the end of the engine */
  kept.conf_1.copy_to(out.data(), out.size());
  CHECK(out == kept.conf_1.to_cpu() && std::isfinite(out[0]) && out[0] == kept.conf_1.data()[0]);
  CHECK(throws<mast3r::ShapeError>("bytes", MAST3R_E_SHAPE, [&] { kept.conf_1.copy_to(out.data(), 1); }));
  CHECK(throws<mast3r::ShapeError>("float", MAST3R_E_SHAPE, [&] { kept.conf_1.to_cpu<int64_t>(); }));
}

/* Whitening that changes nothing: mean 0, the identity. */
static std::string write_head(int dim) {
  const std::string path = "build/c/head.safetensors";
  const size_t m = size_t(dim) * 8, p = m * size_t(dim);
  const std::string d = std::to_string(dim);
  std::string header = "{\"prewhiten.m\":{\"dtype\":\"F64\",\"shape\":[1," + d + "],\"data_offsets\":[0," +
                       std::to_string(m) + "]},\"prewhiten.p\":{\"dtype\":\"F64\",\"shape\":[" + d + "," + d +
                       "],\"data_offsets\":[" + std::to_string(m) + "," + std::to_string(m + p) + "]}}";
  header.resize((header.size() + 7) / 8 * 8, ' ');
  const uint64_t size = header.size();
  std::vector<double> data(size_t(dim) * (size_t(dim) + 1));
  for (int i = 0; i < dim; i++) data[size_t(dim) + size_t(i) * size_t(dim) + size_t(i)] = 1;
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char *>(&size), 8);
  file.write(header.data(), std::streamsize(size));
  file.write(reinterpret_cast<const char *>(data.data()), std::streamsize(data.size() * 8));
  return path;
}

/* Words along the axes, both ways. */
static std::string write_codebook(int dim) {
  const std::string path = "build/c/codebook.safetensors";
  const size_t n = 8, d = size_t(dim);
  std::string header = "{\"centroids\":{\"dtype\":\"F32\",\"shape\":[" + std::to_string(n) + "," +
                       std::to_string(d) + "],\"data_offsets\":[0," + std::to_string(4 * n * d) + "]}}";
  header.resize((header.size() + 7) / 8 * 8, ' ');
  const uint64_t size = header.size();
  std::vector<float> data(n * d);
  for (size_t i = 0; i < n; i++) data[i * d + i / 2] = i % 2 ? 1 : -1;
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char *>(&size), 8);
  file.write(header.data(), std::streamsize(size));
  file.write(reinterpret_cast<const char *>(data.data()), std::streamsize(data.size() * 4));
  return path;
}

static void test_retrieval_and_export() {
  mast3r::MPSGraphEngine engine(config());
  engine.load(model);
  const int dim = engine.context().info().enc_dim;
  const auto head = write_head(dim);
  engine.load_retrieval(head);
  CHECK(engine.is_retrieval_ready() && !engine.is_retrieval_standalone());
  const auto found = engine.encode_retrieval_batch({one, two});
  CHECK(found.size() == 2 && found[0].features.shape()[1] == dim && found[0].total_ms > 0);
  const auto features = found[0].features.to_cpu(), attention = found[0].attention.to_cpu();
  double norm = 0, length = 0;
  for (int i = 0; i < dim; i++) norm += double(features[size_t(i)]) * features[size_t(i)];
  for (float v : found[0].global.to_cpu()) length += double(v) * v;
  CHECK(std::abs(std::sqrt(norm) - attention[0]) < 1e-3 * attention[0] && std::abs(length - 1) < 1e-4);
  CHECK(engine.encode_retrieval(one).features.to_cpu() == features);
  mast3r::MPSGraphEngine alone(config());
  alone.load_retrieval_standalone(model, head);
  CHECK(alone.is_retrieval_standalone() && !alone.is_ready());
  CHECK(alone.encode_retrieval(one).features.to_cpu() == features);
  const auto codebook = write_codebook(dim);
  {
    mast3r::RetrievalIndex index(engine, codebook, -1);
    index.add({found[0]});
    index.add(found);
    const auto scores = index.score(found);
    CHECK(index.size() == 3 && scores.size() == 6 && index.score({}).empty());
    CHECK(scores[0] == scores[1] && scores[0] > 0);
    CHECK(throws<mast3r::NotFoundError>("none", MAST3R_E_NOT_FOUND, [&] { mast3r::RetrievalIndex(engine, "none"); }));
  }
  using Pairs = std::vector<std::pair<int64_t, int64_t>>;
  CHECK(mast3r::scene_pairs(3, "swin-1-noncyclic") == Pairs({{0, 1}, {1, 2}}));
  CHECK(mast3r::scene_pairs(2, "complete", {}, true) == Pairs({{1, 0}, {0, 1}}));
  CHECK(mast3r::scene_pairs(2, "retrieval-1-1", {1, 0, 0, 1}).size() >= 1 && mast3r::scene_pairs(0, "complete").empty());
  CHECK(throws<mast3r::ShapeError>("want 4", MAST3R_E_SHAPE, [&] { mast3r::scene_pairs(2, "retrieval-1-1", {1}); }));
  CHECK(throws<mast3r::ArgumentError>("star", MAST3R_E_ARGUMENT, [&] { mast3r::scene_pairs(2, "star"); }));

  const auto a = engine.encode(one), b = engine.encode(two);
  const auto decoded = engine.decode(a, b), direct = engine.infer(one, two);
  CHECK(decoded.pts3d_2.to_cpu() == direct.pts3d_2.to_cpu() && decoded.desc_1.to_cpu() == direct.desc_1.to_cpu());
  CHECK(decoded.transform_2.width == 64 && a.tokens.shape()[1] == dim);
  CHECK(throws<mast3r::ShapeError>("left out", MAST3R_E_SHAPE, [&] { engine.decode(a, {}); }));

  engine.export_onnx("build/c/model.onnx", 48, 64, true);
  std::ifstream data("build/c/model.onnx.data", std::ios::binary | std::ios::ate);
  CHECK(data.tellg() > 1000);
}

static void test_context_of_an_engine() {
  auto context = mast3r::MPSGraphContext::create(config());
  mast3r::MPSGraphEngine a(context), b(context);
  a.load(model);
  CHECK(b.is_ready() && b.context().c() == context.c());
  std::vector<float> first, second;
  std::thread other([&] { first = a.infer(one, two).conf_1.to_cpu(); });
  second = b.infer(one, two).conf_1.to_cpu();
  other.join();
  CHECK(first == second);
}

static void test_memory() {
  mast3r_memory_options options{};
  options.model = model.c_str();
  options.height1 = 48, options.width1 = 64;
  const auto pair = mast3r::estimate_memory(options);
  CHECK(pair.weights > 0 && pair.total > pair.weights && pair.free > 0);
  options.pictures = 100;
  CHECK(mast3r::estimate_memory(options).results == 99 * pair.results);
  options.only = MAST3R_CONF;
  CHECK(mast3r::estimate_memory(options).results < 99 * pair.results / 10);
  options.only = 0, options.pictures = 2, options.batch = 7;
  CHECK(mast3r::estimate_memory(options).results == 7 * pair.results);
  options.batch = 0, options.symmetric = 1;
  CHECK(mast3r::estimate_memory(options).results == 2 * pair.results);
  options.backend = "none";
  try {
    mast3r::estimate_memory(options);
    CHECK(false);
  } catch (const mast3r::ArgumentError &) {
    CHECK(true);
  }
}

static void test_limits() {
  mast3r::MPSGraphEngine engine(config());
  engine.load(model);
  const auto big = noise(1536, 2048, 3);
  const mast3r::ImageView picture(big.data(), 1536, 2048);
  mast3r::InferOptions options;
  options.resolution = 2048;
  {
    mast3r::Limit limit(std::chrono::milliseconds(100));
    CHECK(throws<mast3r::TimeLimitError>("time", MAST3R_E_CANCELLED, [&] { engine.infer(picture, picture, options); }));
    mast3r::Limit outer(std::chrono::hours(1));
    CHECK(throws<mast3r::TimeLimitError>("time", MAST3R_E_CANCELLED, [&] { engine.infer(one, two); }));
  }
  mast3r::CancelToken token;
  {
    mast3r::Limit limit(std::chrono::hours(1), token);
    std::thread other([token]() mutable {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      token.cancel();
    });
    CHECK(throws<mast3r::CancelledError>("CancelToken", MAST3R_E_CANCELLED, [&] { engine.infer(picture, picture, options); }));
    other.join();
  }
  CHECK(engine.infer(one, two).conf_1.numel() == 48 * 64);
}

static void test_executor() {
  mast3r::Executor executor(2);
  const float x[] = {1, 2, 3, 4}, w[] = {0, 1, 1, 0};
  const std::string graph = R"({"nodes": [{"name": "y", "op": "MatMul", "operands": ["x", "w"]}], "outputs": ["y"]})";
  const auto out = executor.run(graph, {{"x", x, {2, 2}}, {"w", w, {2, 2}}});
  CHECK(out.size() == 1 && out[0].to_cpu() == std::vector<float>{2, 1, 4, 3});
  executor.configure(R"({"MatMul": 0})");
  executor.calibrate();
  CHECK(executor.info().find("\"cpu\":1") != std::string::npos && executor.info().back() == '}');
  CHECK(throws<mast3r::ArgumentError>("\"w\"", MAST3R_E_ARGUMENT, [&] { executor.run(graph, {{"x", x, {2, 2}}}); }));
  CHECK(throws<mast3r::ShapeError>("9 dimensions", MAST3R_E_SHAPE,
                                   [&] { executor.run(graph, {{"x", x, std::vector<int64_t>(9, 1)}}); }));
}

static void test_views() {
  mast3r::MPSGraphEngine engine(mast3r::MPSGraphContext::create(config()));
  engine.load(model);
  CHECK(throws<mast3r::UnsupportedError>("da3_base", MAST3R_E_UNSUPPORTED, [&] { engine.infer_views({one, two}); }));
  engine.load(many);
  mast3r::ViewsOptions options;
  options.rays = true, options.window = 2, options.overlap = 1, options.reference = "first";
  const auto scene = engine.infer_views({one, two, one}, options);
  CHECK(scene.views.size() == 3 && scene.windows.size() == 2 && scene.windows[1].overlap == 1);
  for (const auto &v : scene.views) {
    CHECK((v.depth.shape() == std::vector<int64_t>{42, 56} && v.points.shape() == std::vector<int64_t>{42, 56, 3}));
    CHECK((v.rays.shape() == std::vector<int64_t>{24, 32, 6} && v.sky.numel() == 0));
    CHECK(v.pose[15] == 1 && v.intrinsics[8] == 1 && v.transform.original_width == 64);
  }
  CHECK(std::abs(scene.views[0].pose[0] - 1) < 1e-6 && std::abs(scene.views[0].pose[3]) < 1e-6);
  options.poses = {1, 2, 3};
  CHECK(throws<mast3r::ShapeError>("16 and 9", MAST3R_E_SHAPE, [&] { engine.infer_views({one, two, one}, options); }));
  const auto pair = engine.infer(one, two);
  CHECK(pair.pts3d_1.numel() > 0 && pair.desc_1.numel() == 0);
}

int main(int argc, char **argv) {
  if (argc != 3) return 2;
  model = argv[1], many = argv[2];
  const auto before = live();
  try {
    test_context();
    test_pool();
    test_engine();
    test_retrieval_and_export();
    test_context_of_an_engine();
    test_limits();
    test_executor();
    test_memory();
    test_views();
  } catch (const std::exception &error) {
    std::printf("unexpected: %s\n", error.what());
    failed++;
  }
  const auto after = live();
  CHECK(after.engines == before.engines + 1); /* the shared context stays */
  CHECK(after.tensors == before.tensors && after.jobs == before.jobs && after.buffers == before.buffers);
  std::printf("C++: %d checks passed, %d failed\n", passed, failed);
  return failed != 0;
}
