# SPDX-License-Identifier: Apache-2.0
# For a tap: the C library, its headers and pkg-config file. Python users take the wheel.
class Mast3rRuntime < Formula
  desc "Two photographs in, dense 3D points, descriptors and matches out"
  homepage "https://github.com/mast3r-runtime/mast3r-runtime"
  url "https://github.com/mast3r-runtime/mast3r-runtime/archive/refs/tags/v0.1.0.tar.gz"
  sha256 "0000000000000000000000000000000000000000000000000000000000000000"
  license "Apache-2.0"

  depends_on "go" => :build
  depends_on "pkgconf" => :test

  def install
    system "sh", "capi/install.sh", prefix
    pkgshare.install "python/mast3r_runtime/models/mast3r_tiny", "docs/examples/pair.cpp"
  end

  test do
    flags = shell_output("pkg-config --cflags --libs mast3r-runtime").chomp.split
    system ENV.cxx, "-std=c++17", pkgshare/"pair.cpp", *flags, "-o", "pair"
    (testpath/"picture.ppm").write("P6 64 48 255\n" + ("mast3r" * 1536))
    system "./pair", pkgshare/"mast3r_tiny/unified.safetensors", "picture.ppm", "picture.ppm"
  end
end
