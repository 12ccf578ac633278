// SPDX-License-Identifier: Apache-2.0
// Meshes in the ray caster: rays against one mesh by way of its tree. Included by render.cu.
//
// A mesh is one primitive. Its corners are stored in units of the half box, so
// that a ray is scaled by 1 / half on both ends: t stays what it is, and
// unequal scale costs nothing. Both sides of a triangle are seen.

struct Hit {
  float t;
  int which;   // primitive
  int tri;     // triangle of its mesh, -1 of all other kinds
  float u, v;  // weights of the second and third corner
};

// Products of the edge functions must not be fused: a * b - c * d is the negative of its mirror, as seen from
// the triangle on the other side of the edge, only when both products are rounded. Else rays pass between them.
#ifdef __CUDACC__
FN float mul(float a, float b) { return __fmul_rn(a, b); }
FN float sub(float a, float b) { return __fsub_rn(a, b); }
#else
FN float mul(float a, float b) { return a * b; }
FN float sub(float a, float b) { return a - b; }
#endif
FN float cross2(float ax, float ay, float bx, float by) { return sub(mul(ax, by), mul(ay, bx)); }
FN float pick(V3 a, int k) { return k == 0 ? a.x : (k == 1 ? a.y : a.z); }

// A ray that is sheared to run along its longest axis.
struct Shear {
  int kx, ky, kz;
  float ox, oy, oz, sx, sy, sz;
};

FN Shear shearOf(V3 o, V3 d) {
  V3 a = vabs(d);
  int kz = a.x >= a.y && a.x >= a.z ? 0 : (a.y >= a.z ? 1 : 2), kx = (kz + 1) % 3, ky = (kz + 2) % 3;
  float inv = 1 / pick(d, kz);
  return {kx, ky, kz, pick(o, kx), pick(o, ky), pick(o, kz), pick(d, kx) * inv, pick(d, ky) * inv, inv};
}

struct Corner {
  float x, y, z;
};
FN Corner sheared(const float* p, const Shear& r) {
  float z = sub(p[r.kz], r.oz);
  return {sub(sub(p[r.kx], r.ox), mul(r.sx, z)), sub(sub(p[r.ky], r.oy), mul(r.sy, z)), z};
}

// Parameter of the hit with the triangle of corners p [9], or kFar (Woop, Benthin, Wald 2013: watertight).
FN float triangle(const float* p, const Shear& r, float* u, float* v) {
  Corner a = sheared(p, r), b = sheared(p + 3, r), c = sheared(p + 6, r);
  float wa = cross2(c.x, c.y, b.x, b.y), wb = cross2(a.x, a.y, c.x, c.y), wc = cross2(b.x, b.y, a.x, a.y);
  if ((wa < 0 || wb < 0 || wc < 0) && (wa > 0 || wb > 0 || wc > 0)) return kFar;
  float det = wa + wb + wc;
  if (det == 0) return kFar;
  *u = wb / det;
  *v = wc / det;
  return (wa * a.z + wb * b.z + wc * c.z) * r.sz / det;
}

FN float inverse(float x) { return 1 / (fabsf(x) < 1e-12f ? 1e-12f : x); }
FN V3 inverse(V3 d) { return v3(inverse(d.x), inverse(d.y), inverse(d.z)); }

// Entry of a ray into a node, or kFar. The exit is 8 ulp further than computed, more than all roundings.
FN float enter(const float* node, V3 o, V3 inv, float from, float limit) {
  V3 a = (v3(node + NODE_LOW) - o) * inv, b = (v3(node + NODE_HIGH) - o) * inv;
  float in = fmaxf(fmaxf(fminf(a.x, b.x), fminf(a.y, b.y)), fmaxf(fminf(a.z, b.z), from));
  float out = fminf(fmaxf(a.x, b.x), fminf(fmaxf(a.y, b.y), fmaxf(a.z, b.z)));
  return in <= fminf(out * 1.000001f, limit) ? in : kFar;
}

// The first hit of mesh `which` between `from` and `limit`, or with `any` the first that is found, else kFar.
template <bool any>
FN float meshHit(const Meshes& m, int which, V3 o, V3 d, float from, float limit, Hit* hit) {
  const float* nodes = m.nodes + (int64_t)NODE_FLOATS * m.roots[2 * which];
  const float* corners = m.corners + 9 * (int64_t)m.roots[2 * which + 1];
  Shear r = shearOf(o, d);
  V3 inv = inverse(d);
  int stack[kMeshDepth], top = 0, at = 0;
  float best = limit;
  bool found = false;
  for (;;) {
    const float* node = nodes + NODE_FLOATS * (int64_t)at;
    int first = (int)node[NODE_FIRST], count = (int)node[NODE_COUNT], next = -1;
    for (int i = first; i < first + count; i++) {
      float u, v, t = triangle(corners + 9 * (int64_t)i, r, &u, &v);
      if (!(t > from && t < best)) continue;
      best = t;
      found = true;
      if (any) return best;
      hit->tri = i, hit->u = u, hit->v = v;
    }
    if (count == 0) {
      float a = enter(nodes + NODE_FLOATS * (int64_t)first, o, inv, from, best);
      float b = enter(nodes + NODE_FLOATS * (int64_t)(first + 1), o, inv, from, best);
      int swap = b < a;
      if (fminf(a, b) < kFar) next = first + swap;
      if (fmaxf(a, b) < kFar) stack[top++] = first + 1 - swap;
    }
    if (next < 0) {
      if (top == 0) break;
      next = stack[--top];
    }
    at = next;
  }
  return found ? best : kFar;
}

FN bool isMesh(const float* prim) { return (int)prim[PRIM_KIND] == KIND_MESH; }

// As meshHit, for a primitive and a ray in the world.
template <bool any>
FN float meshPrimitive(const Meshes& m, const float* prim, V3 eye, V3 dir, float from, float limit, Hit* hit) {
  V3 h = v3(prim + PRIM_HALF), c = eye - v3(prim + PRIM_CENTRE);
  float b = dot(c, dir), dd = dot(dir, dir), out = dot(c, c) - dot(h, h);
  if (b * b < dd * out || (b > 0 && out > 0)) return kFar;
  V3 o = rotateBack(prim + PRIM_ROT, c) / h, d = rotateBack(prim + PRIM_ROT, dir) / h;
  V3 inv = inverse(d);
  const float* root = m.nodes + (int64_t)NODE_FLOATS * m.roots[2 * (int)prim[PRIM_SHAPE]];
  if (enter(root, o, inv, from, limit) == kFar) return kFar;
  return meshHit<any>(m, (int)prim[PRIM_SHAPE], o, d, from, limit, hit);
}

// The corners of the triangle that was hit, in metres, in the primitive's frame.
struct Triangle {
  V3 a, b, c;
};
FN Triangle triangleOf(const Meshes& m, const float* prim, const Hit& hit) {
  V3 h = v3(prim + PRIM_HALF);
  const float* p = m.corners + 9 * ((int64_t)m.roots[2 * (int)prim[PRIM_SHAPE] + 1] + hit.tri);
  return {v3(p) * h, v3(p + 3) * h, v3(p + 6) * h};
}

FN V3 cross3(V3 a, V3 b) { return {a.y * b.z - a.z * b.y, a.z * b.x - a.x * b.z, a.x * b.y - a.y * b.x}; }

// Normal of the flat triangle in the world, on either side.
FN V3 flatNormal(const Meshes& m, const float* prim, const Hit& hit) {
  Triangle t = triangleOf(m, prim, hit);
  return rotate(prim + PRIM_ROT, unit(cross3(t.b - t.a, t.c - t.a)));
}
