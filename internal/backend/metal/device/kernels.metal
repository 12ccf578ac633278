// SPDX-License-Identifier: Apache-2.0
//
// Compute kernels for what MPSGraph does not do well: turning 8-bit pixels into
// the network's input, and finding nearest descriptors.

#include <metal_stdlib>
using namespace metal;

// normalize_u8: picture rows of 8-bit RGB to float32.
//
// table[c * 256 + v] is the float of value v in channel c. A table of the host's
// 768 results is exact whatever the GPU's division does, and needs no division.
struct NormalizeParams {
    uint width;
    uint height;
    uint row_bytes; // of the source
    uint planar;    // 0: [H,W,3], 1: [3,H,W]
};

kernel void normalize_u8(device const uchar *src [[buffer(0)]],
                         device float *dst [[buffer(1)]],
                         constant float *table [[buffer(2)]],
                         constant NormalizeParams &p [[buffer(3)]],
                         uint gid [[thread_position_in_grid]]) {
    if (gid >= p.width * p.height) {
        return;
    }
    uint y = gid / p.width;
    uint x = gid - y * p.width;
    for (uint c = 0; c < 3; c++) {
        float v = table[c * 256 + src[y * p.row_bytes + x * 3 + c]];
        dst[p.planar != 0 ? c * p.width * p.height + gid : gid * 3 + c] = v;
    }
}

// nearest_partial: for every query the target with the largest dot product
// among one chunk of the targets, the lowest index on ties.
//
// Threads are queries, threadgroups along y are chunks: a few thousand queries
// alone would leave most of the GPU idle. The targets of a chunk pass through
// threadgroup memory in tiles, so each is read once per threadgroup. NaN never
// compares greater, so a NaN descriptor is never chosen.
constant uint kMaxDim = 64;
constant uint kTile = 32;
constant uint kNone = 0xffffffff;

struct NearestParams {
    uint queries;
    uint targets;
    uint dim;    // <= kMaxDim
    uint chunk;  // targets per chunk
    uint chunks;
};

kernel void nearest_partial(device const float *query [[buffer(0)]],
                            device const float *target [[buffer(1)]],
                            device float *best_score [[buffer(2)]], // [chunks, queries]
                            device uint *best_index [[buffer(3)]],  // [chunks, queries]
                            constant NearestParams &p [[buffer(4)]],
                            uint2 gid [[thread_position_in_grid]],
                            uint lid [[thread_index_in_threadgroup]],
                            uint2 group [[threads_per_threadgroup]]) {
    threadgroup float tile[kTile * kMaxDim];
    float q[kMaxDim];
    bool mine = gid.x < p.queries;
    for (uint d = 0; d < p.dim; d++) {
        q[d] = mine ? query[gid.x * p.dim + d] : 0.0f;
    }
    uint begin = gid.y * p.chunk;
    uint end = min(begin + p.chunk, p.targets);
    float score = -INFINITY;
    uint index = kNone;
    for (uint t0 = begin; t0 < end; t0 += kTile) {
        uint n = min(kTile, end - t0);
        threadgroup_barrier(mem_flags::mem_threadgroup);
        for (uint i = lid; i < n * p.dim; i += group.x) {
            tile[i] = target[t0 * p.dim + i];
        }
        threadgroup_barrier(mem_flags::mem_threadgroup);
        for (uint t = 0; t < n; t++) {
            float s = 0.0f;
            for (uint d = 0; d < p.dim; d++) {
                s = fma(q[d], tile[t * p.dim + d], s);
            }
            if (s > score) {
                score = s;
                index = t0 + t;
            }
        }
    }
    if (mine) {
        best_score[gid.y * p.queries + gid.x] = score;
        best_index[gid.y * p.queries + gid.x] = index;
    }
}

// nearest_reduce: the best of the chunks, in their order, so that the lowest
// index wins ties. A query without any comparable target gets -1.
kernel void nearest_reduce(device const float *best_score [[buffer(0)]],
                           device const uint *best_index [[buffer(1)]],
                           device int *nearest [[buffer(2)]],
                           constant NearestParams &p [[buffer(3)]],
                           uint gid [[thread_position_in_grid]]) {
    if (gid >= p.queries) {
        return;
    }
    float score = -INFINITY;
    uint index = kNone;
    for (uint c = 0; c < p.chunks; c++) {
        uint at = c * p.queries + gid;
        if (best_index[at] != kNone && (index == kNone || best_score[at] > score)) {
            score = best_score[at];
            index = best_index[at];
        }
    }
    nearest[gid] = int(index);
}
