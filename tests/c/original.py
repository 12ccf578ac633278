#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Make a program of a document's C++ blocks: original.py DOCUMENT > program.cpp

Only what a document leaves open is added: the header's name, the pictures, the model's path, and
where blocks stand (each in one of its own). Its statements are compiled as they are.
"""

import re
import sys
from pathlib import Path

text = Path(sys.argv[1]).read_text(encoding="utf-8")
blocks = re.findall(r"```cpp\n(.*?)```", text, re.S)
blocks = [b for b in blocks if "csrc/" not in b]
sample = next(b for b in blocks if "infer_gpu" in b)
context = next(b for b in blocks if "MPSGraphContext::create" in b)
tensor = next(b for b in blocks if "GPUTensor tensor" in b)
pool = next(b for b in blocks if "PooledBuffer" in b)

sample = re.sub(r"#include .*\n", "", sample)
sample = re.sub(r'"[^"]*\.safetensors"', "model", sample)
sample = sample.replace('config.variant = "mast3r_vit_large"', 'config.variant = "mast3r_tiny"')
sample = sample.replace("using namespace mast3r::mpsgraph;", "")
tensor = tensor.replace("GPUTensor tensor = ...;", "GPUTensor tensor = result.pts3d_2;")
# Two ways to the same name stand below each other.
context = context.replace("auto ctx = MPSGraphContext::create();", "ctx = MPSGraphContext::create();")
print(f"""#include "mast3r_mpsgraph.hpp"
#include <cstdio>
using namespace mast3r::mpsgraph;
struct MTLBuffer;
template <class> using id = void *; // what Objective-C++ declares
int main(int, char **argv) {{
const char *model = argv[1];
const int height = 48, width = 64;
std::vector<uint8_t> pixels(height * width * 3, 90);
uint8_t *data1 = pixels.data(), *data2 = data1;
std::vector<float> room(height * width * 64 * 64);
float *pre_allocated_buffer = room.data(), *existing_buffer = room.data();
const size_t size = 4096;
{sample}
{context}
{{
{tensor}
if (data == nullptr) return 1;
}}
{pool}
std::printf("%f\\n", double(pts3d[2]));
}}""")
