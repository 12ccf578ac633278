// SPDX-License-Identifier: Apache-2.0
// Builds the tree of one mesh on the host: binned surface areas, leaves of a few triangles.

#include <algorithm>
#include <vector>

namespace {

constexpr int kTreeBins = 16;
constexpr int kTreeLeaf = 8;       // more triangles than these are always divided, if their middles differ
constexpr int kTreeDepth = 30;     // deeper is refused: a ray's stack has room for 32
constexpr float kTreePad = 2e-6f;  // half boxes

struct TreeBox {
  float low[3] = {1e9f, 1e9f, 1e9f}, high[3] = {-1e9f, -1e9f, -1e9f};
  void add(const float* lo, const float* hi) {
    for (int k = 0; k < 3; k++) low[k] = std::min(low[k], lo[k]), high[k] = std::max(high[k], hi[k]);
  }
  float area(const float* half) const {  // half the surface, in square metres
    float x = (high[0] - low[0]) * half[0], y = (high[1] - low[1]) * half[1], z = (high[2] - low[2]) * half[2];
    return x * y + y * z + z * x;
  }
};

struct Tree {
  const float* half;
  std::vector<TreeBox> boxes;   // of each triangle
  std::vector<float> middles;   // [3]
  int* order;

  int bin(int tri, int axis, const TreeBox& range) const {
    float from = range.low[axis], wide = range.high[axis] - from;
    return std::min(kTreeBins - 1, (int)((middles[3 * tri + axis] - from) / wide * kTreeBins));
  }

  // Cost of the best cut of triangles [first, last) across an axis, and the first bin of its far side.
  float cut(int first, int last, int axis, const TreeBox& range, float whole, int* at) const {
    TreeBox bins[kTreeBins];
    int counts[kTreeBins] = {};
    for (int i = first; i < last; i++) {
      int b = bin(order[i], axis, range);
      counts[b]++;
      bins[b].add(boxes[order[i]].low, boxes[order[i]].high);
    }
    float best = 1e30f;
    for (int split = 1; split < kTreeBins; split++) {
      TreeBox side[2];
      int count[2] = {};
      for (int b = 0; b < kTreeBins; b++) {
        if (!counts[b]) continue;
        side[b >= split].add(bins[b].low, bins[b].high);
        count[b >= split] += counts[b];
      }
      if (!count[0] || !count[1]) continue;
      float cost = 1 + (side[0].area(half) * count[0] + side[1].area(half) * count[1]) / whole;
      if (cost < best) best = cost, *at = split;
    }
    return best;
  }

  // Divides [first, last) and returns the middle, or -1: a leaf is better.
  int divide(int first, int last, const TreeBox& box) {
    TreeBox range;
    for (int i = first; i < last; i++) range.add(&middles[3 * order[i]], &middles[3 * order[i]]);
    int count = last - first, axis = -1, at = 0;
    float best = count > kTreeLeaf ? 1e30f : (float)count;
    for (int k = 0; k < 3 && count > 2; k++) {
      if (range.high[k] - range.low[k] < 1e-7f) continue;
      int split;
      float cost = cut(first, last, k, range, box.area(half) + 1e-20f, &split);
      if (cost < best) best = cost, axis = k, at = split;
    }
    if (axis < 0) return -1;
    int* middle = std::partition(order + first, order + last, [&](int t) { return bin(t, axis, range) < at; });
    return (int)(middle - order);
  }
};

}  // namespace

// The tree of triangles [count, 9] in half boxes of `half` metres: nodes [2 * count, NODE_FLOATS] and the order of
// the triangles in its leaves. Returns the number of nodes, or -1 when it is too deep.
extern "C" int build_mesh(const float* corners, int count, const float* half, float* nodes, int* order) {
  Tree tree = {half, std::vector<TreeBox>(count), std::vector<float>(3 * (size_t)count), order};
  for (int t = 0; t < count; t++) {
    for (int c = 0; c < 3; c++) tree.boxes[t].add(corners + 9 * t + 3 * c, corners + 9 * t + 3 * c);
    for (int k = 0; k < 3; k++) tree.middles[3 * t + k] = 0.5f * (tree.boxes[t].low[k] + tree.boxes[t].high[k]);
    order[t] = t;
  }
  struct Task {
    int node, first, last, depth;
  };
  std::vector<Task> tasks = {{0, 0, count, 1}};
  int used = 1;
  while (!tasks.empty()) {
    Task task = tasks.back();
    tasks.pop_back();
    if (task.depth > kTreeDepth) return -1;
    TreeBox box;
    for (int i = task.first; i < task.last; i++) box.add(tree.boxes[order[i]].low, tree.boxes[order[i]].high);
    float* node = nodes + (size_t)NODE_FLOATS * task.node;
    for (int k = 0; k < 3; k++) {
      node[NODE_LOW + k] = box.low[k] - kTreePad;
      node[NODE_HIGH + k] = box.high[k] + kTreePad;
    }
    int middle = tree.divide(task.first, task.last, box);
    node[NODE_FIRST] = (float)(middle < 0 ? task.first : used);
    node[NODE_COUNT] = (float)(middle < 0 ? task.last - task.first : 0);
    if (middle < 0) continue;
    tasks.push_back({used, task.first, middle, task.depth + 1});
    tasks.push_back({used + 1, middle, task.last, task.depth + 1});
    used += 2;
  }
  return used;
}
