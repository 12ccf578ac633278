/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mast3r_executor.hpp: small graphs on a CPU and a GPU, over mast3r.hpp.
 *
 *    mast3r::Executor executor;
 *    auto out = executor.run(R"({"nodes": [{"name": "y", "op": "MatMul", "operands": ["x", "w"]}],
 *                                "outputs": ["y"], "optimize": true})",
 *                            {{"x", x, {64, 256}}, {"w", w, {256, 128}}});
 *    out[0].to_cpu();                                     // 64 x 128
 *    executor.info();                                     // where operations ran, and why, as JSON
 */
#ifndef MAST3R_EXECUTOR_HPP
#define MAST3R_EXECUTOR_HPP

#include "mast3r.hpp"

namespace mast3r {

/* Sends each operation of a graph to the GPU where its operands are large enough. */
class Executor {
 public:
  /* An array of float32, row-major, that the caller owns until run returns. */
  struct Input {
    std::string name;
    const float *data;
    std::vector<int64_t> shape;
  };

  /* threads of the CPU; 0: every core. */
  explicit Executor(int threads = 0) {
    mast3r_executor out = 0;
    check(mast3r_executor_open(threads, &out));
    handle_ = std::make_unique<detail::Handle>(out, mast3r_executor_close);
  }

  /* The graph is JSON (mast3r.h, mast3r_executor_run); the results are in the order of its outputs. */
  std::vector<GPUTensor> run(const std::string &graph, const std::vector<Input> &inputs) const {
    std::vector<mast3r_input> in;
    for (const auto &input : inputs) {
      if (input.shape.size() > MAST3R_MAX_DIMS)
        throw ShapeError("mast3r: input " + input.name + " of " + std::to_string(input.shape.size()) +
                         " dimensions, want at most " + std::to_string(MAST3R_MAX_DIMS));
      auto one = detail::sized<mast3r_input>();
      one.ndim = static_cast<int32_t>(input.shape.size());
      one.name = input.name.c_str(), one.data = input.data;
      std::copy(input.shape.begin(), input.shape.end(), one.shape);
      in.push_back(one);
    }
    std::vector<mast3r_tensor> results(16);
    size_t produced = 0;
    auto call = [&] {
      return mast3r_executor_run(handle_->get(), graph.c_str(), in.data(), in.size(), results.data(), results.size(),
                                 &produced);
    };
    auto status = call();
    if (status != MAST3R_OK && produced > results.size()) {
      results.resize(produced);
      status = call();
    }
    check(status);
    std::vector<GPUTensor> out;
    for (size_t i = 0; i < produced; i++) out.emplace_back(results[i]);
    return out;
  }

  /* JSON: "cpu", "gpu", "fallbacks", "thresholds". */
  std::string info() const {
    size_t needed = 0;
    check(mast3r_executor_info(handle_->get(), nullptr, 0, &needed));
    std::string out(needed, '\0');
    check(mast3r_executor_info(handle_->get(), &out[0], needed, &needed));
    out.resize(needed ? needed - 1 : 0); /* without the end */
    return out;
  }
  /* thresholds as JSON: elements of the operands from which on an operation goes to the GPU. */
  void configure(const std::string &thresholds) const {
    check(mast3r_executor_configure(handle_->get(), thresholds.c_str()));
  }
  /* Measures products on both devices and sets their thresholds. */
  void calibrate() const { check(mast3r_executor_calibrate(handle_->get())); }

 private:
  std::unique_ptr<detail::Handle> handle_;
};

}  // namespace mast3r

#endif /* MAST3R_EXECUTOR_HPP */
