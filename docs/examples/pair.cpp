/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A pair of PPM pictures to a point cloud on stdout, one "x y z" a line:
 *
 *    sh capi/build.sh build/libmast3r_runtime.so
 *    c++ -std=c++17 -Icapi docs/examples/pair.cpp build/libmast3r_runtime.so -o build/pair
 *    LD_LIBRARY_PATH=build build/pair unified.safetensors left.ppm right.ppm >points.xyz
 */
#include "mast3r.hpp"

#include <cstdio>
#include <exception>
#include <fstream>
#include <iostream>
#include <string>
#include <vector>

struct Picture {
  int width = 0, height = 0;
  std::vector<uint8_t> pixels;
  mast3r::ImageView view() const { return {pixels.data(), height, width}; }
};

static Picture read_ppm(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  std::string magic;
  Picture p;
  int largest = 0;
  if (!(file >> magic >> p.width >> p.height >> largest) || magic != "P6" || largest != 255 || p.width < 1 ||
      p.height < 1 || p.width > 1 << 14 || p.height > 1 << 14)
    throw std::runtime_error(path + ": want a binary 8-bit PPM (P6)");
  file.get();
  p.pixels.resize(size_t(3) * p.width * p.height);
  if (!file.read(reinterpret_cast<char *>(p.pixels.data()), std::streamsize(p.pixels.size())))
    throw std::runtime_error(path + ": ends early");
  return p;
}

int main(int argc, char **argv) {
  if (argc != 4) {
    std::cerr << "usage: pair MODEL LEFT.ppm RIGHT.ppm\n";
    return 2;
  }
  try {
    const Picture left = read_ppm(argv[2]), right = read_ppm(argv[3]);
    mast3r::MPSGraphEngine engine;
    engine.load(argv[1]);
    const auto result = engine.infer(left.view(), right.view());
    const auto matches = engine.match(result);
    std::cerr << engine.name() << ": " << matches.size() << " matches, " << result.timing.total_ms << " ms\n";
    const std::vector<float> points = result.pts3d_1.to_cpu(), conf = result.conf_1.to_cpu();
    for (size_t i = 0; i < conf.size(); i++)
      if (conf[i] > 1.5f) std::printf("%g %g %g\n", points[3 * i], points[3 * i + 1], points[3 * i + 2]);
  } catch (const std::exception &error) {
    std::cerr << "pair: " << error.what() << "\n";
    return 1;
  }
}
