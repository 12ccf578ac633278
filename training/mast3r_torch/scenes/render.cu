// SPDX-License-Identifier: Apache-2.0
// Ray caster for procedural two-view scenes. One source for two machines:
// nvcc makes the CUDA kernels, a C++ compiler (-x c++) plain loops, so that
// the evaluation set can be drawn, and the kernel tested, without a GPU.
//
// A pixel costs one geometry ray through its centre, `spp` colour rays with
// a shadow ray each, and one visibility ray from the other camera, which
// decides exactly whether the surface point is seen there.

#include <math.h>
#include <stdint.h>

#include "layout.h"
#include "tree.h"

#ifdef __CUDACC__
#define FN __device__ __forceinline__
#else
#define FN static inline
#endif

// The arguments of `render` have external linkage, as the function must.
struct Textures {
  const uint8_t* texels;   // [count, stride, 4]: all mip levels of a texture in a row
  const float* heights;    // [heightCount, heightSize, heightSize]
  int count, size, levels, stride, heightCount, heightSize;
};

struct Meshes {  // all null where no primitive is a mesh
  const float* nodes;      // [NODE_FLOATS], the trees one after the other
  const float* corners;    // [9] of each triangle, in the order of the leaves, in half boxes
  const float* looks;      // [LOOK_FLOATS] of each triangle
  const float* materials;  // [MATERIAL_FLOATS]
  const int* roots;        // [2] of each mesh: first node, first triangle
};

struct Job {
  const float *prims, *cams, *lights;
  float *image, *points, *match;
  Textures tex;
  int batch, primCount, height, width, spp;
  Meshes meshes;
};

namespace {

constexpr float kFar = 1e9f;
constexpr float kNear = 0.03f;       // metres: nothing is hit closer to an eye
constexpr int kMarchSteps = 48;      // sphere tracing of the curved shapes
constexpr int kReliefSteps = 40;     // linear search in a height field
constexpr int kReliefRefine = 7;     // and bisection after it
constexpr float kSeen = 0.01f;       // relative depth slack of the visibility test
constexpr float kSeenMesh = 1e-4f;   // the same where a mesh is in the way: its sheets are thin, its hits exact
constexpr int kMeshDepth = 32;       // of a mesh's tree; the builder refuses more than 30
constexpr float kSky = -2.0f;        // stands for the match of a pixel that shows the sky

struct V3 {
  float x, y, z;
};
FN V3 v3(float x, float y, float z) { return {x, y, z}; }
FN V3 v3(const float* p) { return {p[0], p[1], p[2]}; }
FN V3 operator+(V3 a, V3 b) { return {a.x + b.x, a.y + b.y, a.z + b.z}; }
FN V3 operator-(V3 a, V3 b) { return {a.x - b.x, a.y - b.y, a.z - b.z}; }
FN V3 operator*(V3 a, V3 b) { return {a.x * b.x, a.y * b.y, a.z * b.z}; }
FN V3 operator*(V3 a, float s) { return {a.x * s, a.y * s, a.z * s}; }
FN V3 operator/(V3 a, V3 b) { return {a.x / b.x, a.y / b.y, a.z / b.z}; }
FN float dot(V3 a, V3 b) { return a.x * b.x + a.y * b.y + a.z * b.z; }
FN float length(V3 a) { return sqrtf(dot(a, a)); }
FN V3 unit(V3 a) { return a * (1.0f / fmaxf(length(a), 1e-12f)); }
FN V3 vabs(V3 a) { return {fabsf(a.x), fabsf(a.y), fabsf(a.z)}; }
FN float max3(V3 a) { return fmaxf(a.x, fmaxf(a.y, a.z)); }
FN float min3(V3 a) { return fminf(a.x, fminf(a.y, a.z)); }
FN float clampf(float x, float lo, float hi) { return fminf(fmaxf(x, lo), hi); }

// Row-major matrix m (camera or object to world).
FN V3 rotate(const float* m, V3 a) {
  return {m[0] * a.x + m[1] * a.y + m[2] * a.z, m[3] * a.x + m[4] * a.y + m[5] * a.z,
          m[6] * a.x + m[7] * a.y + m[8] * a.z};
}
FN V3 rotateBack(const float* m, V3 a) {
  return {m[0] * a.x + m[3] * a.y + m[6] * a.z, m[1] * a.x + m[4] * a.y + m[7] * a.z,
          m[2] * a.x + m[5] * a.y + m[8] * a.z};
}

#include "mesh.h"

struct Scene {
  const float* prims;  // [primCount, PRIM_FLOATS], the room last
  int primCount;
  const float* light;
  Textures tex;
  Meshes meshes;
};

FN int wrap(int i, int n) {  // n is a power of two
  return i & (n - 1);
}

FN V3 texel(const Textures& t, int64_t base, int size, int x, int y) {
  const uint8_t* p = t.texels + 4 * (base + (int64_t)wrap(y, size) * size + wrap(x, size));
  return {p[0] * (1 / 255.0f), p[1] * (1 / 255.0f), p[2] * (1 / 255.0f)};
}

FN V3 bilinear(const Textures& t, int id, int level, float u, float v) {
  int size = t.size >> level;
  // Levels shrink by four: the first l of them hold size^2 * 4/3 * (1 - 4^-l) texels.
  int64_t skipped = ((int64_t)t.size * t.size - (int64_t)size * size) * 4 / 3;
  int64_t base = (int64_t)id * t.stride + skipped;
  float x = (u - floorf(u)) * size - 0.5f, y = (v - floorf(v)) * size - 0.5f;
  int x0 = (int)floorf(x), y0 = (int)floorf(y);
  float fx = x - x0, fy = y - y0;
  V3 top = texel(t, base, size, x0, y0) * (1 - fx) + texel(t, base, size, x0 + 1, y0) * fx;
  V3 low = texel(t, base, size, x0, y0 + 1) * (1 - fx) + texel(t, base, size, x0 + 1, y0 + 1) * fx;
  return top * (1 - fy) + low * fy;
}

// Trilinear sample; footprint is the pixel's size in tiles.
FN V3 sample(const Textures& t, int id, float u, float v, float footprint) {
  float lod = clampf(log2f(fmaxf(footprint * t.size, 1e-6f)), 0.0f, (float)(t.levels - 1));
  int level = (int)lod;
  float f = lod - level;
  V3 a = bilinear(t, id, level, u, v);
  if (level + 1 >= t.levels) return a;
  return a * (1 - f) + bilinear(t, id, level + 1, u, v) * f;
}

FN float height(const Textures& t, int id, float u, float v) {
  int n = t.heightSize;
  const float* p = t.heights + (int64_t)id * n * n;
  float x = (u - floorf(u)) * n - 0.5f, y = (v - floorf(v)) * n - 0.5f;
  int x0 = (int)floorf(x), y0 = (int)floorf(y);
  float fx = x - x0, fy = y - y0;
  int xa = wrap(x0, n), xb = wrap(x0 + 1, n), ya = wrap(y0, n) * n, yb = wrap(y0 + 1, n) * n;
  return (p[ya + xa] * (1 - fx) + p[ya + xb] * fx) * (1 - fy) + (p[yb + xa] * (1 - fx) + p[yb + xb] * fx) * fy;
}

// Distance bounds of the curved shapes at local point p with half extents h.
FN float extrude(float flat, float y, float hy) {
  float w = fabsf(y) - hy;
  float outside = sqrtf(fmaxf(flat, 0.0f) * fmaxf(flat, 0.0f) + fmaxf(w, 0.0f) * fmaxf(w, 0.0f));
  return fminf(fmaxf(flat, w), 0.0f) + outside;
}

FN float boxDistance(V3 q) {
  V3 out = v3(fmaxf(q.x, 0.0f), fmaxf(q.y, 0.0f), fmaxf(q.z, 0.0f));
  return length(out) + fminf(max3(q), 0.0f);
}

FN float frameDistance(V3 p, V3 h, float thick) {
  // The twelve edges of a box as bars: the nearest of three crossed tunnels.
  V3 q = vabs(p) - h;
  V3 r = vabs(v3(q.x + thick, q.y + thick, q.z + thick)) - v3(thick, thick, thick);
  float a = boxDistance(v3(q.x, r.y, r.z)), b = boxDistance(v3(r.x, q.y, r.z)), c = boxDistance(v3(r.x, r.y, q.z));
  return fminf(a, fminf(b, c));
}

FN float shapeDistance(int kind, V3 p, V3 h, float shape) {
  float ring = sqrtf(p.x * p.x + p.z * p.z);
  float radius = fminf(h.x, h.z);
  switch (kind) {
    case KIND_TORUS: {
      float minor = fminf(h.y, 0.5f * radius), dx = ring - (radius - minor);
      return sqrtf(dx * dx + p.y * p.y) - minor;
    }
    case KIND_CYLINDER:
      return extrude(ring - radius, p.y, h.y);
    case KIND_ROUNDED: {
      float r = shape * min3(h);
      return boxDistance(vabs(p) - h + v3(r, r, r)) - r;
    }
    case KIND_FRAME:
      return frameDistance(p, h, 0.5f * shape * min3(h));
    case KIND_STAR: {
      float points = floorf(3 + 6 * shape);
      float rim = radius * (0.72f + 0.28f * cosf(points * atan2f(p.z, p.x)));
      return extrude(0.4f * (ring - rim), p.y, h.y);  // 0.4 keeps it a lower bound at the notches
    }
    default: {  // KIND_BLOB
      V3 q = p / h;
      float wave = sinf(3 * q.x + 5 * shape) * sinf(4 * q.y) * sinf(3 * q.z + 2 * shape);
      return 0.45f * min3(h) * (length(q) - 0.8f - 0.2f * wave);
    }
  }
}

FN float reliefGap(const Scene& s, const float* prim, V3 p, V3 h) {
  float reach = 0.5f / fmaxf(prim[PRIM_SHAPE], 1e-3f);
  float z = height(s.tex, (int)prim[PRIM_HEIGHT], p.x * reach, p.z * reach);
  return p.y - h.y * (1 - 2 * z);  // positive inside; "up" is -y
}

// Slab test: entry and exit parameters of local ray o + t d through the box.
FN bool slab(V3 o, V3 d, V3 h, float* tn, float* tf) {
  V3 inv = v3(1 / (fabsf(d.x) < 1e-7f ? 1e-7f : d.x), 1 / (fabsf(d.y) < 1e-7f ? 1e-7f : d.y),
              1 / (fabsf(d.z) < 1e-7f ? 1e-7f : d.z));
  V3 a = (v3(-h.x, -h.y, -h.z) - o) * inv, b = (h - o) * inv;
  *tn = fmaxf(fminf(a.x, b.x), fmaxf(fminf(a.y, b.y), fminf(a.z, b.z)));
  *tf = fminf(fmaxf(a.x, b.x), fminf(fmaxf(a.y, b.y), fmaxf(a.z, b.z)));
  return *tn < *tf && *tf > kNear;
}

FN float ellipsoid(V3 o, V3 d, V3 h) {
  V3 os = o / h, ds = d / h;
  float a = dot(ds, ds), b = dot(os, ds), c = dot(os, os) - 1, disc = b * b - a * c;
  if (disc <= 0) return kFar;
  float t = (-b - sqrtf(disc)) / a;
  return t > kNear ? t : kFar;
}

FN float march(int kind, V3 o, V3 d, V3 h, float shape, float tn, float tf) {
  float speed = length(d), t = fmaxf(tn, kNear), eps = 2e-3f * min3(h) + 1e-4f;
  for (int i = 0; i < kMarchSteps && t < tf; i++) {
    float dist = shapeDistance(kind, o + d * t, h, shape);
    if (dist < eps) return t;
    t += fmaxf(dist, eps) / speed;
  }
  return kFar;
}

FN float relief(const Scene& s, const float* prim, V3 o, V3 d, V3 h, float tn, float tf) {
  float t0 = fmaxf(tn, kNear);
  if (reliefGap(s, prim, o + d * t0, h) > 0) return t0;  // enters through a side
  float step = (tf - t0) / kReliefSteps;
  for (int i = 1; i <= kReliefSteps; i++) {
    float t1 = t0 + step;
    if (reliefGap(s, prim, o + d * t1, h) > 0) {
      for (int k = 0; k < kReliefRefine; k++) {
        float mid = 0.5f * (t0 + t1);
        if (reliefGap(s, prim, o + d * mid, h) > 0) t1 = mid; else t0 = mid;
      }
      return t1;
    }
    t0 = t1;
  }
  return kFar;
}

// Parameter of the first hit with one primitive, or kFar.
FN float intersect(const Scene& s, const float* prim, V3 eye, V3 dir, float limit) {
  int kind = (int)prim[PRIM_KIND];
  if (kind == KIND_NONE) return kFar;
  V3 h = v3(prim + PRIM_HALF), c = eye - v3(prim + PRIM_CENTRE);
  if (kind != KIND_ROOM) {  // bounding sphere first: most rays miss most objects
    float b = dot(c, dir), dd = dot(dir, dir), out = dot(c, c) - dot(h, h);
    if (b * b < dd * out || (b > 0 && out > 0)) return kFar;
  }
  V3 o = rotateBack(prim + PRIM_ROT, c), d = rotateBack(prim + PRIM_ROT, dir);
  float tn, tf;
  if (!slab(o, d, h, &tn, &tf)) return kFar;
  if (kind == KIND_ROOM) return tf;
  if (tn > limit) return kFar;
  if (kind == KIND_BOX) return tn > kNear ? tn : kFar;
  if (kind == KIND_ELLIPSOID) return ellipsoid(o, d, h);
  if (kind == KIND_RELIEF) return relief(s, prim, o, d, h, tn, tf);
  return march(kind, o, d, h, prim[PRIM_SHAPE], tn, tf);
}

FN Hit trace(const Scene& s, V3 eye, V3 dir) {
  Hit best = {kFar, s.primCount - 1, -1, 0, 0};
  for (int i = s.primCount - 1; i >= 0; i--) {
    const float* prim = s.prims + (int64_t)i * PRIM_FLOATS;
    if (isMesh(prim)) {
      Hit hit = {kFar, i, -1, 0, 0};
      hit.t = meshPrimitive<false>(s.meshes, prim, eye, dir, kNear, best.t, &hit);
      if (hit.t < best.t) best = hit;
      continue;
    }
    float t = intersect(s, prim, eye, dir, best.t);
    if (t < best.t) best = {t, i, -1, 0, 0};
  }
  return best;
}

// Whether an object (not the room) stands between eye and eye + dir * end; a mesh up to endMesh.
FN bool blocked(const Scene& s, V3 eye, V3 dir, float end, float endMesh) {
  for (int i = 0; i < s.primCount - 1; i++) {
    const float* prim = s.prims + (int64_t)i * PRIM_FLOATS;
    if (isMesh(prim)) {
      if (meshPrimitive<true>(s.meshes, prim, eye, dir, 0.0f, endMesh, nullptr) < endMesh) return true;
      continue;
    }
    if (intersect(s, prim, eye, dir, end) < end) return true;
  }
  return false;
}

FN V3 axisNormal(V3 p, V3 h) {
  V3 q = vabs(p) / h;
  if (q.x >= q.y && q.x >= q.z) return v3(p.x > 0 ? 1.0f : -1.0f, 0, 0);
  if (q.y >= q.z) return v3(0, p.y > 0 ? 1.0f : -1.0f, 0);
  return v3(0, 0, p.z > 0 ? 1.0f : -1.0f);
}

// Outward normal in local coordinates.
FN V3 localNormal(const Scene& s, const float* prim, V3 p, V3 h) {
  int kind = (int)prim[PRIM_KIND];
  if (kind == KIND_BOX) return axisNormal(p, h);
  if (kind == KIND_ROOM) return axisNormal(p, h) * -1.0f;
  if (kind == KIND_ELLIPSOID) return unit(p / (h * h));
  if (kind == KIND_RELIEF) {
    float gap = reliefGap(s, prim, p, h), e = 0.004f * (h.x + h.z);
    if (gap > 0.1f * h.y) return axisNormal(p, h);  // the cut side of the box
    float dx = reliefGap(s, prim, p + v3(e, 0, 0), h) - reliefGap(s, prim, p - v3(e, 0, 0), h);
    float dz = reliefGap(s, prim, p + v3(0, 0, e), h) - reliefGap(s, prim, p - v3(0, 0, e), h);
    return unit(v3(-dx / (2 * e), -1, -dz / (2 * e)));
  }
  float e = 1e-3f * max3(h), k = prim[PRIM_SHAPE];
  V3 g = v3(shapeDistance(kind, p + v3(e, 0, 0), h, k) - shapeDistance(kind, p - v3(e, 0, 0), h, k),
            shapeDistance(kind, p + v3(0, e, 0), h, k) - shapeDistance(kind, p - v3(0, e, 0), h, k),
            shapeDistance(kind, p + v3(0, 0, e), h, k) - shapeDistance(kind, p - v3(0, 0, e), h, k));
  return unit(g);
}

FN V3 albedo(const Scene& s, const float* prim, V3 p, V3 n, float footprint) {
  V3 a = vabs(n);
  int axis = a.x >= a.y && a.x >= a.z ? 0 : (a.y >= a.z ? 1 : 2);
  float sign = axis == 0 ? n.x : (axis == 1 ? n.y : n.z);
  float u = axis == 0 ? p.z : p.x, v = axis == 1 ? p.z : p.y;
  float period = prim[PRIM_PERIOD];
  u = u / period + prim[PRIM_OFFSET];
  v = v / period + prim[PRIM_OFFSET + 1];
  int id = (int)prim[PRIM_TEX + axis];
  if (sign < 0) id = (id * 7 + 13) % s.tex.count;  // opposite faces differ
  V3 base = sample(s.tex, id, u, v, footprint / period);
  // The second texture, turned and at another period, hides the repetition of the first.
  float amount = prim[PRIM_DETAIL_AMOUNT], ratio = 0.37f;
  float du = ratio * (0.8f * u + 0.6f * v), dv = ratio * (-0.6f * u + 0.8f * v);
  V3 detail = sample(s.tex, (int)prim[PRIM_DETAIL], du, dv, ratio * footprint / period);
  V3 mixed = base * (v3(1 - amount, 1 - amount, 1 - amount) + detail * (2 * amount));
  return mixed * v3(prim + PRIM_TINT);
}

// What light falls on.
struct Surface {
  V3 colour, normal, flat;  // normals to shade by, and of the surface itself, from which shadow rays start
  float lift;               // metres from the surface at which they start
  float specular, gloss;
};

FN Surface primitiveSurface(const Scene& s, const float* prim, V3 point, V3 view, float pixel) {
  V3 p = rotateBack(prim + PRIM_ROT, point - v3(prim + PRIM_CENTRE));
  V3 nl = localNormal(s, prim, p, v3(prim + PRIM_HALF));
  V3 n = rotate(prim + PRIM_ROT, nl);
  float facing = fmaxf(fabsf(dot(n, view)), 0.1f);
  V3 colour = albedo(s, prim, p, nl, pixel / sqrtf(facing));
  return {colour, n, n, 4e-3f, prim[PRIM_SPECULAR], prim[PRIM_GLOSS]};
}

// Normals of a mesh are turned to the viewer: what is thin has two sides, and files do not say which is which.
FN Surface meshSurface(const Scene& s, const float* prim, const Hit& hit, V3 point, V3 view, float pixel) {
  Triangle t = triangleOf(s.meshes, prim, hit);
  V3 area = cross3(t.b - t.a, t.c - t.a), h = v3(prim + PRIM_HALF), flat = unit(area);
  V3 from = rotateBack(prim + PRIM_ROT, view);
  if (dot(flat, from) < 0) flat = flat * -1.0f;
  const float* look = s.meshes.looks +
                      LOOK_FLOATS * ((int64_t)s.meshes.roots[2 * (int)prim[PRIM_SHAPE] + 1] + hit.tri);
  float u = hit.u, v = hit.v, w = 1 - u - v;
  V3 n = flat;
  int flags = (int)prim[PRIM_HEIGHT];
  if (!(flags & MESH_FLAT)) {
    n = unit(v3(look) * w + v3(look + 3) * u + v3(look + 6) * v);
    if (dot(n, flat) < 0) n = n * -1.0f;
  }
  float footprint = pixel / sqrtf(fmaxf(fabsf(dot(flat, from)), 0.1f)), lift = max3(h) < 0.15f ? 1e-3f : 4e-3f;
  Surface out = {v3(0, 0, 0), rotate(prim + PRIM_ROT, n), rotate(prim + PRIM_ROT, flat), lift,
                 prim[PRIM_SPECULAR], prim[PRIM_GLOSS]};
  if (flags & MESH_PAINT) {
    V3 p = rotateBack(prim + PRIM_ROT, point - v3(prim + PRIM_CENTRE));
    out.colour = albedo(s, prim, p, flat, footprint);
    return out;
  }
  const float* material = s.meshes.materials + MATERIAL_FLOATS * (int64_t)look[LOOK_MATERIAL];
  out.specular = material[MATERIAL_SPECULAR];
  out.gloss = material[MATERIAL_GLOSS];
  out.colour = v3(material) * v3(prim + PRIM_TINT);
  int id = (int)material[MATERIAL_TEXTURE];
  if (id < 0) return out;
  const float* q = look + LOOK_UV;
  float tiles = fabsf((q[2] - q[0]) * (q[5] - q[1]) - (q[4] - q[0]) * (q[3] - q[1]));
  footprint *= sqrtf(tiles / fmaxf(length(area), 1e-12f));
  V3 texture = sample(s.tex, s.tex.count + id, q[0] * w + q[2] * u + q[4] * v, q[1] * w + q[3] * u + q[5] * v,
                      footprint);
  out.colour = out.colour * texture;
  return out;
}

FN Surface surfaceOf(const Scene& s, const Hit& hit, V3 point, V3 view, float pixel) {
  const float* prim = s.prims + (int64_t)hit.which * PRIM_FLOATS;
  if (hit.tri < 0) return primitiveSurface(s, prim, point, view, pixel);
  return meshSurface(s, prim, hit, point, view, pixel);
}

// How much of the light from all round comes to a point, from 0.3 to 1, by four rays over the half space within
// the light's reach. Their turn is a hash of the pixel.
FN float openness(const Scene& s, const Hit& hit, V3 point, V3 dir, uint32_t seed) {
  float reach = s.light[LIGHT_REACH];
  if (!(reach > 0)) return 1;
  Surface on = surfaceOf(s, hit, point, unit(dir) * -1.0f, 1e-3f);
  V3 n = on.normal, side = unit(fabsf(n.x) > 0.7f ? v3(-n.z, 0, n.x) : v3(0, n.z, -n.y)), other = cross3(n, side);
  seed = (seed ^ 61u ^ (seed >> 16)) * 9u;
  seed = (seed ^ (seed >> 4)) * 0x27d4eb2du;
  float turn = 6.2831853f * (float)((seed ^ (seed >> 15)) & 0xffffu) / 65536.0f;
  const float* room = s.prims + (int64_t)(s.primCount - 1) * PRIM_FLOATS;
  int open = 0;
  for (int i = 0; i < 4; i++) {
    float high = sqrtf((i + 0.5f) / 4), wide = sqrtf(1 - high * high), angle = turn + 2.3999632f * i;
    V3 to = (side * (wide * cosf(angle)) + other * (wide * sinf(angle)) + n * high) * reach;
    V3 start = point + on.flat * on.lift;
    bool walled = room[PRIM_SHAPE] < 0.5f && intersect(s, room, start, to, kFar) < 1;
    open += !walled && !blocked(s, start, to, 1.0f, 1.0f);
  }
  return 0.3f + 0.7f * open / 4;
}

// `open` is the openness of the place.
FN V3 shade(const Scene& s, const Hit& hit, V3 point, V3 dir, float pixel, float open) {
  V3 view = unit(dir) * -1.0f;
  Surface on = surfaceOf(s, hit, point, view, pixel);
  V3 n = on.normal, to = v3(s.light + LIGHT_POS) - point;
  V3 l = unit(to);
  float diffuse = fmaxf(dot(n, l), 0.0f), gloss = 0;
  if (diffuse > 0 && blocked(s, point + on.flat * on.lift, to, 1.0f, 1.0f)) diffuse = 0;
  if (diffuse > 0 && on.specular > 0) {
    float half = fmaxf(dot(n, unit(l + view)), 0.0f);
    gloss = on.specular * powf(half, on.gloss);
  }
  float fill = s.light[LIGHT_FILL_AMOUNT] * (0.5f + 0.5f * dot(n, v3(s.light + LIGHT_FILL)));
  V3 lit = v3(s.light + LIGHT_COLOUR) * diffuse;
  float flat = (s.light[LIGHT_AMBIENT] + fill) * open;
  return on.colour * (lit + v3(flat, flat, flat)) + v3(s.light + LIGHT_COLOUR) * gloss;
}

// Whether the ray left through the open sides of a room without walls: all but the floor.
FN bool isSky(const float* prim, V3 world) {
  if ((int)prim[PRIM_KIND] != KIND_ROOM || prim[PRIM_SHAPE] < 0.5f) return false;
  return world.y - prim[PRIM_CENTRE + 1] < 0.999f * prim[PRIM_HALF + 1];
}

// Light of the sky in a direction: paler at the horizon, with a texture as clouds.
FN V3 sky(const Scene& s, const float* prim, V3 dir, float pixel) {
  V3 d = unit(dir);
  float up = clampf(-d.y, 0.0f, 1.0f), reach = 1.0f / (up + 0.25f), amount = prim[PRIM_DETAIL_AMOUNT];
  float tiles = 0.3f * reach;
  V3 cloud = sample(s.tex, (int)prim[PRIM_DETAIL], tiles * d.x + prim[PRIM_OFFSET], tiles * d.z, pixel * tiles * reach);
  V3 tint = v3(prim + PRIM_TINT), pale = v3(1, 1, 1), base = pale * (1 - 0.8f * up) + tint * (0.8f * up);
  return (base * (1 - amount) + cloud * amount) * prim[PRIM_GLOSS];
}

FN V3 pixelRay(const float* cam, float x, float y) {
  float f = cam[CAM_FOCAL];
  return rotate(cam + CAM_ROT, v3((x - cam[CAM_CENTRE]) / f, (y - cam[CAM_CENTRE + 1]) / f, 1));
}

FN V3 colourOf(const Scene& s, const Hit& hit, V3 eye, V3 dir, float focal, float open) {
  const float* prim = s.prims + (int64_t)hit.which * PRIM_FLOATS;
  V3 world = eye + dir * hit.t;
  return isSky(prim, world) ? sky(s, prim, dir, 1 / focal) : shade(s, hit, world, dir, hit.t / focal, open);
}

// Where the world point that was hit from `from` is seen in another camera; x = -1 when it is not.
FN void findMatch(const Scene& s, const Job& job, const float* cam, V3 from, V3 world, const Hit& hit, float* out) {
  V3 eye = v3(cam + CAM_POS), to = world - eye, local = rotateBack(cam + CAM_ROT, to);
  out[0] = out[1] = -1;
  if (local.z < kNear) return;
  float x = local.x / local.z * cam[CAM_FOCAL] + cam[CAM_CENTRE];
  float y = local.y / local.z * cam[CAM_FOCAL] + cam[CAM_CENTRE + 1];
  if (x < 0 || y < 0 || x > job.width - 1 || y > job.height - 1) return;
  if (hit.tri >= 0) {  // the far side of a sheet is not the same surface
    V3 n = flatNormal(s.meshes, s.prims + (int64_t)hit.which * PRIM_FLOATS, hit);
    if (dot(n, from - world) * dot(n, eye - world) <= 0) return;
  }
  if (blocked(s, eye, to, 1 - kSeen, 1 - kSeenMesh)) return;
  out[0] = x;
  out[1] = y;
}

FN void renderPixel(const Job& job, int b, int view, int pixel) {
  Scene s = {job.prims + (int64_t)b * job.primCount * PRIM_FLOATS, job.primCount,
             job.lights + (int64_t)b * LIGHT_FLOATS, job.tex, job.meshes};
  const float *cam1 = job.cams + (int64_t)b * 2 * CAM_FLOATS, *cam = cam1 + view * CAM_FLOATS;
  const float* other = cam1 + (1 - view) * CAM_FLOATS;
  int x = pixel % job.width, y = pixel / job.width, area = job.width * job.height;
  V3 eye = v3(cam + CAM_POS), dir = pixelRay(cam, x, y);
  Hit hit = trace(s, eye, dir);
  V3 world = eye + dir * hit.t;
  int64_t at = ((int64_t)b * 2 + view) * area + pixel;
  V3 point = rotateBack(cam1 + CAM_ROT, world - v3(cam1 + CAM_POS));
  job.points[3 * at] = point.x;
  job.points[3 * at + 1] = point.y;
  job.points[3 * at + 2] = point.z;
  float open = 1;
  if (isSky(s.prims + (int64_t)hit.which * PRIM_FLOATS, world)) {
    job.match[2 * at] = job.match[2 * at + 1] = kSky;
  } else {
    open = openness(s, hit, world, dir, (uint32_t)at);
    findMatch(s, job, other, eye, world, hit, job.match + 2 * at);
  }

  V3 sum = colourOf(s, hit, eye, dir, cam[CAM_FOCAL], open);
  // A rotated grid around the centre smooths edges as a sensor does.
  const float grid[4][2] = {{0.13f, 0.37f}, {-0.37f, 0.13f}, {0.37f, -0.13f}, {-0.13f, -0.37f}};
  for (int i = 1; i < job.spp; i++) {
    V3 d = pixelRay(cam, x + grid[(i - 1) & 3][0], y + grid[(i - 1) & 3][1]);
    Hit near = trace(s, eye, d);
    sum = sum + colourOf(s, near, eye, d, cam[CAM_FOCAL], near.which == hit.which ? open : 1.0f);
  }
  sum = sum * (1.0f / job.spp);
  float* image = job.image + ((int64_t)b * 2 + view) * 3 * area + pixel;
  image[0] = sum.x;
  image[area] = sum.y;
  image[2 * (int64_t)area] = sum.z;
}

#include "paint.h"

}  // namespace

#ifdef __CUDACC__
namespace {
constexpr int kThreads = 128;

__global__ void renderKernel(Job job) {
  int pixel = blockIdx.x * kThreads + threadIdx.x;
  if (pixel < job.width * job.height) renderPixel(job, blockIdx.z, blockIdx.y, pixel);
}
__global__ void leafKernel(const float* leaves, int count, int size, float* out) {
  int pixel = blockIdx.x * kThreads + threadIdx.x, n = blockIdx.y;
  if (pixel < size * size)
    leafPixel(leaves + (int64_t)n * count * LEAF_FLOATS, count, size, out + (int64_t)n * 3 * size * size, pixel);
}
__global__ void cellKernel(const float* sites, int count, int size, const float* grout, float* out) {
  int pixel = blockIdx.x * kThreads + threadIdx.x, n = blockIdx.y;
  if (pixel < size * size)
    cellPixel(sites + (int64_t)n * count * 5, count, size, grout[n], out + (int64_t)n * 3 * size * size, pixel);
}
unsigned blocks(int n) { return (unsigned)((n + kThreads - 1) / kThreads); }
}  // namespace

extern "C" int render(Job* job, void* stream) {
  dim3 grid(blocks(job->width * job->height), 2, job->batch);
  renderKernel<<<grid, kThreads, 0, (cudaStream_t)stream>>>(*job);
  return (int)cudaGetLastError();
}
extern "C" int dead_leaves(const float* leaves, int n, int count, int size, float* out, void* stream) {
  leafKernel<<<dim3(blocks(size * size), n), kThreads, 0, (cudaStream_t)stream>>>(leaves, count, size, out);
  return (int)cudaGetLastError();
}
extern "C" int cells(const float* sites, int n, int count, int size, const float* grout, float* out, void* stream) {
  cellKernel<<<dim3(blocks(size * size), n), kThreads, 0, (cudaStream_t)stream>>>(sites, count, size, grout, out);
  return (int)cudaGetLastError();
}
#else
extern "C" int render(Job* job, void*) {
  for (int b = 0; b < job->batch; b++)
    for (int view = 0; view < 2; view++)
      for (int i = 0; i < job->width * job->height; i++) renderPixel(*job, b, view, i);
  return 0;
}
extern "C" int dead_leaves(const float* leaves, int n, int count, int size, float* out, void*) {
  for (int k = 0; k < n; k++)
    for (int i = 0; i < size * size; i++)
      leafPixel(leaves + (int64_t)k * count * LEAF_FLOATS, count, size, out + (int64_t)k * 3 * size * size, i);
  return 0;
}
extern "C" int cells(const float* sites, int n, int count, int size, const float* grout, float* out, void*) {
  for (int k = 0; k < n; k++)
    for (int i = 0; i < size * size; i++)
      cellPixel(sites + (int64_t)k * count * 5, count, size, grout[k], out + (int64_t)k * 3 * size * size, i);
  return 0;
}
#endif
